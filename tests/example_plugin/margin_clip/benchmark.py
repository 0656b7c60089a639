"""Pairs of captions: JSON with one `{"image": …, "right": …, "wrong": …}` a record; right where the right one is nearer."""

from __future__ import annotations

from pathlib import Path

from compclip.benchmarks import _choice
from compclip.benchmarks._files import images_folder, read_field, read_rows
from compclip.evaluate.benchmark import Benchmark, Record
from compclip.runs.item_outcomes import COMPOSITION

METRICS = ("pairs",)
HEADLINE = ("pairs",)
FIELDS = ("image", "right", "wrong")


def load(path: str | Path, images: str | Path | None = None, split: str = "") -> Benchmark:
    """The file's records, named by their place. Raises UserError for a record of another form."""
    file = Path(path)
    folder = images_folder(file.parent, images)
    records = []
    for i, row in enumerate(read_rows(file, list)):
        image, right, wrong = (read_field(file, str(i), row, name) for name in FIELDS)
        records.append(Record("pairs", str(i), (str(folder / image),), (right, wrong)))
    return Benchmark(tuple(records), (file,), _choice.choose, kind=COMPOSITION)
