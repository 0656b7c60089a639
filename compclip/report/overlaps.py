"""What data sets share with the benchmarks: data/overlaps/<name>.json, beside the rows that were trained on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from compclip.base.errors import UserError
from compclip.base.files import read_mapping
from compclip.config.cell import PRETRAINED
from compclip.report.tables import Group

FOLDER = Path("data/overlaps")
MARK = "†"
PICTURES = "pictures"  # all of them, besides those by each criterion
NAMES = {"sha256": "by SHA-256", "bytes": "by length and first bytes", "coco_id": "by COCO's number"}
Shared = Mapping[str, Mapping[str, int]]  # benchmark -> how many pictures, and of them by criterion


def read(root: Path, data: Iterable[str]) -> dict[str, Shared]:
    """What each of these data sets shares; nothing of one that nobody looked at.

    Raises UserError for a damaged file.
    """
    found = {name: root / FOLDER / f"{name}.json" for name in dict.fromkeys(data)}
    return {name: _shared(path) for name, path in found.items() if path.is_file()}


def _shared(path: Path) -> Shared:
    found = read_mapping(path)
    for counts in found.values():
        if not isinstance(counts, dict) or not all(type(n) is int and n >= 0 for n in counts.values()):
            raise UserError(f"{path}: damaged; run `dvc repro annotate` again")
    return {benchmark: counts for benchmark, counts in found.items() if counts.get(PICTURES)}


def of(group: Group, every: Mapping[str, Shared], benchmarks: Sequence[str]) -> Shared:
    """What a table's trained rows have seen of the benchmarks: nothing where no row of it was trained."""
    if all(row.method == PRETRAINED for row in group.rows):
        return {}
    return {name: counts for name, counts in every.get(group.data, {}).items() if name in benchmarks}


def notes(group: Group, shared: Shared) -> list[str]:
    """A sentence for each benchmark."""
    return [f"{group.data} shares {_pictures(counts)} with {name} ({_told(counts)})" for name, counts in shared.items()]


def _pictures(counts: Mapping[str, int]) -> str:
    return f"{counts[PICTURES]:,} picture{'s' * (counts[PICTURES] != 1)}"


def _told(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{counts[key]:,} {text}" for key, text in NAMES.items() if counts.get(key))
