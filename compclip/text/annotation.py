"""A caption with everything the rewriting rules need to know about it.

T tokens. Offsets count characters of `text`; token spans and sentence spans are half-open.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

Span = tuple[int, int]
Weighted = tuple[tuple[str, ...], tuple[int, ...]]  # words, and how likely each is to be drawn
NO_WORDS: Weighted = ((), ())
NUMBERS = ("starts", "ends", "heads")
WORDS = ("pos", "tag", "lemma", "dep")
SPANS = ("sentences", "chunks", "verbs")
TEXTS = ("text", "written_swap", "written_replace")
LABELS = ("pos", "tag", "dep")  # columns of codes of a shard's small dictionaries
# a shard's column of masked words; of stored texts, followed by their kind
MASKED = "masked"
STORED = "stored_"
# kinds of stored texts by a masked model
BARE = "bare"
DENSE_MASKED = "dense_masked"
SEPARATOR = "\t"  # between the words of a token; no word holds one


@dataclass(frozen=True, slots=True)
class Annotation:
    """One caption, its T tokens and the spans found in it.

    `starts`, `ends`: characters of each token. `pos`, `tag`: coarse (UPOS) and fine part of speech. `heads`: index of
    each token's head, its own for a root. `sentences`: character spans. `chunks`, `verbs`: token spans of noun chunks
    and of verb phrases (VERB? ADV* AUX* VERB+). `candidates`: for each token the words that may replace it.
    `relatives`: for each token the words that CLoVe's rule may put there; empty where the data were annotated without.
    `written_swap`, `written_replace`: hard positives of the whole caption by a language model, "" where there is none.
    `masked`: for each token the words that a masked language model puts there, likeliest first; () without a model.
    `stored`: released texts beside the caption or its picture, by kind; kinds without texts are left out.
    """

    text: str
    starts: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()
    pos: tuple[str, ...] = ()
    tag: tuple[str, ...] = ()
    lemma: tuple[str, ...] = ()
    dep: tuple[str, ...] = ()
    heads: tuple[int, ...] = ()
    sentences: tuple[Span, ...] = ()
    chunks: tuple[Span, ...] = ()
    verbs: tuple[Span, ...] = ()
    candidates: tuple[tuple[str, ...], ...] = ()
    written_swap: str = ""
    written_replace: str = ""
    masked: tuple[tuple[str, ...], ...] = ()
    stored: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    relatives: tuple[Weighted, ...] = ()

    def __len__(self) -> int:
        return len(self.starts)

    def word(self, token: int) -> str:
        """Return the token as it is in the text."""
        return self.text[self.starts[token] : self.ends[token]]

    def chars(self, span: Span) -> Span:
        """Return the character span of a (non-empty) token span."""
        return self.starts[span[0]], self.ends[span[1] - 1]

    def tokens(self, span: Span) -> Span:
        """Return the span of the tokens that begin within a character span."""
        return bisect_left(self.starts, span[0]), bisect_left(self.starts, span[1])

    def words(self, low: int = 0, high: int | None = None) -> list[str]:
        """Return the tokens of a span, by default all, as they are in the text."""
        text = self.text
        return [text[start:end] for start, end in zip(self.starts[low:high], self.ends[low:high], strict=True)]

    def lower_words(self, low: int = 0, high: int | None = None) -> list[str]:
        """Return the tokens of a span, by default all, in lower case."""
        text = self.text
        return [text[start:end].lower() for start, end in zip(self.starts[low:high], self.ends[low:high], strict=True)]

    def lower_lemmas(self, low: int = 0, high: int | None = None) -> list[str]:
        """Return the lemmas of a span's tokens, by default of all, in lower case."""
        return [lemma.lower() for lemma in self.lemma[low:high]]

    def dependents(self, head: int, *ways: str, start: int = 0, stop: int | None = None) -> list[int]:
        """Return the tokens of a span, by default all, that depend on `head` in one of these ways."""
        tokens = []
        low, high, _ = slice(start, stop).indices(len(self))
        for _ in range(self.heads[low:high].count(head)):  # `index` is the fast way through a long caption
            token = self.heads.index(head, low)
            low = token + 1
            if self.dep[token] in ways:
                tokens.append(token)
        return tokens

    def begins_sentence(self, token: int) -> bool:
        """Return whether a sentence begins with a token."""
        return any(begin == self.starts[token] for begin, _ in self.sentences)

    def sentence(self, index: int) -> Annotation:
        """Return sentence `index` as an annotation of its own, with offsets counted from its beginning.

        `written_swap` and `written_replace` are dropped, since they reword the whole caption; stored texts stay.
        """
        begin, end = self.sentences[index]
        if begin == 0 and end == len(self.text):
            return self
        low, high = self.tokens((begin, end))
        fields = {name: getattr(self, name)[low:high] for name in (*WORDS, "candidates", "masked", "relatives")}
        return Annotation(
            text=self.text[begin:end],
            starts=_shift(self.starts[low:high], begin),
            ends=_shift(self.ends[low:high], begin),
            heads=_shift(self.heads[low:high], low),
            sentences=((0, end - begin),),
            chunks=_spans_within(self.chunks, low, high),
            verbs=_spans_within(self.verbs, low, high),
            stored=self.stored,
            **fields,
        )

    def chunk_at(self, token: int) -> Span | None:
        """Return the noun chunk that a token is in."""
        for low, high in self.chunks:
            if low <= token < high:
                return low, high
        return None

    def read_as(self, adjectives: Iterable[int], nouns: Iterable[int]) -> Annotation:
        """Return the annotation with other parts of speech of some tokens, which are their own lemmas."""
        pos = list(self.pos)
        tag = list(self.tag)
        lemma = list(self.lemma)
        for tokens, name, label in ((adjectives, "ADJ", "JJ"), (nouns, "NOUN", "NN")):
            for token in tokens:
                pos[token] = name
                tag[token] = label
                lemma[token] = self.word(token).lower()
        return replace(self, pos=tuple(pos), tag=tuple(tag), lemma=tuple(lemma))

    def concepts(self) -> list[tuple[int, int, str]]:
        """Return the concepts of the caption (C2LIP Sec. 3): first character, end and phrase of each noun phrase.

        They begin behind the determiner; pronouns are none. Of phrases that are equal but for case, the first counts.
        """
        phrases: dict[str, tuple[int, int, str]] = {}
        for low, high in self.chunks:
            while low < high and self.pos[low] in ("DET", "SPACE", "PUNCT"):
                low += 1
            if low == high or (high - low == 1 and self.pos[low] == "PRON"):
                continue
            start, end = self.chars((low, high))
            phrase = self.text[start:end].strip()
            phrases.setdefault(" ".join(phrase.casefold().split()), (start, start + len(phrase), phrase))
        return list(phrases.values())


def _shift(values: tuple[int, ...], by: int) -> tuple[int, ...]:
    return tuple([v - by for v in values]) if by else values


def _spans_within(spans: tuple[Span, ...], low: int, high: int) -> tuple[Span, ...]:
    return tuple([(a - low, b - low) for a, b in spans if low <= a and b <= high])
