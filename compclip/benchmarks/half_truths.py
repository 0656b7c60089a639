"""Half-Truths (Kargi et al., NeurIPS 2026, arXiv:2602.23906): a right caption, and the same with a wrong detail added.

`<set>`: the picture is nearer to the short caption (`anchor`) than to the one with the wrong detail (`half_truth`).
`<set>_ordered`: the one with the right detail (`full_truth`) is above the short one, and that above the wrong one. Both
also over the details that are things (`_entity`) and relations (`_relation`). Ties are wrong, as in the authors' code.

Checklist. Source: hf.co/datasets/kbora/Half-Truths, github.com/kargibora/CS-CLIP scripts/evaluate_half_truth.py.
Licence: CC BY 4.0 (texts), pictures each their own. Compared with the authors' code: the rules, read. Not compared: any
real file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from compclip.base.errors import unknown
from compclip.benchmarks import _table
from compclip.benchmarks._files import chosen, images_folder, unique, value
from compclip.evaluate import metrics
from compclip.evaluate.benchmark import Benchmark, Items, Record, by_subset, column, ids, readable, those
from compclip.evaluate.embeddings import Embeddings
from compclip.runs.items import COMPOSITION

SETS = ("coco_qwen", "coco_mistral", "cc3m_qwen")
KINDS = ("entity", "relation")
TEXTS = ("anchor", "half_truth", "full_truth")
METRICS = tuple(
    f"{name}{order}{kind}" for name in SETS for order in ("", "_ordered") for kind in ("", *(f"_{k}" for k in KINDS))
)
Kinds = Mapping[tuple[str, str], str]  # set and id -> what the detail is


def load(path: str | Path, images: str | Path | None = None, split: str = "") -> Benchmark:
    """The folder of the hub's `<set>.parquet` or of `<set>.jsonl`; `split` names some sets, coco_qwen alone without it,
    as the authors' script does.

    Pictures are `<image>` in `images`. Raises UserError for a missing file, an unknown set or kind, or a record without
    a field.
    """
    folder, names = Path(path), chosen(Path(path), SETS, split or SETS[0])
    pictures = images_folder(folder, images)
    read = {name: _table.listed(folder, name, images) for name in names}
    rows = [(name, files[0], *row) for name, (files, found) in read.items() for row in found]
    records = [_record(name, file, place, row, pictures) for name, file, place, row in rows]
    kinds = {(name, _id(file, place, row)): _kind(file, place, row) for name, file, place, row in rows}
    every = tuple(file for files, _ in read.values() for file in files)
    return Benchmark(unique(folder, records), every, partial(evaluate, kinds), kind=COMPOSITION)


def _id(file: Path, place: str, row: Any) -> str:
    return str(value(file, f"at place {place}", row, "id", (int, str)))


def _kind(file: Path, place: str, row: Any) -> str:
    kind = value(file, _id(file, place, row), row, "triplet_type")
    if kind not in KINDS:
        raise unknown("triplet_type", kind, KINDS, f"{file}: record {_id(file, place, row)}")
    return kind


def _record(name: str, file: Path, place: str, row: Any, pictures: Path) -> Record:
    key = _id(file, place, row)
    shown = _table.picture(pictures, value(file, key, row, "image"))
    return Record(name, key, (shown,), tuple(value(file, key, row, text) for text in TEXTS))


def evaluate(kinds: Kinds, records: Sequence[Record], embeddings: Embeddings) -> dict[str, Items]:
    """Both outcomes of each set, whole and by kind."""
    found = {}
    for name, part in by_subset(readable(records, embeddings)).items():
        shown = [record.images[0] for record in part]
        scores_3N = [embeddings.matches(shown, column(part, text)) for text in range(len(TEXTS))]
        tied = those(ids(part), metrics.tied(outcomes, *scores_3N))
        for ending, outcome_N in outcomes(*scores_3N).items():
            found[f"{name}{ending}"] = whole = Items(ids(part), outcome_N, name, tied)
            found |= {f"{name}{ending}_{kind}": _of_kind(whole, name, kind, kinds) for kind in KINDS}
    return found


def outcomes(
    short_N: np.ndarray, half_N: np.ndarray, full_N: np.ndarray, beats: metrics.Beats = np.greater
) -> metrics.PerItem:
    """Whether the wrong detail costs, and with `_ordered` whether the right one also pays."""
    right_N = beats(short_N, half_N)
    return {"": right_N.astype(np.float64), "_ordered": (right_N & beats(full_N, short_N)).astype(np.float64)}


def _of_kind(items: Items, name: str, kind: str, kinds: Kinds) -> Items:
    keep = [place for place, key in enumerate(items.ids) if kinds[name, key] == kind]
    tied = tuple(key for key in items.tied if kinds[name, key] == kind)
    return Items(tuple(items.ids[place] for place in keep), items.values[keep], name, tied)
