"""BLA (Chen et al., EMNLP 2023, arXiv:2310.15061): two right and two wrong sentences of one kind about a picture.

`active_passive`, `coordination` and `relative_clause`: the two sentences that are nearest to the picture count as
judged right, the other two as judged wrong; the share of the four that is judged as it is. `average` weighs the
constructions the same. With equal scores a right sentence comes last and a wrong one first: ties are wrong. The
authors' topk takes any of equals, and cuts cosines below 0 to 0, which makes equals of them: neither can be repeated.

Checklist. Source: github.com/shin-ee-chen/BLA (its README links the archive), evaluation_models/clip. Licence: MIT;
pictures: Visual Genome's. Compared with the authors' code: `rank_captions` and `get_accuracy`, run on made scores
without equals. Not compared: any real file.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from compclip.base.errors import UserError
from compclip.benchmarks import _choice
from compclip.benchmarks._files import (
    first_folder,
    images_folder,
    read_field,
    read_fields,
    read_items,
    subset_files,
    subsets,
)
from compclip.evaluate import metrics
from compclip.evaluate.benchmark import Benchmark, Record
from compclip.evaluate.embeddings import Embeddings
from compclip.runs.item_outcomes import COMPOSITION, Items

FILES = {name: f"{name}_captions.json" for name in ("active_passive", "coordination", "relative_clause")}
TEXTS = ("True1", "True2", "False1", "False2")
MEANS = {"average": tuple(FILES)}
METRICS = (*FILES, *MEANS)
HEADLINE = ("average",)
RECOGNISES = FILES


def load(path: str | Path, images: str | Path | None = None, split: str = "") -> Benchmark:
    """Read the authors' folder with `annotations` and `images`, or the folder of the annotations.

    `split` names some constructions. Pictures are `<image_id>.jpg`. A record's first group of sentences is read, as the
    authors' program does, and further ones are counted. Raises UserError for a missing file, or a record without a
    field.
    """
    folder = Path(path)
    dropped = {"further_group": 0}
    pictures = images_folder(folder, images)
    files = subsets(first_folder(folder, "annotations"), FILES, split)
    records = []
    for name, file in files.items():
        for key, row in read_items(file):
            record, further_groups = _read_record(name, file, key, row, pictures)
            records.append(record)
            dropped["further_group"] += further_groups
    return Benchmark(tuple(records), tuple(files.values()), evaluate, MEANS, dropped=dropped, kind=COMPOSITION)


def reads(path: str | Path, split: str = "") -> list[Path]:
    """List the files beside pictures that `load` reads."""
    return list(subset_files(first_folder(Path(path), "annotations"), FILES, split).values())


def _read_record(name: str, file: Path, key: str, row: Any, pictures: Path) -> tuple[Record, int]:
    """Read a record, and how many groups of sentences it has beside the first. Its id is its position."""
    groups = read_field(file, key, row, "caption_group", list)
    if not groups:
        raise UserError(f"{file}: record {key}: field 'caption_group' is empty; fetch the official file")
    texts = read_fields(file, key, groups[0], TEXTS)
    picture = pictures / f"{read_field(file, key, row, 'image_id', (int, str))}.jpg"
    return Record(name, key, (str(picture),), texts), len(groups) - 1


def evaluate(records: Sequence[Record], embeddings: Embeddings) -> dict[str, Items]:
    """Return the share of each record's four sentences that is judged as it is, by construction."""
    by_name = _choice.compare_texts(records, embeddings, outcomes, len(TEXTS))
    return {name: items for (name, _), items in by_name.items()}


def outcomes(*scores_N: np.ndarray, beats: metrics.Beats = np.greater) -> metrics.PerItem:
    """Return the share of four sentences on their side of the middle, from their scores: two right ones, two wrong.

    As many right ones as wrong ones are judged right where the other two are judged wrong, so that it is the share of
    the right ones. One is judged right if it beats two of the other three.
    """
    right = scores_N[:2]
    wins = [sum(beats(score_N, other) for other in scores_N if other is not score_N) for score_N in right]
    return {"": np.mean([np.asarray(count) >= 2 for count in wins], axis=0)}
