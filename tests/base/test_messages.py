"""Notes and warnings: on stderr, by the level of -v and -q, which jobs inherit."""

import logging
import re
from pathlib import Path

import pytest

from compclip.base import errors, messages
from compclip.base.errors import UserError


@pytest.fixture(autouse=True)
def no_level(monkeypatch):
    """No level from outside, and none that a test leaves."""
    monkeypatch.setenv(errors.LEVEL_VARIABLE, "")


def say() -> None:
    messages.note("a")
    messages.warn("b")


def test_both_by_default_and_none_when_quiet(monkeypatch, capsys):
    """A later message follows a level that was set meanwhile."""
    say()
    assert capsys.readouterr() == ("", "note: a\nwarning: b\n")
    monkeypatch.setenv(errors.LEVEL_VARIABLE, "error")
    say()
    assert capsys.readouterr() == ("", "")
    monkeypatch.setenv(errors.LEVEL_VARIABLE, "info")
    logging.getLogger("compclip").disabled = True  # as alembic does
    say()
    assert capsys.readouterr() == ("", "note: a\nwarning: b\n")
    monkeypatch.setenv(errors.LEVEL_VARIABLE, "loud")
    with pytest.raises(UserError, match="COMPCLIP_LOG: unknown level 'loud'"):
        say()


def test_notes_and_warnings_are_written_here_alone():
    """What a module prints by itself would not follow the level."""
    sources = Path(messages.__file__).parents[1].rglob("*.py")
    assert [p.name for p in sources if re.search(r"(print|write)\(\s*f?[\"'](note|warning|hint):", p.read_text())] == []
