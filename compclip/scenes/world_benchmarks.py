"""The world's benchmarks, each in its official file format, and their sentences: true, false, and true in other words.

All show the symbols and colours of fine-tuning, as COCO's do; zero-shot naming also has those of the web, which
fine-tuning does not show, as ImageNet has. Forms of sentences differ from those of the training grammar, and no rule
that makes training negatives is used here.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from compclip.base.files import write_atomic, write_json
from compclip.config.sections import World
from compclip.scenes import grammar, layout
from compclip.scenes.grammar import Statement, choose
from compclip.scenes.layout import (
    COLOURS,
    CONVERSE,
    EVERY_COLOUR,
    EVERY_SYMBOL,
    HELD_OUT,
    RELATIONS,
    SYMBOLS,
    Scene,
    article,
)
from compclip.scenes.render import parallel, write_picture

CAPTIONS = 2  # of a retrieval picture
SUGARCREPE, WINOGROUND, HARD_POSITIVES, RETRIEVAL, SYMBOL, COLOUR = range(11, 17)
CLASS_TEMPLATES = {
    "symbols": ("a picture of a {c}", "{c}", "clip art with a {c}"),
    "colours": ("a {c} symbol", "{c} shapes"),
}
FORMS = ("There is {a} {r} {b}.", "The picture shows {a} {r} {b}.", "{a} can be seen {r} {b}.")
PARAPHRASES = ("In this picture {b} appears {o} {a}.", "We see {b} {o} {a}.", "{b} is shown {o} {a}.")
KINDS = ("add_att", "add_obj", "replace_att", "replace_obj", "replace_rel", "swap_att", "swap_obj")
HARD_POSITIVE_KINDS = ("replace_attributes", "replace_relations", "swap")


# --- sentences ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SentencePair:
    """A true caption, a nearly equal false one, and a true one in other words."""

    caption: str
    negative: str
    paraphrase: str


@dataclass(frozen=True)
class Wording:
    """The words of a statement: (colour, symbol) of both things; an empty colour is not mentioned."""

    a: tuple[str, str]
    b: tuple[str, str]
    relation: str
    more: str = ""

    def text(self, form: str, synonym: int = 0) -> str:
        """Write the statement in a form; `synonym` chooses the name of the relation."""
        relation = RELATIONS[self.relation][: synonym + 1][-1]
        converse = RELATIONS[CONVERSE[self.relation]][: synonym + 1][-1]
        a = article(" ".join(self.a).strip())
        b = article(" ".join(self.b).strip())
        if self.more:
            a = f"{a} with {article(self.more)}"
        sentence = form.format(a=a, b=b, r=relation, o=converse)
        return sentence[0].upper() + sentence[1:]

    def other_words(self, rng: np.random.Generator) -> Wording:
        """Return the wording with synonyms wherever there are any."""
        colour_a, symbol_a, colour_b, symbol_b = [_synonym(rng, word) for word in self.a + self.b]
        return Wording((colour_a, symbol_a), (colour_b, symbol_b), self.relation)


def _synonym(rng: np.random.Generator, word: str) -> str:
    names = (COLOURS.get(word) or SYMBOLS.get(word) or ("", ("",)))[1]
    return choose(rng, names[1:]) if len(names) > 1 else word


def make_item(rng: np.random.Generator, kind: str, scene: Scene, s: Statement) -> SentencePair:
    """Make a record of subset `kind` for a statement that is true of the scene."""
    true, false = word_statement(rng, kind, scene, s)
    form = choose(rng, FORMS)
    return SentencePair(true.text(form), false.text(form), _reword_statement(rng, true))


def make_items(
    rng: np.random.Generator, scene: Scene, s: Statement, other_axis: float = 0.0
) -> dict[str, SentencePair]:
    """Make a record of every subset; equal true captions have equal paraphrases. `other_axis`: see `word_statement`."""
    form = choose(rng, FORMS)
    rewordings: dict[Wording, str] = {}
    texts: dict[str, SentencePair] = {}
    for kind in KINDS:
        true, false = word_statement(rng, kind, scene, s, other_axis)
        rewordings[true] = rewordings.get(true) or _reword_statement(rng, true)
        texts[kind] = SentencePair(true.text(form), false.text(form), rewordings[true])
    return texts


def _reword_statement(rng: np.random.Generator, statement: Wording) -> str:
    return statement.other_words(rng).text(choose(rng, PARAPHRASES), synonym=1)


def _absent(rng: np.random.Generator, names: dict, present: set[str]) -> str:
    """Draw a name that nothing in the scene has."""
    return str(choose(rng, [n for n in names if n not in present]))


def _replace_relation(rng: np.random.Generator, relation: str, other_axis: float) -> str:
    """Return the converse of a relation, or with probability `other_axis` one of the other axis."""
    if other_axis and rng.random() < other_axis:
        return str(choose(rng, [r for r in RELATIONS if r not in (relation, CONVERSE[relation])]))
    return CONVERSE[relation]


def word_statement(
    rng: np.random.Generator, kind: str, scene: Scene, s: Statement, other_axis: float = 0.0
) -> tuple[Wording, Wording]:
    """Word a statement that is true of the scene, and the false one of subset `kind`.

    `other_axis`: share of replaced relations that are not the converse but of the other axis.
    """
    a = s.a.pair
    b = s.b.pair
    symbol_a = ("", s.a.symbol)
    true = Wording(a, b, s.relation)
    false = Wording(a, b, CONVERSE[s.relation])
    if kind == "replace_rel":
        false = Wording(a, b, _replace_relation(rng, s.relation, other_axis))
    elif kind == "swap_att":
        false = Wording((b[0], a[1]), (a[0], b[1]), s.relation)
    elif kind == "swap_obj":
        symbol_b = ("", s.b.symbol)
        true = Wording(symbol_a, symbol_b, s.relation)
        false = Wording(symbol_b, symbol_a, s.relation)
    elif kind == "replace_att":  # by the colour of another thing, so that its presence in the picture does not decide
        colour = str(choose(rng, [t.colour for t in scene.things if t.symbol != s.a.symbol]))
        false = Wording((colour, s.a.symbol), b, s.relation)
    elif kind == "replace_obj":
        false = Wording((s.a.colour, _absent(rng, SYMBOLS, scene.symbols)), b, s.relation)
    elif kind == "add_obj":
        added = _absent(rng, SYMBOLS, scene.symbols)
        true = Wording(symbol_a, b, s.relation)
        false = Wording(symbol_a, b, s.relation, more=added)
    elif kind == "add_att":
        colour = _absent(rng, COLOURS, scene.colours)
        true = Wording(symbol_a, b, s.relation)
        false = Wording((colour, s.a.symbol), b, s.relation)
    return true, false


def _join_pairs(first: tuple[str, str], second: tuple[str, str]) -> str:
    return f"{article(' '.join(first))} and {article(' '.join(second))}"


def hard_positive(
    rng: np.random.Generator, kind: str, scene: Scene, s: Statement, other_axis: float = 0.0
) -> SentencePair:
    """Make a record of the hard-positive benchmarks: REPLACE relations, REPLACE attributes, or SWAP around "and"."""
    a = s.a.pair
    b = s.b.pair
    if kind == "swap":
        return SentencePair(_join_pairs(a, b), _join_pairs((b[0], a[1]), (a[0], b[1])), _join_pairs(b, a))
    statement = Wording(a, b, s.relation)
    form = "{a} {r} {b}"
    if kind == "replace_relations":
        false = Wording(a, b, _replace_relation(rng, s.relation, other_axis))
        return SentencePair(statement.text(form), false.text(form), statement.text(form, synonym=1))
    _, false = word_statement(rng, "replace_att", scene, s)
    reworded = Wording((_synonym(rng, a[0]), a[1]), b, s.relation)
    return SentencePair(statement.text(form), false.text(form), reworded.text(form))


# --- files ----------------------------------------------------------------------------------------------------


def _draw_statement(rng: np.random.Generator, unseen: bool) -> tuple[Scene, Statement]:
    """Draw a test scene and a statement about it, whose pairs are all seen in training, or one is `unseen`."""
    while True:
        scene = layout.sample(rng, int(rng.integers(2, 5)), test=True)
        fitting = [s for s in grammar.statements(scene) if unseen == (s.a.pair in HELD_OUT or s.b.pair in HELD_OUT)]
        if fitting:
            return scene, choose(rng, fitting)


def _sugarcrepe(world: World, out: Path) -> int:
    """Write SugarCrepe and SugarCrepe++: a record of each subset about each picture."""
    rows = parallel(world, partial(_sugarcrepe_row, world, out), range(world.records))
    for kind in KINDS:
        records = {}
        records_pp = []
        for i, row in enumerate(rows):
            records_pp.append({"id": i, **row[kind]})
            records[str(i)] = {name: text for name, text in row[kind].items() if name != "caption2"}
        write_json(out / "sugarcrepe" / f"{kind}.json", records)
        if not kind.startswith("add"):
            write_json(out / "sugarcrepe_pp" / f"{kind}.json", records_pp)
    ids = list(map(str, range(len(rows))))
    groups = {"seen_pairs": ids[::2], "unseen_pairs": ids[1::2]}
    write_json(out / "sugarcrepe" / "groups.json", dict.fromkeys(KINDS, groups))
    return len(rows)


def _sugarcrepe_row(world: World, out: Path, index: int) -> dict[str, dict]:
    rng = np.random.default_rng((world.seed, SUGARCREPE, index))
    scene, statement = _draw_statement(rng, unseen=index % 2 == 1)
    filename = f"sugarcrepe_{index:05d}.png"
    write_picture(out / "test" / filename, scene)
    items = make_items(rng, scene, statement, world.other_axis)
    return {
        kind: {"filename": filename, "caption": i.caption, "caption2": i.paraphrase, "negative_caption": i.negative}
        for kind, i in items.items()
    }


def _winoground(world: World, out: Path) -> int:
    rows = parallel(world, partial(_winoground_row, world, out), range(world.records))
    write_atomic(out / "winoground" / "examples.jsonl", "\n".join(json.dumps(r) for r in rows) + "\n")
    return 2 * len(rows)


def _winoground_row(world: World, out: Path, index: int) -> dict:
    """Make two pictures that differ in all that the captions do not say, as two photographs do."""
    rng = np.random.default_rng((world.seed, WINOGROUND, index))
    kind, change = (("swap_att", layout.swap_colours), ("swap_obj", layout.swap_places))[index % 2]
    while True:
        scene, statement = _draw_statement(rng, unseen=False)
        changed = change(scene, statement.a, statement.b)
        second_scene = changed.with_things({thing: layout.redrawn(rng, thing) for thing in changed.things})
        if layout.is_test(second_scene):
            break
    item = make_item(rng, kind, scene, statement)
    for number, pictured in enumerate((scene, second_scene)):
        write_picture(out / "winoground" / "images" / f"ex_{index}_img_{number}.png", pictured)
    return {
        "id": index,
        "image_0": f"ex_{index}_img_0",
        "image_1": f"ex_{index}_img_1",
        "caption_0": item.caption,
        "caption_1": item.negative,
        "tag": kind,
        "secondary_tag": "",
        "num_main_preds": 1,
        "collapsed_tag": "Object" if kind == "swap_obj" else "Both",
    }


def _hard_positives(world: World, out: Path) -> int:
    rows = parallel(world, partial(_hard_positive_row, world, out), range(world.records))
    folder = out / "hard_positives"
    for kind in HARD_POSITIVE_KINDS:
        write_json(folder / f"{kind}.json", [row[kind][0] for row in rows])
        write_json(folder / f"{kind}_hard_positive.json", [row[kind][1] for row in rows])
    return len(rows)


def _hard_positive_row(world: World, out: Path, index: int) -> dict[str, tuple[dict, dict]]:
    """Make the record of each kind, and the one whose true caption is a hard positive."""
    rng = np.random.default_rng((world.seed, HARD_POSITIVES, index))
    scene, statement = _draw_statement(rng, unseen=False)
    name = f"hard_positives_{index:05d}"
    write_picture(out / "test" / f"{name}.png", scene)
    captions = {}
    for kind in HARD_POSITIVE_KINDS:
        item = hard_positive(rng, kind, scene, statement, world.other_axis)
        record = {"image_id": name, "true_caption": item.caption, "false_caption": item.negative}
        record["image_path"] = f"{name}.png"
        captions[kind] = record, {**record, "true_caption": item.paraphrase}
    return captions


def _retrieval(world: World, out: Path) -> int:
    images = parallel(world, partial(_retrieval_row, world, out), range(world.retrieval))
    write_json(out / "retrieval" / "dataset.json", {"dataset": "scenes", "images": images})
    return len(images)


def _retrieval_row(world: World, out: Path, index: int) -> dict:
    rng = np.random.default_rng((world.seed, RETRIEVAL, index))
    scene = layout.sample(rng, int(rng.integers(2, 5)), test=True)
    filename = f"retrieval_{index:05d}.png"
    write_picture(out / "test" / filename, scene)
    sentences = [{"raw": grammar.dense(rng, scene)} for _ in range(CAPTIONS)]
    return {"filename": filename, "filepath": "", "imgid": index, "split": "test", "sentences": sentences}


def _zeroshot(world: World, out: Path) -> int:
    count = 0
    for kind, split, names in (("symbols", SYMBOL, list(EVERY_SYMBOL)), ("colours", COLOUR, list(EVERY_COLOUR))):
        folder = out / f"zeroshot_{kind}"
        write_atomic(folder / "classnames.txt", "\n".join(names) + "\n")
        write_atomic(folder / "zeroshot_classification_templates.txt", "\n".join(CLASS_TEMPLATES[kind]) + "\n")
        jobs = itertools.product(range(len(names)), range(world.per_class))
        count += len(parallel(world, partial(_class_row, world, folder, kind, split, names), jobs))
    return count


def _class_row(world: World, folder: Path, kind: str, split: int, names: list[str], job: tuple[int, int]) -> None:
    rng = np.random.default_rng((world.seed, split, *job))
    class_name = names[job[0]]
    while True:
        scene = layout.sample(rng, 1, test=True, rare=True)
        thing = scene.things[0]
        if class_name == (thing.symbol if kind == "symbols" else thing.colour):
            break
    write_picture(folder / class_name / f"{class_name}_{job[1]:05d}.png", scene)


PARTS: dict[str, Callable[[World, Path], int]] = {
    "sugarcrepe": _sugarcrepe,
    "winoground": _winoground,
    "hard_positives": _hard_positives,
    "retrieval": _retrieval,
    "zeroshot": _zeroshot,
}
