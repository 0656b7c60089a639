"""SugarCrepe++ (Dumpala et al., NeurIPS 2024, arXiv:2406.11171): two captions of one meaning against a hard negative.

ITT: the image is closer to both captions than to the negative. TOT: the captions are closer to each other than either
is to the negative; it needs no image and is scored where the image is missing. Ties are wrong, as in the authors' code.

Source: github.com/Sri-Harsha/scpp, MIT and CC BY 4.0. Compared: both tasks on the five subsets with the authors'
scoring code, equal where no scores tie. Not compared: numbers on all the real pictures.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from compclip.benchmarks._files import (
    check_unique,
    images_folder,
    read_field,
    read_fields,
    read_groups,
    read_items,
    subsets,
)
from compclip.evaluate import metrics
from compclip.evaluate.benchmark import Benchmark, Record, by_subset, column, flagged_ids, ids, pictures, readable
from compclip.evaluate.embeddings import Embeddings
from compclip.runs.item_outcomes import COMPOSITION, Items

SUBSETS = ("replace_att", "replace_obj", "replace_rel", "swap_att", "swap_obj")
MEANS = {
    f"{kind}_{task}": tuple(f"{s}_{task}" for s in SUBSETS if s.startswith(kind))
    for task in ("itt", "tot")
    for kind in ("replace", "swap")
} | {f"average_{task}": tuple(f"{s}_{task}" for s in SUBSETS) for task in ("itt", "tot")}  # CLIC's Tables 16 to 18
METRICS = (*MEANS["average_itt"], *MEANS["average_tot"], *MEANS)
RECOGNISES = {name: f"{name}.json" for name in SUBSETS}
FILE_HEAD = r"\A\s*\["  # SugarCrepe has objects of the same names
TEXTS = ("caption", "caption2", "negative_caption")


def load(path: str | Path, images: str | Path | None = None, split: str = "") -> Benchmark:
    """Read the folder of `<subset>.json`; `split` names some of the subsets, all without it.

    Raises UserError for a missing file, or a record without a field.
    """
    folder = images_folder(Path(path), images)
    files = subsets(Path(path), SUBSETS, split)
    records: list[Record] = []
    for subset, file in files.items():
        records += _records(subset, file, folder)
    groups, sidecar = read_groups(Path(path), records)
    return Benchmark(
        tuple(records),
        (*files.values(), *sidecar),
        evaluate,
        MEANS,
        groups,
        texts_alone=MEANS["average_tot"],
        kind=COMPOSITION,
    )


def _records(subset: str, file: Path, folder: Path) -> tuple[Record, ...]:
    records = []
    for position, row in read_items(file):
        key = str(read_field(file, f"at index {position}", row, "id", (int, str)))
        picture = folder / read_field(file, key, row, "filename")
        records.append(Record(subset, key, (str(picture),), read_fields(file, key, row, TEXTS)))
    return check_unique(file, records)


def evaluate(records: Sequence[Record], embeddings: Embeddings) -> dict[str, Items]:
    """Return `<subset>_itt` over the records with an image, `<subset>_tot` over all."""
    items = {}
    for subset, subset_records in by_subset(records).items():
        seen_N = np.array([embeddings.has(record.images) for record in subset_records])
        scores_6N = _scores(subset_records, seen_N, embeddings)
        outcomes = metrics.sugarcrepe_pp_outcomes(*scores_6N)
        tied = flagged_ids(ids(subset_records), metrics.tied_items(metrics.sugarcrepe_pp_outcomes, *scores_6N))
        items[f"{subset}_itt"] = Items(flagged_ids(ids(subset_records), seen_N), outcomes["itt"][seen_N], subset)
        items[f"{subset}_tot"] = Items(ids(subset_records), outcomes["tot"], subset, tied)
    return items


def _scores(records: Sequence[Record], seen_N: np.ndarray, embeddings: Embeddings) -> tuple[np.ndarray, ...]:
    """Return the six scores of every record; image scores are NaN for a record without an image."""
    p1, p2, n = (column(records, text) for text in (0, 1, 2))
    image_3N = np.full((3, len(records)), np.nan)
    if seen_N.any():
        seen_records = readable(records, embeddings)
        for text in (0, 1, 2):
            image_3N[text, seen_N] = embeddings.matches(pictures(seen_records), column(seen_records, text))
    similar = embeddings.similarities
    return *image_3N, similar(p1, p2), similar(p1, n), similar(p2, n)
