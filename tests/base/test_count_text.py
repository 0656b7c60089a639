"""One is singular; none and several are plural, with an `s` unless the plural is given."""

import pytest

from compclip.base.count_text import format_count


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
