"""One is singular; none and several are plural, with an `s` unless the plural is given. Shares are percent."""

import pytest

from compclip.base.messages import format_count, format_share


@pytest.mark.parametrize(
    ("count", "nouns", "text"),
    [
        (0, ("run",), "0 runs"),
        (1, ("run",), "1 run"),
        (2, ("run",), "2 runs"),
        (1, ("entry", "entries"), "1 entry"),
        (12_000, ("entry", "entries"), "12,000 entries"),
    ],
)
def test_a_noun_follows_its_number(count, nouns, text):
    assert format_count(count, *nouns) == text


def test_a_share_is_percent_and_a_cosine_is_not():
    assert format_share(0.81234) == "81.23"
    assert format_share(-0.2, is_cosine=True) == "-0.2000"
