"""What is never shown: secrets that were read, and what looks like one."""

import json
import sys
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from compclip.base import environment_variables, errors
from compclip.base.errors import UserError, redact_secrets

VISIBLE = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=8, max_size=20)


@pytest.fixture(autouse=True)
def forgotten(monkeypatch):
    """Nothing is remembered from one test to the next."""
    monkeypatch.setattr(errors, "_secrets", set())


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("http://user:pw@host:5000/x", "http://***@host:5000/x"),
        ("postgresql+psycopg://u:p/w@x@host/db", "postgresql+psycopg://***@host/db"),
        ("https://token@host", "https://***@host"),
        ("https://h/v1?a=1&api_key=abc&b=2", "https://h/v1?a=1&api_key=***&b=2"),
        ("https://h?password=abc and https://h/?X-Amz-Signature=abc", "https://h?password=*** and https://h/?X-Amz-Signature=***"),
        ("host=h password=abc dbname=d", "host=h password=*** dbname=d"),
        ("Authorization: Bearer abc.def-1", "Authorization: Bearer ***"),
        ("Incorrect API key provided: sk-abcdefgh12", "Incorrect API key provided: sk-***"),
    ],
)  # fmt: skip
def test_what_looks_like_a_secret(text, redacted):
    assert redact_secrets(text) == redacted
    assert str(UserError(text)) == redacted


@pytest.mark.parametrize("text", [
    "params.yaml: override 'x': must be key=value, as train.lr=1e-5",
    "http://localhost:8000/v1: status 404 for model 'm'", "task-sk-1: unknown key 'tokens=3'; did you mean 'token'?",
    "a.jpg@1x, sqlite:///mlflow/mlflow.db",
])  # fmt: skip
def test_what_does_not(text):
    assert redact_secrets(text) == text


@given(
    user=VISIBLE,
    password=VISIBLE,
    before=st.sampled_from(["", "x ", "('"]),
    after=st.sampled_from(["", "/db?x=1", " y"]),
)
@example(user="user1234", password="p/w@?#:&=%", before="", after="/db")
def test_no_password_of_any_url(user, password, before, after):
    redacted = redact_secrets(f"{before}postgresql://{user}:{password}@the-host{after}")
    assert password not in redacted and "the-host" in redacted


@given(key=VISIBLE | st.text(min_size=8, max_size=20).map(str.strip).filter(lambda key: len(key) >= 8))
def test_no_form_of_what_was_read(key):
    """As it is, in a URL, in JSON, in Python's own words, on one line."""
    errors.remember_secret(key)
    for form in (key, quote(key, safe=""), json.dumps(key), repr(key), " ".join(key.split())):
        assert key not in redact_secrets(f"said <{form}>") and form.strip("\"'") not in redact_secrets(f"said <{form}>")
    errors._secrets.clear()


def test_a_secret_of_several_lines_is_refused_and_no_line_of_it_is_shown(monkeypatch):
    monkeypatch.setenv("KEY", "first-line\nsecond-line")
    with pytest.raises(UserError, match=r"^\$KEY: holds a line break"):
        environment_variables.read_secret("KEY")
    assert redact_secrets("first-line, second-line, first-line second-line") == "***, ***, ***"


def test_a_variable_is_read_when_it_is_used(monkeypatch):
    monkeypatch.delenv("KEY", raising=False)
    assert environment_variables.read_secret("KEY") == ""
    monkeypatch.setenv("KEY", " a-long-key\n")
    assert environment_variables.read_secret("KEY") == "a-long-key"
    assert str(UserError("it said a-long-key")) == "it said ***"


def test_a_traceback_shows_none_of_its_causes(monkeypatch, capsys):
    """As a command that ends in an error which is no user's shows it."""
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    errors.remember_secret("a-long-key")

    def main(argv):
        try:
            raise ValueError("cause: a-long-key")
        except ValueError as error:
            raise RuntimeError("http://u:pass-word@host") from error

    monkeypatch.setattr(sys, "argv", ["x"])
    with pytest.raises(RuntimeError) as caught:
        errors.entry(main)
    sys.excepthook(RuntimeError, caught.value, caught.value.__traceback__)
    error_output = capsys.readouterr().err
    assert "cause: ***" in error_output and "http://***@host" in error_output and "direct cause" in error_output
    assert "a-long-key\n" not in error_output and "pass-word\n" not in error_output


def test_ctrl_c_ends_a_command_with_a_word(monkeypatch, capsys):
    def main(argv):
        raise KeyboardInterrupt

    monkeypatch.setattr(sys, "argv", ["x"])
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    assert errors.entry(main) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_a_message_that_quotes_megabytes_is_bounded():
    """And has its beginning and its end: the file, and the fix."""
    message = str(UserError("f.json: record 3: " + "a.b@" * 500_000 + "; fetch it again"))
    assert len(message) < 4000 and message.startswith("f.json: record 3") and message.endswith("; fetch it again")
