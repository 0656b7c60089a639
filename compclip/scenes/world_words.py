"""The words of the scenes world: what can be drawn, and its names.

The first name of each entry is the usual one; the others are true synonyms. Relations name their converse.
"""

from __future__ import annotations

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


def article(phrase: str) -> str:
    """Return the phrase with its indefinite article."""
    return ("an " if phrase[0] in "aeiou" else "a ") + phrase
