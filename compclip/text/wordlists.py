"""SVLC's rule R: a word of one of five lists gives way to another word of its list (Doveh et al., CVPR 2023).

The lists are ours, of the kinds and near the sizes of the authors', which have no licence; `methods.svlc.words` takes
the user's own, words or phrases for each kind: {color: [red, blue], material: [wood, stainless steel]}.

Departures from the released code: whole words are found and exchanged, one of them, by offset (it finds parts of words
and exchanges every occurrence); the kind is drawn among those that occur; phrases are found too, the longest first.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from compclip.base.errors import UserError, unknown
from compclip.text import edits
from compclip.text.annotation import Annotation

MOST = 10_000  # words of a list
LONGEST = 100  # characters of a word
_WORD = re.compile(r"[^\W_][\w'’ -]*")
OURS = {
    "color": """red blue green yellow orange purple pink brown black white gray grey beige tan gold silver teal maroon
        navy turquoise violet magenta crimson scarlet ivory cream olive lavender indigo cyan khaki burgundy amber
        multicolored""",
    "action": """above across against along around at behind below beside between by down from in inside into near on
        onto off over through toward under up with; next to; in front of; on top of; close to; away from; out of; far
        from; sitting on; standing on; lying on; leaning on; walking on; riding on; hanging from; looking at; attached
        to; covered with; filled with; surrounded by""",
    "material": """wood wooden metal metallic plastic glass paper cardboard leather cotton wool woolen silk silky denim
        linen nylon polyester velvet satin lace fur furry felt suede canvas rubber foam wax clay ceramic porcelain
        terracotta brick stone concrete cement marble granite slate sandstone limestone gravel sand sandy dirt mud muddy
        steel iron aluminum copper brass bronze tin chrome lead platinum crystal diamond pearl bamboo wicker straw cork
        plywood vinyl fiberglass asphalt tile; stainless steel; wrought iron; particle board""",
    "size": """big small large little tall short long high low wide narrow thick thin huge tiny giant gigantic enormous
        massive immense vast colossal mammoth monumental towering mighty hulking sizable substantial considerable
        oversized bulky hefty heavy light lightweight miniature mini micro minuscule minute microscopic compact petite
        diminutive dwarf dwarfish undersized slim slender skinny lean lanky fat chubby plump stout stocky broad deep
        shallow lengthy elongated extended stretched squat stubby full half empty ample roomy spacious cramped tight
        loose baggy medium average moderate grand great monstrous titanic jumbo king-size pocket-size life-size
        full-length waist-high knee-high ankle-deep waist-deep bigger biggest smaller smallest larger largest taller
        tallest shorter shortest longer longest wider widest higher""",
    "state": """open closed clean dirty wet dry hot cold warm cool frozen melted new old young modern ancient broken
        cracked shattered whole ripe rotten fresh stale raw cooked baked fried grilled sliced chopped peeled shiny dull
        bright dark clear cloudy smooth rough soft hard bare lit parked moving""",
}


@dataclass(frozen=True, eq=False)
class Lists:
    """Words and phrases by kind, in lower case."""

    kinds: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, words: Mapping[str, Any]) -> Lists:
        """A user's lists, or ours where there are none. Raises UserError for another kind, or what is no word."""
        for kind, own in words.items():
            if kind not in OURS:
                raise unknown("kind of words", str(kind), OURS, "words")
            if not isinstance(own, Sequence) or not 1 < len(own) <= MOST or not all(map(_is_word, own)):
                raise UserError(f"words.{kind}: must be a list of 2 to {MOST} words or phrases; quote yes, no, on, off")
        kinds = {kind: tuple(dict.fromkeys(" ".join(w.lower().split()) for w in own)) for kind, own in words.items()}
        return cls(kinds) if kinds else ours()

    def rule(self, annotation: Annotation, rng: np.random.Generator) -> str | None:
        """Exchange one word of the caption for another of its list; None where none is in a list."""
        return self.of_text(annotation.text, rng)

    def of_text(self, text: str, rng: np.random.Generator) -> str | None:
        """The same of a text that was not annotated."""
        kinds = [(words, found) for kind, words in self.kinds.items() if (found := self._places(kind, text))]
        if not kinds:
            return None
        words, places = kinds[rng.integers(len(kinds))]
        said = {" ".join(text[slice(*place)].lower().split()) for place in places}
        others = [word for word in words if word not in said]
        if not others:
            return None
        place = places[rng.integers(len(places))]
        new = others[rng.integers(len(others))]
        return edits.put(text, place, new[0].upper() + new[1:] if text[place[0]].isupper() else new)

    def _places(self, kind: str, text: str) -> list[tuple[int, int]]:
        """Where words of a kind stand, whole."""
        spans = (match.span() for match in _pattern(self.kinds[kind]).finditer(text))
        return [span for span in spans if edits.bounded(text, *span)]


def _is_word(word: object) -> bool:
    return isinstance(word, str) and len(word) <= LONGEST and _WORD.fullmatch(word) is not None


@functools.lru_cache(maxsize=32)
def _pattern(words: tuple[str, ...]) -> re.Pattern[str]:
    """Any of some words or phrases between the edges of words, the longest first."""
    longest = sorted(words, key=lambda word: (-len(word), word))
    parts = [r"\s+".join(map(re.escape, word.split())) for word in longest]
    return re.compile(rf"(?<!\w)(?:{'|'.join(parts)})(?!\w)", re.IGNORECASE)


@functools.cache
def ours() -> Lists:
    """The lists that come with the package."""
    return Lists({kind: _entries(text) for kind, text in OURS.items()})


def _entries(text: str) -> tuple[str, ...]:
    """Single words until the first semicolon, then phrases between semicolons."""
    words, *phrases = text.split(";")
    return (*words.split(), *(" ".join(phrase.split()) for phrase in phrases))
