"""Zero-shot classification with prompt ensembles: top-1, top-5, mean per class. Ties are wrong.

N images, C classes, P prompts, D joint dim.

Classes with the same prompts are one class: ImageNet has `missile` and `sunglasses` twice, and a tie with itself would
be wrong each time. Where ties go to the first they do so in the order of the classes, so that of two classes with the
same prompts the first has all pictures; CLIP_benchmark's topk takes any of equals and cannot be repeated.

A class is the normalised mean of the normalised embeddings of its prompts (Radford et al. 2021, Sec. 3.1.4). Sets of
several classes a picture have `map_11`, a set of two classes `roc_auc` where it is asked for; `elevater` is the one of
these numbers that ELEVATER averages.

CLIC's ZS-10 is 1,000 pictures of each of ten sets (its text names nine, its program flowers too):
`options: {sample: 1000}` draws them as its program does, by NumPy's shuffle of old and seed 1. They are the same
pictures where a set is in torchvision's order, as in the tars that CLIP_benchmark's program writes; folders have their
own order.

Source: github.com/LAION-AI/CLIP_benchmark (layouts, names, templates; MIT), github.com/openai/CLIP (names, templates;
MIT), github.com/Computer-Vision-in-the-Wild/Elevater_Toolkit_IC (metrics; MIT). Compared: ELEVATER's two metrics with
scikit-learn and the function of vision_evaluation 0.2.14, on made scores; CLIC's draw with its program's lines; the
order of ELEVATER's classes with its toolkit's lists. Not compared: the sets' own files, which were not at hand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from compclip.base.errors import UserError, unknown
from compclip.base.files import read_text
from compclip.benchmarks import _class_sets, _elevater, _parquet
from compclip.benchmarks._class_sets import ClassSet
from compclip.benchmarks._files import groups
from compclip.benchmarks._labelled import Labelled, in_folders, in_index, in_tables, in_tars
from compclip.config.how import WRONG
from compclip.evaluate import metrics
from compclip.evaluate.benchmark import Benchmark, Items, Record, ids, readable, those
from compclip.evaluate.embeddings import Embeddings
from compclip.runs.items import CLASSIFICATION

CLASSES, TEMPLATES = "classnames.txt", "zeroshot_classification_templates.txt"
SUBSET = "all"
KS = (1, 5)
AT_ONCE = 1 << 14  # pictures: 131 MB of scores for 1,000 classes
SEEDS = 2**32
ELEVATER = ("top_1", "mean_per_class", "map_11", "roc_auc")  # of which it counts one
METRICS = (*ELEVATER, "top_5", "elevater")


@dataclass(frozen=True)
class Config:
    """Where the class names come from, and how many pictures are scored."""

    classes: str = ""  # a known set's names and templates, as imagenet; without it those of the folder's two files
    sample: int = 0  # so many pictures, drawn by the seed from all of them; 0: all (CLIC's ZS-10: 1000)
    seed: int = 1
    metric: str = ""  # of ELEVATER the one that ELEVATER counts, told once more as `elevater`; else the known set's

    def __post_init__(self) -> None:
        if self.classes:
            _class_sets.file(self.classes)
        if self.sample < 0:
            raise UserError(f"sample={self.sample}: must be >= 0; 0 scores all pictures")
        if not 0 <= self.seed < SEEDS:
            raise UserError(f"seed={self.seed}: must be from 0 to 2**32 - 1")
        if self.metric and self.metric not in ELEVATER:
            raise unknown("metric", self.metric, ELEVATER, "metric")


def load(
    path: str | Path, images: str | Path | None = None, split: str = "", options: Config | None = None
) -> Benchmark:
    """A folder with `classnames.txt` and `zeroshot_classification_templates.txt` ({c} for the name), or a set of
    `options.classes`; pictures and their classes in `images`, its folder `split`, or beside these files:

    A folder of pictures a class, which bears its name, its number from 0 or its synset; where no folder bears a class's
    name, as many as there are classes are taken in sorted order, numbers by their value. Tars of webdataset. Parquet
    with pictures inside, which are unpacked into `images`. ELEVATER's index file, where `split` names it (`test.txt`,
    `test.json`). The class numbers of the last three are mapped by the names that the release ships (`_class_numbers`).
    Raises UserError for missing files, what fits no class or leaves two readings, a template without {c}.
    """
    folder, asked, lost = Path(path), options or Config(), Counter[str]()
    own, files = _class_set(folder, asked.classes)
    found, more = _labelled(folder, images, split, own, lost)
    records = tuple(Record(SUBSET, one.id, (one.ref,), ()) for one in found)
    chosen, sidecar = groups(folder, records)
    drawn = _drawn(len(found), asked)
    if asked.sample:
        lost["not_drawn"] = len(found) - len(drawn)
    metric = asked.metric or own.metric
    prompts = tuple(tuple(template.replace("{c}", name) for template in own.templates) for name in own.names)
    return Benchmark(
        tuple(records[i] for i in drawn),
        (*files, *more, *sidecar),
        _evaluation([found[i] for i in drawn], prompts, metric),
        {"elevater": (metric,)} if metric else {},
        chosen,
        dict(lost),
        shared_texts=tuple(p for texts in prompts for p in texts),
        kind=CLASSIFICATION,
    )


def _class_set(folder: Path, name: str) -> tuple[ClassSet, tuple[Path, ...]]:
    """The names and templates, and the files that they are from. Of the names one may be empty, as in CLEVR's."""
    if name:
        return _class_sets.get(name), (_class_sets.file(name),)
    files = folder / CLASSES, folder / TEMPLATES
    names, templates = (_lines(file) for file in files)
    if names.count("") > 1:
        raise UserError(f"{files[0]}: {names.count('')} lines are empty; write one class a line")
    for template in templates:
        if "{c}" not in template:
            raise UserError(f"{files[1]}: template {template!r} has no {{c}}; write {{c}} where the class name belongs")
    return ClassSet(tuple(names), tuple(templates)), files


