"""A scene and its caption changed alike: the new caption is false of the scene and true of the changed one.

A scene's symbols differ from each other, and so do its colours: where a colour or a symbol passes from one thing to
another, exchanging their names in the caption says just that. Sizes and textures stay in their cell, as their words
stay in their sentence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

import numpy as np

from compclip.data.scenes import grammar
from compclip.data.scenes.grammar import Statement, Told
from compclip.data.scenes.layout import Scene, Thing, may_train, swap_colours
from compclip.data.scenes.words import COLOURS, NEAR, SIZES, SYMBOLS, TEXTURES, article

Words = Mapping[str, str]


@dataclass(frozen=True)
class Edit:
    """A changed scene, and by which words a caption follows it."""

    scene: Scene
    words: Words


def edits(rng: np.random.Generator, scene: Scene, said: Statement, count: int) -> list[Edit]:
    """`count` different changes of the two things of a statement, of as many kinds as have one.

    None shows a layout or a pair that is kept for test.
    """
    kinds = [_shuffled(rng, [e for e in kind(scene, said.a, said.b) if may_train(e.scene)]) for kind in KINDS]
    by_turns = zip_longest(*_shuffled(rng, kinds))
    return [edit for turn in by_turns for edit in turn if edit][:count]


def _shuffled(rng: np.random.Generator, items: Sequence[Any]) -> list[Any]:
    return [items[i] for i in rng.permutation(len(items))]


def _colours_exchanged(scene: Scene, a: Thing, b: Thing) -> list[Edit]:
    return [Edit(swap_colours(scene, a, b), _exchanged(COLOURS, a.colour, b.colour))]


def _things_exchanged(scene: Scene, a: Thing, b: Thing) -> list[Edit]:
    new = {a: replace(a, colour=b.colour, symbol=b.symbol), b: replace(b, colour=a.colour, symbol=a.symbol)}
    words = {**_exchanged(COLOURS, a.colour, b.colour), **_exchanged(SYMBOLS, a.symbol, b.symbol)}
    return [Edit(_with(scene, new), words)]


def _colour_replaced(scene: Scene, a: Thing, b: Thing) -> list[Edit]:
    absent = [c for c in COLOURS if c not in {t.colour for t in scene.things}]
    return [
        Edit(_with(scene, {t: replace(t, colour=c)}), _renamed(COLOURS, t.colour, c)) for t in (a, b) for c in absent
    ]


def _symbol_replaced(scene: Scene, a: Thing, b: Thing) -> list[Edit]:
    return [*_other_symbols(scene, a), *_other_symbols(scene, b)]


def _other_symbols(scene: Scene, thing: Thing) -> list[Edit]:
    absent = [s for s in SYMBOLS if s not in {t.symbol for t in scene.things}]
    return [Edit(_with(scene, {thing: replace(thing, symbol=s)}), _renamed(SYMBOLS, thing.symbol, s)) for s in absent]


KINDS: tuple[Callable[[Scene, Thing, Thing], list[Edit]], ...] = (
    _colours_exchanged,
    _things_exchanged,
    _colour_replaced,
    _symbol_replaced,
)


def _with(scene: Scene, new: Mapping[Thing, Thing]) -> Scene:
    return replace(scene, things=tuple(new.get(t, t) for t in scene.things))


def _renamed(names: Mapping[str, tuple], old: str, new: str) -> dict[str, str]:
    """Every name of the old by one of the new, the usual one by the usual one."""
    others = names[new][1]
    return {word: others[min(i, len(others) - 1)] for i, word in enumerate(names[old][1])}


def _exchanged(names: Mapping[str, tuple], one: str, other: str) -> dict[str, str]:
    return {**_renamed(names, one, other), **_renamed(names, other, one)}


# --- sentences ------------------------------------------------------------------------------------------------


def reworded(text: str, words: Words) -> str:
    """The text with these words for those, and its articles as the new ones want them."""
    pattern = "|".join(map(re.escape, sorted(words, key=len, reverse=True)))
    text = re.sub(rf"\b({pattern})\b", lambda m: words[m[1]], text)
    return re.sub(r"\b([Aa])n? (\w)", lambda m: f"{m[1]}{'n' * (m[2] in 'aeiou')} {m[2]}", text)


def paraphrases(rng: np.random.Generator, told: Sequence[Told], count: int) -> list[str]:
    """The same sentences in another order and other words, statements from either side: `count` different ones."""
    found = dict.fromkeys([grammar.joined(told)])
    while len(found) <= count:
        said = [grammar.sentence(rng, s) if s else reworded(text, _synonyms(rng)) for text, s in told]
        found.setdefault(" ".join(_shuffled(rng, said)))
    return list(found)[1:]


_NAMES = (
    *(names for _, names in (*COLOURS.values(), *SYMBOLS.values())),
    *SIZES.values(),
    *TEXTURES.values(),
    NEAR,
)


def _synonyms(rng: np.random.Generator) -> Words:
    return {word: grammar.choose(rng, names) for names in _NAMES for word in names}


def single(rng: np.random.Generator, scene: Scene) -> list[str]:
    """One sentence about each thing, and one about each two things in a row or column."""
    details = [grammar.detail(rng, scene, thing) for thing in scene.things]
    return details + [grammar.sentence(rng, s) for s in grammar.statements(scene) if s.a.cell < s.b.cell]


def denial(rng: np.random.Generator, scene: Scene) -> tuple[str, Scene]:
    """A caption that names what the scene shows but for one thing, which it denies, and a scene of which it is true.

    There the thing is not, or where such a layout is kept for test another symbol stands in its place.
    """
    denied, without = next(d for d in _absences(rng, scene) if may_train(d[1]))
    rest = [article(grammar.phrase(rng, t)) for t in scene.things if t is not denied]
    name = grammar.phrase(rng, denied, detail=0)
    form = grammar.choose(rng, _DENIALS)
    text = form.format(rest=grammar.listing(rng, rest), name=name, a_name=article(name))
    return text[0].upper() + text[1:], without


_DENIALS = ("{rest} and no {name}.", "{rest}, but no {name}.", "{rest} without {a_name}.", "{rest}, not {a_name}.")


def _absences(rng: np.random.Generator, scene: Scene) -> Iterator[tuple[Thing, Scene]]:
    things = _shuffled(rng, scene.things)
    for thing in things:
        yield thing, replace(scene, things=tuple(t for t in scene.things if t is not thing))
    for thing in things:
        yield from ((thing, edit.scene) for edit in _shuffled(rng, _other_symbols(scene, thing)))
