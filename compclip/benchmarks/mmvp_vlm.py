"""MMVP-VLM (Tong et al., CVPR 2024, arXiv:2401.06209): pairs of pictures that CLIP takes for alike, nine patterns.

Each picture has a statement, read as "a photo of <statement>". The authors' accuracy of a pair, that each statement
chooses its own picture, is `image`; Winoground's `text` and `group` are beside it, as vl_compo counts them. Ties are
wrong, also where they go to the first; the authors give a tie to the second picture. Every pattern weighs the same in
`text`, `image` and `group`, the last of which is the number of vl_compo's tables (its 202 models: the mean of its nine
groups to 5e-9).

Checklist. Source: hf.co/datasets/MMVP/MMVP_VLM, github.com/tsb0601/MMVP scripts/evaluate_vlm.py. Licence: MIT.
Compared with the authors' code: the rule, read. Not compared: any real file; whether vl_compo adds "a photo of".
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from compclip.base.errors import UserError, unknown
from compclip.benchmarks import _pairs, _table
from compclip.benchmarks._files import value
from compclip.evaluate.benchmark import Benchmark, Record
from compclip.runs.items import COMPOSITION

FILE = "Questions.csv"
FOLDERS = ("MLLM_VLM Images", "MMVP_VLM_Images", "images")  # of the hub, and of the README
COLUMNS = ("Question ID", "Type", "Statement")
PROMPT = "a photo of "
PATTERNS = {  # the first word of a Type, as the file, the README or the paper has it
    "orientation": "orientation", "presence": "presence", "state": "state", "quantity": "quantity",
    "spatial": "spatial", "positional": "spatial", "color": "colour", "structural": "structure", "text": "writing",
    "texts": "writing", "viewpoint": "viewpoint", "camera": "viewpoint",
}  # fmt: skip
METRICS = _pairs.metrics(dict.fromkeys(PATTERNS.values()))


def load(path: str | Path, images: str | Path | None = None, split: str = "") -> Benchmark:
    """The folder of `Questions.csv`; pictures are `<Type>/<Question ID>.jpg` in `images`. There are no splits.

    Raises UserError for a missing file or column, an unknown pattern, or rows that do not come in pairs: 1 and 2, 3
    and 4, each of one pattern.
    """
    if split:
        raise UserError(f"benchmark mmvp_vlm: split={split!r}: it has no splits; leave split out")
    folder = Path(path)
    file, pictures = folder / FILE, _pictures(folder, images)
    rows = [row for _, row in _table.columns(file, COLUMNS)]
    if len(rows) % 2:
        raise UserError(f"{file}: {len(rows)} rows do not make pairs; fetch the official file")
    records = tuple(_record(file, pictures, *pair) for pair in zip(rows[::2], rows[1::2], strict=True))
    return Benchmark(
        records, (file,), _pairs.evaluate, _pairs.means(dict.fromkeys(PATTERNS.values())), kind=COMPOSITION
    )


def _pictures(folder: Path, images: str | Path | None) -> Path:
    """The folder of the patterns' folders."""
    base = Path(images) if images else folder
    return next((base / name for name in FOLDERS if (base / name).is_dir()), base)


def _record(file: Path, pictures: Path, one: Any, two: Any) -> Record:
    """A pair, known by its first question: the first has an odd number, the second the next one."""
    first, second = (_table.whole(file, "?", row, COLUMNS[0]) for row in (one, two))
    kinds = [value(file, str(first), row, "Type") for row in (one, two)]
    if not first % 2 or second != first + 1 or kinds[0] != kinds[1]:
        raise UserError(f"{file}: questions {first} and {second} are no pair of one Type; fetch the official file")
    shown = tuple(str(pictures / kinds[0] / f"{number}.jpg") for number in (first, second))
    return Record(_pattern(file, first, kinds[0]), str(first), shown, (_text(one), _text(two)))


def _pattern(file: Path, number: int, kind: str) -> str:
    word = kind.replace("_", " ").lower().split()[:1]
    if not word or word[0] not in PATTERNS:
        raise unknown("pattern", kind, PATTERNS, f"{file}: question {number}")
    return PATTERNS[word[0]]


def _text(row: Any) -> str:
    """Nothing where there is no statement, so that the record is counted as one without a text."""
    statement = row["Statement"].strip()
    return PROMPT + statement if statement else ""
