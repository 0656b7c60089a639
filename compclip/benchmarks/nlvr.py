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
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from compclip.base.errors import unknown
from compclip.benchmarks._files import existing_file, images_folder, read_choice, read_field, read_lines
from compclip.evaluate.benchmark import Benchmark, Record, readable
from compclip.evaluate.embeddings import Embeddings
from compclip.runs.item_outcomes import COMPOSITION, Items

SPLITS = ("dev", "test", "train")
LABELS = ("true", "false")
ORDERS = 6  # drawings of an example
SUBSET = "all"
METRICS = ("pairs", "all_pairs")
HEADLINE = ("pairs",)
Example = tuple[str, bool, tuple[str, ...]]  # sentence, whether it is true, pictures
Merge = Callable[[np.ndarray], np.ndarray]
Truths = Mapping[str, tuple[bool, ...]]  # of a record: whether its sentence is true of each of its examples


def load(path: str | Path, images: str | Path | None = None, split: str = "") -> Benchmark:
    """Read `<split>.json`, a JSON object a line, of a folder, or of the folder `<split>` in it; dev unless told.

    Drawings are `<directory>/<split>-<identifier>-<0 to 5>.png` in `images`. Raises UserError for an unknown split, a
    missing file, a line that is not JSON, or an example without a field.
    """
    split = split or "dev"
    if split not in SPLITS:
        raise unknown("split", split, SPLITS, str(path))
    folder = Path(path) / split if (Path(path) / split).is_dir() else Path(path)
    file = existing_file(folder / f"{split}.json")
    pictures = images_folder(folder, images)
    examples: dict[str, list[Example]] = {}
    for number, row in read_lines(file):
        identifier = read_field(file, f"at line {number}", row, "identifier")
        example = _read_example(file, split, identifier, row, pictures)
        examples.setdefault(identifier.rpartition("-")[0], []).append(example)
    return make_benchmark(file, examples)


def _read_example(file: Path, split: str, identifier: str, row: Any, pictures: Path) -> Example:
    sentence = read_field(file, identifier, row, "sentence")
    directory = read_field(file, identifier, row, "directory")
    is_true = read_choice(file, identifier, row, "label", LABELS) == "true"
    names = tuple(str(pictures / directory / f"{split}-{identifier}-{order}.png") for order in range(ORDERS))
    return sentence, is_true, names


def make_benchmark(file: Path, examples: Mapping[str, Sequence[Example]], merge: Merge = np.asarray) -> Benchmark:
    """Make a record of each sentence that is true of some of its examples and false of others, by their common id.

    `merge` makes the scores of examples [E, P] of those of their pictures [E, P]; fewer columns where pictures belong
    together.
    """
    both = {key: rows for key, rows in examples.items() if len({is_true for _, is_true, _ in rows}) == 2}
    records = tuple(
        Record(SUBSET, key, tuple(name for _, _, names in rows for name in names), (rows[0][0],))
        for key, rows in both.items()
    )
    truths = {key: tuple(is_true for _, is_true, _ in rows) for key, rows in both.items()}
    dropped = {"one_label": len(examples) - len(both)}
    return Benchmark(records, (file,), partial(evaluate, truths, merge), dropped=dropped, kind=COMPOSITION)


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
        tied += [record.id] * bool(np.any(true_P[:, None] == false_P))
    keys = tuple(record.id for record in scored)
    share_N = np.array(shares)
    values = {"pairs": share_N, "all_pairs": (share_N == 1).astype(np.float64)}
    return {name: Items(keys, values_N, SUBSET, tuple(tied)) for name, values_N in values.items()}
