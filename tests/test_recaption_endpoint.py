"""The endpoint captioner and its client against a small local server."""

from __future__ import annotations

import base64
import io
import itertools
import json
import os
import signal
import threading
from urllib.parse import quote_plus

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image

from compclip.base import secret
from compclip.base.errors import UserError
from compclip.config import grid, read
from compclip.config.sections import Data
from compclip.config.servers import Server
from compclip.data import chat, post, recaption, store
from compclip.data.captioners import endpoint
from compclip.data.sample import Sample
from tests.chat_server import Reply, Stream, prompt, said, serve


@pytest.fixture
def server(tmp_path):
    """Makes the settings of a test: no waiting between attempts, a cache of its own."""

    def make(url, **more):
        return Server(
            **{
                "url": url,
                "model": "m",
                "backoff_s": 0.0,
                "attempts": 3,
                "failures_allowed": 1.0,
                "cache": str(tmp_path / "cache" / "answers.sqlite"),
            }
            | more
        )

    return make


def questions(count):
    """Different questions without pictures."""
    return [chat.Question(f"q{i}") for i in range(count)]


def echo(body):
    """An answer that names its question."""
    return said(f"answer to {prompt(body)}")


def test_busy_then_success(server):
    """A 429 with Retry-After and a 503 are asked again; two retries are counted and nothing failed."""
    replies = iter([Reply(429, "busy", {"Retry-After": "0"}), Reply(503, "starting")])

    def answer(body):
        for reply in replies:
            raise reply
        return echo(body)

    with serve(answer) as at:
        made = chat.ask(questions(1), server(at.url))
    assert made.answers == (chat.Answer("answer to q0", False, 7, 3),)
    assert len(at.requests) == 3
    assert +made.counts == {"asked": 1, "answered": 1, "retries": 2, "prompt_tokens": 7, "completion_tokens": 3}


def wait(server, retries=0, **headers):
    """How long is waited before the next attempt."""
    return chat._wait(post.Reply(429, {k.replace("_", "-"): v for k, v in headers.items()}, b""), retries, server)


def test_waits_double(server):
    """Each with something by chance, and none beyond the most."""
    asked = server("http://x/v1", backoff_s=2.0)
    assert [2.0 * 2**n <= wait(asked, n) <= 2.0 * 2**n + 2.0 for n in range(4)] == [True] * 4
    assert wait(asked, 5000) == asked.backoff_max_s == 60.0
    assert 2.0 <= chat._wait(post.Lost("timeout", ""), 0, asked) <= 4.0


