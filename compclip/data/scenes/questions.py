"""The sentences of the world's benchmarks: what is true of a picture, what is not, and another way to say it.

Forms differ from those of the training grammar, and no rule that makes training negatives is used here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from compclip.data.scenes.grammar import Statement, choose
from compclip.data.scenes.layout import Scene, converse
from compclip.data.scenes.words import COLOURS, RELATIONS, SYMBOLS, article

FORMS = ("There is {a} {r} {b}.", "The picture shows {a} {r} {b}.", "{a} can be seen {r} {b}.")
PARAPHRASES = ("In this picture {b} appears {o} {a}.", "We see {b} {o} {a}.", "{b} is shown {o} {a}.")


@dataclass(frozen=True)
class Item:
    """A true caption, a false one that is nearly the same, and a true one in other words."""

    caption: str
    negative: str
    paraphrase: str


@dataclass(frozen=True)
class Said:
    """The words of a statement: (colour, symbol) of both things, a colour that is empty is not said."""

    a: tuple[str, str]
    b: tuple[str, str]
    relation: str
    more: str = ""

    def text(self, form: str, place: int = 0) -> str:
        """The statement in a form, relations by their first or a further name."""
        names = [RELATIONS[r] for r in (self.relation, converse(self.relation))]
        r, o = (n[min(place, len(n) - 1)] for n in names)
        extra = f" with {article(self.more)}" if self.more else ""
        a, b = (article(" ".join(filter(None, words))) for words in (self.a, self.b))
        sentence = form.format(a=a + extra, b=b, r=r, o=o)
        return sentence[0].upper() + sentence[1:]

    def other_words(self, rng: np.random.Generator) -> Said:
        """The same in synonyms wherever there are any."""
        a, b = (tuple(_synonym(rng, word) for word in words) for words in (self.a, self.b))
        return Said(a, b, self.relation)


def _synonym(rng: np.random.Generator, word: str) -> str:
    names = (COLOURS.get(word) or SYMBOLS.get(word) or ("", ("",)))[1]
    return choose(rng, names[1:]) if len(names) > 1 else word


def item(rng: np.random.Generator, kind: str, scene: Scene, s: Statement) -> Item:
    """A record of subset `kind` for a statement that is true of the scene."""
    true, false = KINDS[kind](rng, scene, s)
    form = choose(rng, FORMS)
    return Item(true.text(form), false.text(form), _in_other_words(rng, true))


def items(rng: np.random.Generator, scene: Scene, s: Statement) -> dict[str, Item]:
    """A record of every subset; where the true caption is the same, so is what is said in other words."""
    form, told, found = choose(rng, FORMS), {}, {}
    for kind, make in KINDS.items():
        true, false = make(rng, scene, s)
        told[true] = told.get(true) or _in_other_words(rng, true)
        found[kind] = Item(true.text(form), false.text(form), told[true])
    return found


def _in_other_words(rng: np.random.Generator, said: Said) -> str:
    return said.other_words(rng).text(choose(rng, PARAPHRASES), place=1)


def absent(rng: np.random.Generator, names: dict, present: set[str]) -> str:
    """A name that nothing in the scene has."""
    return str(choose(rng, [n for n in names if n not in present]))


def _swap_att(rng: np.random.Generator, scene: Scene, s: Statement) -> tuple[Said, Said]:
    a, b = s.a.pair, s.b.pair
    return Said(a, b, s.relation), Said((b[0], a[1]), (a[0], b[1]), s.relation)


def _swap_obj(rng: np.random.Generator, scene: Scene, s: Statement) -> tuple[Said, Said]:
    a, b = ("", s.a.symbol), ("", s.b.symbol)
    return Said(a, b, s.relation), Said(b, a, s.relation)


def _replace_obj(rng: np.random.Generator, scene: Scene, s: Statement) -> tuple[Said, Said]:
    other = absent(rng, SYMBOLS, {t.symbol for t in scene.things})
    return Said(s.a.pair, s.b.pair, s.relation), Said((s.a.colour, other), s.b.pair, s.relation)


def _replace_att(rng: np.random.Generator, scene: Scene, s: Statement) -> tuple[Said, Said]:
    """With the colour of another thing: to be told by who has it, not by its being in the picture."""
    other = str(choose(rng, [t.colour for t in scene.things if t.symbol != s.a.symbol]))
    return Said(s.a.pair, s.b.pair, s.relation), Said((other, s.a.symbol), s.b.pair, s.relation)


def _replace_rel(rng: np.random.Generator, scene: Scene, s: Statement) -> tuple[Said, Said]:
    return Said(s.a.pair, s.b.pair, s.relation), Said(s.a.pair, s.b.pair, converse(s.relation))


def _add_obj(rng: np.random.Generator, scene: Scene, s: Statement) -> tuple[Said, Said]:
    a, b = ("", s.a.symbol), s.b.pair
    other = absent(rng, SYMBOLS, {t.symbol for t in scene.things})
    return Said(a, b, s.relation), Said(a, b, s.relation, more=other)


def _add_att(rng: np.random.Generator, scene: Scene, s: Statement) -> tuple[Said, Said]:
    other = absent(rng, COLOURS, {t.colour for t in scene.things})
    return Said(("", s.a.symbol), s.b.pair, s.relation), Said((other, s.a.symbol), s.b.pair, s.relation)


KINDS: dict[str, Callable[[np.random.Generator, Scene, Statement], tuple[Said, Said]]] = {
    "add_att": _add_att,
    "add_obj": _add_obj,
    "replace_att": _replace_att,
    "replace_obj": _replace_obj,
    "replace_rel": _replace_rel,
    "swap_att": _swap_att,
    "swap_obj": _swap_obj,
}


def hard_positive(rng: np.random.Generator, kind: str, scene: Scene, s: Statement) -> Item:
    """A record of the hard-positive benchmarks: REPLACE relations, REPLACE attributes, or SWAP around "and"."""
    a, b = s.a.pair, s.b.pair
    if kind == "swap":
        return Item(
            *(
                f"{article(' '.join(x))} and {article(' '.join(y))}"
                for x, y in ((a, b), ((b[0], a[1]), (a[0], b[1])), (b, a))
            )
        )
    said, form = Said(a, b, s.relation), "{a} {r} {b}"
    if kind == "replace_relations":
        return Item(said.text(form), Said(a, b, converse(s.relation)).text(form), said.text(form, place=1))
    _, false = _replace_att(rng, scene, s)
    other = Said((_synonym(rng, a[0]), a[1]), b, s.relation)
    return Item(said.text(form), false.text(form), other.text(form))


HARD_POSITIVES = ("replace_attributes", "replace_relations", "swap")
