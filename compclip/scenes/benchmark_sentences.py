"""Make the sentences of the world's benchmarks: true, false, and true in other words.

Forms differ from those of the training grammar, and no rule that makes training negatives is used here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from compclip.scenes.grammar import Statement, choose
from compclip.scenes.layout import Scene, converse
from compclip.scenes.world_words import COLOURS, RELATIONS, SYMBOLS, article

FORMS = ("There is {a} {r} {b}.", "The picture shows {a} {r} {b}.", "{a} can be seen {r} {b}.")
PARAPHRASES = ("In this picture {b} appears {o} {a}.", "We see {b} {o} {a}.", "{b} is shown {o} {a}.")


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
        names = [RELATIONS[r] for r in (self.relation, converse(self.relation))]
        r, o = (n[min(synonym, len(n) - 1)] for n in names)
        extra = f" with {article(self.more)}" if self.more else ""
        a, b = (article(" ".join(filter(None, words))) for words in (self.a, self.b))
        sentence = form.format(a=a + extra, b=b, r=r, o=o)
        return sentence[0].upper() + sentence[1:]

    def other_words(self, rng: np.random.Generator) -> Wording:
        """Return the wording with synonyms wherever there are any."""
        a, b = ((_synonym(rng, colour), _synonym(rng, symbol)) for colour, symbol in (self.a, self.b))
        return Wording(a, b, self.relation)


def _synonym(rng: np.random.Generator, word: str) -> str:
    names = (COLOURS.get(word) or SYMBOLS.get(word) or ("", ("",)))[1]
    return choose(rng, names[1:]) if len(names) > 1 else word


def make_item(rng: np.random.Generator, kind: str, scene: Scene, s: Statement) -> SentencePair:
    """Make a record of subset `kind` for a statement that is true of the scene."""
    true, false = KINDS[kind](rng, scene, s)
    form = choose(rng, FORMS)
    return SentencePair(true.text(form), false.text(form), _reword_statement(rng, true))


def make_items(rng: np.random.Generator, scene: Scene, s: Statement) -> dict[str, SentencePair]:
    """Make a record of every subset; equal true captions have equal paraphrases."""
    form = choose(rng, FORMS)
    rewordings: dict[Wording, str] = {}
    texts: dict[str, SentencePair] = {}
    for kind, make in KINDS.items():
        true, false = make(rng, scene, s)
        rewordings[true] = rewordings.get(true) or _reword_statement(rng, true)
        texts[kind] = SentencePair(true.text(form), false.text(form), rewordings[true])
    return texts


def _reword_statement(rng: np.random.Generator, statement: Wording) -> str:
    return statement.other_words(rng).text(choose(rng, PARAPHRASES), synonym=1)


def absent(rng: np.random.Generator, names: dict, present: set[str]) -> str:
    """Draw a name that nothing in the scene has."""
    return str(choose(rng, [n for n in names if n not in present]))


def _swap_att(rng: np.random.Generator, scene: Scene, s: Statement) -> tuple[Wording, Wording]:
    a, b = s.a.pair, s.b.pair
    return Wording(a, b, s.relation), Wording((b[0], a[1]), (a[0], b[1]), s.relation)


def _swap_obj(rng: np.random.Generator, scene: Scene, s: Statement) -> tuple[Wording, Wording]:
    a, b = ("", s.a.symbol), ("", s.b.symbol)
    return Wording(a, b, s.relation), Wording(b, a, s.relation)


def _replace_obj(rng: np.random.Generator, scene: Scene, s: Statement) -> tuple[Wording, Wording]:
    replacement = absent(rng, SYMBOLS, {t.symbol for t in scene.things})
    return Wording(s.a.pair, s.b.pair, s.relation), Wording((s.a.colour, replacement), s.b.pair, s.relation)


def _replace_att(rng: np.random.Generator, scene: Scene, s: Statement) -> tuple[Wording, Wording]:
    """Replace the colour by that of another thing, so that its presence in the picture does not decide."""
    replacement = str(choose(rng, [t.colour for t in scene.things if t.symbol != s.a.symbol]))
    return Wording(s.a.pair, s.b.pair, s.relation), Wording((replacement, s.a.symbol), s.b.pair, s.relation)


def _replace_rel(rng: np.random.Generator, scene: Scene, s: Statement) -> tuple[Wording, Wording]:
    return Wording(s.a.pair, s.b.pair, s.relation), Wording(s.a.pair, s.b.pair, converse(s.relation))


def _add_obj(rng: np.random.Generator, scene: Scene, s: Statement) -> tuple[Wording, Wording]:
    a, b = ("", s.a.symbol), s.b.pair
    added = absent(rng, SYMBOLS, {t.symbol for t in scene.things})
    return Wording(a, b, s.relation), Wording(a, b, s.relation, more=added)


def _add_att(rng: np.random.Generator, scene: Scene, s: Statement) -> tuple[Wording, Wording]:
    added = absent(rng, COLOURS, {t.colour for t in scene.things})
    return Wording(("", s.a.symbol), s.b.pair, s.relation), Wording((added, s.a.symbol), s.b.pair, s.relation)


KINDS: dict[str, Callable[[np.random.Generator, Scene, Statement], tuple[Wording, Wording]]] = {
    "add_att": _add_att,
    "add_obj": _add_obj,
    "replace_att": _replace_att,
    "replace_obj": _replace_obj,
    "replace_rel": _replace_rel,
    "swap_att": _swap_att,
    "swap_obj": _swap_obj,
}


def hard_positive(rng: np.random.Generator, kind: str, scene: Scene, s: Statement) -> SentencePair:
    """Make a record of the hard-positive benchmarks: REPLACE relations, REPLACE attributes, or SWAP around "and"."""
    a, b = s.a.pair, s.b.pair
    if kind == "swap":
        pairs = ((a, b), ((b[0], a[1]), (a[0], b[1])), (b, a))
        return SentencePair(*(f"{article(' '.join(x))} and {article(' '.join(y))}" for x, y in pairs))
    statement, form = Wording(a, b, s.relation), "{a} {r} {b}"
    if kind == "replace_relations":
        false = Wording(a, b, converse(s.relation))
        return SentencePair(statement.text(form), false.text(form), statement.text(form, synonym=1))
    _, false = _replace_att(rng, scene, s)
    reworded = Wording((_synonym(rng, a[0]), a[1]), b, s.relation)
    return SentencePair(statement.text(form), false.text(form), reworded.text(form))


HARD_POSITIVES = ("replace_attributes", "replace_relations", "swap")
