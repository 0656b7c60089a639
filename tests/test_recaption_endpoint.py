"""The endpoint captioner and its client against a small local server."""

from __future__ import annotations

import base64
import io
import json
import threading

import pytest
from PIL import Image

from compclip.base.errors import UserError
from compclip.config import grid, read
from compclip.config.sections import Data
from compclip.config.servers import Server
from compclip.data import chat, recaption, store
from compclip.data.captioners import endpoint
from compclip.data.sample import Sample
from tests.chat_server import Reply, prompt, said, serve


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


def test_retry_after_and_backoff_are_what_urllib3_is_told(server):
    """Retry-After goes before the back-off, which doubles; POST is retried although it is no safe method."""
    retries = chat._retries(server("http://x/v1", backoff_s=2.0, attempts=5))
    assert retries.total == 4
    assert retries.is_retry("POST", 429, has_retry_after=True)
    assert retries.is_retry("POST", 500)
    assert not retries.is_retry("POST", 400)
    assert retries.respect_retry_after_header
    waits = []
    for _ in range(4):
        waits.append(retries.get_backoff_time() if retries.history else 0.0)
        retries = retries.increment("POST", "/", error=None, response=_Response())
    assert waits[:2] == [0.0, 0.0]
    assert 4.0 <= waits[2] <= 6.0
    assert 8.0 <= waits[3] <= 10.0


class _Response:
    status, headers = 503, {}

    def get_redirect_location(self):
        """No redirect."""
        return False


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
    broken = True

    def answer(body):
        if broken and prompt(body) in ("q1", "q2"):
            raise Reply(500, "out of memory")
        return echo(body)

    with serve(answer) as at:
        with pytest.raises(
            UserError, match=r"2 of 4 questions failed, the last with http_500 \(out of memory\).*run again"
        ):
            chat.ask(questions(4), server(at.url, parallel=1, failures_allowed=0.25))
        broken = False
        asked = len(at.requests)
        made = chat.ask(questions(4), server(at.url, failures_allowed=0.25))
    assert made.counts["cached"] >= 1
    assert made.counts["cached"] + made.counts["answered"] == 4
    assert len(at.requests) - asked == made.counts["answered"]


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
    ],
)
def test_settings_out_of_range(server, key, value):
    """Named with their value."""
    with pytest.raises(UserError, match=f"{key}={value}: must be"):
        server(**{"url": "http://x/v1", key: value})


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
