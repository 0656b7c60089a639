"""Edits by words, against pairs that a person can read."""

import pytest

from compclip.text import true_edits


@pytest.mark.parametrize(("text", "still_true"), [
    ("A dog and a cat", True),
    ("a cat and a dog", True),
    ("a dog and a cow", False),
    ("a dog cat and a", False),
    ("there is a pet", True),  # another caption of the picture
    ("a cat or a dog", False),
])  # fmt: skip
def test_what_is_still_true(text, still_true):
    assert true_edits.is_still_true("a dog and a cat", text, ["There is a pet."]) == still_true


def test_parts_inside_of_a_sentence_are_exchanged_too():
    """Words of other captions may be true."""
    caption = "there is a red dog and a blue cat on the mat"
    assert true_edits.is_still_true(caption, "there is a blue cat and a red dog on the mat", [])
    assert not true_edits.is_still_true(caption, "there is a blue dog and a red cat on the mat", [])
    uses = true_edits.uses_other_captions
    assert uses("a dog", "a brown puppy", ["the brown one", "my puppy"])
    assert not uses("a dog", "a brown horse", ["the brown one"]) and not uses("a dog", "dog a", ["a dog"])
