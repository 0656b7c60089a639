"""VisMin (Awal et al., NeurIPS 2024, arXiv:2407.16772): two pictures that differ in one thing, each with its caption.

An object, an attribute, a count or a place. Winoground's text, image and group score of each category, and the means
over the categories. Ties are wrong, as in the authors' code.

The released rows do not say which caption belongs to which picture: the authors mixed them and keep the answers in
`sim_solution.csv` beside their code, row for row. Without that file half of the pairs would be read the wrong way
round.

Checklist. Source: hf.co/datasets/mair-lab/vismin-bench, github.com/rabiulcste/vismin (vismin-bench/). Licence: CC BY
4.0. Compared with the authors' code: the rules and the whole file of answers, read. Not compared: real pictures.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from compclip.base.errors import UserError
from compclip.benchmarks import _pairs, _table
from compclip.benchmarks._files import chosen, images_folder, value
from compclip.evaluate.benchmark import Benchmark, Record
from compclip.runs.items import COMPOSITION

SOLUTION = "sim_solution.csv"
STRAIGHT = {"Text": "T0_I0 > T1_I0 & T1_I1 > T0_I1", "Image": "T0_I0 > T0_I1 & T1_I1 > T1_I0"}
CROSSED = {"Text": "T1_I0 > T0_I0 & T0_I1 > T1_I1", "Image": "T0_I1 > T0_I0 & T1_I0 > T1_I1"}
METRICS = _pairs.metrics(["*"])  # the categories are those of the file
CATEGORY = re.compile(r"[a-z][a-z_ ]{0,40}")


def load(path: str | Path, images: str | Path | None = None, split: str = "") -> Benchmark:
    """The folder of `sim_solution.csv` and of the hub's `data/test/*.arrow`; or the same rows in the same order as
    *.parquet, or as `test.jsonl`, `.json` or `.csv` with pictures by their paths in `images`.

    `split` names some categories, all without it. Raises UserError for a missing file, answers that do not fit the
    rows, or a record without a field.
    """
    files, rows = _table.listed(Path(path), "test", images)
    file, folder = files[0], Path(path) if Path(path).is_dir() else Path(path).parent
    solution, pictures = folder / SOLUTION, images_folder(file.parent, images)
    answers = _table.columns(solution, ("category", *STRAIGHT))
    if len(rows) != len(answers):
        raise UserError(f"{solution}: {len(answers)} answers for {len(rows)} rows of {file}; fetch both again")
    records = [_record(file, *row, answer, pictures) for row, (_, answer) in zip(rows, answers, strict=True)]
    categories = chosen(file, dict.fromkeys(record.subset for record in records), split)
    kept = tuple(record for record in records if record.subset in categories)
    return Benchmark(kept, (*files, solution), _pairs.evaluate, _pairs.means(categories), kind=COMPOSITION)


def _record(file: Path, key: str, row: Any, answer: Mapping[str, str], pictures: Path) -> Record:
    """The pictures in the order of their captions."""
    category = value(file, key, row, "category")
    if category != answer["category"] or not CATEGORY.fullmatch(category):
        raise UserError(f"{file}: record {key}: category {category!r}, and {answer['category']!r} in {SOLUTION}; "
                        "put the rows into the hub's order")  # fmt: skip
    texts = tuple(value(file, key, row, f"text_{i}") for i in (0, 1))
    order = (1, 0) if _is_crossed(key, answer) else (0, 1)
    shown = tuple(_table.picture(pictures, value(file, key, row, f"image_{i}")) for i in order)
    return Record(category.replace(" ", "_"), key, shown, texts)


def _is_crossed(key: str, answer: Mapping[str, str]) -> bool:
    told = {name: " ".join(answer[name].split()) for name in STRAIGHT}
    if told not in (STRAIGHT, CROSSED):
        raise UserError(f"{SOLUTION}: record {key}: {told} is neither pairing; fetch the official file")
    return told == CROSSED
