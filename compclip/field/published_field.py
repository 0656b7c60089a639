"""Every published number of the field as one list, and its models: `experiments/published` and nothing else.

The papers' tables and the list of vl_compo are read alike. A model is what one source says of one set of weights; of a
number that a source prints twice the first counts. `field.yaml` has what the tables do not say: which rows are the same
weights, which means differ, what is drawn. Numbers of different means never share a column.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path

from compclip.base import yaml_text
from compclip.base.errors import UserError
from compclip.config.cell import PRETRAINED
from compclip.config.validation import load_section
from compclip.report import published_numbers
from compclip.report.published_numbers import RELEASED, PublishedNumber

FACTS_FILE = "field.yaml"
MODELS = "models"  # the folder of the list: a line a model, the report's columns in percent
MODEL_FIELDS = ("model", "weights", "family")
LIST = "vl_compo"  # the source that is no paper: a list of models by one program
OURS = "ours"


@dataclass(frozen=True)
class Axis:
    """What an axis measures: a printed `column`, or the mean of `groups`, each a weighted mean of printed columns."""

    title: str = ""
    means: str = ""
    column: str = ""
    groups: list[dict[str, float]] = field(default_factory=list)


@dataclass(frozen=True)
class Picture:
    """The axes of a row of panels: `y` against each of `x`; `names` has a label of the first panel's models to name."""

    y: str = ""
    x: list[str] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Cause:
    """Why numbers of a pattern are not what others print; `points` is the most that it explains."""

    numbers: str = ""
    cause: str = ""
    is_mean: bool = False
    points: float = 100.0


@dataclass(frozen=True)
class FieldFacts:
    """The file `field.yaml`."""

    same_weights: dict[str, list[str]] = field(default_factory=dict)
    released_by_authors: dict[str, str] = field(default_factory=dict)
    from_scratch: list[str] = field(default_factory=list)
    families: dict[str, list[str]] = field(default_factory=dict)
    axes: dict[str, Axis] = field(default_factory=dict)
    pictures: dict[str, Picture] = field(default_factory=dict)
    backbones: list[str] = field(default_factory=list)
    causes: list[Cause] = field(default_factory=list)

    def find_cause(self, number: PublishedNumber) -> Cause:
        """Return the first declared cause that fits a number; an empty one where nothing is known against it."""
        name = f"{number.paper}: {number.column}: {number.method}"
        return next((cause for cause in self.causes if fnmatchcase(name, cause.numbers)), Cause())

    def find_family(self, method: str) -> str:
        """Return the family of a method, by which the picture has its colour; empty for a model of the list."""
        name = method.removeprefix(RELEASED)
        for family, patterns in self.families.items():
            if method and any(fnmatchcase(name, pattern) for pattern in patterns):
                return family
        return ""


@dataclass(frozen=True)
class SourceModel:
    """What one source says of one model: its first number by column; `is_wrong` were scored with a wrong activation."""

    source: str
    row: str
    method: str
    backbone: str
    data: str
    is_wrong: bool
    numbers: dict[str, PublishedNumber]

    @property
    def declared_name(self) -> str:
        """The name that patterns of field.yaml fit: `paper: method: data`."""
        return f"{self.source}: {self.method}: {self.data}"

    @property
    def is_ablation(self) -> bool:
        """Whether it is a variant of its paper's own method, adapters apart."""
        name, _, variant = self.method.partition(".")
        return bool(variant) and variant != "lora" and name.replace("_", "") == to_letters(self.source)

    @property
    def short_name(self) -> str:
        """The row's name without what follows a comma: weights, or whose checkpoint it is."""
        return self.row.partition(",")[0]


@dataclass(frozen=True)
class PublishedField:
    """All numbers and models, and the facts about them."""

    numbers: tuple[PublishedNumber, ...]
    models: tuple[SourceModel, ...]
    facts: FieldFacts

    @property
    def papers(self) -> list[str]:
        """The papers, in the order of their files."""
        sources = dict.fromkeys(n.paper for n in self.numbers)
        return [name for name in sources if name not in (LIST, OURS)]

    def find_weights(self, row: PublishedNumber | SourceModel) -> str:
        """Return the name of published weights, the same in every source; empty for a model of that source alone."""
        if row.method == PRETRAINED or row.method.startswith(RELEASED):
            return row.method
        source = row.paper if isinstance(row, PublishedNumber) else row.source
        name = f"{source}: {row.method}: {row.data}"
        released = self.facts.released_by_authors.items()
        return next((weights for pattern, weights in released if fnmatchcase(name, pattern)), "")

    def count_models(self) -> int:
        """Count published models, ablations too: weights that several sources score are one on each backbone."""
        names = set()
        for model in self.models:
            weights = self.find_weights(model)
            source_name = (model.source, model.method or model.row, model.data)
            if model.source != OURS:
                names.add((model.backbone, weights or source_name))
        return len(names)

    def is_from_scratch(self, model: SourceModel) -> bool:
        """Whether a model was not tuned from the pretrained one of its backbone."""
        return any(fnmatchcase(model.declared_name, pattern) for pattern in self.facts.from_scratch)

    def find_numbers(self, model: SourceModel, axis: Axis) -> dict[str, PublishedNumber]:
        """Return the printed numbers that give a model's value along an axis; none where its source lacks one."""
        for columns in ([axis.column], list(chain(*axis.groups))):
            numbers = {}
            for column in columns:
                number = model.numbers.get(column)
                if number and not self.facts.find_cause(number).is_mean:
                    numbers[column] = number
            if columns and len(numbers) == len(columns):
                return numbers
        return {}

    def measure(self, model: SourceModel, name: str) -> float | None:
        """Return a model's value along an axis; None where its source does not print what it takes."""
        axis = self.facts.axes[name]
        values = {column: float(n.value) for column, n in self.find_numbers(model, axis).items()}
        if len(values) < 2:
            return values.get(axis.column)
        means = [sum(values[c] * w for c, w in group.items()) / sum(group.values()) for group in axis.groups]
        return sum(means) / len(means)


