"""Which adjectives and verbs around an "and" say the same in the other order, and what may be misread.

Of adjectives: all. Of verbs: those in -ing, which are at the same time ("jumps and catches" is an order).
"""

from __future__ import annotations

from compclip.text import caption_words, fitting_words, joined_phrases
from compclip.text.annotation import Annotation, Span


def fit(a: Annotation, first: Span, second: Span) -> tuple[Span, Span] | None:
    """Return the spans that may be exchanged, None where another order has another reading."""
    if a.pos[_head(a, first)] == "ADJ":
        return (first, second) if not any(_is_noun(a, t) for t in (_head(a, first), _head(a, second))) else None
    if a.pos[_head(a, first)] == "VERB":
        return _fit_verbs(a, first, second)
    return None


def _is_noun(a: Annotation, adjective: int) -> bool:
    """Return whether an adjective is the noun of "a sink and white towels", read as one phrase."""
    word = a.word(adjective).lower()
    return (
        word in caption_words.WORDS["n"]
        and word not in caption_words.WORDS["a"] | fitting_words.alternatives("color").keys()
    )


def _head(a: Annotation, span: Span) -> int:
    """Return the token of a span whose head is outside of it."""
    return next((t for t in range(*span) if not span[0] <= a.heads[t] < span[1] or a.heads[t] == t), span[0])


def _fit_verbs(a: Annotation, first: Span, second: Span) -> tuple[Span, Span] | None:
    """Return both verbs with all that belongs to them; None unless both are participles of one time."""
    x, y = _head(a, first), _head(a, second)
    if a.tag[x] != "VBG" or a.tag[y] != "VBG" or a.pos[first[1] - 1] == "ADP":
        return None
    may_share = first[1] - first[0] == 1 and a.lemma[x].lower() not in joined_phrases.LASTING
    if may_share and any(a.heads[t] == y and a.dep[t] == "dobj" for t in range(y, len(a))):
        return None  # "cutting and preparing a pizza"
    end = max([y, *(t for t in range(y, len(a)) if is_below(a, t, y))])
    while a.pos[end] in ("PUNCT", "SPACE"):
        end -= 1
    below = range(y + 1, end + 1)
    if any(a.dep[t] in ("nsubj", "mark", "cc", "conj") for t in below) or not all(is_below(a, t, y) for t in below):
        return None
    if a.pos[first[1] - 1] == "PUNCT" or any(a.dep[t] in ("cc", "conj") for t in range(x + 1, first[1])):
        return None
    return first, (second[0], end + 1)


def is_below(a: Annotation, token: int, head: int) -> bool:
    """Return whether `token` depends on `head`, directly or not, or is it."""
    while a.heads[token] != token and token != head:
        token = a.heads[token]
    return token == head


def is_list_longer(a: Annotation, second: Span) -> bool:
    """Return whether the parser joins a further part to the second: "a cup and pots and pans"."""
    high = second[1]
    return high < len(a) and a.dep[high] == "cc" and a.heads[high] == _head(a, second)
