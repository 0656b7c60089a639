"""Slips of the tagger that captions show by themselves, mended for the rules that ask for agreement.

"A dog runs on the beach" read as one plural noun has its verb back, "a white and tan Dog" its noun and its colour.
"""

from __future__ import annotations

from dataclasses import replace

from compclip.text import caption_words, fitting_words
from compclip.text.annotation import Annotation
from compclip.text.word_edits import word_set

ANIMATE = word_set(
    "man woman boy girl child kid baby toddler person people lady guy adult teenager player dog puppy cat kitten horse "
    "bird cow sheep skier surfer rider cyclist biker climber skateboarder snowboarder athlete worker couple bear "
    "elephant giraffe zebra train bus boat plane taxi car truck van jet motorcycle ship kite tram goat runner walker"
)
BEHIND_VERBS = ("ADP", "ADV", "PUNCT", "SCONJ", "CCONJ", "PART")


def correct(a: Annotation) -> Annotation:
    """Return the annotation with such slips mended; itself where there is none."""
    if "PROPN" in a.pos:
        names = [t for t, pos in enumerate(a.pos) if pos == "PROPN" and (_is_colour(a, t) or _is_common_noun(a, t))]
        a = _correct_names(a, names) if names else a
    root = a.dep.index("ROOT") if "ROOT" in a.dep else 0
    return _correct_verb(a, root) if root and a.pos[root] == "NOUN" and _is_verb(a, root) else a


def _is_colour(a: Annotation, token: int) -> bool:
    """Return whether a name is a colour: in lower case, or the first of a caption."""
    is_written_so = token == 0 or a.word(token).islower()
    describes = a.dep[token] in ("amod", "conj", "pobj", "compound", "nmod")
    return is_written_so and describes and a.word(token).lower() in fitting_words.alternatives("color")


def _is_common_noun(a: Annotation, token: int) -> bool:
    """Return whether a name is a word of captions: in lower case, or the first of a caption or alone in capitals."""
    word = a.word(token)
    is_alone = token == 0 or a.pos[token - 1] != "PROPN" or not a.word(token - 1)[0].isupper()
    return a.tag[token] == "NNP" and word.lower() in caption_words.WORDS["n"] and (word.islower() or is_alone)


def _correct_names(a: Annotation, names: list[int]) -> Annotation:
    pos, tag, lemma = list(a.pos), list(a.tag), list(a.lemma)
    for t in names:
        is_colour = _is_colour(a, t) and a.dep[t] != "pobj"
        pos[t], tag[t] = ("ADJ", "JJ") if is_colour else ("NOUN", "NN")
        lemma[t] = a.word(t).lower()
    return replace(a, pos=tuple(pos), tag=tuple(tag), lemma=tuple(lemma))


def may_be_verb(a: Annotation, token: int) -> bool:
    """Return whether a noun may be the verb of the one before it: "a sail drifts near the rocks", "girls dance on"."""
    if not token or a.dep[token - 1] != "compound" or a.lemma[token].lower() not in caption_words.WORDS["v"]:
        return False
    return (a.tag[token - 1], a.tag[token]) in (("NN", "NNS"), ("NNS", "NN")) and _is_said_to(a, token)


def _is_said_to(a: Annotation, verb: int) -> bool:
    return verb + 1 == len(a) or a.pos[verb + 1] in BEHIND_VERBS


def _is_verb(a: Annotation, token: int) -> bool:
    """Return whether a noun at the root is the verb of the noun before it: "a dog runs", "sheep graze"."""
    subject = token - 1
    if a.lemma[token].lower() not in caption_words.WORDS["v"] or a.pos[subject] != "NOUN":
        return False
    if a.dep[subject] not in ("compound", "nmod") or a.heads[subject] != token:
        return False
    are_unlike = (a.tag[subject], a.tag[token]) in (("NN", "NNS"), ("NNS", "NN"))
    return are_unlike and _is_said_to(a, token) and a.lemma[subject].lower() in ANIMATE


def _correct_verb(a: Annotation, verb: int) -> Annotation:
    """Return the annotation with a verb and its subject, which takes the words before it."""
    pos, tag, dep, heads = list(a.pos), list(a.tag), list(a.dep), list(a.heads)
    pos[verb], tag[verb] = "VERB", "VBZ" if a.tag[verb - 1] == "NN" else "VBP"
    dep[verb - 1] = "nsubj"
    for t in range(verb - 1):
        heads[t] = verb - 1 if heads[t] == verb else heads[t]
    chunks = tuple((low, verb) if low < verb < high else (low, high) for low, high in a.chunks)
    return replace(a, pos=tuple(pos), tag=tuple(tag), dep=tuple(dep), heads=tuple(heads), chunks=chunks)