@pytest.mark.parametrize(
    ("told", "seconds"),
    [
        ("0", 0.0),
        ("7", 7.0),
        ("999999999", 60.0),
        ("9" * 5000, 60.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 60.0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
        *((text, 1.0) for text in ("-1", "nan", "inf", "soon", "", "1e9", "Fri, 99 Dec 9999")),
    ],
)
def test_a_server_decides_a_wait_within_the_most(server, monkeypatch, told, seconds):
    """Retry-After as a number or as a date goes before the back-off; what is neither is not there."""
    monkeypatch.setattr(chat.random, "random", lambda: 0.0)
    assert wait(server("http://x/v1", backoff_s=1.0), Retry_After=told) == seconds


def test_errors_until_failure_are_counted(server):
    """A question that always gets 500 fails after its attempts; the others are answered."""

    def answer(body):
        if prompt(body) == "q1":
            raise Reply(500, "broken")
        return echo(body)

    with serve(answer) as at:
        made = chat.ask(questions(3), server(at.url))
    assert [a and a.text for a in made.answers] == ["answer to q0", None, "answer to q2"]
    assert made.counts["failed_http_500"] == 1
    assert made.counts["retries"] == 2
    assert sum(prompt(r) == "q1" for r in at.requests) == 3


def test_a_refused_question_is_not_repeated(server):
    """400 is the question's own fault: asked once, counted."""

    def answer(body):
        raise Reply(400, "too long")

    with serve(answer) as at:
        made = chat.ask(questions(1), server(at.url))
    assert made.counts["failed_http_400"] == len(at.requests) == 1


@pytest.mark.parametrize(
    "body",
    [
        "no json",
        "[]",
        "{}",
        '{"choices": []}',
        '{"choices": [{"message": {"content": null}}]}',
        '{"choices": [{"message": {"content": "x"}}], "usage": {"prompt_tokens": "many"}}',
    ],
)
def test_malformed_answers_are_counted(server, body):
    """A 200 that is no chat answer."""
    with serve(lambda _: body) as at:
        made = chat.ask(questions(1), server(at.url))
    assert made.answers == (None,)
    assert made.counts["failed_malformed"] == 1


def test_empty_answers_are_counted_and_usage_may_be_absent(server):
    """White space alone is no answer; an answer without usage is one."""
    bare = '{"choices": [{"message": {"content": "fine"}}]}'
    with serve(lambda body: said(" \n") if prompt(body) == "q0" else bare) as at:
        made = chat.ask(questions(2), server(at.url))
    assert made.answers == (None, chat.Answer("fine"))
    assert made.counts["failed_empty"] == 1


def test_a_slow_answer_times_out(server):
    """An answer that does not come is given up after the attempts, and nobody waits for it any longer."""
    release, received = threading.Event(), threading.Semaphore(0)

    def answer(body):
        received.release()
        release.wait(30)
        return echo(body)

    with serve(answer) as at:
        made = chat.ask(questions(1), server(at.url, timeout_s=0.1, attempts=2))
        assert received.acquire(timeout=30)
        assert received.acquire(timeout=30)
        release.set()
    assert +made.counts == {"asked": 1, "failed_timeout": 1, "retries": 1}
    assert len(at.requests) == 2


def test_nobody_listens(server):
    """A closed port counts as unreached."""
    with serve(echo) as at:
        pass
    made = chat.ask(questions(1), server(at.url, attempts=2))
    assert made.counts["failed_unreached"] == 1


def test_answers_keep_the_order_of_the_questions(server):
    """Four at a time, answered in reverse order."""
    turn, answered = threading.Condition(), []

    def answer(body):
        number = int(prompt(body)[1:])
        with turn:
            assert turn.wait_for(lambda: number == 3 or number + 1 in answered, timeout=30)
            answered.append(number)
            turn.notify_all()
        return echo(body)

    with serve(answer) as at:
        made = chat.ask(questions(4), server(at.url, parallel=4))
    assert answered == [3, 2, 1, 0]
    assert [a.text for a in made.answers] == [f"answer to q{i}" for i in range(4)]


def test_the_second_run_sends_nothing(server):
    """Answers come from the cache, wherever the server is; another model or setting asks anew."""
    with serve(echo) as at:
        first = chat.ask(questions(3), server(at.url))
        second = chat.ask(questions(3), server("http://elsewhere.invalid/v1"))
        assert len(at.requests) == 3
        for more in ({"model": "n"}, {"temperature": 0.5}, {"seed": 1}):
            chat.ask(questions(1), server(at.url, **more))
        assert len(at.requests) == 6
    assert second.answers == first.answers
    assert +second.counts == {"asked": 3, "cached": 3}


def test_equal_questions_are_asked_once(server):
    """The same caption twice."""
    with serve(echo) as at:
        made = chat.ask(questions(1) * 3, server(at.url))
    assert len(at.requests) == 1
    assert len(set(made.answers)) == 1
    assert made.counts["repeated"] == 2


def test_too_many_failures_end_it_and_what_was_answered_is_kept(server):
    """Beyond failures_allowed one line; the next run asks only what is open."""
    broken, later = True, []

    def answer(body):
        if broken and prompt(body) in ("q1", "q2"):
            raise Reply(500, "out of memory")
        if not broken:
            later.append(prompt(body))
        return echo(body)

    with serve(answer) as at:
        with pytest.raises(
            UserError, match=r"2 of 4 questions failed, the last with http_500 \(out of memory\).*run again"
        ):
            chat.ask(questions(4), server(at.url, parallel=1, failures_allowed=0.25))
        broken = False
        made = chat.ask(questions(4), server(at.url, failures_allowed=0.25))
    assert made.counts["cached"] >= 1
    assert made.counts["cached"] + made.counts["answered"] == 4
    assert "q0" not in later and {"q1", "q2"} <= set(later)


def test_the_key_is_sent_and_never_shown(server, monkeypatch, capsys, tmp_path):
    """It goes into the header alone: not into errors (even where the server repeats it), counts, output or cache."""
    monkeypatch.setenv("SOME_KEY", "sk-very-secret")

    def answer(body):
        if prompt(body) == "q0":
            return echo(body)
        raise Reply(401, "Incorrect API key provided: sk-very-secret")

    with serve(answer) as at:
        settings = server(at.url, api_key_env="SOME_KEY")
        made = chat.ask(questions(1), settings)
        with pytest.raises(UserError, match=r"status 401 for model 'm'.*\*\*\*.*the key in SOME_KEY") as caught:
            chat.ask([chat.Question("other")], settings)
    assert at.headers[0]["Authorization"] == "Bearer sk-very-secret"
    kept = b"".join(p.read_bytes() for p in (tmp_path / "cache").iterdir())
    shown = f"{caught.value}{made}{settings}{capsys.readouterr()}{at.requests}{kept}"
    assert "very-secret" not in shown


def test_an_absent_key_is_one_line_before_anything_is_sent(server, monkeypatch):
    """The variable is named; without a variable named no key is sent."""
    monkeypatch.delenv("SOME_KEY", raising=False)
    with serve(echo) as at:
        with pytest.raises(UserError, match="api_key_env=SOME_KEY: this environment variable is not set; export it"):
            chat.ask(questions(2), server(at.url, api_key_env="SOME_KEY"))
        assert at.requests == []
        chat.ask(questions(1), server(at.url))
    assert "Authorization" not in at.headers[0]


def test_cost(server):
    """Tokens times prices, per million."""
    with serve(echo) as at:
        made = chat.ask(questions(2), server(at.url, prompt_price=1.0, completion_price=10.0))
    assert made.counts["cost"] == pytest.approx(2 * (7 * 1.0 + 3 * 10.0) / 1e6)


def test_a_cache_that_is_none(server, tmp_path):
    """Another file in its place is one line."""
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "answers.sqlite").write_text("not a database, but long enough to be taken for one" * 40)
    with pytest.raises(UserError, match="answers.sqlite: no usable cache of answers"):
        chat.ask(questions(1), server("http://x/v1"))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("parallel", 0),
        ("attempts", 0),
        ("timeout_s", 0.0),
        ("failures_allowed", 1.5),
        ("backoff_s", -1.0),
        ("url", "localhost:8000"),
        ("temperature", -0.1),
        ("backoff_max_s", -1.0),
        ("url", "http://:8000/v1"),
        ("url", "http://host:port/v1"),
    ],
)
def test_settings_out_of_range(server, key, value):
    """Named with their value."""
    with pytest.raises(UserError, match=f"{key}={value}: must be"):
        server(**{"url": "http://x/v1", key: value})


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def drip(head):
    """A byte now and then, each in time: as a whole it takes half a minute."""
    pause = threading.Event()
    yield head
    for _ in range(3000):
        pause.wait(0.01)
        yield b" "


