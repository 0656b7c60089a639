"""What a method asks of a data set, beside its captions and pictures: by its views of the first step."""

from __future__ import annotations

from typing import Any

from compclip.interface.method import load_method
from compclip.interface.views import Views
from compclip.text.annotation import required_key

STORED_NEIGHBOURS = 10  # of each picture, that the stage `neighbours` writes


def first_views(method: str, config: Any) -> Views:
    """Return the views of a method's first step; a method that trains nothing asks for nothing."""
    declared = load_method(method)
    return declared.views(config, 0) if declared.TRAINS else Views()


def list_stored_keys(views: Views) -> list[str]:
    """Return the keys of a data set, below data.<name>, whose texts the rules of `views` read beside captions."""
    return sorted(filter(None, {required_key(rule) for rule in (*views.negatives, *views.positives)}))