def _lines(file: Path) -> list[str]:
    return [line.strip() for line in read_text(file).rstrip().split("\n")]


def _labelled(
    folder: Path, images: str | Path | None, split: str, own: ClassSet, lost: Counter[str]
) -> tuple[list[Labelled], tuple[Path, ...]]:
    """Pictures and classes in whatever layout they are, and the files that tell the classes."""
    base = Path(images) if images else folder / "images" if (folder / "images").is_dir() else folder
    place = base / split if split else base
    if split.endswith((".txt", ".json")):
        return in_index(folder / split, base, own)
    if any(place.glob("*.tar")):
        return in_tars(place, folder, own, lost)
    if _parquet.tables(folder, split):
        return in_tables(folder, base, split, own)
    if not place.is_dir():
        raise UserError(f"{place}: no such folder; give the folder that holds a folder for each class as images")
    return in_folders(place, own, lost), ()


def _drawn(size: int, asked: Config) -> list[int]:
    """The places of the pictures that are scored, in their order."""
    if not asked.sample or asked.sample >= size:
        return list(range(size))
    places = np.arange(size)
    np.random.RandomState(asked.seed).shuffle(places)  # as CLIC's program; newer generators shuffle otherwise
    return sorted(places[: asked.sample].tolist())


def _evaluation(
    found: Sequence[Labelled], prompts: Sequence[Sequence[str]], metric: str
) -> Callable[[Sequence[Record], Embeddings], dict[str, Items]]:
    """Pictures of several classes each are ranked class by class; others choose their own."""
    if metric == "map_11" or any(len(one.classes) > 1 for one in found):
        return partial(evaluate_several, shown={one.id: one.classes for one in found}, prompts=prompts)
    labels = {one.id: one.classes[0] for one in found}
    return partial(evaluate_two if metric == "roc_auc" else evaluate, labels=labels, prompts=prompts)


def evaluate(
    records: Sequence[Record], embeddings: Embeddings, labels: Mapping[str, int], prompts: Sequence[Sequence[str]]
) -> dict[str, Items]:
    """top_1, top_5 (only where there are more than five classes) and mean_per_class over the classes with images."""
    part = readable(records, embeddings)
    if not part:
        return {}
    label_N = np.array([labels[record.id] for record in part])
    found = _top(part, label_N, embeddings, prompts)
    tied = those(ids(part), found.pop("tied"))
    found["mean_per_class"] = balanced(found["top_1"], label_N)
    return {name: Items(ids(part), outcome_N, SUBSET, tied) for name, outcome_N in found.items()}


