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

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import ClassVar

import numpy as np

from compclip.base.errors import UserError
from compclip.benchmarks import _class_sets, _tables
from compclip.benchmarks._class_sets import ClassSet
from compclip.benchmarks._files import check_name, first_folder, read_groups
from compclip.benchmarks._labelled import Labelled, class_folders, in_folders, in_index, in_tables, in_tars
from compclip.config.sections import WRONG
from compclip.evaluate import metrics
from compclip.evaluate.benchmark import Benchmark, Record, flagged_ids, ids, pictures, readable
from compclip.evaluate.embeddings import Embeddings
from compclip.runs.item_outcomes import CLASSIFICATION, Items

CLASSES = "classnames.txt"
TEMPLATES = "zeroshot_classification_templates.txt"
TEMPLATE = "a photo of a {c}."  # CLIP's own for classes of any kind
INDEXES = (".txt", ".json")  # endings of ELEVATER's
WORD = re.compile(r"[^\W\d_]{2}")
SUBSET = "all"
KS = (1, 5)
TEMPERATURE = 100.0  # ELEVATER ranks by the softmax over the classes of 100 times the cosines
POINTS = np.linspace(1, 0, 11)  # of recall
AT_ONCE = 1 << 14  # pictures: 131 MB of scores for 1,000 classes
SEEDS = 2**32
ELEVATER = ("top_1", "mean_per_class", "map_11", "roc_auc")  # of which it counts one
METRICS = (*ELEVATER, "top_5", "elevater")
HEADLINE = ("top_1",)  # `elevater` instead where the set has one
BENCHMARK_GROUP = "zeroshot"
RECOGNISES = ()  # folders by class: known by their pictures (begin.benchmark_section)
Classes = Mapping[str, tuple[int, ...]]  # id of a picture -> what it shows


@dataclass(frozen=True)
class Config:
    """Where the class names come from, and how many pictures are scored."""

    classes: str = ""  # a known set's names and templates, as imagenet; without it those of the folder's two files
    sample: int = 0  # so many pictures, drawn by the seed from all of them; 0: all (CLIC's ZS-10: 1000)
    seed: ClassVar[int] = 1
    metric: str = ""  # of ELEVATER the one that ELEVATER counts, told once more as `elevater`; else the known set's

    def __post_init__(self) -> None:
        if self.classes:
            _class_sets.file(self.classes)
        if self.sample < 0:
            raise UserError(f"sample={self.sample}: must be >= 0; 0 scores all pictures")
        if self.metric:
            check_name("metric", self.metric, ELEVATER, "metric")


def load(
    path: str | Path, images: str | Path | None = None, split: str = "", options: Config | None = None
) -> Benchmark:
    """Read a folder with `classnames.txt` and `zeroshot_classification_templates.txt` ({c} for the name), or a set of
    `options.classes`; pictures and their classes in `images`, its folder `split`, or beside these files. Without both
    files the folders of pictures name the classes, and the prompt is TEMPLATE:

    A folder of pictures a class, which bears its name, its number from 0 or its synset; where no folder bears a class's
    name, as many as there are classes are taken in sorted order, numbers by their value. Tars of webdataset. Parquet
    with pictures inside. ELEVATER's index file, where `split` names it (`test.txt`, `test.json`). The class numbers of
    the last three are mapped by the names that the release ships (`_class_sets`).
    Raises UserError for missing files, what fits no class or leaves two readings, a template without {c}.
    """
    folder = Path(path)
    config = options or Config()
    lost = Counter[str]()
    pictures_folder = Path(images) if images else first_folder(folder, "images")
    class_set, files = _class_set(folder, config.classes, pictures_folder / split)
    labelled, label_files = _labelled(folder, pictures_folder, split, class_set, lost)
    records = tuple(Record(SUBSET, picture.id, (picture.ref,), ()) for picture in labelled)
    group_ids, sidecar = read_groups(folder, records)
    sampled = _draw_sample(len(labelled), config)
    if config.sample:
        lost["not_drawn"] = len(labelled) - len(sampled)
    metric = config.metric or class_set.metric
    prompts = [[template.replace("{c}", name) for template in class_set.templates] for name in class_set.names]
    scored = tuple(records[i] for i in sampled)
    all_files = (*files, *label_files, *sidecar)
    evaluation = _evaluation([labelled[i] for i in sampled], prompts, metric)
    shared_texts = tuple(chain.from_iterable(prompts))
    means = {"elevater": (metric,)} if metric else {}
    return Benchmark(
        scored,
        all_files,
        evaluation,
        means,
        group_ids,
        dict(lost),
        shared_texts,
        headline=(*means,) or HEADLINE,
        kind=CLASSIFICATION,
    )


