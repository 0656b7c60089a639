"""Hard positives (Kamath et al., ECCV 2024, arXiv:2409.17958): a caption c, a rewording p, a negative n.

original: s(c) > s(n). augmented: s(c) > s(n) and s(p) > s(n). brittleness: s(n) strictly between s(c) and s(p).
mean_score: mean s(c). gap: original - augmented. Ties are wrong, as in the authors' code. `replace_*` pools the records
of relations and attributes, so that each kind weighs by its size as in the published totals (16,868 and 10,575).
The released code crops the pictures of SWAP to the record's box: so do we, where a record has one.

Source: github.com/amitakamath/hard_positives, licence unspecified. Compared: the metrics with the authors' scoring
code. Not compared: numbers on the real pictures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from compclip.base.errors import UserError, unknown
from compclip.benchmarks._files import first_there, groups, images_folder, rows, value
from compclip.evaluate import metrics
from compclip.evaluate.benchmark import Benchmark, Items, Record, by_subset, column, ids, pooled, readable, those
from compclip.evaluate.boxes import boxed
from compclip.evaluate.embeddings import Embeddings
from compclip.runs.items import COMPOSITION

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
PLACES = ("images", "VG_100K", "VG_100K_2")  # of SWAP's pictures, which are named without a folder: ARO's, the Genome's
BOX = ("bbox_x", "bbox_y", "bbox_w", "bbox_h")


def load(path: str | Path, images: str | Path | None = None, split: str = "") -> Benchmark:
    """A folder with `<kind>.json` and `<kind>_hard_positive.json`, or with the authors' `data` and `swapped_data`.

    Kinds: replace_relations, replace_attributes, swap. Reads those that are there, or those that `split` names. One
    `images` serves all: REPLACE's pictures as the files name them (`data/VG_100K_2/1.jpg`) with or without folders,
    SWAP's there, in ARO's `images`, or in Visual Genome's own two folders.
    Raises UserError for a file without its partner, partners that are not aligned, or a record without a field.
    """
    folder = Path(path)
    pictures = images_folder(folder, images)
    pairs = _pairs(folder, split)
    records = tuple(r for kind, pair in pairs.items() for r in _records(kind, pair, pictures))
    chosen, sidecar = groups(folder, records)
    files = tuple(file for pair in pairs.values() for file in pair)
    return Benchmark(records, (*files, *sidecar), evaluate, groups=chosen, kind=COMPOSITION, lower=LOWER, scores=SCORES)


def _pairs(folder: Path, split: str) -> dict[str, tuple[Path, Path]]:
    wanted = [name.strip() for name in split.split(",") if name.strip()]
    for name in wanted:
        if name not in KINDS:
            raise unknown("subset", name, KINDS, str(folder))
    pairs = {kind: _pair(folder, kind) for kind in wanted or KINDS}
    there = {kind: pair for kind, pair in pairs.items() if wanted or any(file.is_file() for file in pair)}
    missing = [file for pair in (there or pairs).values() for file in pair if not file.is_file()]
    if missing:
        raise UserError(f"{missing[0]}: no such file; fetch it, or give the folder that holds it")
    return there


def _pair(folder: Path, kind: str) -> tuple[Path, Path]:
    """The file with the captions and the one with the hard positives."""
    official = folder / "data" / KINDS[kind], folder / "swapped_data" / KINDS[kind]
    own = folder / f"{kind}.json", folder / f"{kind}_hard_positive.json"
    return official if any(file.is_file() for file in official) else own


def _records(kind: str, pair: tuple[Path, Path], pictures: Path) -> list[Record]:
    """Record i of one file belongs to record i of the other; the official files repeat records, so the id is i."""
    original, reworded = (rows(file, list) for file in pair)
    if len(original) != len(reworded):
        raise UserError(f"{pair[1]}: {len(reworded)} records for {len(original)} in {pair[0]}; fetch both files again")
    return [_record(kind, pair, i, a, b, pictures) for i, (a, b) in enumerate(zip(original, reworded, strict=True))]


def _record(kind: str, pair: tuple[Path, Path], index: int, row: Any, other: Any, pictures: Path) -> Record:
    key = str(index)
    for name in ("image_path", "false_caption"):
        if value(pair[0], key, row, name) != value(pair[1], key, other, name):
            raise UserError(f"{pair[1]}: record {key}: {name!r} differs from {pair[0]}; fetch both files again")
    texts = row["false_caption"], value(pair[1], key, other, "true_caption")
    image = boxed(_image(pictures, row["image_path"]), _box(pair[0], key, row))
    return Record(kind, key, (image,), (value(pair[0], key, row, "true_caption"), *texts))


def _box(file: Path, key: str, row: Mapping[str, Any]) -> list[float] | None:
    if BOX[0] not in row:
        return None
    return [value(file, key, row, name, (int, float)) for name in BOX]


def _image(pictures: Path, name: str) -> str:
    """`data/VG_100K_2/1.jpg` as it stands, without its first folder, the bare file name, or that in one of PLACES."""
    parts = Path(name).parts
    as_named = (pictures.joinpath(*parts[start:]) for start in (0, 1, len(parts) - 1))
    return first_there([*as_named, *(pictures / place / Path(name).name for place in PLACES)])


def evaluate(records: Sequence[Record], embeddings: Embeddings) -> dict[str, Items]:
    """`<kind>_<metric>` for each kind, and `replace_<metric>` over both kinds of REPLACE."""
    found = {}
    for kind, part in by_subset(readable(records, embeddings)).items():
        scores_3N = _scores(part, embeddings)
        tied = those(ids(part), metrics.tied(metrics.hard_positives_outcomes, *scores_3N))
        for name, outcome_N in _outcomes(scores_3N).items():
            found[f"{kind}_{name}"] = Items(ids(part), outcome_N, kind, tied)
    return found | _pooled(found)


def _scores(part: Sequence[Record], embeddings: Embeddings) -> list[np.ndarray]:
    """Of caption, hard negative and hard positive."""
    pictures = [record.images[0] for record in part]
    return [embeddings.matches(pictures, column(part, text)) for text in (0, 1, 2)]


def _outcomes(scores_3N: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    found = metrics.hard_positives_outcomes(*scores_3N)
    return {**found, "gap": found["original"] - found["augmented"]}


def _pooled(items: Mapping[str, Items]) -> dict[str, Items]:
    """REPLACE over all its records; absent where one of its kinds was not scored."""
    found = {}
    for name in OUTCOMES:
        parts = [items[f"{kind}_{name}"] for kind in POOLED if f"{kind}_{name}" in items]
        if len(parts) == len(POOLED):
            found[f"replace_{name}"] = pooled("replace", parts)
    return found
