"""NLVR2 (Suhr et al., ACL 2019, arXiv:1811.00491): sentences about two photographs, true of some and false of others.

As `nlvr`: of each sentence the share of its pairs of a true and a false example in which the true one is nearer
(`pairs`), and whether all are (`all_pairs`). The score of an example is the mean of the sentence's cosines with its two
photographs, so that a model of one picture cannot tell left from right: no number of the leaderboard.

Checklist. Source: github.com/lil-lab/nlvr, nlvr2/data. Licence: CC BY 4.0 (sentences), pictures each their own, which
the authors hand out on request. Compared with the authors' code: no, the rule is ours; which examples ask about one
sentence is read off their eval/metrics.py. Not compared: any real file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from compclip.base.errors import UserError
from compclip.benchmarks import nlvr
from compclip.benchmarks._files import (
    existing_file,
    first_existing,
    images_folder,
    read_choice,
    read_field,
    read_lines,
    select_split,
)
from compclip.evaluate.benchmark import Benchmark
from compclip.runs.item_outcomes import COMPOSITION

SPLITS = ("dev", "test1", "test2", "train")
METRICS = nlvr.METRICS
HEADLINE = nlvr.HEADLINE
RECOGNISES = ("dev.json",)
FILE_HEAD = r'"identifier"\s*:\s*"dev-\d+-\d+-\d+"'  # NLVR's are two numbers


def load(path: str | Path, images: str | Path | None = None, split: str = "") -> Benchmark:
    """Read `<split>.json`, a JSON object a line, of the authors' folder `data`; dev unless told.

    Photographs are `<split>-<set>-<pair>-img0.png` and `…-img1.png` in `images`, or in the folder there that bears the
    split's name or the row's `directory`. Raises UserError for an unknown split, a missing file, a line that is not
    JSON, or an example without a field.
    """
    split = select_split(path, split, SPLITS)
    file = existing_file(Path(path) / f"{split}.json")
    pictures = images_folder(Path(path), images)
    examples: dict[str, list[nlvr.Example]] = {}
    for number, row in read_lines(file):
        identifier = read_field(file, f"at line {number}", row, "identifier")
        id_fields = identifier.split("-")
        if len(id_fields) != 4:
            raise UserError(f"{file}: record {identifier}: expected split-set-pair-sentence; fetch the official file")
        sentence_id = f"{id_fields[1]}-{id_fields[3]}"
        examples.setdefault(sentence_id, []).append(_read_example(file, split, identifier, row, pictures))
    benchmark = nlvr.make_benchmark(file, examples, average_pictures)
    return Benchmark(benchmark.records, (file,), benchmark.evaluate, dropped=benchmark.dropped, kind=COMPOSITION)


def reads(path: str | Path, split: str = "") -> list[Path]:
    """List the files beside pictures that `load` reads."""
    return [Path(path) / f"{select_split(path, split, SPLITS)}.json"]


def _read_example(file: Path, split: str, identifier: str, row: Any, pictures: Path) -> nlvr.Example:
    """Read the sentence, its label and its two photographs."""
    stem = identifier.rpartition("-")[0]
    folder = str(row.get("directory", ""))  # of the pictures of train alone
    folders = (pictures, pictures / split, pictures / folder, pictures / split / folder)
    names = tuple(first_existing(folder / f"{stem}-img{side}.png" for folder in folders) for side in (0, 1))
    is_true = read_choice(file, identifier, {"label": str(row.get("label")).lower()}, "label", nlvr.LABELS) == "true"
    return read_field(file, identifier, row, "sentence"), is_true, names


def average_pictures(score_EP: np.ndarray) -> np.ndarray:
    """Return one score an example: the mean over its photographs."""
    return score_EP.mean(axis=1, keepdims=True)