def reads(path: str | Path, split: str = "", options: Config | None = None) -> list[Path]:
    """List the files beside pictures that `load` must have; folders may name their classes themselves."""
    files = [Path(path) / name for name in (CLASSES, TEMPLATES)]
    folders = [] if any(map(Path.is_file, files)) else class_folders(Path(path) / split)
    is_named = bool(options and options.classes) or (folders and all(map(WORD.search, folders)))
    index = [Path(path) / split] if split.endswith(INDEXES) else []
    return index if is_named else files + index


def _class_set(folder: Path, name: str, pictures_folder: Path) -> tuple[ClassSet, tuple[Path, ...]]:
    """Read names and templates; return them and their files. One name may be empty, as in CLEVR's."""
    if name:
        return _class_sets.load_class_set(name), (_class_sets.file(name),)
    files = folder / CLASSES, folder / TEMPLATES
    folders = class_folders(pictures_folder)
    if folders and not any(map(Path.is_file, files)):
        _check_words(pictures_folder, folders)
        return ClassSet(tuple(name.replace("_", " ") for name in folders), (TEMPLATE,)), ()
    names = _class_sets.read_names(files[0])
    templates = _class_sets.read_names(files[1])
    if names.count("") > 1:
        raise UserError(f"{files[0]}: {names.count('')} lines are empty; write one class a line")
    for template in templates:
        if "{c}" not in template:
            raise UserError(f"{files[1]}: template {template!r} has no {{c}}; write {{c}} where the class name belongs")
    return ClassSet(tuple(names), tuple(templates)), files


def _check_words(pictures_folder: Path, folders: Sequence[str]) -> None:
    """Raise UserError where a folder of a class has no word in its name."""
    for name in folders:
        if not WORD.search(name):
            fault = f"folder {name!r} names no class"
            raise UserError(f"{pictures_folder}: {fault}; write {CLASSES} and {TEMPLATES}, or name options.classes")


def _labelled(
    folder: Path, base: Path, split: str, class_set: ClassSet, lost: Counter[str]
) -> tuple[list[Labelled], tuple[Path, ...]]:
    """Read pictures and classes in any of the layouts, and return also the files that name the classes."""
    folder_of_split = base / split if split else base
    if split.endswith(INDEXES):
        return in_index(folder / split, base, class_set)
    if any(folder_of_split.glob("*.tar")):
        return in_tars(folder_of_split, folder, class_set, lost)
    if _tables.list_tables(folder, split):
        return in_tables(folder, base, split, class_set)
    if not folder_of_split.is_dir():
        raise UserError(
            f"{folder_of_split}: no such folder; give the folder that holds a folder for each class as images"
        )
    return in_folders(folder_of_split, class_set, lost), ()


def _draw_sample(size: int, config: Config) -> list[int]:
    """Draw the positions of the pictures that are scored, in their order."""
    if not config.sample or config.sample >= size:
        return list(range(size))
    places = np.arange(size)
    np.random.RandomState(config.seed).shuffle(places)  # as CLIC's program; newer generators shuffle otherwise
    return sorted(places[: config.sample].tolist())


