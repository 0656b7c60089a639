"""Each rule and each field of the views reads the columns that it says, and no other: they are in a run's key."""

import contextlib
import functools
import inspect
import re
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from compclip.base import plugins
from compclip.base.errors import UserError
from compclip.data.column_hashes import LOCATION_COLUMNS
from compclip.data.prepared_dataset import PreparedDataset
from compclip.data.sample import NegativeImage, Region, Sample
from compclip.interface.method import LOOKED_AT, check_columns, list_columns, load_method
from compclip.interface.views import SAMPLE_COLUMNS, Views
from compclip.text.annotation import Annotation
from compclip.text.rule_columns import EVERY, reads_columns
from compclip.text.text_groups import TextGroup
from compclip.train.view_maker import ViewMaker
from tests.prepared_set import prepared
from tests.text import reached_columns
from tests.text.conftest import SENTENCES

NAMES = [name for name in plugins.list_plugins("compclip.methods") if load_method(name).TRAINS]
FIELDS = {  # of an annotation, by the column that has them; further ones are named as their column
    "tokens": ("starts", "ends", "pos", "tag", "dep", "heads"),
}
COLUMNS = (
    *("tokens", "lemma", "sentences", "chunks", "verbs", "candidates", "masked", "relatives"),
    *("written_swap", "written_replace"),
)
STORED = {
    "negative": ("A cup.", "A red cup on a bus.", "No cup."),
    "paraphrase": ("The same.", "It is the same."),
    "absent": ("There is no cup.",),
    "dense": ("A red bus stops.", "A man near a black dog."),
    "dense_masked": ("2\tblue\tgreen", "2\tgirl"),
    "bare": ("cup",),
    "variation": ("0.5\tA cup.\tA big cup.", "0.7\tA bus."),
}


def list_views(name: str) -> Iterator[Views]:
    """The views of a method, by its paper's options and with each option at each of its other values."""
    method = load_method(name)
    words = set(re.findall(r'"([\w+]+)"', inspect.getsource(method.module)))
    words |= {str(key) for value in vars(method.module).values() if isinstance(value, dict) for key in value}
    for field in fields(method.Config):
        values = {str: sorted(words), bool: (True, False), int: (0, 1), float: (0.0, 1.0)}
        for value in values.get(type(field.default), ()):
            with contextlib.suppress(UserError):
                cfg = method.Config(**{field.name: value})
                yield from (method.views(cfg, step) for step in (0, 1))
    yield from (method.views(method.Config(), step) for step in (0, 1, LOOKED_AT[-1]))


def split(views: Views) -> Iterator[tuple[str, Views]]:
    """Views of one rule, group or composite each, and what is left, by names that are the same for equal ones."""
    for rule in (*views.negatives, *views.positives):
        yield describe(rule), Views(negatives=(rule,))
    for group in views.groups:
        yield describe(group.draw), Views(groups=(group,))
    if views.composite:
        yield f"composite {views.composite.partner}", Views(composite=views.composite)
    fields_alone = replace(views, negatives=(), positives=(), groups=(), composite=None, neighbours=0, target=None)
    yield "fields", fields_alone


def describe(rule: Any) -> str:
    """A rule's name, with what it was given."""
    if isinstance(rule, functools.partial):
        return f"{describe(rule.func)}({', '.join(map(describe, rule.args))})"
    return f"{rule.__module__.rpartition('.')[2]}.{rule.__qualname__}" if callable(rule) else type(rule).__name__


@functools.cache
def all_views() -> dict[str, list[Views]]:
    """All that any method asks for, by name."""
    found: dict[str, list[Views]] = {}
    for name in NAMES:
        for views in list_views(name):
            for title, part in split(views):
                alike = found.setdefault(title, [])
                if part.columns not in [other.columns for other in alike]:
                    alike.append(part)
    return found


class OnlyColumns:
    """A prepared data set without the columns that are not named."""

    def __init__(self, data: PreparedDataset, columns: frozenset[str]) -> None:
        self.data = data
        self.columns = columns
        has_sizes = {"width", "height"} <= columns
        self.wide = data.wide if has_sizes else np.zeros_like(data.wide)
        self.captions = data.captions
        self.locate_caption = data.locate_caption
        self.sharing = data.sharing

    def __len__(self) -> int:
        return len(self.data)

    def sample(self, index: int) -> Sample:
        sample = self.data.sample(index)
        places = LOCATION_COLUMNS if "pictures" in self.columns else ()
        names = {"id", "split", "width", "height"} & self.columns | {*places}
        return Sample(**{"id": "", "image": "", "captions": ()} | {name: getattr(sample, name) for name in names})

    def annotation(self, index: int, which: int) -> Annotation:
        full = self.data.annotation(index, which)
        names = [field for column in COLUMNS if column in self.columns for field in FIELDS.get(column, (column,))]
        stored = {kind: texts for kind, texts in full.stored.items() if f"stored_{kind}" in self.columns}
        return Annotation(full.text, stored=stored, **{name: getattr(full, name) for name in names})

    def nouns(self, index: int, which: int) -> list[str]:
        return self.data.nouns(index, which) if "nouns" in self.columns else []

    def negative_images(self, index: int) -> tuple:
        return self.data.negative_images(index) if "negative_pictures" in self.columns else ()

    def regions(self, index: int) -> tuple:
        return self.data.regions(index) if "regions" in self.columns else ()


