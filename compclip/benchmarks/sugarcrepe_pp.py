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

from compclip.benchmarks._files import groups, images_folder, rows, subsets, unique, value
from compclip.evaluate import metrics
from compclip.evaluate.benchmark import Benchmark, Items, Record, by_subset, column, ids, readable, those
from compclip.evaluate.embeddings import Embeddings
from compclip.runs.items import COMPOSITION

SUBSETS = ("replace_att", "replace_obj", "replace_rel", "swap_att", "swap_obj")
MEANS = {
    f"{kind}_{task}": tuple(f"{s}_{task}" for s in SUBSETS if s.startswith(kind))
    for task in ("itt", "tot")
    for kind in ("replace", "swap")
} | {f"average_{task}": tuple(f"{s}_{task}" for s in SUBSETS) for task in ("itt", "tot")}  # CLIC's Tables 16 to 18
METRICS = (*MEANS["average_itt"], *MEANS["average_tot"], *MEANS)
TEXTS = ("caption", "caption2", "negative_caption")


def load(path: str | Path, images: str | Path | None = None, split: str = "") -> Benchmark:
    """The folder of `<subset>.json`; `split` names some of the subsets, all without it.

    Raises UserError for a missing file, or a record without a field.
    """
    folder, pictures = Path(path), images_folder(Path(path), images)
    files = subsets(folder, SUBSETS, split)
    records = tuple(r for subset, file in files.items() for r in _records(subset, file, pictures))
    chosen, sidecar = groups(folder, records)
    texts_alone = tuple(f"{subset}_tot" for subset in SUBSETS)
    return Benchmark(
        records, (*files.values(), *sidecar), evaluate, MEANS, chosen, texts_alone=texts_alone, kind=COMPOSITION
    )


def _records(subset: str, file: Path, pictures: Path) -> tuple[Record, ...]:
    found = []
    for index, row in enumerate(rows(file, list)):
        key = str(value(file, f"at index {index}", row, "id", (int, str)))
        texts = tuple(value(file, key, row, name) for name in TEXTS)
        found.append(Record(subset, key, (str(pictures / value(file, key, row, "filename")),), texts))
    return unique(file, found)


def evaluate(records: Sequence[Record], embeddings: Embeddings) -> dict[str, Items]:
    """`<subset>_itt` over the records with an image, `<subset>_tot` over all."""
    found = {}
    for subset, part in by_subset(records).items():
        seen_N = np.array([embeddings.has(record.images) for record in part])
        scores_6N = _scores(part, seen_N, embeddings)
        outcomes = metrics.sugarcrepe_pp_outcomes(*scores_6N)
        tied = those(ids(part), metrics.tied(metrics.sugarcrepe_pp_outcomes, *scores_6N))
        found[f"{subset}_itt"] = Items(those(ids(part), seen_N), outcomes["itt"][seen_N], subset)
        found[f"{subset}_tot"] = Items(ids(part), outcomes["tot"], subset, tied)
    return found


def _scores(part: Sequence[Record], seen_N: np.ndarray, embeddings: Embeddings) -> tuple[np.ndarray, ...]:
    """The six scores of every record; the image scores of a record without an image are NaN."""
    p1, p2, n = (column(part, text) for text in (0, 1, 2))
    image_3N = np.full((3, len(part)), np.nan)
    if seen_N.any():
        image_3N[:, seen_N] = _image_scores(readable(part, embeddings), embeddings)
    similar = embeddings.similarities
    return *image_3N, similar(p1, p2), similar(p1, n), similar(p2, n)


def _image_scores(part: Sequence[Record], embeddings: Embeddings) -> list[np.ndarray]:
    pictures = [record.images[0] for record in part]
    return [embeddings.matches(pictures, column(part, text)) for text in range(len(TEXTS))]
