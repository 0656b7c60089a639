"""Sentences that the tests of the rules share, annotated once a session, and how to see all that a rule can make."""

from collections.abc import Callable

import numpy as np
import pytest

from compclip.text.annotation import Annotation
from compclip.text.spacy_parser import annotate

SENTENCES = (
    "",
    "Nice.",
    "running quickly",
    "The dog chases the cat.",
    "The dog.",
    "The cat.",
    "A brown dog chases a black cat.",
    "A small brown dog is chasing a big black cat.",
    "The man's dog sees the woman's cat.",
    "Two dogs and three cats sleep.",
    "A woman rides a red bike.",
    "A boy eats an apple.",
    "The horse is eating the green grass.",
    "a dog dog",
    "A man is sitting on a bench near a white van.",
    "A long road near a wall painted by a man.",
    "A man wearing a hat is holding a cup in a field.",
    "A cow on top of an old hill.",
    "An upright sign is 3 feet long.",
    "A sitting man in a white shirt.",
    "A couch and a television in a room.",
    "A blue and white clock shows the time.",
    "There is a man wearing glasses and holding a bottle.",
    "A bathroom with a sink, toilet and shower.",
    "Two giraffes near trees and bushes.",
    "An old gentleman in a white shirt and black tie.",
    "He stops and she runs.",
    "A mug of red tea and a green apple. It is next to the mug of red tea.",
    "A wet street. Cars pass slowly. A red bus stops quickly.",
    "The sky is blue.",
)


class Annotated(dict[str, Annotation]):
    """Annotations by their text, those of SENTENCES made at once and others when they are asked for."""

    def __missing__(self, text: str) -> Annotation:
        self[text] = annotate([text])[0]
        return self[text]


@pytest.fixture(scope="session")
def annotated() -> dict[str, Annotation]:
    """The annotations of SENTENCES, and of any other text, by their text."""
    return Annotated(zip(SENTENCES, annotate(SENTENCES), strict=True))


def outcomes(rule: Callable, *annotations: Annotation, tries: int = 400) -> set[str | None]:
    """Everything that a rule made of its annotations with `tries` different generators."""
    return {rule(*annotations, np.random.default_rng(seed)) for seed in range(tries)}