def read_field(folder: Path, own_numbers: Sequence[PublishedNumber] = ()) -> PublishedField:
    """Read a folder of published tables, and join its models; `own_numbers` are the reader's in the papers' form."""
    facts = read_facts(folder / FACTS_FILE)
    papers = published_numbers.read_numbers(folder)
    if not papers:
        raise UserError(f"{folder}: no tables of papers; give a folder as experiments/published")
    listed = read_listed_numbers(folder / MODELS, facts)
    numbers = (*papers, *listed, *name_backbones(own_numbers, papers))
    return PublishedField(numbers, tuple(join_models(numbers)), facts)


def read_facts(path: Path) -> FieldFacts:
    """Read field.yaml. Raises UserError for another form, and for a picture whose axis is not declared."""
    raw = yaml_text.read_yaml(path, "must map same_weights, families, axes, pictures and causes")
    facts = load_section(FieldFacts, yaml_text.to_plain(raw, str(path)), str(path))
    for name, picture in facts.pictures.items():
        for axis in (picture.y, *picture.x):
            if axis not in facts.axes:
                raise UserError(f"{path}: pictures.{name}: {axis!r} is no axis; known are {', '.join(facts.axes)}")
    return facts


def read_listed_numbers(folder: Path, facts: FieldFacts) -> list[PublishedNumber]:
    """Read the models of the list as numbers of a source of its own; an empty cell is not known."""
    numbers = []
    for where, row in published_numbers.read_rows(folder, MODEL_FIELDS):
        model = f"{row['model']}, {row['weights']}"
        method, backbone = facts.same_weights.get(model, ["", find_backbone(model)])
        name = f"{model} ({row['family']})"
        for column, text in row.items():
            if text and column not in MODEL_FIELDS:
                benchmark, _, metric = column.partition("/")
                printed = f"{published_numbers.parse_printed(where, column, text):.2f}"
                numbers.append(PublishedNumber(LIST, "results", name, method, backbone, "", benchmark, metric, printed))
    return numbers


def find_backbone(name: str) -> str:
    """Find the architecture in an open model's name, as papers write it; empty for another one."""
    match = re.search(r"vit-?(b|l)-?(16|32|14)(?!\d)", name, re.IGNORECASE)
    return f"ViT-{match[1].upper()}/{match[2]}" if match else ""


def join_models(numbers: Iterable[PublishedNumber]) -> list[SourceModel]:
    """Join all numbers of a source's model, whatever table they are in; the first of a column counts."""
    models: dict[tuple[str, ...], SourceModel] = {}
    for n in numbers:
        # a row without a method is known by its name alone; others have another name in each table
        name = n.method or n.row
        model = SourceModel(n.paper, n.row, n.method, n.backbone, n.data, bool(n.activation), {})
        key = (n.paper, name, n.backbone, n.data, n.activation)
        models.setdefault(key, model).numbers.setdefault(n.column, n)
    return list(models.values())


def name_without_data(method: str, data: str) -> str:
    """Return a method's name without `released.` and without the data set that ends it, as claims name it."""
    name = method.removeprefix(RELEASED)
    return name.removesuffix(f"_{published_numbers.to_slug(data)}") if data else name


def name_backbones(ours: Iterable[PublishedNumber], printed: Iterable[PublishedNumber]) -> list[PublishedNumber]:
    """Return our numbers with the papers' name of their backbone, where they have one."""
    names = {published_numbers.to_slug(n.backbone): n.backbone for n in printed}
    return [replace(n, backbone=names.get(n.backbone, n.backbone)) for n in ours]


def to_letters(name: str) -> str:
    """Return a name's letters and digits alone, in lower case: `TripletCLIP` is `triplet_clip`."""
    return re.sub(r"[^a-z0-9]", "", name.lower())