def _evaluation(
    labelled: Sequence[Labelled], prompts: Sequence[Sequence[str]], metric: str
) -> Callable[[Sequence[Record], Embeddings], dict[str, Items]]:
    """Choose the evaluation: pictures of several classes are ranked class by class; others choose their own."""
    shown_classes = {picture.id: picture.classes for picture in labelled}
    if metric == "map_11" or max(map(len, shown_classes.values()), default=0) > 1:
        return partial(evaluate_several, shown_classes=shown_classes, prompts=prompts)
    labels = {key: number for key, (number,) in shown_classes.items()}
    return partial(evaluate_two if metric == "roc_auc" else evaluate, labels=labels, prompts=prompts)


def evaluate(
    records: Sequence[Record], embeddings: Embeddings, labels: Mapping[str, int], prompts: Sequence[Sequence[str]]
) -> dict[str, Items]:
    """Return top_1, top_5 (for more than five classes) and mean_per_class over the classes with images."""
    readable_records = readable(records, embeddings)
    if not readable_records:
        return {}
    label_N = np.array([labels[record.id] for record in readable_records])
    outcomes = _top(readable_records, label_N, embeddings, prompts)
    tied = flagged_ids(ids(readable_records), outcomes.pop("tied"))
    outcomes["mean_per_class"] = balanced(outcomes["top_1"], label_N)
    return {name: Items(ids(readable_records), outcome_N, SUBSET, tied) for name, outcome_N in outcomes.items()}


def _top(
    records: Sequence[Record], label_N: np.ndarray, embeddings: Embeddings, prompts: Sequence[Sequence[str]]
) -> dict[str, np.ndarray]:
    """Compute outcomes by metric, for as many pictures at once as fit the memory."""
    ks = [k for k in KS if k == 1 or k < len(prompts)]
    one_C = _first_equal_class(prompts) if embeddings.ties == WRONG else None
    class_vectors = _class_vectors(embeddings, prompts)
    batches = []
    for start in range(0, len(records), AT_ONCE):
        scores_BC = _scores(records[start : start + AT_ONCE], embeddings, class_vectors)
        label_B = label_N[start : start + AT_ONCE]
        batches.append(metrics.top_k_outcomes(scores_BC, label_B, ks, embeddings.ties, one_C))
    return {name: np.concatenate([outcomes[name] for outcomes in batches]) for name in batches[0]}


def _first_equal_class(prompts: Sequence[Sequence[str]]) -> np.ndarray:
    """Return for each class the first one with its prompts, shape C."""
    first: dict[tuple[str, ...], int] = {}
    return np.array([first.setdefault(tuple(class_prompts), number) for number, class_prompts in enumerate(prompts)])


def _class_vectors(embeddings: Embeddings, prompts: Sequence[Sequence[str]]) -> tuple[np.ndarray, np.ndarray]:
    """Return the different classes' vectors [U, D], and the row of each class."""
    first_U, class_C = np.unique(_first_equal_class(prompts), return_inverse=True)
    mean_UD = [embeddings.texts(prompts[first]).mean(0) for first in first_U]
    return np.stack([mean_D / np.linalg.norm(mean_D) for mean_D in mean_UD]), class_C


def _scores(
    records: Sequence[Record], embeddings: Embeddings, class_vectors: tuple[np.ndarray, np.ndarray]
) -> np.ndarray:
    """Compute cosines of pictures and classes, shape [N, C]; those of equal classes are equal to the last bit."""
    class_UD, class_C = class_vectors
    return embeddings.against(pictures(records), class_UD)[:, class_C]


def balanced(outcome_N: np.ndarray, label_N: np.ndarray) -> np.ndarray:
    """Weight outcomes so that their mean is the mean of the accuracies of the classes; some exceed 1."""
    _, class_N, size_C = np.unique(label_N, return_inverse=True, return_counts=True)
    return outcome_N * len(label_N) / (len(size_C) * size_C[class_N])