@pytest.mark.parametrize("head", [b"", HEAD, HEAD + b"\r\n", HEAD + b"Content-Length: 9999\r\n\r\n", HEAD + b"X: "])
def test_an_answer_that_drips_is_late(server, head):
    """Whether its status, its headers or its body never ends."""

    def answer(body):
        raise Stream(drip(head))

    with serve(answer) as at:
        made = chat.ask(questions(1), server(at.url, timeout_s=0.3, attempts=1))
    assert +made.counts == {"asked": 1, "failed_timeout": 1}


@pytest.mark.parametrize("head", [HEAD + b"\r\n", HEAD + b"Content-Length: 99999999999\r\n\r\n"])
def test_an_endless_answer_is_cut_and_not_asked_again(server, monkeypatch, head):
    """After 8 MiB; here after less."""
    monkeypatch.setattr(post, "LIMIT", 1 << 16)

    def answer(body):
        raise Stream(itertools.chain([head], itertools.repeat(b" " * 65536)))

    with serve(answer) as at:
        made = chat.ask(questions(1), server(at.url))
    assert +made.counts == {"asked": 1, "failed_oversized": 1}
    assert len(at.requests) == 1


def test_a_truncated_answer_is_asked_again(server):
    """Less than its length says."""
    whole = itertools.chain([Stream([HEAD + b"Content-Length: 500\r\n\r\n{"])], itertools.repeat(None))

    def answer(body):
        if (first := next(whole)) is not None:
            raise first
        return echo(body)

    with serve(answer) as at:
        made = chat.ask(questions(1), server(at.url))
    assert (made.counts["answered"], made.counts["retries"]) == (1, 1)


