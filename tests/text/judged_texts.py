"""Texts of the rules, judged one by one by eye: `python -m tests.text.judged_texts RULE` prints what a rule makes now.

`judged/captions.txt` has the captions, sentences of our own in the manner of COCO and Flickr8k; `conjunctions.txt` has more
with "and", for the positives, `senses.txt` with words of several senses, for WordNet. `<rule>.txt` has one text a line: `+` reads as English and is wrong of the picture (or, of positives, still right), `-` does not; then the number of
the caption, from 0, the draw, and the text.
"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from compclip.text import negate, positives, replace, swap, wordlists
from compclip.text.annotation import Annotation
from compclip.text.spacy_parser import annotate

FOLDER = Path(__file__).parent / "judged"
FURTHER_CAPTIONS = {"positive_swap": ("conjunctions.txt",), "wordnet": ("senses.txt",)}
TEXTS, DRAWS = 200, 6  # of a rule, and of a caption at most
Rule = Callable[[Annotation, np.random.Generator], str | None]
RULES: dict[str, Rule] = {
    "atoms": swap.atoms,
    "crepe": negate.crepe,
    "conclip": negate.conclip,
    "positive_swap": positives.swap,
    "wordnet": replace.wordnet,
    "lists": wordlists.default_lists().rule,
}


def captions(name: str) -> list[str]:
    """The captions of a rule, one a line."""
    files = ("captions.txt", *FURTHER_CAPTIONS.get(name, ()))
    return [line for file in files for line in (FOLDER / file).read_text(encoding="utf-8").splitlines()]


def draw(rule: Rule, annotations: list[Annotation]) -> Iterator[tuple]:
    """The first 200 different texts of a rule: number of the caption, of the draw, text."""
    drawn: dict[str, tuple[int, int, str]] = {}
    for number in range(DRAWS):
        for i, a in enumerate(annotations):
            text = rule(a, np.random.default_rng((i, number)))
            if text is not None and len(drawn) < TEXTS:
                drawn.setdefault(text, (i, number, text))
    return iter(drawn.values())


def read_judged(name: str) -> dict[tuple[int, int, str], str]:
    """The mark of each judged text of a rule."""
    lines = (FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    judged = {}
    for mark, caption, number, text in (line.split(" ", 3) for line in lines):
        judged[int(caption), int(number), text] = mark
    return judged


if __name__ == "__main__":
    for caption, number, text in draw(RULES[sys.argv[1]], annotate(captions(sys.argv[1]))):
        print("?", caption, number, text)
