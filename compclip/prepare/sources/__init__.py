"""Sources, one file each: `records(data, counts) -> Iterator[Sample]` gives all that a data set holds, in its order.

A sample has its captions as they are written and its picture's location; its size is measured later. A source counts
what it drops. A source whose files are shards also has `parts(data) -> list[str]`, and its `records(data, counts,
part)` gives the samples of one of them; it may name keys of the section as `UNREAD` that decide no sample. One that
also reads what is not on this machine says so: `is_remote(data) -> bool`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from compclip.data.caption_files import CaptionedPicture
from compclip.data.sample import Sample

if TYPE_CHECKING:
    from compclip.config.sections import Data


def make_samples(cfg: Data, pictures: Sequence[CaptionedPicture]) -> Iterator[Sample]:
    """Give a sample for each picture of a file, in their order."""
    ids = make_ids([picture.name for picture in pictures])
    for sample_id, picture in zip(ids, pictures, strict=True):
        yield Sample(sample_id, str(Path(cfg.images) / picture.name), tuple(picture.captions), cfg.split)


def read_text(content: Mapping[str, Any], name: str) -> str:
    """Return a text of a sample's .json, "" where it has none of this name."""
    value = content.get(name)
    return value if isinstance(value, str) else ""


def make_ids(names: Sequence[str]) -> list[str]:
    """Return an id for each picture's name: the file's without its ending, with its folder where that stands twice."""
    paths = [PurePosixPath(name.replace("\\", "/")) for name in names]
    counts = Counter(path.stem for path in paths)
    return [path.stem if counts[path.stem] == 1 else str(path.with_suffix("")) for path in paths]
