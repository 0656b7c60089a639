"""Edits by words, against pairs that a person can read."""

import pytest

from compclip.audit import rule_audit
from compclip.text import true_edits

POS = {"dog": "NOUN", "red": "ADJ", "on": "ADP"}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("A red dog on the mat.", "no word"),
        ("a dog red on the mat", "exchanged ADJ+NOUN"),
        ("on the mat a red dog", "order of words"),
        ("a red dog on the green mat", "words added"),
        ("a dog on the mat", "words removed"),
        ("a red cat on the mat", "replaced NOUN"),
        ("a blue cat on the mat", "replaced ADJ+NOUN"),
        ("a red dog on the rug", "replaced other"),
        ("some blue cats near its rug", "replaced, more than 3 words"),
    ],
)
def test_kinds_of_edits(text, kind):
    assert rule_audit.describe_edit("a red dog on the mat", text, POS) == kind


@pytest.mark.parametrize(
    ("text", "still_true"),
    [
        ("A dog and a cat", True),
        ("a cat and a dog", True),
        ("a dog and a cow", False),
        ("a dog cat and a", False),
        ("there is a pet", True),  # another caption of the picture
        ("a cat or a dog", False),
    ],
)
def test_what_is_still_true(text, still_true):
    assert true_edits.is_still_true("a dog and a cat", text, ["There is a pet."]) == still_true


def test_parts_inside_of_a_sentence_are_exchanged_too():
    caption = "there is a red dog and a blue cat on the mat"
    assert true_edits.is_still_true(caption, "there is a blue cat and a red dog on the mat", [])
    assert not true_edits.is_still_true(caption, "there is a blue dog and a red cat on the mat", [])


def test_words_of_other_captions_may_be_true():
    uses = true_edits.uses_other_captions
    assert uses("a dog", "a brown puppy", ["the brown one", "my puppy"])
    assert not uses("a dog", "a brown horse", ["the brown one"]) and not uses("a dog", "dog a", ["a dog"])


def test_changes_are_marked():
    assert rule_audit.mark_changes("a red dog", "a blue dog") == [("a", False), ("blue", True), ("dog", False)]
