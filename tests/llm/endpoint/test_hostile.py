"""What a server may do to whoever asks it: drip, never end, redirect, repeat a key, answer anything."""

import gc
import itertools
import json
import os
import signal
import threading
from urllib.parse import quote_plus

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from compclip.base import environment_variables
from compclip.base.errors import UserError
from compclip.llm import chat_client
from tests.chat_server import Reply, Stream, completion_body, prompt, serve
from tests.llm.endpoint.asked import always, echo, questions

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def drip(head):
    """A byte now and then, each in time: as a whole it takes half a minute."""
    pause = threading.Event()
    yield head
    for _ in range(3000):
        pause.wait(0.01)
        yield b" "


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 O", HEAD, HEAD + b"Content-Length: 9999\r\n\r\n", HEAD + b"X: "])
def test_an_answer_that_drips_is_late(ask, monkeypatch, head):
    """Whether its status, its headers or its body never ends: it is given up after the attempts."""
    monkeypatch.setattr(chat_client, "ATTEMPTS", 2)

    def answer(body):
        raise Stream(drip(head))

    result, _ = ask(answer, timeout_s=0.2)
    assert +result.counts == {"asked": 1, "failed_timeout": 1, "retries": 1}


@pytest.mark.parametrize("head", [HEAD + b"\r\n", HEAD + b"Content-Length: 99999999999\r\n\r\n"])
def test_an_endless_answer_is_cut_and_not_asked_again(ask, monkeypatch, head):
    """After 8 MiB; here after less."""
    monkeypatch.setattr(chat_client, "MAX_REPLY_BYTES", 1 << 16)
    result, at = ask(always(Stream(itertools.chain([head], itertools.repeat(b" " * 65536)))))
    assert +result.counts == {"asked": 1, "failed_oversized": 1}
    assert len(at.requests) == 1


def test_a_truncated_answer_is_asked_again(ask):
    """Less than its length says."""
    replies = itertools.chain([Stream([HEAD + b"Content-Length: 500\r\n\r\n{"])], itertools.repeat(None))

    def answer(body):
        if (first := next(replies)) is not None:
            raise first
        return echo(body)

    result, _ = ask(answer)
    assert (result.counts["answered"], result.counts["retries"]) == (1, 1)


def test_a_redirect_is_not_followed(ask, monkeypatch):
    """The key would go to another address."""
    monkeypatch.setenv("SOME_KEY", "sk-very-secret")
    with serve(echo) as other_server:
        elsewhere = Reply(307, "elsewhere", {"Location": other_server.url + "/chat/completions"})
        result, _ = ask(always(elsewhere), api_key_env="SOME_KEY")
    assert result.counts["failed_http_307"] == 1
    assert other_server.requests == []


@pytest.fixture
def interruptible():
    """Ctrl-C ends this process, also one that a shell started in the background, where it is ignored."""
    previous_handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous_handler)


@pytest.mark.parametrize("slow", ["a wait", "an answer"])
def test_ctrl_c_ends_a_wait(server, slow, interruptible, caplog, monkeypatch):
    """Of a quarter of an hour: this test would take as long. Nothing is said of what was under way."""
    monkeypatch.setattr(chat_client, "LONGEST_WAIT_S", 900.0)
    release = threading.Event()

    def answer(body):
        os.kill(os.getpid(), signal.SIGINT)
        if slow == "an answer":
            release.wait(900)
        raise Reply(429, "busy", {"Retry-After": "900"})

    with serve(answer) as at:
        with pytest.raises(KeyboardInterrupt):
            chat_client.ask_questions(questions(1), server(at.url, timeout_s=900.0))
        release.set()
    gc.collect()
    assert len(at.requests) == 1 and caplog.records == []


def test_halves_of_surrogate_pairs_are_repaired_and_counted(server):
    """No database and no file takes them."""
    with serve(lambda body: completion_body("a \ud800 dog")) as at:
        result = chat_client.ask_questions(questions(1), server(at.url))
        assert chat_client.ask_questions(questions(1), server(at.url)).answers == result.answers
    assert result.answers[0].text == "a \ufffd dog"
    assert result.counts["repaired_answers"] == 1