def test_a_redirect_is_not_followed(server, monkeypatch):
    """The key would go to another address."""
    monkeypatch.setenv("SOME_KEY", "sk-very-secret")

    with serve(echo) as other:

        def answer(body):
            raise Reply(307, "elsewhere", {"Location": other.url + "/chat/completions"})

        with serve(answer) as at:
            made = chat.ask(questions(1), server(at.url, api_key_env="SOME_KEY"))
    assert made.counts["failed_http_307"] == 1
    assert other.requests == []


@pytest.fixture
def interruptible():
    """Ctrl-C ends this process, also one that a shell started in the background, where it is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("slow", ["a wait", "an answer"])
def test_ctrl_c_ends_a_wait(server, slow, interruptible):
    """Of a quarter of an hour: this test would take as long."""
    release = threading.Event()

    def answer(body):
        os.kill(os.getpid(), signal.SIGINT)
        if slow == "an answer":
            release.wait(900)
        raise Reply(429, "busy", {"Retry-After": "900"})

    with serve(answer) as at:
        with pytest.raises(KeyboardInterrupt):
            chat.ask(questions(1), server(at.url, backoff_max_s=900.0, timeout_s=900.0))
        release.set()
    assert len(at.requests) == 1


def test_halves_of_surrogate_pairs_are_repaired_and_counted(server):
    """No database and no file takes them."""
    with serve(lambda body: said("a \ud800 dog")) as at:
        made = chat.ask(questions(1), server(at.url))
        assert chat.ask(questions(1), server(at.url)).answers == made.answers
    assert made.answers[0].text == "a \ufffd dog"
    assert made.counts["repaired_answers"] == 1


@pytest.mark.parametrize("key", ["secret-key\nwith a second line", "secret-key\x00", "secret-kéy"])
def test_a_key_that_no_header_takes_is_one_line(server, monkeypatch, key):
    """Before anything is sent, and without it."""
    if "\0" in key:
        monkeypatch.setattr(secret.os, "environ", {"SOME_KEY": key})
    else:
        monkeypatch.setenv("SOME_KEY", key)
    with pytest.raises(UserError, match="SOME_KEY") as caught:
        chat.ask(questions(1), server("http://x/v1", api_key_env="SOME_KEY"))
    assert "secret-k" not in str(caught.value)


@pytest.mark.parametrize("echoed", [lambda key: key, quote_plus, lambda key: json.dumps(key)[1:-1]])
def test_a_key_that_a_server_repeats_is_kept_nowhere(server, monkeypatch, tmp_path, echoed):
    """Not from an answer, not from an error that is cut within it, not from what is no answer."""
    key = 'k/9+x="very&secret'
    monkeypatch.setenv("SOME_KEY", key)
    said_ = {
        "q0": (200, said(f"the key is {echoed(key)} indeed")),
        "q1": (400, "x" * 190 + echoed(key)),
        "q2": (200, echoed(key)),
    }

    def answer(body):
        status, text = said_[prompt(body)]
        raise Reply(status, text)

    with serve(answer) as at:
        made = chat.ask(questions(3), server(at.url, api_key_env="SOME_KEY"))
        with pytest.raises(UserError, match="1 of 1 questions failed") as caught:
            chat.ask(questions(3)[1:2], server(at.url, api_key_env="SOME_KEY", failures_allowed=0.0))
        with pytest.raises(UserError, match="1 of 1 questions failed") as other:
            chat.ask(questions(3)[2:], server(at.url, api_key_env="SOME_KEY", failures_allowed=0.0))
    kept = b"".join(p.read_bytes() for p in (tmp_path / "cache").iterdir()).decode("utf-8", "replace")
    shown = f"{made}{caught.value}{other.value}{kept}"
    assert made.answers[0].text == "the key is *** indeed"
    assert "secret" not in shown and "k/9" not in shown


@pytest.mark.parametrize(
    "url",
    ["http://user:pass-word@host/v1", "https://host/v1?key=pass-word", "http://host/v1#pass-word", "u:pass-word@h"],
)
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
        found = chat._parsed(raw, 0).answer
    except chat._Failed as failed:
        assert failed.reason in ("malformed", "empty")
    else:
        assert found.text.encode() and 0 <= found.prompt_tokens < 2**31 and 0 <= found.completion_tokens < 2**31


# --- the captioner --------------------------------------------------------------------------------------------


def described(body):
    """A caption that tells the size of the picture as received."""
    head, _, data = body["messages"][0]["content"][1]["image_url"]["url"].partition(",")
    assert head == "data:image/jpeg;base64"
    with Image.open(io.BytesIO(base64.b64decode(data))) as picture:
        return said(f"A picture {picture.width} wide.\n\nIt is {picture.height} high.")


@pytest.fixture
def pictures(tmp_path):
    """A wide and a tall picture and one that cannot be decoded."""
    Image.new("RGB", (400, 100), "red").save(tmp_path / "wide.png")
    Image.new("RGB", (30, 60), "blue").save(tmp_path / "tall.jpg")
    (tmp_path / "broken.jpg").write_bytes(b"no picture")
    return [Sample(n, str(tmp_path / n), ("old", "older")) for n in ("wide.png", "broken.jpg", "tall.jpg")]


def test_captions_replace_those_of_the_data(server, pictures):
    """The query of Figure 3 and the picture are sent; answers become one paragraph; a broken picture is counted."""
    with serve(described) as at:
        cfg = endpoint.Config(**vars(server(at.url)), image_side=200)
        made, counts = endpoint.caption(pictures, None, cfg)
        again, more = endpoint.caption(pictures, None, cfg)
    assert {s.id: s.captions for s in made} == {
        "wide.png": ("A picture 200 wide. It is 50 high.",),
        "tall.jpg": ("A picture 30 wide. It is 60 high.",),
    }
    assert counts["failed_unreadable_picture"] == 1
    assert prompt(at.requests[0]).startswith("Can you please describe this image in a long and detailed paragraph?")
    assert len(at.requests) == 2
    assert again == made
    assert more["cached"] == 2


def test_another_picture_of_the_same_name_is_asked_anew(server, pictures):
    """The cache knows pictures by their bytes."""
    with serve(described) as at:
        cfg = endpoint.Config(**vars(server(at.url)))
        endpoint.caption(pictures[:1], None, cfg)
        Image.new("RGB", (44, 55)).save(pictures[0].image)
        made, _ = endpoint.caption(pictures[:1], None, cfg)
    assert made[0].captions == ("A picture 44 wide. It is 55 high.",)


PARAMS = """
grid: {{methods: [pretrained], backbones: [b], data: [d], seeds: [0]}}
methods: {{pretrained: {{}}}}
backbones: {{b: {{model: ViT-B-32-quickgelu}}}}
data:
  d:
    source: karpathy
    path: d.json
    images: .
    captioner: {captioner}
    options: {options}