def _top(
    part: Sequence[Record], label_N: np.ndarray, embeddings: Embeddings, prompts: Sequence[Sequence[str]]
) -> dict[str, np.ndarray]:
    """Outcomes by metric, of so many pictures at once that their scores do not fill the memory."""
    ks = [k for k in KS if k == 1 or k < len(prompts)]
    one_C = _same(prompts) if embeddings.ties == WRONG else None
    class_UD, class_C = _classes_of(embeddings, prompts)
    found = [
        metrics.top_k_outcomes(_cosines(some, embeddings, class_UD)[:, class_C], label_B, ks, embeddings.ties, one_C)
        for start in range(0, len(part), AT_ONCE)
        for some, label_B in [(part[start : start + AT_ONCE], label_N[start : start + AT_ONCE])]
    ]
    return {name: np.concatenate([one[name] for one in found]) for name in found[0]}


def _same(prompts: Sequence[Sequence[str]]) -> np.ndarray:
    """Of each class the first with its prompts, shape C."""
    first: dict[tuple[str, ...], int] = {}
    return np.array([first.setdefault(tuple(own), number) for number, own in enumerate(prompts)])


def _scores(part: Sequence[Record], embeddings: Embeddings, prompts: Sequence[Sequence[str]]) -> np.ndarray:
    """Cosines of pictures and classes, shape [N, C]; those of equal classes are equal, to the last bit."""
    class_UD, class_C = _classes_of(embeddings, prompts)
    return _cosines(part, embeddings, class_UD)[:, class_C]


def _classes_of(embeddings: Embeddings, prompts: Sequence[Sequence[str]]) -> tuple[np.ndarray, np.ndarray]:
    """The different classes' vectors [U, D], and which of them each class is."""
    first_U, class_C = np.unique(_same(prompts), return_inverse=True)
    return np.stack([_class_vector(embeddings.texts(prompts[first])) for first in first_U]), class_C


def _cosines(part: Sequence[Record], embeddings: Embeddings, class_UD: np.ndarray) -> np.ndarray:
    return embeddings.images([record.images[0] for record in part]) @ class_UD.T


def _class_vector(prompt_PD: np.ndarray) -> np.ndarray:
    mean_D = prompt_PD.mean(0)
    return mean_D / np.linalg.norm(mean_D)


def balanced(outcome_N: np.ndarray, label_N: np.ndarray) -> np.ndarray:
    """Outcomes weighted so that their mean is the mean over classes of each class's accuracy; some exceed 1."""
    _, class_N, size_C = np.unique(label_N, return_inverse=True, return_counts=True)
    return outcome_N * len(label_N) / (len(size_C) * size_C[class_N])


def evaluate_two(
    records: Sequence[Record], embeddings: Embeddings, labels: Mapping[str, int], prompts: Sequence[Sequence[str]]
) -> dict[str, Items]:
    """The same, and `roc_auc`: for each picture of class 1 the share of those of class 0 that are less like it.

    Raises UserError for other than two classes.
    """
    if len(prompts) != 2:
        raise UserError(f"zeroshot: metric=roc_auc: {len(prompts)} classes; it is of two alone")
    part = readable(records, embeddings)
    found = evaluate(records, embeddings, labels, prompts)
    shown_N = np.array([labels[record.id] == 1 for record in part], dtype=bool)
    if shown_N.any() and not shown_N.all():
        score_N = _elevater.probabilities(_scores(part, embeddings, prompts))[:, 1]
        positives = tuple(record.id for record, shown in zip(part, shown_N, strict=True) if shown)
        above_P = _elevater.above_negatives(score_N[shown_N], score_N[~shown_N])
        found["roc_auc"] = Items(positives, above_P, "of_class_1")
    return found


def evaluate_several(
    records: Sequence[Record],
    embeddings: Embeddings,
    shown: Mapping[str, tuple[int, ...]],
    prompts: Sequence[Sequence[str]],
) -> dict[str, Items]:
    """`map_11`, whose items are the classes that a picture shows: their 11-point average precision."""
    part = readable(records, embeddings)
    if not part:
        return {}
    shown_NC = np.zeros((len(part), len(prompts)), dtype=bool)
    for row, record in enumerate(part):
        shown_NC[row, list(shown[record.id])] = True
    probability_NC = _elevater.probabilities(_scores(part, embeddings, prompts))
    classes = np.flatnonzero(shown_NC.any(0)).tolist()
    found = [_elevater.precision_11(probability_NC[:, c], shown_NC[:, c]) for c in classes]
    return {"map_11": Items(tuple(map(str, classes)), np.array(found), "classes")}
