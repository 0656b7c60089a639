"""Hard positives (Kamath et al., ECCV 2024, arXiv:2409.17958): a caption c, a rewording p, a negative n.

original: s(c) > s(n). augmented: s(c) > s(n) and s(p) > s(n). brittleness: s(n) strictly between s(c) and s(p).
mean_score: mean s(c). gap: original - augmented. Ties are wrong, as in the authors' code. `replace_*` pools the records
of relations and attributes, so that each kind weighs by its size as in the published totals (16,868 and 10,575).
The released code crops the pictures of SWAP to the record's box: so do we, where a record has one.

Source: github.com/amitakamath/hard_positives, licence unspecified. Compared: the metrics with the authors' scoring
code. Not compared: numbers on the real pictures.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from compclip.base.errors import UserError
from compclip.benchmarks import _choice
from compclip.benchmarks._files import (
    existing_file,
    first_existing,
    images_folder,
    number_rows,
    read_field,
    read_fields,
    read_groups,
    read_rows,
    selected_names,
)
from compclip.evaluate import metrics
from compclip.evaluate.benchmark import Benchmark, Record, pool_items, with_box
from compclip.evaluate.embeddings import Embeddings
from compclip.runs.item_outcomes import COMPOSITION, Items

KINDS = {  # the file name in the authors' repository
    "replace_relations": "vl_checklist_relations.json",
    "replace_attributes": "vl_checklist_attributes.json",
    "swap": "visual_genome_attribution.json",
}
POOLED = ("replace_relations", "replace_attributes")
LOWER = tuple(f"{kind}_{metric}" for kind in (*KINDS, "replace") for metric in ("brittleness", "gap"))
SCORES = tuple(f"{kind}_mean_score" for kind in (*KINDS, "replace"))
OUTCOMES = ("original", "augmented", "brittleness", "mean_score", "gap")
METRICS = tuple(f"{kind}_{name}" for kind in (*KINDS, "replace") for name in OUTCOMES)
RECOGNISES = (*(f"swapped_data/{name}" for name in KINDS.values()), *(f"{kind}_hard_positive.json" for kind in KINDS))
PLACES = ("images", "VG_100K", "VG_100K_2")  # of SWAP's pictures, which are named without a folder: ARO's, the Genome's
BOX = ("bbox_x", "bbox_y", "bbox_w", "bbox_h")


def load(path: str | Path, images: str | Path | None = None, split: str = "") -> Benchmark:
    """Read a folder with `<kind>.json` and `<kind>_hard_positive.json`, or with the authors' `data` and `swapped_data`.

    Kinds: replace_relations, replace_attributes, swap. Reads those that are there, or those that `split` names. One
    `images` serves all: REPLACE's pictures as the files name them (`data/VG_100K_2/1.jpg`) with or without folders,
    SWAP's there, in ARO's `images`, or in Visual Genome's own two folders.
    Raises UserError for a file without its partner, partners that are not aligned, or a record without a field.
    """
    folder = Path(path)
    pictures = images_folder(folder, images)
    pairs = _pairs(folder, split)
    for file in chain.from_iterable(pairs.values()):
        existing_file(file)
    records = []
    files: list[Path] = []
    for kind, pair in pairs.items():
        records += _records(kind, pair, pictures)
        files += pair
    groups, sidecar = read_groups(folder, records)
    return Benchmark(
        tuple(records), (*files, *sidecar), evaluate, groups=groups, kind=COMPOSITION, lower=LOWER, scores=SCORES
    )


def reads(path: str | Path, split: str = "") -> list[Path]:
    """List the files beside pictures that `load` reads."""
    return list(chain.from_iterable(_pairs(Path(path), split).values()))


def _pairs(folder: Path, split: str) -> dict[str, tuple[Path, Path]]:
    """Return for each kind that is there, or all, the file with the captions and the one with the hard positives."""
    pairs = {}
    for kind in selected_names(folder, KINDS, split):
        official = folder / "data" / KINDS[kind], folder / "swapped_data" / KINDS[kind]
        flat = folder / f"{kind}.json", folder / f"{kind}_hard_positive.json"
        pairs[kind] = official if any(map(Path.is_file, official)) else flat
    existing = {kind: pair for kind, pair in pairs.items() if split or any(map(Path.is_file, pair))}
    return existing or pairs


def _records(kind: str, pair: tuple[Path, Path], pictures: Path) -> list[Record]:
    """Pair record i of both files. Its id is i, since the official files repeat records."""
    original = read_rows(pair[0], list)
    reworded = read_rows(pair[1], list)
    if len(original) != len(reworded):
        raise UserError(f"{pair[1]}: {len(reworded)} records for {len(original)} in {pair[0]}; fetch both files again")
    rows = number_rows(zip(original, reworded, strict=True))
    return [_record(kind, pair, key, row, positive_row, pictures) for key, (row, positive_row) in rows]


def _record(kind: str, pair: tuple[Path, Path], key: str, row: Any, positive_row: Any, pictures: Path) -> Record:
    for name in ("image_path", "false_caption"):
        if read_field(pair[0], key, row, name) != read_field(pair[1], key, positive_row, name):
            raise UserError(f"{pair[1]}: record {key}: {name!r} differs from {pair[0]}; fetch both files again")
    texts = row["false_caption"], read_field(pair[1], key, positive_row, "true_caption")
    box = read_fields(pair[0], key, row, BOX, (int, float)) if BOX[0] in row else None
    image = with_box(_image(pictures, row["image_path"]), box)
    return Record(kind, key, (image,), (read_field(pair[0], key, row, "true_caption"), *texts))


def _image(pictures: Path, name: str) -> str:
    """Find `data/VG_100K_2/1.jpg` as named, without its first folder, by file name, or in one of PLACES."""
    without_folder = Path(*Path(name).parts[1:])
    paths = [pictures / name, pictures / without_folder, pictures / Path(name).name]
    for folder in PLACES:
        paths.append(pictures / folder / Path(name).name)
    return first_existing(paths)


def evaluate(records: Sequence[Record], embeddings: Embeddings) -> dict[str, Items]:
    """Return `<kind>_<metric>` for each kind, and `replace_<metric>` over both kinds of REPLACE."""
    items = {}
    for (kind, name), kind_items in _choice.compare_texts(records, embeddings, _outcomes, 3).items():
        items[f"{kind}_{name}"] = kind_items
    for name in OUTCOMES:
        items |= pool_items(f"replace_{name}", items, [f"{kind}_{name}" for kind in POOLED], "replace")
    return items


def _outcomes(*scores_3N: np.ndarray, beats: metrics.Beats = np.greater) -> metrics.PerItem:
    outcomes = metrics.hard_positives_outcomes(*scores_3N, beats=beats)
    return {**outcomes, "gap": outcomes["original"] - outcomes["augmented"]}
