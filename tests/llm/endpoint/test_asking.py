"""How questions are asked: retried, timed out, cached, counted, in their order; and the key."""

import threading

import pytest

from compclip.base.errors import UserError
from compclip.llm import chat_client
from compclip.llm.answer_cache import Answer
from compclip.llm.chat_client import Question
from tests.chat_server import Reply, completion_body, prompt, serve
from tests.llm.endpoint.asked import always, echo, questions


def test_busy_then_success(ask):
    """A 429 with Retry-After and a 503 are asked again; two retries are counted and nothing failed."""
    replies = iter([Reply(429, "busy", {"Retry-After": "0"}), Reply(503, "starting")])

    def answer(body):
        for reply in replies:
            raise reply
        return echo(body)

    result, at = ask(answer)
    assert result.answers == (Answer("answer to q0", False, 7, 3),)
    assert len(at.requests) == 3
    assert +result.counts == {"asked": 1, "answered": 1, "retries": 2, "prompt_tokens": 7, "completion_tokens": 3}


def wait(retries=0, **headers):
    """How long is waited before the next attempt."""
    header_values = {name.replace("_", "-"): value for name, value in headers.items()}
    return chat_client._wait_s(chat_client.HttpReply(429, header_values, b""), retries)


def test_waits_double(monkeypatch):
    """Each with something by chance, and none beyond the most."""
    monkeypatch.setattr(chat_client, "WAIT_S", 2.0)
    assert [2.0 * 2**n <= wait(n) <= 2.0 * 2**n + 2.0 for n in range(4)] == [True] * 4
    assert wait(5000) == 60.0
    assert 2.0 <= chat_client._wait_s(chat_client.HttpReply(chat_client.UNREACHED, failure="timeout"), 0) <= 4.0


NO_SECONDS = ("-1", "nan", "soon", "", "1e9", "Fri, 31 Dec 9999 23:59:59 GMT")


@pytest.mark.parametrize(
    ("retry_after", "seconds"),
    [("0", 0.0), ("7", 7.0), ("999999999", 60.0), ("9" * 5000, 60.0), *((text, 1.0) for text in NO_SECONDS)],
)
def test_a_server_decides_a_wait_within_the_most(monkeypatch, retry_after, seconds):
    """Retry-After in seconds goes before the back-off; what is none is not there."""
    monkeypatch.setattr(chat_client.random, "random", lambda: 0.0)
    assert wait(Retry_After=retry_after) == seconds


def test_errors_until_failure_are_counted(ask):
    """A question that always gets 500 fails after its attempts; the others are answered."""

    def answer(body):
        if prompt(body) == "q1":
            raise Reply(500, "broken")
        return echo(body)

    result, at = ask(answer, count=3)
    assert [a and a.text for a in result.answers] == ["answer to q0", None, "answer to q2"]
    assert (result.counts["failed_http_500"], result.counts["retries"]) == (1, 2)
    assert sum(prompt(r) == "q1" for r in at.requests) == 3


def test_a_refused_question_is_not_repeated(ask):
    """400 is the question's own fault: asked once, counted."""
    result, at = ask(always(Reply(400, "too long")))
    assert result.counts["failed_http_400"] == len(at.requests) == 1


def test_empty_answers_are_counted_and_usage_may_be_absent(ask):
    """White space alone is no answer; an answer without usage is one."""
    bare = '{"choices": [{"message": {"content": "fine"}}]}'
    result, _ = ask(lambda body: completion_body(" \n") if prompt(body) == "q0" else bare, count=2)
    assert result.answers == (None, Answer("fine"))
    assert result.counts["failed_empty"] == 1


def test_answers_keep_the_order_of_the_questions(ask):
    """Four at a time, answered in reverse order."""
    turn, answered = threading.Condition(), []

    def answer(body):
        number = int(prompt(body)[1:])
        with turn:
            assert turn.wait_for(lambda: number == 3 or number + 1 in answered, timeout=30)
            answered.append(number)
            turn.notify_all()
        return echo(body)

    result, _ = ask(answer, count=4, parallel=4)
    assert answered == [3, 2, 1, 0]
    assert [a.text for a in result.answers] == [f"answer to q{i}" for i in range(4)]


def test_the_second_run_sends_nothing(server):
    """Answers come from the cache, wherever the server is; another model or setting asks anew."""
    with serve(echo) as at:
        first = chat_client.ask_questions(questions(3), server(at.url))
        second = chat_client.ask_questions(questions(3), server("http://elsewhere.invalid/v1"))
        assert len(at.requests) == 3
        for changes in ({"model": "n"}, {"temperature": 0.5}, {"seed": 1}):
            chat_client.ask_questions(questions(1), server(at.url, **changes))
        assert len(at.requests) == 6
    assert second.answers == first.answers
    assert +second.counts == {"asked": 3, "cached": 3}


def test_equal_questions_are_asked_once(server):
    """The same caption twice."""
    with serve(echo) as at:
        result = chat_client.ask_questions(questions(1) * 3, server(at.url))
    assert len(at.requests) == len(set(result.answers)) == 1 and result.counts["repeated"] == 2


def test_too_many_failures_end_it_and_what_was_answered_is_kept(server):
    """Beyond failures_allowed one line; the next run asks only what is open."""
    broken, later = True, []

    def answer(body):
        if broken and prompt(body) in ("q1", "q2"):
            raise Reply(500, "out of memory")
        if not broken:
            later.append(prompt(body))
        return echo(body)

    message = r"2 of 4 questions failed, the last with http_500 \(out of memory\).*run again"
    with serve(answer) as at:
        with pytest.raises(UserError, match=message):
            chat_client.ask_questions(questions(4), server(at.url, parallel=1, failures_allowed=0.25))
        broken = False
        result = chat_client.ask_questions(questions(4), server(at.url, failures_allowed=0.25))
    assert result.counts["cached"] + result.counts["answered"] == 4
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
        result = chat_client.ask_questions(questions(1), settings)
        with pytest.raises(UserError, match=r"status 401 for model 'm'.*\*\*\*.*the key in SOME_KEY") as caught:
            chat_client.ask_questions([Question("other")], settings)
    assert at.headers[0]["Authorization"] == "Bearer sk-very-secret"
    cache_bytes = b"".join(p.read_bytes() for p in (tmp_path / "cache").iterdir())
    output = f"{caught.value}{result}{settings}{capsys.readouterr()}{at.requests}{cache_bytes}"
    assert "very-secret" not in output


def test_an_absent_key_is_one_line_before_anything_is_sent(server, monkeypatch):
    """The variable is named; without a variable named no key is sent."""
    monkeypatch.delenv("SOME_KEY", raising=False)
    with serve(echo) as at:
        with pytest.raises(UserError, match="api_key_env=SOME_KEY: this environment variable is not set; export it"):
            chat_client.ask_questions(questions(2), server(at.url, api_key_env="SOME_KEY"))
        assert at.requests == []
        chat_client.ask_questions(questions(1), server(at.url))
    assert "Authorization" not in at.headers[0]
