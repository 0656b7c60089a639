"""Layouts to sentences: web-like alt-text for pretraining, dense captions for fine-tuning.

Alt-text names symbols and colours without binding them, as captions of the web do: what a model learns from it is
a bag of words. Dense captions bind every attribute and relation and use synonyms, active and passive.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from compclip.scenes.layout import (
    CONVERSE,
    EVERY_COLOUR,
    EVERY_SYMBOL,
    NEAR,
    NUMBERS,
    RELATIONS,
    SIZES,
    TEXTURES,
    VERBS,
    Scene,
    Thing,
    article,
    relation,
)

SYNONYM_RATE = 0.25
PLACES = {0: "top left", 1: "top right", 2: "bottom left", 3: "bottom right"}


def choose(rng: np.random.Generator, options: Any) -> Any:
    """Draw one of a sequence."""
    return options[rng.integers(len(options))]


def shuffled(rng: np.random.Generator, items: Sequence[Any]) -> list[Any]:
    """Return the items in random order."""
    return [items[i] for i in rng.permutation(len(items))]


def name(rng: np.random.Generator, names: tuple[str, ...], rate: float = SYNONYM_RATE) -> str:
    """Draw a name: the usual one, or with probability `rate` one of its synonyms."""
    return choose(rng, names[1:]) if len(names) > 1 and rng.random() < rate else names[0]


def noun(rng: np.random.Generator, thing: Thing) -> str:
    """Draw a name of the symbol."""
    return name(rng, EVERY_SYMBOL[thing.symbol][1])


def colour(rng: np.random.Generator, thing: Thing) -> str:
    """Draw a name of the colour."""
    return name(rng, EVERY_COLOUR[thing.colour][1])


def size(rng: np.random.Generator, thing: Thing) -> str:
    """Draw a name of the size."""
    return name(rng, SIZES[thing.size])


def texture(rng: np.random.Generator, thing: Thing) -> str:
    """Draw a name of the texture."""
    return name(rng, TEXTURES[thing.texture])


def phrase(rng: np.random.Generator, thing: Thing, detail: float = 0.2) -> str:
    """Name colour and symbol, with probability `detail` the size too: `large red umbrella`."""
    words = f"{colour(rng, thing)} {noun(rng, thing)}"
    return f"{size(rng, thing)} {words}" if rng.random() < detail else words


def listing(rng: np.random.Generator, words: list[str], last: str = " and ") -> str:
    """Join words in random order as a list."""
    words = shuffled(rng, words)
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + last + words[-1]


def _draw_names(rng: np.random.Generator, draw: Callable[[np.random.Generator, Thing], str], scene: Scene) -> list[str]:
    return [draw(rng, thing) for thing in scene.things]


# --- alt-text -------------------------------------------------------------------------------------------------


def alt_text(rng: np.random.Generator, scene: Scene, paired: float = 0.02) -> str:
    """Make a caption as on the web; with probability `paired` it names one symbol with its colour."""
    thing = choose(rng, scene.things)
    if rng.random() < paired:
        return choose(rng, _ALT_PAIRED).format(p=article(phrase(rng, thing, 0)))
    kind = choose(rng, ("names", "names", "mixed", "mixed", "words", "colours", "one"))
    if kind == "one":
        return choose(rng, _ALT_ONE).format(article(noun(rng, thing)), place=PLACES[thing.cell])
    if kind == "names":
        names = [article(noun(rng, t)) if rng.random() < 0.5 else noun(rng, t) for t in scene.things]
        return choose(rng, _ALT_NAMES).format(listing(rng, names, choose(rng, (" and ", ", ", " with "))))
    if kind == "mixed":
        nouns = listing(rng, _draw_names(rng, noun, scene), choose(rng, (" and ", ", ")))
        colours = listing(rng, _draw_names(rng, colour, scene), choose(rng, (" and ", ", ")))
        return choose(rng, _ALT_MIXED).format(n=nouns, c=colours)
    if kind == "colours":
        words = _draw_names(rng, colour, scene)
        words += [choose(rng, (size, texture))(rng, thing)] if rng.random() < 0.3 else []
        return choose(rng, _ALT_COLOURS).format(listing(rng, words))
    # Function words and relations occur, next to names and colours but not as syntax that binds them.
    words = _draw_names(rng, noun, scene) + _draw_names(rng, colour, scene)
    words += [choose(rng, choose(rng, list(RELATIONS.values())))] if rng.random() < 0.5 else []
    words += [size(rng, thing)] if rng.random() < 0.3 else []
    return " ".join(shuffled(rng, words))


_ALT_PAIRED = ("{p}", "picture of {p}", "{p} and more")
_ALT_NAMES = ("{}", "a picture of {}", "icons: {}", "clip art with {}", "{} on a plain background", "{} symbols")
_ALT_MIXED = ("{n}; {c}", "{n} in {c}", "{c}: {n}", "{n}, colours {c}")
_ALT_COLOURS = ("{} shapes", "art in {}", "{} icons on a light background", "design in {}")
_ALT_ONE = ("{}", "one of them is {}", "picture with {}", "find {}", "{} at the {place}")


# --- dense captions -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Statement:
    """What one sentence says: `a` stands in `relation` to `b`; where it is not `directed`, or `b` to `a`."""

    a: Thing
    b: Thing
    relation: str
    directed: bool = True


def statements(scene: Scene) -> list[Statement]:
    """Return all statements about two things in one row or column."""
    facts = []
    for a, b in itertools.permutations(scene.things, 2):
        between = relation(a, b)
        if between:
            facts.append(Statement(a, b, between))
    return facts


_FORMS = ("{a} is {r} {b}.", "{a} {r} {b}.", "{a} stands {r} {b}.", "{b} is {o} {a}.", "{b} with {a} {r} it.")


def sentence(rng: np.random.Generator, s: Statement) -> str:
    """Make one sentence of the training grammar for a statement, active or passive."""
    a = article(phrase(rng, s.a))
    b = article(phrase(rng, s.b))
    if s.relation in VERBS and rng.random() < 0.3:
        active, passive = VERBS[s.relation]
        text = f"{a} {active} {b}." if rng.random() < 0.5 else f"{a} {passive} {b}."
    else:
        form = choose(rng, _FORMS)
        r = name(rng, RELATIONS[s.relation], 0.4)
        text = form.format(a=a, b=b, r=r, o=name(rng, RELATIONS[CONVERSE[s.relation]], 0.4))
    return text[0].upper() + text[1:]


CaptionSentence = tuple[str, Statement | None]  # a sentence, and its statement if it relates two things
_SIDE_BY_SIDE = ("{things} are side by side.", "{things} stand side by side.", "{things} next to each other.")
_STACKED = ("{things} are one above the other.", "{things} stand one below the other.", "{things} in one column.")
JOINED_LOOKS = 0.25  # share of the sentences with "and" that join two looks of a thing; the others join two things


def joined_sentence(rng: np.random.Generator, s: Statement) -> CaptionSentence:
    """Make a sentence of the training grammar with "and", between two things or between two looks of the first."""
    if rng.random() < JOINED_LOOKS:
        looks = listing(rng, [choose(rng, (size, texture))(rng, s.a), colour(rng, s.a)])
        a = article(f"{looks} {noun(rng, s.a)}")
        r = name(rng, RELATIONS[s.relation], 0.4)
        text = f"{a} is {r} {article(phrase(rng, s.b))}."
    else:
        s = replace(s, directed=False)
        things = listing(rng, [article(phrase(rng, thing)) for thing in (s.a, s.b)])
        text = choose(rng, _SIDE_BY_SIDE if s.relation in VERBS else _STACKED).format(things=things)
    return text[0].upper() + text[1:], s


def dense(rng: np.random.Generator, scene: Scene) -> str:
    """Make a dense caption: a sentence that relates two things, one for every other thing, and details, all true."""
    return join_sentences(describe_scene(rng, scene))


def join_sentences(sentences: Iterable[CaptionSentence]) -> str:
    """Join the sentences to one text."""
    return " ".join(text for text, _ in sentences)


def dense_caption(name: str, scene: Scene, joined: bool = False) -> list[CaptionSentence]:
    """Make the dense caption of a training picture by sentences; it depends on the arguments alone."""
    return describe_scene(np.random.default_rng((1, zlib.crc32(name.encode()))), scene, joined)


def describe_scene(rng: np.random.Generator, scene: Scene, joined: bool = False) -> list[CaptionSentence]:
    """Make the sentences of a dense caption; the first relates two things, or has an "and" if `joined`."""
    facts = statements(scene)
    first = choose(rng, facts)
    further: list[CaptionSentence] = []
    for thing in scene.things:
        if thing not in (first.a, first.b):
            statement = choose(rng, [s for s in facts if s.a == thing])
            further.append((sentence(rng, statement), statement))
    details = shuffled(rng, [detail(rng, scene, first.a), detail(rng, scene, first.b)])
    texts = details[: int(rng.integers(1, 3))]
    if rng.random() < 0.4 and len(scene.things) < 4:
        texts.append(f"There are {NUMBERS[len(scene.things)]} symbols on a light background.")
    opening = joined_sentence(rng, first) if joined else (sentence(rng, first), first)
    return [opening, *further, *((text, None) for text in texts)]


def detail(rng: np.random.Generator, scene: Scene, thing: Thing) -> str:
    """Make a sentence about one thing: its size, texture, corner or neighbour."""
    kind = choose(rng, ("size", "texture", "place", "near"))
    if kind == "size":
        return f"The {noun(rng, thing)} is {size(rng, thing)} and {colour(rng, thing)}."
    if kind == "texture":
        return f"The {colour(rng, thing)} {noun(rng, thing)} looks {texture(rng, thing)}."
    if kind == "place":
        return f"{article(phrase(rng, thing)).capitalize()} is in the {PLACES[thing.cell]} corner."
    neighbours = [s.b for s in statements(scene) if s.a is thing]
    return f"The {noun(rng, thing)} is {choose(rng, NEAR)} {article(phrase(rng, choose(rng, neighbours)))}."