@pytest.fixture(scope="module")
def data(annotated, tmp_path_factory) -> PreparedDataset:
    """Captions of all kinds, each picture with two, and every column that a shard can have."""
    folder = tmp_path_factory.mktemp("data")
    files = [str(folder / f"{number}.png") for number in range(4)]
    for number, file in enumerate(files):
        Image.new("RGB", (8, 8), (60 * number, 0, 0)).save(file)
    texts = [text for text in SENTENCES if text]
    pairs = list(zip(texts, texts[1:] + texts[:1], strict=True))
    samples = [
        Sample(f"{number}", files[number % 4], (), "train", 8 + 2 * (number % 2), 9,
               negatives=tuple(map(NegativeImage, files[:2])),
               regions=(Region(0.1, 0.1, 0.9, 0.9, ("a cup", "cups"), ("a bus",)),))
        for number in range(len(pairs))
    ]  # fmt: skip
    return prepared(folder / "x", samples, [[fill(annotated[text]) for text in pair] for pair in pairs], size=8)


def fill(annotation: Annotation) -> Annotation:
    """With words and texts in every column."""
    masked = tuple(("big", "cup", "red") for _ in annotation.starts)
    relatives = tuple((("bus", "cup"), (2, 1)) for _ in annotation.starts)
    return replace(
        annotation, masked=masked, relatives=relatives, stored=STORED, written_swap="B and a.", written_replace="C."
    )


def make_views(data: Any, views: Views) -> list[Any]:
    """The views of every sample, with their pictures as numbers."""
    maker = ViewMaker(data, 0, 8, load=lambda _: Image.new("RGB", (8, 8)))
    made = []
    for index in range(len(data)):
        view = maker.view(index, 0, views)
        pictures = [picture and np.asarray(picture).tobytes() for picture in view.negative_images]
        regions = [(region.box, region.texts) for region in view.regions if region]
        made.append((replace(view, image=None, negative_images=(), regions=()), pictures, regions))
    return made


@pytest.mark.parametrize("title", sorted(all_views()))
@pytest.mark.parametrize("caption", ["full", "first"])
def test_what_is_not_named_is_not_read(data, title, caption):
    """Texts, pictures and regions are the same of rows that have no other column."""
    for part in all_views()[title]:
        views = replace(part, caption=caption)
        assert EVERY not in views.columns
        assert make_views(OnlyColumns(data, views.columns), views) == make_views(data, views)


@pytest.mark.parametrize("title", sorted(all_views().keys() - {"fields"}))
def test_what_the_code_can_come_to_is_named(title):
    """Also what no caption here leads it to."""
    for part in all_views()[title]:
        columns = {"stored" if name.startswith("stored_") else name for name in part.columns}
        for rule in part.rules:
            assert reached_columns.find(rule) <= columns


def test_a_rule_that_does_not_say_what_it_reads_reads_all():
    """Within another one as well."""

    def silent(annotation: Annotation, rng: np.random.Generator) -> str | None:
        return annotation.written_swap

    @reads_columns("tokens")
    def asks(rule: Any, annotation: Annotation, rng: np.random.Generator) -> str | None:
        return rule(annotation, rng)

    assert EVERY in Views(negatives=(silent,)).columns
    assert EVERY in Views(positives=(functools.partial(asks, silent),)).columns
    assert EVERY in Views(groups=(TextGroup("silent", silent),)).columns
    assert Views(negatives=(functools.partial(asks, max, 3),)).columns >= {EVERY}
    spoken = functools.partial(asks, reads_columns("chunks")(silent))
    assert Views(negatives=(spoken,), caption="full").columns == {*SAMPLE_COLUMNS, "tokens", "chunks"}


def test_a_step_that_reads_what_no_other_step_read_is_refused():
    """Turns and stages are looked at beforehand; what trains nothing reads nothing."""
    method = load_method("finetune")
    cfg = method.Config()
    late = Views(caption="first")
    for step, is_listed in ((7, True), (1024, True), (1025, True), (100, False)):
        method.views = lambda _, at, step=step: late if at == step else Views(caption="full")
        assert ("sentences" in list_columns(method, cfg)) == is_listed
    with pytest.raises(UserError, match="step 100: its views read sentences"):
        check_columns(late, list_columns(method, cfg), 100)
    assert check_columns(late, frozenset({EVERY}), 100) is late
    method = load_method("pretrained")
    assert list_columns(method, method.Config()) == frozenset()
