"""What data sets share with the benchmarks: data/overlaps/<name>.json, beside the rows that were trained on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from compclip.base.errors import UserError
from compclip.base.files import read_mapping
from compclip.config.grid import PRETRAINED
from compclip.report.tables import ResultTable

FOLDER = Path("data/overlaps")
MARK = "†"
PICTURES = "pictures"  # all of them, besides those by each criterion
NAMES = {"sha256": "by SHA-256", "bytes": "by length and first bytes", "coco_id": "by COCO's number"}
SharedPictures = Mapping[str, Mapping[str, int]]  # benchmark -> how many pictures, and of them by criterion


def read_overlaps(root: Path, data: Iterable[str]) -> dict[str, SharedPictures]:
    """Read what each data set shares with the benchmarks; one without a file is left out.

    Raises UserError for a damaged file.
    """
    paths = {name: root / FOLDER / f"{name}.json" for name in dict.fromkeys(data)}
    return {name: _read_counts(path) for name, path in paths.items() if path.is_file()}


def _read_counts(path: Path) -> SharedPictures:
    raw = read_mapping(path)
    for counts in raw.values():
        if not isinstance(counts, dict) or not all(type(n) is int and n >= 0 for n in counts.values()):
            raise UserError(f"{path}: damaged; run `dvc repro annotate` again")
    return {benchmark: counts for benchmark, counts in raw.items() if counts.get(PICTURES)}


def select_overlaps(
    group: ResultTable, overlaps: Mapping[str, SharedPictures], benchmarks: Sequence[str]
) -> SharedPictures:
    """Select what a table's trained rows have seen of the benchmarks; empty where no row was trained."""
    if all(row.method == PRETRAINED for row in group.rows):
        return {}
    return {name: counts for name, counts in overlaps.get(group.data, {}).items() if name in benchmarks}


def describe_overlaps(group: ResultTable, shared: SharedPictures) -> list[str]:
    """Describe each benchmark's shared pictures in a sentence."""
    sentences = []
    for name, counts in shared.items():
        pictures = f"{counts[PICTURES]:,} picture{'s' * (counts[PICTURES] != 1)}"
        criteria = ", ".join(f"{counts[key]:,} {text}" for key, text in NAMES.items() if counts.get(key))
        sentences.append(f"{group.data} shares {pictures} with {name} ({criteria})")
    return sentences
