"""ColorSwap (Burapacheep et al., 2024, arXiv:2402.04492): two pictures, two captions whose colours are exchanged.

Winoground's text, image and group score; ties are wrong. `group` is the number of vl_compo's tables.

Checklist. Source: github.com/Top34051/colorswap and hf.co/datasets/stanfordnlp/colorswap (gated). Licence: MIT.
Compared with the authors' code: no, the scores are Winoground's, which were. Not compared: any real file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from compclip.benchmarks import _tables, winoground
from compclip.benchmarks._files import check_unique, images_folder, read_field, read_fields
from compclip.evaluate.benchmark import Benchmark, Record
from compclip.runs.item_outcomes import COMPOSITION

METRICS = winoground.METRICS
RECOGNISES = ("test*.parquet", "test.json")
FILE_HEAD = r'\A(?=.*"image_2").*"caption_2"'


def load(path: str | Path, images: str | Path | None = None, split: str = "") -> Benchmark:
    """Read the folder of the authors' `<split>.json`, or of the hub's tables; `split`: test unless told, or train.

    Pictures are `<image_1>` (`images/img_0_1.png`) seen from `images`, or that name alone in it. Raises UserError for
    a missing file, or a record without a field.
    """
    files, rows = _tables.read_table(Path(path), split or "test")
    pictures = images_folder(files[0].parent, images)
    records = check_unique(files[0], [_record(files[0], position, row, pictures) for position, row in rows])
    return Benchmark(records, files, winoground.evaluate, kind=COMPOSITION)


def _record(file: Path, position: str, row: Any, pictures: Path) -> Record:
    key = str(read_field(file, f"at place {position}", row, "id", (int, str)))
    images = _tables.find_pictures(pictures, read_fields(file, key, row, ("image_1", "image_2")))
    return Record(winoground.SUBSET, key, images, read_fields(file, key, row, ("caption_1", "caption_2")))
