"""CC-Neg (Singh et al., WACV 2025, arXiv:2403.20312): the caption of a picture against the same with a part negated.

Right where the picture is nearer to its caption; a tie is wrong. Where ties go to the first, it is the caption's, which
stands first with the authors (argmax). The last 40,000 rows are for evaluation, the others for training.

Checklist. Source: github.com/jaisidhsingh/CoN-CLIP, ccneg_dataset; hf.co/datasets/jaisidhsingh/ccneg. Licence: MIT
(code), pictures of CC3M each their own. Compared with the authors' code: the rule and the last 40,000 rows, read in
README.md, src/configs and src/data/evaluation_datasets.py, which takes commas out of negated captions. Not compared:
any real file: the authors' list is a pickle, which can run code and is not read; docs/captions.md says how it is
written as lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from compclip.benchmarks import _choice, _tables
from compclip.benchmarks._files import images_folder, one_file, read_field, read_lines, select_split
from compclip.evaluate.benchmark import Benchmark, Record
from compclip.evaluate.embeddings import Embeddings
from compclip.runs.item_outcomes import COMPOSITION, Items

FILE = "ccneg.jsonl"
HELD_OUT = 40_000  # rows at the end of the list
SPLITS = ("test", "train", "all")
SUBSET = "all"
METRIC = "accuracy"
METRICS = (METRIC,)
HEADLINE = (METRIC,)
RECOGNISES = (FILE,)
NEGATIVE_FAMILIES = ("con_clip",)  # trained on the other rows of this list


def load(path: str | Path, images: str | Path | None = None, split: str = "") -> Benchmark:
    """Read the lines {image, caption, negative}, or their folder, in the order of the authors' list.

    `split`: test, the last 40,000, unless told; train, those before; all. A picture is found at an end of its path in
    `images`. Raises UserError for a missing file, a line that is not JSON, or a record without a field.
    """
    split = select_split(path, split, SPLITS)
    file = one_file(Path(path), FILE)
    pictures = images_folder(file.parent, images)
    rows = read_lines(file)
    first_held_out = max(0, len(rows) - HELD_OUT)
    selected = {"test": rows[first_held_out:], "train": rows[:first_held_out], "all": rows}[split]
    records = tuple(_read_record(file, str(number), row, pictures) for number, row in selected)
    return Benchmark(records, (file,), evaluate, kind=COMPOSITION)


def _read_record(file: Path, key: str, row: Any, pictures: Path) -> Record:
    """Read a line. Its id is its number; commas of a negated caption are left out, as the authors do."""
    picture = _tables.find_picture(pictures, read_field(file, key, row, "image"))
    texts = read_field(file, key, row, "caption"), read_field(file, key, row, "negative").replace(",", "")
    return Record(SUBSET, key, (picture,), texts)


def evaluate(records: Sequence[Record], embeddings: Embeddings) -> dict[str, Items]:
    """Return 1 for each record whose caption wins."""
    by_subset = _choice.choose(records, embeddings)
    return {METRIC: by_subset[SUBSET]} if by_subset else {}
