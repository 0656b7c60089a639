"""VisMin (Awal et al., NeurIPS 2024, arXiv:2407.16772): two pictures that differ in one thing, each with its caption.

An object, an attribute, a count or a place. Winoground's text, image and group score of each category, and the means
over the categories. Ties are wrong, as in the authors' code.

`text_0` belongs to `image_0` and `text_1` to `image_1`: so the authors' program compares the rows since January 2025.
The rows of November 2024 were mixed, and a file of answers, `sim_solution.csv`, said how; nothing in a row tells which
of the two it is. Rows that were fetched before belong fetched again, and answers that cross a pair are refused.

Checklist. Source: hf.co/datasets/mair-lab/vismin-bench, github.com/rabiulcste/vismin (vismin-bench/eval.py, metric.py).
Licence: CC BY 4.0. Compared with the authors' code: the rules, on all small score tables. Not compared: real pictures.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from compclip.base.errors import UserError
from compclip.benchmarks import _tables, winoground
from compclip.benchmarks._files import images_folder, read_field, read_fields, selected_names
from compclip.evaluate.benchmark import Benchmark, Record
from compclip.runs.item_outcomes import COMPOSITION

SOLUTIONS = ("sim_solution.csv", "solutions/sim_solution.csv")
STRAIGHT = {"Text": "T0_I0 > T1_I0 & T1_I1 > T0_I1", "Image": "T0_I0 > T0_I1 & T1_I1 > T1_I0"}
METRICS = winoground.metrics_by_subset(["*"])  # the categories are those of the file
RECOGNISES = ("*.arrow", "*.parquet", "test.jsonl", "test.json", "test.csv")
FILE_HEAD = r"\A(?=.*\btext_0\b)(?=.*\btext_1\b).*\bcategory\b"
CATEGORY = re.compile(r"[a-z][a-z_ ]{0,40}")


def load(path: str | Path, images: str | Path | None = None, split: str = "") -> Benchmark:
    """Read the folder of the hub's `data/test/*.arrow`; or the same rows as *.parquet, `test.jsonl`, `.json` or `.csv`.

    The latter three have pictures by their paths in `images`.

    `split` names some categories, all without it. Raises UserError for a missing file, answers of the mixed release
    beside the rows, or a record without a field.
    """
    files, rows = _tables.read_table(Path(path), "test")
    folder = Path(path) if Path(path).is_dir() else Path(path).parent
    for solution in SOLUTIONS:
        _check_straight(folder / solution)
    pictures = images_folder(files[0].parent, images)
    records = [_record(files[0], *row, pictures) for row in rows]
    categories = selected_names(files[0], dict.fromkeys(record.subset for record in records), split)
    selected = tuple(record for record in records if record.subset in categories)
    return Benchmark(
        selected, files, winoground.items_by_subset, winoground.means_over_subsets(categories), kind=COMPOSITION
    )


def _check_straight(solution: Path) -> None:
    """Raise UserError for a file of answers by which a pair is to be read the other way round."""
    if not solution.is_file():
        return
    answers = _tables.read_columns(solution, tuple(STRAIGHT))
    crossed = 0
    for _, answer in answers:
        crossed += any(answer[name].split() != rule.split() for name, rule in STRAIGHT.items())
    if crossed:
        raise UserError(
            f"{solution}: {crossed} of {len(answers)} answers are crossed: they are of November 2024, when the rows "
            "were mixed; today's rows compare straight: fetch the rows again and remove this file"
        )


def _record(file: Path, key: str, row: Any, pictures: Path) -> Record:
    category = read_field(file, key, row, "category")
    if not CATEGORY.fullmatch(category):
        raise UserError(f"{file}: record {key}: category {category!r} is no category; fetch the official file")
    texts = read_fields(file, key, row, ("text_0", "text_1"))
    images = _tables.find_pictures(pictures, read_fields(file, key, row, ("image_0", "image_1")))
    return Record(category.replace(" ", "_"), key, images, texts)
