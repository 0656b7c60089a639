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
from compclip.benchmarks import _tables, winoground
from compclip.benchmarks._files import first_folder, read_field, refuse_split
from compclip.evaluate.benchmark import Benchmark, Record
from compclip.runs.item_outcomes import COMPOSITION

FILE = "Questions.csv"
FOLDERS = ("MLLM_VLM Images", "MMVP_VLM_Images", "images")  # of the hub, and of the README
COLUMNS = ("Question ID", "Type", "Statement")
PROMPT = "a photo of "
PATTERNS = {  # the first word of a Type, as the file, the README or the paper has it
    "orientation": "orientation", "presence": "presence", "state": "state", "quantity": "quantity",
    "spatial": "spatial", "positional": "spatial", "color": "colour", "structural": "structure", "text": "writing",
    "texts": "writing", "viewpoint": "viewpoint", "camera": "viewpoint",
}  # fmt: skip
METRICS = winoground.metrics_by_subset(dict.fromkeys(PATTERNS.values()))
RECOGNISES = (FILE,)
FILE_HEAD = "Question ID"


def load(path: str | Path, images: str | Path | None = None, split: str = "") -> Benchmark:
    """Read the folder of `Questions.csv`; pictures are `<Type>/<Question ID>.jpg` in `images`. There are no splits.

    Raises UserError for a missing file or column, an unknown pattern, or rows that do not come in pairs: 1 and 2, 3
    and 4, each of one pattern.
    """
    refuse_split("mmvp_vlm", split)
    file = Path(path) / FILE
    pictures = first_folder(Path(images or path), *FOLDERS)
    rows = [row for _, row in _tables.read_columns(file, COLUMNS)]
    if len(rows) % 2:
        raise UserError(f"{file}: {len(rows)} rows do not make pairs; fetch the official file")
    records = tuple(_record(file, pictures, *pair) for pair in zip(rows[::2], rows[1::2], strict=True))
    means = winoground.means_over_subsets(dict.fromkeys(PATTERNS.values()))
    return Benchmark(records, (file,), winoground.items_by_subset, means, kind=COMPOSITION)


def reads(path: str | Path, split: str = "") -> list[Path]:
    """List the files beside pictures that `load` reads."""
    return [Path(path) / FILE]


def _record(file: Path, pictures: Path, first_row: Any, second_row: Any) -> Record:
    """Read a pair, identified by its first question, which has an odd number; the second has the next one."""
    first = _tables.whole_number(file, "?", first_row, COLUMNS[0])
    second = _tables.whole_number(file, "?", second_row, COLUMNS[0])
    kind = read_field(file, str(first), first_row, "Type")
    if not first % 2 or second != first + 1 or read_field(file, str(first), second_row, "Type") != kind:
        raise UserError(f"{file}: questions {first} and {second} are no pair of one Type; fetch the official file")
    word = " ".join(kind.replace("_", " ").lower().split()[:1])
    if word not in PATTERNS:
        raise unknown("pattern", kind, PATTERNS, f"{file}: question {first}")
    images = (str(pictures / kind / f"{first}.jpg"), str(pictures / kind / f"{second}.jpg"))
    return Record(PATTERNS[word], str(first), images, (_text(first_row), _text(second_row)))


def _text(row: Any) -> str:
    """Return the prompt; "" without a statement, so that the record counts as one without a text."""
    statement = row["Statement"].strip()
    return PROMPT + statement if statement else ""
