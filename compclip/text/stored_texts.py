"""Texts that others wrote, stored beside a caption: its negatives, its paraphrases, captions of edited pictures."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable

import numpy as np

from compclip.text import word_edits
from compclip.text.annotation import SEPARATOR, Annotation
from compclip.text.rule_columns import reads_columns
from compclip.text.text_groups import DrawnTexts, SampleTexts, TextGroup

# streams of a sample's randomness (`train.view_maker` has the others)
WORDED = 4
VARIED = 6
LEAST_WEIGHT = 0.5  # of the variation with the lowest score
MOST_WORDS = 50  # of a variation's caption
_PUNCTUATION = re.compile(r'[.!"()*#:;~]')


@reads_columns("stored_paraphrase", requires="texts.paraphrase")
def paraphrase(annotation: Annotation, rng: np.random.Generator) -> str | None:
    """Draw one of the stored paraphrases evenly; None without one."""
    return _draw_other(annotation, "paraphrase", rng)


@reads_columns("stored_absent", requires="texts.absent")
def absent(annotation: Annotation, rng: np.random.Generator) -> str | None:
    """Draw one of the stored captions that deny what the picture does not show; None without one."""
    return _draw_other(annotation, "absent", rng)


def _draw_other(annotation: Annotation, kind: str, rng: np.random.Generator) -> str | None:
    texts_of_kind = annotation.stored.get(kind, ())
    texts = [text for text in texts_of_kind if not word_edits.equal_ignoring_case(text, annotation.text)]
    return texts[rng.integers(len(texts))] if texts else None


@reads_columns("stored_negative", requires="texts.negative")
def first_negative(annotation: Annotation, rng: np.random.Generator) -> str | None:
    """Return the first stored negative, that of the first negative picture; None if it is the caption itself."""
    return _text_at(annotation, 0)


@functools.cache
def nth(index: int) -> Callable[[Annotation, np.random.Generator], str | None]:
    """Return the rule that gives the stored negative number `index`, from 0, which belongs to that negative picture."""

    @reads_columns("stored_negative", requires="texts.negative")
    def rule(annotation: Annotation, rng: np.random.Generator) -> str | None:
        return _text_at(annotation, index)

    rule.__name__ = f"negative_{index}"
    return rule


def _text_at(annotation: Annotation, index: int) -> str | None:
    texts = annotation.stored.get("negative", ())[index : index + 1]
    return texts[0] if texts and not word_edits.equal_ignoring_case(texts[0], annotation.text) else None


@functools.cache  # views of equal parameters are equal
def other_wordings(count: int) -> TextGroup:
    """Return the group of other wordings of a caption: the picture's other captions, and stored paraphrases of it."""
    return TextGroup("alternatives", functools.partial(_draw_wordings, count), true=count, stream=WORDED)


@reads_columns("stored_paraphrase")
def _draw_wordings(count: int, sample: SampleTexts, rng: np.random.Generator) -> DrawnTexts:
    wordings = dict.fromkeys(caption.text for caption in sample.read_captions())
    wordings |= dict.fromkeys(sample.caption.stored.get("paraphrase", ()))
    wordings.pop(sample.caption.text, None)
    texts = list(wordings)
    return DrawnTexts([texts[i] for i in rng.permutation(len(texts))[:count]])


# --- variations of a picture, drawn by score as GNM-CLIP's program does -----------------------------------------
# (ugorsahin/Generative-Negative-Mining 59e365e, training/negative_mining_dataset.py:127-189, training/helpers.py:5)


@functools.cache
def variations(count: int) -> TextGroup:
    """Return the group of pictures drawn of those stored beside a caption, each with one of its own captions."""
    draw = functools.partial(_draw_variations, count)
    return TextGroup("variations", draw, false=count, stream=VARIED)


@reads_columns("stored_variation", requires="texts.variation")
def _draw_variations(count: int, sample: SampleTexts, rng: np.random.Generator) -> DrawnTexts:
    drawn = draw_variations(count, sample.caption, rng)
    return DrawnTexts(false=[text for _, text in drawn], pictures=[number for number, _ in drawn])


def draw_variations(count: int, annotation: Annotation, rng: np.random.Generator) -> list[tuple[int, str]]:
    """Draw some of the pictures stored beside a caption, each with one of its own captions: their numbers and texts.

    They are drawn without repetition, in proportion to how far a picture's score leads the lowest, plus a half; all
    where there are no more. Each caption of a picture has the same chance.
    """
    variations = []
    for number, text in enumerate(annotation.stored.get("variation", ())):
        score, *captions = text.split(SEPARATOR)
        if captions:
            variations.append((number, float(score), captions))
    if len(variations) > count:
        scores = np.array([score for _, score, _ in variations])
        weights = scores - scores.min() + LEAST_WEIGHT
        chosen = rng.choice(len(variations), count, replace=False, p=weights / weights.sum())
        variations = [variations[index] for index in chosen]
    return [(number, plain_words(captions[rng.integers(len(captions))])) for number, _, captions in variations]


def plain_words(text: str) -> str:
    """Return the first fifty words in lower case, without punctuation but commas, hyphens, marks of questions."""
    return " ".join(_PUNCTUATION.sub(" ", text.lower()).split()[:MOST_WORDS])
