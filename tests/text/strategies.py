"""Hypothesis strategies: annotations of captions that no parser has seen, with odd words and overlapping roles."""

from hypothesis import strategies as st

from compclip.text import sentences
from compclip.text.annotation import Annotation
from compclip.text.word_edits import word_set

TAGS = {
    "NOUN": ("NN", "NNS"), "ADJ": ("JJ",), "ADV": ("RB",), "VERB": ("VBZ", "VBG"), "AUX": ("VBZ",), "DET": ("DT",),
    "ADP": ("IN",), "PUNCT": (".",), "PROPN": ("NNP",), "NUM": ("CD",), "X": ("FW",),
}  # fmt: skip
WORDS = sorted(
    word_set("a A the dog Dog dogs red T-shirt man's İstanbul ß 😀 and in runs 3.5 x.y I NASA \u200dzero — . , !")
)
GAPS = (" ", " ", " ", "  ", "\n", "")


@st.composite
def annotations(draw) -> Annotation:
    """An annotation that is consistent (ordered tokens, spans within) but otherwise arbitrary."""
    words = draw(st.lists(st.sampled_from(WORDS), max_size=14))
    text, starts, ends = "", [], []
    for word in words:
        starts.append(len(text))
        ends.append(len(text) + len(word))
        text += word + draw(st.sampled_from(GAPS))
    pos = [draw(st.sampled_from(sorted(TAGS))) for _ in words]
    tag = [draw(st.sampled_from(TAGS[p])) for p in pos]
    cuts = sorted(draw(st.sets(st.integers(0, len(words)), max_size=4)))
    spans = tuple(zip(cuts, cuts[1:], strict=False))
    heads = tuple(draw(st.integers(0, i)) for i in range(len(words)))
    begins = set(starts)
    sentence_spans = tuple((a, b) for a, b in sentences.split(text) if a in begins)
    tokens = (tuple(starts), tuple(ends), tuple(pos), tuple(tag), tuple(w.lower() for w in words))
    deps, candidates = tuple("dep" for _ in words), tuple(() for _ in words)
    return Annotation(text, *tokens, deps, heads, sentence_spans, spans, spans[::2], candidates)