def evaluate_two(
    records: Sequence[Record], embeddings: Embeddings, labels: Mapping[str, int], prompts: Sequence[Sequence[str]]
) -> dict[str, Items]:
    """Return also `roc_auc`: the share of pairs of a picture of each class of which that of class 1 is more like it.

    Raises UserError for other than two classes.
    """
    if len(prompts) != 2:
        raise UserError(f"zeroshot: metric=roc_auc: {len(prompts)} classes; it is of two alone")
    readable_records = readable(records, embeddings)
    items = evaluate(records, embeddings, labels, prompts)
    shown_N = np.array([labels[record.id] == 1 for record in readable_records], dtype=bool)
    if shown_N.any() and not shown_N.all():
        score_N = probabilities(_scores(readable_records, embeddings, _class_vectors(embeddings, prompts)))[:, 1]
        items["roc_auc"] = Items(ids(readable_records), area_outcomes(score_N, shown_N), SUBSET)
    return items


def evaluate_several(
    records: Sequence[Record], embeddings: Embeddings, shown_classes: Classes, prompts: Sequence[Sequence[str]]
) -> dict[str, Items]:
    """Return `map_11`, whose items are the classes that a picture shows: their 11-point average precision."""
    readable_records = readable(records, embeddings)
    if not readable_records:
        return {}
    shown_NC = np.zeros((len(readable_records), len(prompts)), dtype=bool)
    for row, record in enumerate(readable_records):
        shown_NC[row, list(shown_classes[record.id])] = True
    probability_NC = probabilities(_scores(readable_records, embeddings, _class_vectors(embeddings, prompts)))
    precision_of = {}
    for c in np.flatnonzero(shown_NC.any(0)).tolist():
        precision_of[str(c)] = precision_11(probability_NC[:, c], shown_NC[:, c])
    return {"map_11": Items(tuple(precision_of), np.array(list(precision_of.values())), "classes")}


# --- ELEVATER's metrics that are not top-1 (Li et al., NeurIPS 2022, arXiv:2204.08790), as its toolkit computes them


def probabilities(scores_NC: np.ndarray) -> np.ndarray:
    """Compute the softmax over the classes, float64 [N, C]."""
    from scipy.special import softmax  # as long to import as numpy, and reading parameters imports this module

    return softmax(TEMPERATURE * scores_NC.astype(np.float64), axis=1)


def precision_11(score_N: np.ndarray, shown_N: np.ndarray) -> float:
    """Compute the 11-point interpolated average precision of one class; `shown_N` marks its pictures, one at least.

    At each recall the best precision from there on; equal scores are one threshold. At recall 0 it is 1, as in
    vision_evaluation, which ELEVATER uses: VOC's own program takes the best precision there is.
    """
    order_N = np.argsort(-score_N, kind="stable")
    last_N = np.append(np.diff(score_N[order_N]) != 0, True)  # of equal scores
    hit_T = np.cumsum(shown_N[order_N])[last_N]
    recall_T = hit_T / shown_N.sum()
    precision_T = hit_T / (np.flatnonzero(last_N) + 1)
    return float(np.mean([1.0, *(precision_T[recall_T >= point].max() for point in POINTS[:-1])]))


def area_outcomes(score_N: np.ndarray, shown_N: np.ndarray) -> np.ndarray:
    """Return the area under the ROC curve and what each picture adds to it: outcomes whose mean is the area."""
    share_N = np.empty(len(score_N))
    share_N[shown_N] = above_negatives(score_N[shown_N], score_N[~shown_N])
    share_N[~shown_N] = above_negatives(-score_N[~shown_N], -score_N[shown_N])
    area = share_N[shown_N].mean()
    class_size_N = np.where(shown_N, shown_N.sum(), (~shown_N).sum())
    return area + len(score_N) / class_size_N * (share_N - area)


def above_negatives(positive_P: np.ndarray, negative_N: np.ndarray) -> np.ndarray:
    """Return for each positive the share of negatives below it, equal ones half; the mean is the area under the ROC."""
    ordered_N = np.sort(negative_N)
    below_P = np.searchsorted(ordered_N, positive_P, side="left")
    not_above_P = np.searchsorted(ordered_N, positive_P, side="right")
    return (below_P + not_above_P) / (2 * len(negative_N))
