"""Questions to an OpenAI-compatible chat endpoint, each with or without a picture: parallel, retried, cached, counted.

    replies = ask([Question("Describe this image.", image="a.jpg")], server)

An attempt takes at most `timeout_s` and a wait between attempts at most `backoff_max_s`, whatever the server does, and
Ctrl-C ends both. Answers are kept under a hash of everything that decides them (model, prompt, picture's bytes,
settings), so that asking again sends nothing, whether or not the first time finished.
"""

from __future__ import annotations

import email.utils
import json
import queue
import random
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from compclip.base import json_text, secret
from compclip.base.errors import UserError, one_line
from compclip.base.redact import hidden, redacted
from compclip.base.surrogates import has, repaired
from compclip.config.servers import Server
from compclip.data import answers, images, question
from compclip.data.answers import Answer
from compclip.data.post import Lost, Poster, Reply
from compclip.data.question import Question

RETRIED = (408, 425, 429, 500, 502, 503, 504, 529)
HOPELESS = (401, 403, 404)  # every further question would be answered alike
TICK_S = 0.2  # how long Ctrl-C may have to wait for the main thread
MOST_TOKENS = 2**31


@dataclass(frozen=True)
class Replies:
    """An answer for each question, None where it failed, and the counts of what happened."""

    answers: tuple[Answer | None, ...]
    counts: Counter


def nothing() -> None:
    """Watch over nothing."""


@dataclass(frozen=True)
class _Said:
    """An answer, after how many retries, and whether its text had to be repaired."""

    answer: Answer
    retries: int
    mended: bool


class _Failed(Exception):
    """A question without an answer: `reason` is counted, `detail` is shown."""

    def __init__(self, reason: str, detail: str, retries: int = 0) -> None:
        super().__init__(detail)
        self.reason, self.retries = reason, retries


def ask(questions: Sequence[Question], server: Server, cache: str = "", watch: Callable[[], None] = nothing) -> Replies:
    """Ask what the cache does not know, `parallel` questions at a time; equal questions are asked once.

    `cache`: the file for these answers, where it is another than the server's own, which is then read alone. `watch` is
    called while answers are awaited, and may raise.

    Raises UserError where the key is missing or refused, the model or address is unknown, or more than
    `failures_allowed` of the questions fail; answers received until then are in the cache.
    """
    keys = [question.key(q, server) for q in questions]
    different = dict(zip(keys, questions, strict=True))
    counts: Counter = Counter(asked=len(questions), repeated=len(questions) - len(different))
    cache = cache or server.cache
    with answers.opened(cache, alone=cache != server.cache) as kept:
        known = _known(different, kept, server.cache, cache)
        counts["cached"] = len(known)
        missing = {key: one for key, one in different.items() if key not in known}
        if missing:
            with closing(_Pool(replace(server, cache=cache), watch)) as pool:
                for key, answer in _fetch(missing, pool, len(different), counts):
                    answers.remember(kept, key, answer)
                    known[key] = answer
    return Replies(tuple(known.get(key) for key in keys), counts)


def _known(keys: Iterable[str], kept: sqlite3.Connection, common: str, cache: str) -> dict[str, Answer]:
    with answers.common(common, cache) as older:
        files = [file for file in (kept, older) if file]
        found = {key: next(filter(None, (answers.recall(file, key) for file in files)), None) for key in keys}
    return {key: answer for key, answer in found.items() if answer}


def _fetch(missing: dict[str, Question], pool: _Pool, total: int, counts: Counter) -> Iterator[tuple[str, Answer]]:
    """Answers as they arrive; failures are counted, and too many end it."""
    server, failed = pool.server, 0
    for key, outcome in pool.outcomes(missing):
        if isinstance(outcome, _Failed):
            failed += 1
            counts.update({f"failed_{outcome.reason}": 1, "retries": outcome.retries})
            if failed > server.failures_allowed * total:
                raise _too_many(server, failed, total, outcome)
            continue
        _count(counts, outcome, server)
        yield key, outcome.answer


def _count(counts: Counter, said: _Said, server: Server) -> None:
    answer = said.answer
    tokens = {"prompt_tokens": answer.prompt_tokens, "completion_tokens": answer.completion_tokens}
    counts.update(tokens | {"answered": 1, "retries": said.retries, "cut_short": int(answer.cut_short)})
    if said.mended:
        counts["repaired_answers"] += 1
    cost = answer.prompt_tokens * server.prompt_price + answer.completion_tokens * server.completion_price
    if cost:
        counts["cost"] += cost / 1e6


def _too_many(server: Server, failed: int, total: int, last: _Failed) -> UserError:
    return UserError(
        f"{server.url}: {failed} of {total} questions failed, the last with {last.reason} ({last}); "
        f"answers so far are kept in {server.cache}: run again, or raise failures_allowed"
    )


# --- sending --------------------------------------------------------------------------------------------------


