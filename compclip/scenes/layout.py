"""Layouts: which symbols, in which colour, size and texture, stand where, and the words for all of these.

A picture has two by two cells. Test and training share no layout (a hash of the layout assigns the side), and every
symbol has one colour that occurs in test only. The first name of each word is the usual one; the others are true
synonyms.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from operator import attrgetter

import numpy as np

COLUMNS = 2
TEST_SHARE = 4  # one layout in four belongs to the test side
# Glyphs of DejaVu Sans, which matplotlib carries. SYMBOLS and COLOURS are those of fine-tuning and of questions about
# composition; the web, on which the world's model is pretrained, and zero-shot naming have those of RARE_ as well.
SYMBOLS: dict[str, tuple[str, tuple[str, ...]]] = {
    "umbrella": ("\u2602", ("umbrella", "parasol")),
    "plane": ("\u2708", ("plane", "aeroplane", "airplane")),
    "anchor": ("\u2693", ("anchor",)),
    "star": ("\u2605", ("star",)),
    "heart": ("\u2665", ("heart",)),
    "snowman": ("\u2603", ("snowman",)),
    "king": ("\u265a", ("king", "monarch")),
    "castle": ("\u265c", ("castle", "fortress")),
    "horse": ("\u265e", ("horse", "steed")),
    "sun": ("\u2600", ("sun",)),
    "cloud": ("\u2601", ("cloud",)),
    "moon": ("\u263e", ("moon", "crescent")),
}
COLOURS: dict[str, tuple[tuple[int, int, int], tuple[str, ...]]] = {
    "red": ((214, 32, 38), ("red", "crimson")),
    "blue": ((36, 80, 220), ("blue", "azure")),
    "green": ((30, 140, 50), ("green", "emerald")),
    "yellow": ((225, 190, 20), ("yellow", "golden")),
    "purple": ((130, 40, 160), ("purple", "violet")),
    "orange": ((240, 120, 20), ("orange", "tangerine")),
}
RARE_SYMBOLS: dict[str, tuple[str, tuple[str, ...]]] = {
    "telephone": ("\u260e", ("telephone", "phone")),
    "cup": ("\u2615", ("cup", "mug")),
    "skull": ("\u2620", ("skull",)),
    "pencil": ("\u270f", ("pencil",)),
    "envelope": ("\u2709", ("envelope", "letter")),
    "flower": ("\u273f", ("flower", "blossom")),
    "snowflake": ("\u2744", ("snowflake",)),
    "flag": ("\u2691", ("flag", "banner")),
    "gear": ("\u2699", ("gear", "cogwheel")),
    "clover": ("\u2618", ("clover", "shamrock")),
    "wheel": ("\u2638", ("wheel",)),
    "queen": ("\u265b", ("queen",)),
}
RARE_COLOURS: dict[str, tuple[tuple[int, int, int], tuple[str, ...]]] = {
    "pink": ((240, 120, 180), ("pink", "rosy")),
    "brown": ((120, 72, 30), ("brown", "chestnut")),
    "grey": ((130, 130, 130), ("grey", "gray")),
    "black": ((20, 20, 20), ("black", "ebony")),
}
EVERY_SYMBOL = {**SYMBOLS, **RARE_SYMBOLS}
EVERY_COLOUR = {**COLOURS, **RARE_COLOURS}
SIZES: dict[str, tuple[str, ...]] = {"small": ("small", "little"), "large": ("large", "big")}
TEXTURES: dict[str, tuple[str, ...]] = {
    "plain": ("plain", "solid"),
    "striped": ("striped", "stripy"),
    "spotted": ("spotted", "dotted"),
}
RELATIONS: dict[str, tuple[str, ...]] = {
    "above": ("above", "over"),
    "below": ("below", "under", "beneath"),
    "left": ("to the left of", "left of"),
    "right": ("to the right of", "right of"),
}
CONVERSE = {"above": "below", "below": "above", "left": "right", "right": "left"}
# Reading order, active and passive: what precedes stands to the left.
VERBS = {"left": ("precedes", "is followed by"), "right": ("follows", "is preceded by")}
NEAR = ("next to", "near", "beside")
NUMBERS = ("zero", "one", "two", "three", "four")
COLOUR_NAMES = list(COLOURS)
# The (colour, symbol) pairs that never occur in training: one colour for each symbol.
HELD_OUT = frozenset((COLOUR_NAMES[(5 * i + 1) % len(COLOUR_NAMES)], symbol) for i, symbol in enumerate(SYMBOLS))
CELLS = {  # of a scene of so many things
    1: ((0,), (1,), (2,), (3,)),
    2: ((0, 1), (2, 3), (0, 2), (1, 3)),
    3: ((0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3)),
    4: ((0, 1, 2, 3),),
}


def article(phrase: str) -> str:
    """Return the phrase with its indefinite article."""
    return ("an " if phrase[0] in "aeiou" else "a ") + phrase


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

    @property
    def symbols(self) -> set[str]:
        """The symbols of its things."""
        return {thing.symbol for thing in self.things}

    @property
    def colours(self) -> set[str]:
        """The colours of its things."""
        return {thing.colour for thing in self.things}

    def with_things(self, new: Mapping[Thing, Thing]) -> Scene:
        """Return the scene with new things in the places of some, in the order of their cells."""
        things = [new.get(thing, thing) for thing in self.things]
        return replace(self, things=tuple(sorted(things, key=attrgetter("cell"))))

    def key(self) -> str:
        """Return the layout as text, without shifts and background."""
        return ";".join(f"{t.cell}:{t.symbol}:{t.colour}:{t.size}:{t.texture}" for t in self.things)


def is_test(scene: Scene) -> bool:
    """Return whether the layout is on the test side, which depends on the layout alone."""
    return hashlib.sha256(scene.key().encode()).digest()[0] % TEST_SHARE == 0


def relation(a: Thing, b: Thing) -> str | None:
    """Return where `a` stands seen from `b`: above, below, left, right; None on a diagonal."""
    row_a, column_a = divmod(a.cell, COLUMNS)
    row_b, column_b = divmod(b.cell, COLUMNS)
    if row_a == row_b:
        return "left" if column_a < column_b else "right"
    if column_a == column_b:
        return "above" if row_a < row_b else "below"
    return None


def sample(rng: np.random.Generator, count: int, test: bool, rare: bool = False) -> Scene:
    """Draw a scene of `count` things with different symbols and colours, on the test or the training side.

    `rare`: from all symbols and colours of the web, otherwise from those of fine-tuning.
    """
    symbols = list(EVERY_SYMBOL if rare else SYMBOLS)
    colours = list(EVERY_COLOUR if rare else COLOURS)
    while True:
        cells = CELLS[count][rng.integers(len(CELLS[count]))]
        symbol_numbers = rng.choice(len(symbols), count, replace=False)  # as of the names, without an array of them
        colour_numbers = rng.choice(len(colours), count, replace=False)
        things = []
        for s, c, cell in zip(symbol_numbers, colour_numbers, cells, strict=True):
            size = _pick(rng, SIZES)
            texture = _pick(rng, TEXTURES)
            things.append(Thing(symbols[s], colours[c], size, texture, cell, tuple(rng.uniform(-1, 1, 2))))
        scene = Scene(tuple(things), int(rng.integers(225, 256)))
        if is_test(scene) if test else may_train(scene):
            return scene


def may_train(scene: Scene) -> bool:
    """Return whether training may show the scene: its layout is on the training side and no pair is held out."""
    return not is_test(scene) and not any(t.pair in HELD_OUT for t in scene.things)


def redrawn(rng: np.random.Generator, thing: Thing) -> Thing:
    """Draw size, texture and shift of a thing anew."""
    return replace(
        thing, size=_pick(rng, SIZES), texture=_pick(rng, TEXTURES), shift=tuple(rng.uniform(-1, 1, 2).tolist())
    )


def _pick(rng: np.random.Generator, names: dict) -> str:
    return list(names)[rng.integers(len(names))]


def swap_colours(scene: Scene, a: Thing, b: Thing) -> Scene:
    """Return the scene with the colours of two things exchanged."""
    return scene.with_things({a: replace(a, colour=b.colour), b: replace(b, colour=a.colour)})


def swap_places(scene: Scene, a: Thing, b: Thing) -> Scene:
    """Return the scene with the cells of two things exchanged."""
    return scene.with_things({a: replace(a, cell=b.cell), b: replace(b, cell=a.cell)})
