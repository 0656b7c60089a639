"""Work that others end: waited for as long as it may take."""

from __future__ import annotations

import threading

import pytest

from compclip.base import bounded


def test_what_ends_is_handed_on():
    """A result, and an error as it was raised."""
    assert bounded.run_within(60, lambda: 3) == 3
    with pytest.raises(KeyError, match="there"):
        bounded.run_within(60, lambda: {}["there"])


def test_what_does_not_end_is_left():
    """Once it is not allowed any more."""
    ended, looks = threading.Event(), iter([True, False])
    with pytest.raises(TimeoutError):
        bounded.run_while(lambda: next(looks), ended.wait)
    ended.set()
    assert next(looks, "no further look") == "no further look"
