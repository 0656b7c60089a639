"""Cola's single objects (Ray et al., NeurIPS 2023, arXiv:2305.03689): an object with attributes finds its pictures.

N pictures, C classes ("square white plate").

`gqa`, `clevr` and `paco`: the mean over classes of the average precision with which a class finds its pictures among
hard ones, which show the object or one of its attributes. Classes that no picture shows, or that have no hard picture,
are left out. Equal scores are one threshold, as with the authors, however ties are counted. The items are the classes.

Checklist. Source: github.com/arijitray1993/COLA, data/COLA_singleobjects_benchmark_<set>.json. Licence: MIT; pictures:
Visual Genome, CLEVR, COCO. Compared with the authors' code (scripts/eval.py): ours beside torchmetrics' function that
it calls, on made scores with ties, equal to 1e-6. Not compared: any real file: README.md says {"labels", "data"}, their
script reads a list of both, and so do we.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from compclip.base.errors import UserError
from compclip.base.files import read_json
from compclip.benchmarks._files import are_texts, images_folder, number_rows, read_fields, subsets
from compclip.benchmarks._tables import find_picture
from compclip.evaluate.benchmark import Benchmark, Record, by_subset, pictures, readable
from compclip.evaluate.embeddings import Embeddings
from compclip.runs.item_outcomes import COMPOSITION, Items

FILES = {name: f"COLA_singleobjects_benchmark_{name.upper()}.json" for name in ("gqa", "clevr", "paco")}
METRICS = tuple(FILES)
RECOGNISES = FILES
Labels = Mapping[str, tuple[list[str], np.ndarray]]  # of a set: classes; shown and hard ones of each picture, N2C


def load(path: str | Path, images: str | Path | None = None, split: str = "") -> Benchmark:
    """Read the authors' folder of FILES; `split` names some of the sets, all without it.

    A picture is found at an end of its path in `images`. Raises UserError for a missing file, or a record of another
    form.
    """
    folder = images_folder(Path(path), images)
    files = subsets(Path(path), FILES, split)
    records = []
    labels = {}
    texts: dict[str, None] = {}
    for name, file in files.items():
        classes, rows = _read_content(file)
        flags = []
        for key, row in number_rows(rows):
            picture, picture_flags = _read_entry(file, key, row, len(classes))
            records.append(Record(name, key, (find_picture(folder, picture),), ()))
            flags.append(picture_flags)
        labels[name] = classes, np.array(flags, dtype=bool)
        texts |= dict.fromkeys(classes)
    return Benchmark(
        tuple(records), tuple(files.values()), partial(evaluate, labels), shared_texts=tuple(texts), kind=COMPOSITION
    )


def _read_content(file: Path) -> tuple[list[str], list[Any]]:
    """Return the classes and the rows, which are in an object or in a list of the two."""
    content = read_json(file)
    if isinstance(content, list) and len(content) == 2:
        content = dict(zip(("labels", "data"), content, strict=True))
    classes, rows = read_fields(file, "(whole file)", content, ("labels", "data"), list)
    if not rows or not are_texts(classes) or not all(map(str.strip, classes)):
        raise UserError(f"{file}: holds no records, or classes that are no texts; fetch the official file")
    return classes, rows


def _read_entry(file: Path, key: str, row: Any, classes: int) -> tuple[str, list[list[int]]]:
    """Return the picture and both flags of each class, of [picture, annotation, shown, hard].

    PACO's rows have no annotation.
    """
    is_row = isinstance(row, list) and len(row) in (3, 4) and isinstance(row[0], str)
    flags = row[-2:] if is_row else []
    if not flags or not all(_are_flags(numbers, classes) for numbers in flags):
        raise UserError(
            f"{file}: record {key}: expected [picture, …, shown, hard], {classes} of 0 and 1; fetch it again"
        )
    return row[0], flags


def _are_flags(numbers: Any, count: int) -> bool:
    return isinstance(numbers, list) and len(numbers) == count and all(number in (0, 1) for number in numbers)


def evaluate(labels: Labels, records: Sequence[Record], embeddings: Embeddings) -> dict[str, Items]:
    """Return the average precision of each class among its hard pictures, by set."""
    items_of = {}
    for name, scored in by_subset(readable(records, embeddings)).items():
        classes, flag_N2C = labels[name]
        scores_NC = embeddings.table(pictures(scored), classes)
        rows = [int(record.id) for record in scored]
        items_of[name] = average_precisions(scores_NC, flag_N2C[rows, 0], flag_N2C[rows, 1])
    return items_of


def average_precisions(scores_NC: np.ndarray, shown_NC: np.ndarray, hard_NC: np.ndarray) -> Items:
    """Return the average precision of each class that some picture shows and that has a hard picture."""
    counted = np.flatnonzero(shown_NC.any(0) & hard_NC.any(0)).tolist()
    values = [average_precision(scores_NC[hard_NC[:, c], c], shown_NC[hard_NC[:, c], c]) for c in counted]
    return Items(tuple(map(str, counted)), np.array(values), "classes")


def average_precision(score_N: np.ndarray, shown_N: np.ndarray) -> float:
    """Sum precision times the growth of recall over the different scores as thresholds; 0 where nothing is shown."""
    order_N = np.argsort(-score_N, kind="stable")
    is_last_N = np.append(np.diff(score_N[order_N]) != 0, True)  # of equal scores, which are one threshold
    hits_T = np.cumsum(shown_N[order_N])[is_last_N]
    count_T = np.flatnonzero(is_last_N) + 1
    recall_growth_T = np.diff(hits_T, prepend=0) / max(1, int(shown_N.sum()))
    return float(np.sum(hits_T / count_T * recall_growth_T))