class _Pool:
    """Threads that ask; closing it ends what is under way. They are daemons: a process that ends waits for none."""

    def __init__(self, server: Server, watch: Callable[[], None]) -> None:
        self.server, self.watch = server, watch
        key = _key_of(server)
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
        self.poster = Poster(server.url.rstrip("/") + "/chat/completions", headers)
        self.stopped = threading.Event()

    def outcomes(self, missing: dict[str, Question]) -> Iterator[tuple[str, _Said | _Failed]]:
        """Key and outcome of each question, in the order in which they end. Raises UserError where all would fail."""
        asked: queue.SimpleQueue = queue.SimpleQueue()
        ended: queue.SimpleQueue = queue.SimpleQueue()
        for pair in missing.items():
            asked.put(pair)
        for _ in range(min(self.server.parallel, len(missing))):
            threading.Thread(target=self._work, args=(asked, ended), daemon=True).start()
        for _ in missing:
            key, outcome = _next(ended, self.watch)
            if not isinstance(outcome, (_Said, _Failed)):
                raise outcome
            yield key, outcome

    def close(self) -> None:
        """Drop what has not been sent, and end what has."""
        self.stopped.set()
        self.poster.stop()

    def _work(self, asked: queue.SimpleQueue, ended: queue.SimpleQueue) -> None:
        while not self.stopped.is_set():
            try:
                key, one = asked.get_nowait()
            except queue.Empty:
                return
            try:
                ended.put((key, self._said(one)))
            except Exception as error:  # for the thread that waits
                ended.put((key, error))

    def _said(self, one: Question) -> _Said:
        try:
            body = question.body(one, self.server)
        except images.ImageError as error:
            raise _Failed(f"{error.reason}_picture", str(error)) from None
        reply, retries = self._reply(json.dumps(body).encode())
        if reply.status != 200:
            raise _refused(reply, retries, self.server)
        return _parsed(reply.body, retries, one)

    def _reply(self, body: bytes) -> tuple[Reply, int]:
        """What the server says in the end, and after how many retries."""
        retries = 0
        while True:
            found = self._attempt(body)
            again = found.reason != "oversized" if isinstance(found, Lost) else found.status in RETRIED
            if not again or retries + 1 >= self.server.attempts:
                break
            if self.stopped.wait(_wait(found, retries, self.server)):
                break
            retries += 1
        if isinstance(found, Lost):
            raise _Failed(found.reason, str(found), retries)
        return found, retries

    def _attempt(self, body: bytes) -> Reply | Lost:
        try:
            return self.poster.send(body, self.server.timeout_s)
        except Lost as lost:
            return lost


def _next(ended: queue.SimpleQueue, watch: Callable[[], None]) -> tuple:
    while True:
        watch()
        try:
            return ended.get(timeout=TICK_S)
        except queue.Empty:
            continue


def _wait(found: Reply | Lost, retries: int, server: Server) -> float:
    """Seconds until the next attempt: what the server asks for, else twice as long each time; at most so many."""
    asked = None if isinstance(found, Lost) else _retry_after(found.headers.get("Retry-After") or "")
    own = server.backoff_s * (2.0 ** min(retries, 60) + random.random())
    return min(own if asked is None else asked, server.backoff_max_s)


def _retry_after(text: str) -> float | None:
    """The seconds that a header asks for, as a number or as a date."""
    if text.strip().isdecimal():
        return float(text)
    try:
        return max(email.utils.parsedate_to_datetime(text).timestamp() - time.time(), 0.0)
    except (ValueError, TypeError, OverflowError):
        return None


def _refused(reply: Reply, retries: int, server: Server) -> Exception:
    """The error of a status other than 200."""
    detail = _shown(reply.body, 200)
    if reply.status not in HOPELESS:
        return _Failed(f"http_{reply.status}", detail, retries)
    where = f"the key in {server.api_key_env or 'api_key_env (none is named)'}"
    return UserError(
        f"{server.url}: status {reply.status} for model {server.model!r}: {detail}; check url, model and {where}"
    )


def _shown(raw: bytes, length: int) -> str:
    """The beginning of a body. Some servers repeat the key in their errors."""
    return one_line(redacted(raw[:100_000].decode("utf-8", "replace")))[:length]


def _parsed(raw: bytes, retries: int, one: Question) -> _Said:
    try:
        value = json_text.value(raw.decode("utf-8"), "answer")
        choice, usage = value["choices"][0], value.get("usage") or {}
        text = question.said(choice, one)
        tokens = [int(usage.get(name) or 0) for name in ("prompt_tokens", "completion_tokens")]
        cut_short = choice.get("finish_reason") == "length"
    except (UserError, ValueError, LookupError, TypeError, AttributeError, OverflowError):
        raise _Failed("malformed", _shown(raw, 80), retries) from None
    if not all(0 <= number < MOST_TOKENS for number in tokens):
        raise _Failed("malformed", f"counts of tokens: {str(tokens)[:80]}", retries)
    if not text:
        raise _Failed("empty", "an empty answer", retries)
    return _Said(Answer(hidden(repaired(text)), cut_short, *tokens), retries, has(text))


def _key_of(server: Server) -> str:
    """The key. Raises UserError naming the variable, never its value."""
    if not server.api_key_env:
        return ""
    value = secret.resolve(server.api_key_env)
    if not value:
        raise UserError(
            f"api_key_env={server.api_key_env}: this environment variable is not set; export it with the "
            f"key of {server.url}, or leave api_key_env empty where none is needed"
        )
    if not value.isascii():
        raise UserError(
            f"api_key_env={server.api_key_env}: the variable holds more than ASCII; set it to the key alone"
        )
    return value
