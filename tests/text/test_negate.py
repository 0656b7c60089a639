"""Negatives by denial."""

import numpy as np
import pytest

from compclip.text import negate
from compclip.text.spacy_parser import annotate
from tests.text.conftest import outcomes

CREPE = {
    "The sky is blue.": {"The sky is not blue."},
    "A boy eats an apple.": {"A boy does not eat an apple.", "A boy eats no apple."},
    "A bathroom with a sink, toilet and shower.": {"A bathroom without a sink, toilet and shower."},
    "A couch and a television in a room.": {"A couch and a television not in a room."},
    "A man is sitting on a bench near a white van.": {
        "A man is not sitting on a bench near a white van.",
        "A man is sitting but not on a bench near a white van.",
        "A man is sitting on a bench but not near a white van.",
    },
    "A man wearing a hat is holding a cup in a field.": {
        "A man not wearing a hat is holding a cup in a field.",
        "A man wearing a hat is not holding a cup in a field.",
        "A man wearing no hat is holding a cup in a field.",
        "A man wearing a hat is holding no cup in a field.",
        "A man wearing a hat is holding a cup but not in a field.",
    },
    "The dog.": {None},
    "": {None},
}  # fmt: skip


@pytest.mark.parametrize("text", CREPE)
def test_what_can_be_denied(annotated, text):
    assert outcomes(negate.crepe, annotated[text]) == CREPE[text]


def test_conclip_denies_a_thing(annotated):
    """As released any thing; of one predicate and two things half of the denials are the predicate's."""
    bathroom = "A bathroom with a sink, toilet and shower."
    assert outcomes(negate.conclip, annotated[bathroom]) == {bathroom.replace("with", "without")}
    assert outcomes(negate.conclip, annotated["The sky is blue."]) == {None}
    assert outcomes(negate.conclip, annotated["A boy eats an apple."]) == {"A boy eats no apple."}
    a = annotated["A man is sitting on a bench near a white van."]
    things = {"A man is sitting on no bench near a white van.", "A man is sitting on a bench near no white van."}
    assert outcomes(negate.conclip_released, a) == things
    assert outcomes(negate.crepe_released, a) == things | {"A man is not sitting on a bench near a white van."}
    a = annotated["A man is sitting on a bench near a white van."]
    output = [negate.crepe(a, np.random.default_rng(seed)) for seed in range(400)]
    assert 150 < sum(" is not " in text for text in output) < 250


@pytest.mark.parametrize(
    "text", ["A man is not sitting on a bench.", "A dog without a collar is on a bench.", "No man is in a car."]
)
def test_what_denies_already_is_left_alone(text):
    (a,) = annotate([text], replacements=False)
    assert outcomes(negate.crepe, a, tries=5) == outcomes(negate.conclip, a, tries=5) == {None}
