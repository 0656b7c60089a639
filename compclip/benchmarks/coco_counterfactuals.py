"""COCO-Counterfactuals (Le et al., NeurIPS 2023, arXiv:2309.14356): retrieval among pictures made to differ in a noun.

Each pair is two pictures, each with its caption. All pictures and captions are one pool, scored as `retrieval` does:
Recall@1, 5, 10 both ways, ties wrong, so that no picture finds a caption that stands twice; else as in `retrieval`.
FSC-CLIP draws 5,223 of the 17,410 pairs at random and does not publish which: `split: 5223` takes as many, evenly
spread over the file. All pairs are 34,820 pictures and as many captions, whose scores are looked at in blocks.

Source: hf.co/datasets/Intel/COCO-Counterfactuals, CC BY 4.0. Compared: recall with CLIP_benchmark's code, equal where
no scores tie. Not compared: numbers on the real pictures.
"""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any

from compclip.base.errors import UserError
from compclip.benchmarks import _captioned, _tables, retrieval
from compclip.benchmarks._files import check_unique, images_folder, read_field, read_fields, spread_evenly
from compclip.evaluate.benchmark import Benchmark, Record
from compclip.runs.item_outcomes import RETRIEVAL

FILE = "examples.jsonl"
METRICS = retrieval.METRICS
HEADLINE = retrieval.HEADLINE
BENCHMARK_GROUP = "retrieval"
RECOGNISES = ("examples.jsonl", "*.parquet")
FILE_HEAD = r'\A(?!.*"(tag|collapsed_tag)")(?!.*"ex_\d+_img_0")(?=.*"image_0").*"caption_0"'  # Winoground's have tags


def load(path: str | Path, images: str | Path | None = None, split: str = "") -> Benchmark:
    """Read the folder of `examples.jsonl`; pictures are `<image_0>.jpg` in `images`. `split`: how many pairs, else all.

    Or a folder of *.parquet, or one of them, with the pictures inside.
    Raises UserError for a missing file, a line that is not JSON, a record without a field, or a `split` that is no
    number of pairs.
    """
    files, rows = _tables.lines_or_rows(Path(path), FILE)
    file = files[0]
    pictures = images_folder(files[0].parent, images)
    pairs = [_pair(file, number, row, pictures) for number, row in rows]
    if split and not (split.isdecimal() and 1 <= int(split) <= len(pairs)):
        numbers = f"a number of pairs, 1 to {len(pairs)}"
        raise UserError(f"{file}: split={split!r}: must be {numbers}; without it all are scored")
    drawn = spread_evenly(pairs, int(split or len(pairs)))
    records = check_unique(file, list(chain.from_iterable(drawn)))
    dropped = {"not_drawn": 2 * len(pairs) - len(records)}
    return Benchmark(records, files, retrieval.evaluate, dropped=dropped, kind=RETRIEVAL)


def _pair(file: Path, number: int, row: Any, pictures: Path) -> list[Record]:
    """Read the original and its counterfactual, each a picture with one caption."""
    key = str(read_field(file, f"at line {number}", row, "id", (int, str)))
    records = []
    for i in (0, 1):
        name, caption = read_fields(file, key, row, (f"image_{i}", f"caption_{i}"))
        picture = _tables.named_picture(pictures, name, ".jpg")
        records.append(Record(_captioned.SUBSET, f"{key}_{i}", (picture,), (caption,)))
    return records
