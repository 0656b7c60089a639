"""What the stages over shards were last asked for, by the files that they leave for whoever makes shards or looks.

.work/shards/<stage>/<data>/work.json     the shards that are wanted, each with the key of its content
.work/shards/<stage>/<data>/<key>.json    of a shard that is made
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from compclip.base.errors import UserError
from compclip.base.files import read_mapping

FOLDER = Path(".work/shards")
RECAPTION, REWRITE, ANNOTATE = "recaption", "rewrite", "annotate"
STAGES = (RECAPTION, REWRITE, ANNOTATE)
LIST = "work.json"


@dataclass(frozen=True)
class RequestedShards:
    """The shards of a stage and a data set, by name, with their keys."""

    stage: str
    data: str
    folder: Path
    shards: Mapping[str, str]


def list_requests(root: Path = Path()) -> list[Path]:
    """Return the folders of all stages with requests, in the order of the pipeline."""
    folders = [path.parent for path in (root / FOLDER).glob(f"*/*/{LIST}") if path.parent.parent.name in STAGES]
    return sorted(folders, key=lambda folder: (folder.name, STAGES.index(folder.parent.name)))


def read_request(folder: Path) -> RequestedShards:
    """Return the shards that a stage was asked for. Raises UserError where the file is damaged."""
    try:
        shards = {item["name"]: item["key"] for item in read_mapping(folder / LIST)["items"]}
    except (LookupError, TypeError) as error:
        raise UserError(f"{folder / LIST}: damaged; run the stage with `dvc repro` again") from error
    return RequestedShards(folder.parent.name, folder.name, folder, shards)
