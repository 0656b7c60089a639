"""Winoground (Thrush et al., CVPR 2022, arXiv:2204.03162): two images, two captions of the same words.

text: each image is closer to its own caption. image: each caption is closer to its own image. group: both. Ties are
wrong: the paper's definitions compare strictly.

Source: hf.co/datasets/facebook/winoground (gated), Meta's research licence. Compared: the three scores with the
paper's definitions. Not compared: numbers on the real pictures; tables were made by its card, as the hub converts it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from compclip.benchmarks import _tables
from compclip.benchmarks._files import check_unique, images_folder, read_field, read_fields, read_groups, refuse_split
from compclip.evaluate import metrics
from compclip.evaluate.benchmark import Benchmark, Record, by_subset, column, flagged_ids, ids, pictures, readable
from compclip.evaluate.embeddings import Embeddings
from compclip.runs.item_outcomes import COMPOSITION, Items

FILE = "examples.jsonl"
SUBSET = "all"
METRICS = ("text", "image", "group")
RECOGNISES = (FILE, "*.parquet", "*.arrow")
FILE_HEAD = r'"collapsed_tag"|"ex_\d+_img_0"'  # COCO-Counterfactuals has files of the same names


def load(path: str | Path, images: str | Path | None = None, split: str = "") -> Benchmark:
    """Read the folder of `examples.jsonl`; images are `<image_0>.png` in `images`. There are no splits.

    Or a folder of Hugging Face's *.parquet, or one of them, with the pictures inside.
    Raises UserError for a missing file, a line that is not JSON, or a record without a field.
    """
    refuse_split("winoground", split)
    files, rows = _tables.lines_or_rows(Path(path), FILE)
    folder = images_folder(files[0].parent, images)
    records = check_unique(files[0], [_record(files[0], number, row, folder) for number, row in rows])
    group_ids, sidecar = read_groups(files[0].parent, records)
    return Benchmark(records, (*files, *sidecar), evaluate, groups=group_ids, kind=COMPOSITION)


def _record(file: Path, number: int, row: Any, folder: Path) -> Record:
    key = str(read_field(file, f"at line {number}", row, "id", (int, str)))
    names = read_fields(file, key, row, ("image_0", "image_1"))
    images = tuple(_tables.named_picture(folder, name, ".png") for name in names)
    return Record(SUBSET, key, images, read_fields(file, key, row, ("caption_0", "caption_1")))


def evaluate(records: Sequence[Record], embeddings: Embeddings) -> dict[str, Items]:
    """Return text, image and group outcomes of the records both of whose images were read."""
    return {name.removeprefix(f"{SUBSET}_"): items for name, items in items_by_subset(records, embeddings).items()}


def items_by_subset(
    records: Sequence[Record],
    embeddings: Embeddings,
    outcomes: Callable[..., metrics.PerItem] = metrics.winoground_outcomes,
) -> dict[str, Items]:
    """Return `<subset>_<outcome>` of the records both of whose images were read; Winoground's three unless told.

    Outcomes are made of the cosines [record, caption, image].
    """
    items = {}
    for subset, subset_records in by_subset(readable(records, embeddings)).items():
        keys = ids(subset_records)
        scores_N22 = np.empty((len(subset_records), 2, 2))
        for caption in (0, 1):
            for image in (0, 1):
                texts = column(subset_records, caption)
                scores_N22[:, caption, image] = embeddings.matches(pictures(subset_records, image), texts)
        tied = flagged_ids(keys, metrics.tied_items(outcomes, scores_N22))
        for name, outcome_N in outcomes(scores_N22).items():
            items[f"{subset}_{name}"] = Items(keys, outcome_N, subset, tied)
    return items


def metrics_by_subset(subsets: Iterable[str]) -> tuple[str, ...]:
    """Return the names of all scores: those of each subset, and their means."""
    return (*(f"{subset}_{score}" for subset in subsets for score in METRICS), *METRICS)


def means_over_subsets(subsets: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Name the scores whose means are `text`, `image` and `group`, every subset weighing the same."""
    names = tuple(subsets)
    return {score: tuple(f"{subset}_{score}" for subset in names) for score in METRICS}
