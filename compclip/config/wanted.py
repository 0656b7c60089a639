"""What a method's steps ask of the data set, beside its captions and pictures: by its views of the first step."""

from __future__ import annotations

from typing import Any

from compclip.base import plugins
from compclip.base.beside import read_by

STORED = 10  # neighbours of each picture that the stage keeps


def neighbours(method: str, config: Any) -> bool:
    """Whether a method, with these parameters, shows the nearest pictures of each."""
    return _views(method, config, "neighbours") > 0


def nearest(method: str, config: Any) -> int:
    """From how many of the nearest it draws them."""
    return _views(method, config, "nearest")


def negative_images(method: str, config: Any) -> bool:
    """Whether it shows the pictures that are stored beside each as its negatives."""
    return _views(method, config, "negative_images") > 0


def beside_captions(method: str, config: Any) -> list[str]:
    """The keys of a data set, below data.<name>, that its rules read beside captions."""
    views = _shown(method, config)
    rules = (*views.negatives, *views.positives) if views else ()
    return sorted(filter(None, {read_by(rule) for rule in rules}))


def _views(method: str, config: Any, name: str) -> int:
    """How many of a kind; a method that trains nothing, and a plug-in that was written before, ask for none."""
    return getattr(_shown(method, config), name, 0)


def _shown(method: str, config: Any) -> Any:
    module = plugins.find(plugins.METHODS, method.partition(".")[0])
    return module.views(config, 0) if getattr(module, "TRAINS", True) else None
