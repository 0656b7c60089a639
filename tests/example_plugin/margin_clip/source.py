"""A folder of pictures and a text file: `picture<TAB>caption`, one a line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from compclip.base.files import read_text
from compclip.data.sample import Sample

if TYPE_CHECKING:
    from compclip.config.sections import Data


def records(cfg: Data, counts: Counter) -> Iterator[Sample]:
    """A sample for each line with a tab; the others are counted."""
    for line in read_text(cfg.path).splitlines():
        name, tab, caption = line.partition("\t")
        if tab:
            picture = Path(cfg.images) / name
            yield Sample(picture.stem, str(picture), (caption,), cfg.split)
        else:
            counts["malformed_lines"] += 1
