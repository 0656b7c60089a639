"""Winoground (Thrush et al., CVPR 2022, arXiv:2204.03162): two images, two captions of the same words.

text: each image is closer to its own caption. image: each caption is closer to its own image. group: both. Ties are
wrong: the paper's definitions compare strictly.

Source: hf.co/datasets/facebook/winoground (gated), Meta's research licence. Compared: the three scores with the
paper's definitions. Not compared: numbers on the real pictures; tables were made by its card, as the hub converts it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from compclip.base.errors import UserError
from compclip.benchmarks import _parquet
from compclip.benchmarks._files import groups, images_folder, unique, value
from compclip.evaluate import metrics
from compclip.evaluate.benchmark import Benchmark, Items, Record, column, ids, readable, those
from compclip.evaluate.embeddings import Embeddings
from compclip.runs.items import COMPOSITION

FILE = "examples.jsonl"
SUBSET = "all"
METRICS = ("text", "image", "group")


def load(path: str | Path, images: str | Path | None = None, split: str = "") -> Benchmark:
    """The folder of `examples.jsonl`; images are `<image_0>.png` in `images`. There are no splits.

    Or a folder of Hugging Face's *.parquet, or one of them, with the pictures inside, which are unpacked into `images`.
    Raises UserError for a missing file, a line that is not JSON, or a record without a field.
    """
    if split:
        raise UserError(f"benchmark winoground: split={split!r}: it has no splits; leave split out")
    files, listed = _parquet.listed(Path(path), FILE, images)
    pictures = images_folder(files[0].parent, images)
    records = unique(files[0], [_record(files[0], number, row, pictures) for number, row in listed])
    chosen, sidecar = groups(files[0].parent, records)
    return Benchmark(records, (*files, *sidecar), evaluate, groups=chosen, kind=COMPOSITION)


def _record(file: Path, number: int, row: Any, pictures: Path) -> Record:
    key = str(value(file, f"at line {number}", row, "id", (int, str)))
    names = [value(file, key, row, f"image_{i}") for i in (0, 1)]
    return Record(
        SUBSET, key,
        tuple(_parquet.picture(pictures, name, ".png") for name in names),
        tuple(value(file, key, row, f"caption_{i}") for i in (0, 1)),
    )  # fmt: skip


def evaluate(records: Sequence[Record], embeddings: Embeddings) -> dict[str, Items]:
    """Text, image and group outcomes of the records both of whose images were read."""
    part = readable(records, embeddings)
    return items(part, embeddings, SUBSET) if part else {}


def items(part: Sequence[Record], embeddings: Embeddings, subset: str) -> dict[str, Items]:
    """`text`, `image` and `group` of records of two images and their two texts, all of which have embeddings."""
    scores_N22, keys = scores(part, embeddings), ids(part)
    tied = those(keys, metrics.tied(metrics.winoground_outcomes, scores_N22))
    found = metrics.winoground_outcomes(scores_N22)
    return {name: Items(keys, outcome_N, subset, tied) for name, outcome_N in found.items()}


def scores(part: Sequence[Record], embeddings: Embeddings) -> np.ndarray:
    """Cosines [record, caption, image] of records of two images and two texts, all of which have embeddings."""
    scores_N22 = np.empty((len(part), 2, 2))
    for caption in (0, 1):
        for image in (0, 1):
            pictures = [record.images[image] for record in part]
            scores_N22[:, caption, image] = embeddings.matches(pictures, column(part, caption))
    return scores_N22
