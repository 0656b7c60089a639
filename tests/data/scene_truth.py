"""Which sentences of the training grammar are false of a scene: read from the words, knowing nothing of the grammar's
own functions."""

import re
from collections.abc import Callable

from compclip.scenes.layout import COLOURS, NEAR, NUMBERS, RELATIONS, SIZES, SYMBOLS, TEXTURES, Scene, Thing, relation

UMBRELLA = Thing("umbrella", "red", "small", "plain", 0)
ANCHOR = Thing("anchor", "blue", "large", "striped", 1)
PAIR = Scene((UMBRELLA, ANCHOR))
CORNERS = ("top left", "top right", "bottom left", "bottom right")
SAID = {word: name for names in (COLOURS, SYMBOLS) for name, (_, words) in names.items() for word in words}
SAID |= {word: name for names in (SIZES, TEXTURES, RELATIONS) for name, words in names.items() for word in words}
SAID |= {"precedes": "left", "is followed by": "left", "follows": "right", "is preceded by": "right"}


def _any(words) -> str:
    return "(?:" + "|".join(sorted(words, key=len, reverse=True)) + ")"


def _names(names) -> str:
    return _any(word for _, words in names.values() for word in words)


def _words(names) -> str:
    return _any(word for words in names.values() for word in words)


PHRASE = rf"(?:{_words(SIZES)} )?(?:{_names(COLOURS)} )?{_names(SYMBOLS)}"
THING = rf"(?:an?|the) ({PHRASE})"
LOOK = rf"({_any((_words(SIZES), _words(TEXTURES), _names(COLOURS)))})"
PLACE = rf"({_words(RELATIONS)})"


def meant(phrase: str, scene: Scene) -> Thing | None:
    """The scene's thing of which every word of the phrase is true; symbols differ, so that there is one at most."""
    symbols = {SAID[word] for word in phrase.split()}
    return next((t for t in scene.things if symbols <= {t.symbol, t.colour, t.size}), None)


def _stands(scene: Scene, a: str, name: str, b: str) -> bool:
    return _one_of(SAID[name])(scene, a, b)


def _with(scene: Scene, b: str, a: str, name: str) -> bool:
    return _stands(scene, a, name, b)


def _size_and_colour(scene: Scene, noun: str, *words: str) -> bool:
    return meant(" ".join((*words, noun)), scene) is not None


def _texture(scene: Scene, phrase: str, word: str) -> bool:
    thing = meant(phrase, scene)
    return thing is not None and thing.texture == SAID[word]


def _corner(scene: Scene, phrase: str, corner: str) -> bool:
    thing = meant(phrase, scene)
    return thing is not None and CORNERS[thing.cell] == corner


def _one_of(*names: str) -> Callable[[Scene, str, str], bool]:
    """Whether two things are in one of some relations."""

    def check(scene: Scene, a: str, b: str) -> bool:
        first, second = meant(a, scene), meant(b, scene)
        return first is not None and second is not None and relation(first, second) in names

    return check


def _looks_and_stands(scene: Scene, look: str, other_look: str, noun: str, name: str, b: str) -> bool:
    looks, thing = {SAID[look], SAID[other_look]}, meant(noun, scene)
    return thing is not None and looks <= {thing.colour, thing.size, thing.texture} and _stands(scene, noun, name, b)


def _count(scene: Scene, number: str) -> bool:
    return NUMBERS.index(number) == len(scene.things)


FORMS: dict[str, Callable[..., bool]] = {
    rf"{THING} (?:is |stands )?{PLACE} {THING}": _stands,
    rf"{THING} (precedes|follows|is followed by|is preceded by) {THING}": _stands,
    rf"{THING} with {THING} {PLACE} it": _with,
    rf"{THING} is ({_words(SIZES)}) and ({_names(COLOURS)})": _size_and_colour,
    rf"{THING} looks ({_words(TEXTURES)})": _texture,
    rf"{THING} is in the ({_any(CORNERS)}) corner": _corner,
    rf"{THING} is {_any(NEAR)} {THING}": _one_of("left", "right", "above", "below"),
    rf"{THING} and {THING} (?:(?:are|stand) side by side|next to each other)": _one_of("left", "right"),
    rf"{THING} and {THING} (?:are one above the other|stand one below the other|in one column)": _one_of(
        "above", "below"
    ),
    rf"an? {LOOK} and {LOOK} ({_names(SYMBOLS)}) is {PLACE} {THING}": _looks_and_stands,
    rf"there are {'(' + '|'.join(NUMBERS) + ')'} symbols on a light background": _count,
}


def false_sentences(text: str, scene: Scene) -> list[str]:
    """The sentences that are not true of the scene; one that no form reads fails the test."""
    return [sentence for sentence in text.rstrip(".").split(". ") if not _true(sentence.lower(), scene)]


def _true(sentence: str, scene: Scene) -> bool:
    matches = [(check, m) for form, check in FORMS.items() if (m := re.fullmatch(form, sentence))]
    assert len(matches) == 1, sentence
    return matches[0][0](scene, *matches[0][1].groups())
