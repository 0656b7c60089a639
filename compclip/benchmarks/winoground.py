"""Winoground (Thrush et al., CVPR 2022, arXiv:2204.03162): two images, two captions of the same words.

text: each image is closer to its own caption. image: each caption is closer to its own image. group: both. Ties are
wrong: the paper's definitions compare strictly.

Source: hf.co/datasets/facebook/winoground (gated), Meta's research licence. Compared: the three scores with the
paper's definitions. Not compared: numbers on the real pictures; tables were made by its card, as the hub converts it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from compclip.benchmarks import _tables
from compclip.benchmarks._files import check_unique, images_folder, read_field, read_groups, refuse_split
from compclip.evaluate import metrics
from compclip.evaluate.benchmark import Benchmark, Record, by_subset, column, flagged_ids, ids, readable
from compclip.evaluate.embeddings import Embeddings
from compclip.runs.item_outcomes import COMPOSITION, Items

FILE = "examples.jsonl"
SUBSET = "all"
METRICS = ("text", "image", "group")
HEADLINE: tuple[str, ...] = ()  # none by its authors: the mean of the columns that the report shows


def load(path: str | Path, images: str | Path | None = None, split: str = "") -> Benchmark:
    """Read the folder of `examples.jsonl`; images are `<image_0>.png` in `images`. There are no splits.

    Or a folder of Hugging Face's *.parquet, or one of them, with the pictures inside, which are unpacked into `images`.
    Raises UserError for a missing file, a line that is not JSON, or a record without a field.
    """
    refuse_split("winoground", split)
    files, rows = _tables.lines_or_rows(Path(path), FILE, images)
    pictures = images_folder(files[0].parent, images)
    records = check_unique(files[0], [_record(files[0], number, row, pictures) for number, row in rows])
    group_ids, sidecar = read_groups(files[0].parent, records)
    return Benchmark(records, (*files, *sidecar), evaluate, groups=group_ids, kind=COMPOSITION)


def _record(file: Path, number: int, row: Any, pictures: Path) -> Record:
    key = str(read_field(file, f"at line {number}", row, "id", (int, str)))
    names = [read_field(file, key, row, f"image_{i}") for i in (0, 1)]
    return Record(
        SUBSET, key,
        tuple(_tables.named_picture(pictures, name, ".png") for name in names),
        tuple(read_field(file, key, row, f"caption_{i}") for i in (0, 1)),
    )  # fmt: skip


def evaluate(records: Sequence[Record], embeddings: Embeddings) -> dict[str, Items]:
    """Return text, image and group outcomes of the records both of whose images were read."""
    readable_records = readable(records, embeddings)
    return items(readable_records, embeddings, SUBSET) if readable_records else {}


def items_by_subset(records: Sequence[Record], embeddings: Embeddings) -> dict[str, Items]:
    """Return `<subset>_text`, `<subset>_image` and `<subset>_group` of the records both of whose images were read."""
    return {
        f"{subset}_{score}": subset_items
        for subset, subset_records in by_subset(readable(records, embeddings)).items()
        for score, subset_items in items(subset_records, embeddings, subset).items()
    }


def metrics_by_subset(subsets: Iterable[str]) -> tuple[str, ...]:
    """Return the names of all scores: those of each subset, and their means."""
    return (*(f"{subset}_{score}" for subset in subsets for score in METRICS), *METRICS)


def means_over_subsets(subsets: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Name the scores whose means are `text`, `image` and `group`, every subset weighing the same."""
    names = tuple(subsets)
    return {score: tuple(f"{subset}_{score}" for subset in names) for score in METRICS}


def items(records: Sequence[Record], embeddings: Embeddings, subset: str) -> dict[str, Items]:
    """Return `text`, `image` and `group` of records of two images and their texts, all with embeddings."""
    scores_N22, keys = scores(records, embeddings), ids(records)
    tied = flagged_ids(keys, metrics.tied_items(metrics.winoground_outcomes, scores_N22))
    outcomes = metrics.winoground_outcomes(scores_N22)
    return {name: Items(keys, outcome_N, subset, tied) for name, outcome_N in outcomes.items()}


def scores(records: Sequence[Record], embeddings: Embeddings) -> np.ndarray:
    """Return cosines [record, caption, image] of records of two images and two texts, all with embeddings."""
    scores_N22 = np.empty((len(records), 2, 2))
    for caption in (0, 1):
        for image in (0, 1):
            pictures = [record.images[image] for record in records]
            scores_N22[:, caption, image] = embeddings.matches(pictures, column(records, caption))
    return scores_N22
