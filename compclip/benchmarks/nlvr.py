"""NLVR (Suhr et al., ACL 2017): sentences about drawings of shapes, each true of some and false of others.

E examples of a sentence, P pictures of an example.

The authors ask true or false of each drawing; a model that scores pairs has no threshold. Here a sentence is scored by
its own drawings: `pairs` is the share of its pairs of a true and a false drawing in which the true one is nearer, equal
ones wrong; 0.5 is chance. `all_pairs` is the share of sentences of which every pair is right, as strict as the authors'
consistency. Sentences that are only true or only false are left out and counted. Each example has six drawings, the
same boxes in another order.

Checklist. Source: github.com/lil-lab/nlvr, nlvr/. Licence: CC BY 4.0. Compared with the authors' code: no, the rule is
ours. The released development set has 989 examples of 267 presentations, 246 of them with both labels, and every
drawing of them. Not compared: anybody's numbers by this rule, of which none are known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from compclip.benchmarks._files import (
    existing_file,
    first_folder,
    images_folder,
    read_choice,
    read_field,
    read_fields,
    read_lines,
    select_split,
)
from compclip.evaluate.benchmark import Benchmark, Record, ids, readable
from compclip.evaluate.embeddings import Embeddings
from compclip.runs.item_outcomes import COMPOSITION, Items

SPLITS = ("dev", "test", "train")
LABELS = ("true", "false")
ORDERS = 6  # drawings of an example
SUBSET = "all"
METRICS = ("pairs", "all_pairs")
HEADLINE = ("pairs",)
RECOGNISES = ("dev.json",)
FILE_HEAD = r'"identifier"\s*:\s*"\d+-\d+"'  # NLVR2's begin with their split
Example = tuple[str, bool, tuple[str, ...]]  # sentence, whether it is true, pictures
Merge = Callable[[np.ndarray], np.ndarray]
Truths = Mapping[str, tuple[bool, ...]]  # of a record: whether its sentence is true of each of its examples


def load(path: str | Path, images: str | Path | None = None, split: str = "") -> Benchmark:
    """Read `<split>.json`, a JSON object a line, of a folder, or of the folder `<split>` in it; dev unless told.

    Drawings are `<directory>/<split>-<identifier>-<0 to 5>.png` in `images`. Raises UserError for an unknown split, a
    missing file, a line that is not JSON, or an example without a field.
    """
    split = select_split(path, split, SPLITS)
    folder = first_folder(Path(path), split)
    file = existing_file(folder / f"{split}.json")
    pictures = images_folder(folder, images)
    examples: dict[str, list[Example]] = {}
    for number, row in read_lines(file):
        identifier = read_field(file, f"at line {number}", row, "identifier")
        example = _read_example(file, split, identifier, row, pictures)
        examples.setdefault(identifier.rpartition("-")[0], []).append(example)
    return make_benchmark(file, examples)


def reads(path: str | Path, split: str = "") -> list[Path]:
    """List the files beside pictures that `load` reads."""
    split = select_split(path, split, SPLITS)
    return [first_folder(Path(path), split) / f"{split}.json"]


def _read_example(file: Path, split: str, identifier: str, row: Any, pictures: Path) -> Example:
    sentence, directory = read_fields(file, identifier, row, ("sentence", "directory"))
    is_true = read_choice(file, identifier, row, "label", LABELS) == "true"
    names = tuple(str(pictures / directory / f"{split}-{identifier}-{order}.png") for order in range(ORDERS))
    return sentence, is_true, names


def make_benchmark(file: Path, examples: Mapping[str, Sequence[Example]], merge: Merge = np.asarray) -> Benchmark:
    """Make a record of each sentence that is true of some of its examples and false of others, by their common id.

    `merge` makes the scores of examples [E, P] of those of their pictures [E, P]; fewer columns where pictures belong
    together.
    """
    records = []
    truths = {}
    for key, rows in examples.items():
        sentences, labels, pictures = zip(*rows, strict=True)
        if len(set(labels)) == 2:
            records.append(Record(SUBSET, key, tuple(chain.from_iterable(pictures)), sentences[:1]))
            truths[key] = labels
    dropped = {"one_label": len(examples) - len(records)}
    return Benchmark(tuple(records), (file,), partial(evaluate, truths, merge), dropped=dropped, kind=COMPOSITION)


def evaluate(truths: Truths, merge: Merge, records: Sequence[Record], embeddings: Embeddings) -> dict[str, Items]:
    """Return the share of pairs of a true and a false example that are in order, and whether all are, by sentence."""
    shares = []
    tied = []
    scored = readable(records, embeddings)
    for record in scored:
        score_P = embeddings.matches(record.images, record.texts * len(record.images))
        is_true_E = np.array(truths[record.id])
        score_EP = merge(score_P.reshape(len(is_true_E), -1))
        true_P = score_EP[is_true_E].ravel()
        false_P = score_EP[~is_true_E].ravel()
        shares.append(np.mean(true_P[:, None] > false_P))
        if np.any(true_P[:, None] == false_P):
            tied.append(record.id)
    share_N = np.array(shares)
    pairs = Items(ids(scored), share_N, SUBSET, tuple(tied))
    return {"pairs": pairs, "all_pairs": replace(pairs, values=(share_N == 1).astype(np.float64))}