@pytest.mark.parametrize("key", ["secret-key\nwith a second line", "secret-key\x00", "secret-kéy"])
def test_a_key_that_no_header_takes_is_one_line(server, monkeypatch, key):
    """Before anything is sent, and without it."""
    if "\0" in key:
        monkeypatch.setattr(environment_variables.os, "environ", {"SOME_KEY": key})
    else:
        monkeypatch.setenv("SOME_KEY", key)
    with pytest.raises(UserError, match="SOME_KEY") as caught:
        chat_client.ask_questions(questions(1), server("http://x/v1", api_key_env="SOME_KEY"))
    assert "secret-k" not in str(caught.value)


@pytest.mark.parametrize("echoed", [lambda key: key, quote_plus, lambda key: json.dumps(key)[1:-1]])
def test_a_key_that_a_server_repeats_is_kept_nowhere(server, monkeypatch, tmp_path, echoed):
    """Not from an answer, not from an error that is cut within it, not from what is no answer."""
    key = 'k/9+x="very&secret'
    monkeypatch.setenv("SOME_KEY", key)
    said = completion_body(f"the key is {echoed(key)} indeed")
    replies = {"q0": (200, said), "q1": (400, "x" * 190 + echoed(key)), "q2": (200, echoed(key))}

    def answer(body):
        status, text = replies[prompt(body)]
        raise Reply(status, text)

    shown = []
    with serve(answer) as at:
        result = chat_client.ask_questions(questions(3), server(at.url, api_key_env="SOME_KEY"))
        for question in questions(3)[1:]:
            with pytest.raises(UserError, match="1 of 1 questions failed") as caught:
                chat_client.ask_questions([question], server(at.url, api_key_env="SOME_KEY", failures_allowed=0.0))
            shown.append(str(caught.value))
    cache_text = b"".join(p.read_bytes() for p in (tmp_path / "cache").iterdir()).decode("utf-8", "replace")
    output = f"{result}{shown}{cache_text}"
    assert result.answers[0].text == "the key is *** indeed"
    assert "secret" not in output and "k/9" not in output


@pytest.mark.parametrize("url", ["http://user:pass-word@host/v1", "https://host/v1?key=pass-word", "u:pass-word@h"])
def test_a_url_holds_no_secret(server, url):
    """It would stand in config.yaml."""
    with pytest.raises(UserError, match="url: must have no user.*give a key as api_key_env") as caught:
        server(url)
    assert "pass-word" not in str(caught.value)


def test_a_key_in_place_of_its_variable_is_not_shown(server):
    """The name of a variable has no dash."""
    with pytest.raises(UserError, match="api_key_env: names no environment variable") as caught:
        server("http://x/v1", api_key_env="my-secret-key")
    assert "my-secret-key" not in str(caught.value)


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=5),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=3), below, max_size=3),
    max_leaves=5,
)


@given(
    content=ANY_JSON,
    usage=ANY_JSON | st.fixed_dictionaries({"prompt_tokens": ANY_JSON, "completion_tokens": ANY_JSON}),
    raw=st.none() | st.binary(max_size=40),
)
@example(content="x", usage={"prompt_tokens": float("inf")}, raw=None)
@example(content="x", usage={"prompt_tokens": 10**30}, raw=None)
@example(content="x", usage={"prompt_tokens": -1}, raw=None)
@example(content="x", usage=None, raw=b"[" * 100_000)
@example(content="x", usage=None, raw=b"1" * 5000)
@settings(max_examples=200)
def test_any_answer_is_one_or_is_counted(content, usage, raw):
    """Whatever a server sends with status 200: what is kept is text that files take, and counts that a database takes."""
    if raw is None:
        raw = json.dumps({"choices": [{"message": {"content": content}}], "usage": usage}).encode()
    try:
        answer = chat_client._parse(raw, 0).answer
    except chat_client._QuestionFailed as failed:
        assert failed.reason in ("malformed", "empty")
    else:
        assert answer.text.encode()
        assert 0 <= answer.prompt_tokens < 2**31 and 0 <= answer.completion_tokens < 2**31
