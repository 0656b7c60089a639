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

from compclip.benchmarks._files import check_unique, images_folder, read_field, read_groups, read_rows, subsets
from compclip.evaluate import metrics
from compclip.evaluate.benchmark import Benchmark, Record, by_subset, column, flagged_ids, ids, readable
from compclip.evaluate.embeddings import Embeddings
from compclip.runs.item_outcomes import COMPOSITION, Items

SUBSETS = ("replace_att", "replace_obj", "replace_rel", "swap_att", "swap_obj")
MEANS = {
    f"{kind}_{task}": tuple(f"{s}_{task}" for s in SUBSETS if s.startswith(kind))
    for task in ("itt", "tot")
    for kind in ("replace", "swap")
} | {f"average_{task}": tuple(f"{s}_{task}" for s in SUBSETS) for task in ("itt", "tot")}  # CLIC's Tables 16 to 18
METRICS = (*MEANS["average_itt"], *MEANS["average_tot"], *MEANS)
TEXTS = ("caption", "caption2", "negative_caption")


def load(path: str | Path, images: str | Path | None = None, split: str = "") -> Benchmark:
    """Read the folder of `<subset>.json`; `split` names some of the subsets, all without it.

    Raises UserError for a missing file, or a record without a field.
    """
    folder = Path(path)
    pictures = images_folder(Path(path), images)
    files = subsets(folder, SUBSETS, split)
    records = tuple(r for subset, file in files.items() for r in _records(subset, file, pictures))
    group_ids, sidecar = read_groups(folder, records)
    texts_alone = tuple(f"{subset}_tot" for subset in SUBSETS)
    return Benchmark(
        records, (*files.values(), *sidecar), evaluate, MEANS, group_ids, texts_alone=texts_alone, kind=COMPOSITION
    )


def _records(subset: str, file: Path, pictures: Path) -> tuple[Record, ...]:
    records = []
    for index, row in enumerate(read_rows(file, list)):
        key = str(read_field(file, f"at index {index}", row, "id", (int, str)))
        texts = tuple(read_field(file, key, row, name) for name in TEXTS)
        records.append(Record(subset, key, (str(pictures / read_field(file, key, row, "filename")),), texts))
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
        pictures = [record.images[0] for record in seen_records]
        image_3N[:, seen_N] = [embeddings.matches(pictures, column(seen_records, text)) for text in (0, 1, 2)]
    similar = embeddings.similarities
    return *image_3N, similar(p1, p2), similar(p1, n), similar(p2, n)