"""


def test_options_are_checked_with_close_matches(tmp_path):
    """Unknown keys, missing ones and bad values of a captioner name the key below data."""
    for captioner, options, fault in (
        (
            "endpoint",
            "{url: 'http://x/v1', model: m, promt: x}",
            "data.d.options: unknown key 'promt'; did you mean 'prompt'",
        ),
        ("endpoint", "{url: 'http://x/v1'}", "data.d.options.model: must be given"),
        ("endpoint", "{url: 'http://x/v1', model: m, parallel: 0}", "data.d.options.parallel=0: must be >= 1"),
        ("endpoint", "{url: 'http://x/v1', model: m, parallel: many}", "data.d.options.parallel='many': must be int"),
        ("none", "{url: 'http://x/v1'}", "data.d.options: captioner 'none' has no options; remove them"),
        ("endpont", "{}", "unknown captioner 'endpont'; did you mean 'endpoint'"),
    ):
        (tmp_path / "params.yaml").write_text(PARAMS.format(captioner=captioner, options=options))
        with pytest.raises(UserError) as caught:
            read.load(tmp_path / "params.yaml")
        assert fault in str(caught.value)


def test_the_recaption_stage(server, tmp_path, pictures):
    """From params.yaml's words to samples.parquet and counts.json."""
    records = [{"filename": s.id, "split": "train", "sentences": [{"raw": "old"}]} for s in pictures]
    (tmp_path / "d.json").write_text(json.dumps({"images": records}))
    with serve(described) as at:
        options = {"url": at.url, "model": "m", "cache": str(tmp_path / "c.sqlite")}
        data = Data("karpathy", str(tmp_path / "d.json"), str(tmp_path), captioner="endpoint", options=options)
        counts = recaption.recaption(data, grid.captioner_config(data), tmp_path / "out")
    assert sorted(s.captions[0] for s in store.load(tmp_path / "out" / "samples.parquet")) == [
        "A picture 30 wide. It is 60 high.",
        "A picture 400 wide. It is 100 high.",
    ]
    assert counts["answered"] == 2
    assert json.loads((tmp_path / "out" / "counts.json").read_text()) == counts
