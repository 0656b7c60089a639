"""Layouts: which symbols, in which colour, size and texture, stand where.

A picture has two by two cells. Test and training share no layout (a hash of the layout assigns the side), and every
symbol has one colour that occurs in test only.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import numpy as np

from compclip.scenes.world_words import COLOURS, CONVERSE, EVERY_COLOUR, EVERY_SYMBOL, SIZES, SYMBOLS, TEXTURES

COLUMNS = 2
TEST_SHARE = 4  # one layout in four belongs to the test side


@dataclass(frozen=True)
class Thing:
    """One symbol: canonical names, its cell (row by row), and its shift from the cell's centre in [-1, 1]."""

    symbol: str
    colour: str
    size: str
    texture: str
    cell: int
    shift: tuple[float, float] = (0.0, 0.0)

    @property
    def pair(self) -> tuple[str, str]:
        """Colour and symbol."""
        return self.colour, self.symbol


@dataclass(frozen=True)
class Scene:
    """Things in the order of their cells, on a background of this grey level."""

    things: tuple[Thing, ...]
    background: int = 245

    def key(self) -> str:
        """Return the layout as text, without shifts and background."""
        return ";".join(f"{t.cell}:{t.symbol}:{t.colour}:{t.size}:{t.texture}" for t in self.things)


def is_test(scene: Scene) -> bool:
    """Return whether the layout is on the test side, which depends on the layout alone."""
    return hashlib.sha256(scene.key().encode()).digest()[0] % TEST_SHARE == 0


def held_out() -> frozenset[tuple[str, str]]:
    """Return the (colour, symbol) pairs that never occur in training: one colour for each symbol."""
    colours = list(COLOURS)
    return frozenset((colours[(5 * i + 1) % len(colours)], symbol) for i, symbol in enumerate(SYMBOLS))


def relation(a: Thing, b: Thing) -> str | None:
    """Return where `a` stands seen from `b`: above, below, left, right; None on a diagonal."""
    row_a, column_a = divmod(a.cell, COLUMNS)
    row_b, column_b = divmod(b.cell, COLUMNS)
    if row_a == row_b:
        return "left" if column_a < column_b else "right"
    if column_a == column_b:
        return "above" if row_a < row_b else "below"
    return None


def related_pairs(scene: Scene) -> list[tuple[Thing, Thing, str]]:
    """Return all ordered pairs of things in one row or column with their relation."""
    pairs = [(a, b, relation(a, b)) for a in scene.things for b in scene.things if a is not b]
    return [(a, b, r) for a, b, r in pairs if r]


def sample(rng: np.random.Generator, count: int, test: bool, rare: bool = False) -> Scene:
    """Draw a scene of `count` things with different symbols and colours, on the test or the training side.

    `rare`: from all symbols and colours of the web, otherwise from those of fine-tuning.
    """
    symbols, colours = (EVERY_SYMBOL, EVERY_COLOUR) if rare else (SYMBOLS, COLOURS)
    while True:
        scene = _draw(rng, count, list(symbols), list(colours))
        if is_test(scene) if test else may_train(scene):
            return scene


def may_train(scene: Scene) -> bool:
    """Return whether training may show the scene: its layout is on the training side and no pair is held out."""
    return not is_test(scene) and not any(t.pair in _HELD_OUT for t in scene.things)


_HELD_OUT = held_out()
_CELLS = {
    1: ((0,), (1,), (2,), (3,)),
    2: ((0, 1), (2, 3), (0, 2), (1, 3)),
    3: ((0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3)),
    4: ((0, 1, 2, 3),),
}


def _draw(rng: np.random.Generator, count: int, symbols: list[str], colours: list[str]) -> Scene:
    cells = _CELLS[count][rng.integers(len(_CELLS[count]))]
    symbol_names = rng.choice(symbols, count, replace=False)
    dyed = rng.choice(colours, count, replace=False)
    things = tuple(
        Thing(str(s), str(c), _pick(rng, SIZES), _pick(rng, TEXTURES), cell, tuple(rng.uniform(-1, 1, 2)))
        for s, c, cell in zip(symbol_names, dyed, cells, strict=True)
    )
    return Scene(things, int(rng.integers(225, 256)))


def redrawn(rng: np.random.Generator, thing: Thing) -> Thing:
    """Draw size, texture and shift of a thing anew."""
    return replace(
        thing, size=_pick(rng, SIZES), texture=_pick(rng, TEXTURES), shift=tuple(rng.uniform(-1, 1, 2).tolist())
    )


def _pick(rng: np.random.Generator, names: dict) -> str:
    return list(names)[rng.integers(len(names))]


def swap_colours(scene: Scene, a: Thing, b: Thing) -> Scene:
    """Return the scene with the colours of two things exchanged."""
    new = {a: replace(a, colour=b.colour), b: replace(b, colour=a.colour)}
    return replace(scene, things=tuple(new.get(t, t) for t in scene.things))


def swap_places(scene: Scene, a: Thing, b: Thing) -> Scene:
    """Return the scene with the cells of two things exchanged."""
    new = {a: replace(a, cell=b.cell), b: replace(b, cell=a.cell)}
    things = sorted((new.get(t, t) for t in scene.things), key=lambda t: t.cell)
    return replace(scene, things=tuple(things))


def converse(name: str) -> str:
    """Return the relation seen from the other thing."""
    return CONVERSE[name]
