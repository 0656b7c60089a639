"""What the stages over shards were last asked for, by the files that they leave for whoever makes shards or looks.

.work/shards/<stage>/<data>/work.json     the shards that are wanted, each with the key of its content
.work/shards/<stage>/<data>/<key>.json    of a shard that is made
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from compclip.base.errors import UserError
from compclip.base.files import read_mapping

FOLDER = Path(".work/shards")
RECAPTION, REWRITE, ANNOTATE = "recaption", "rewrite", "annotate"
STAGES = (RECAPTION, REWRITE, ANNOTATE)
LIST = "work.json"
SHARD, CONTENT = re.compile(r"\d{5,9}", re.ASCII), re.compile(r"[0-9a-f]{8,64}", re.ASCII)


@dataclass(frozen=True)
class Asked:
    """The shards of a stage and a data set, by name, with their keys."""

    stage: str
    data: str
    folder: Path
    shards: Mapping[str, str]


def every(root: Path = Path()) -> list[Path]:
    """The folders of all stages that were asked for something, in the order of the pipeline."""
    found = [path.parent for path in (root / FOLDER).glob(f"*/*/{LIST}") if path.parent.parent.name in STAGES]
    return sorted(found, key=lambda folder: (folder.name, STAGES.index(folder.parent.name)))


def read(folder: Path) -> Asked:
    """What the stage of a folder was asked for. Raises UserError where that is damaged."""
    raw = read_mapping(folder / LIST)
    try:
        listed = [(item["name"], item["key"]) for item in raw["items"]]
    except (LookupError, TypeError):
        listed = [("", "")]
    return Asked(folder.parent.name, folder.name, folder, dict(sound(listed, folder / LIST)))


def sound(shards: list[tuple[str, str]], where: Path) -> Iterator[tuple[str, str]]:
    """Names and keys, which become the names of files. Raises UserError for what can be none."""
    for name, key in shards:
        texts = isinstance(name, str) and isinstance(key, str)
        if not (texts and SHARD.fullmatch(name) and CONTENT.fullmatch(key)):
            raise UserError(f"{where}: damaged; run the stage with `dvc repro` again")
        yield name, key
