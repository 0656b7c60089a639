"""Ask an OpenAI-compatible chat endpoint: questions with or without pictures, parallel, retried, cached, counted.

    replies = ask_questions([Question("Describe this image.", image="a.jpg")], server)

An attempt takes at most `timeout_s` and a wait between attempts at most `backoff_max_s`, whatever the server does, and
Ctrl-C ends both. A reply has a size limit. No redirect is followed: a key goes only to its own address. Answers are
cached under a hash of all that decides them (model, prompt, picture's bytes, settings).

Not openai, httpx with tenacity, requests or urllib3: their time limits hold per read and not per reply. A server that
sends a byte of its headers now and then kept urllib3 busy for as long as it liked, with a limit of 0.3 s.
"""

from __future__ import annotations

import contextlib
import email.utils
import http.client
import json
import queue
import random
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from compclip.base import environment_variables, json_text
from compclip.base.errors import UserError, one_line
from compclip.base.json_text import has_lone, replace_lone
from compclip.base.redact import hide_known, redact_secrets
from compclip.config.servers import Server
from compclip.data import images
from compclip.llm import answer_cache, chat_question
from compclip.llm.answer_cache import Answer
from compclip.llm.chat_question import Question

RETRIED = (408, 425, 429, 500, 502, 503, 504, 529)
HOPELESS = (401, 403, 404)  # every further question would get the same reply
TICK_S = 0.2  # how long Ctrl-C may have to wait for the main thread
MAX_TOKENS = 2**31
MAX_REPLY_BYTES = 8 << 20
CONNECT_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Replies:
    """An answer for each question, None where it failed, and the counts of what happened."""

    answers: tuple[Answer | None, ...]
    counts: Counter


@dataclass(frozen=True)
class _Success:
    """An answer, the number of retries, and whether its text had to be repaired."""

    answer: Answer
    retries: int
    was_repaired: bool


class _QuestionFailed(Exception):
    """A question without an answer: `reason` is counted, the message is shown."""

    def __init__(self, reason: str, detail: str, retries: int = 0) -> None:
        super().__init__(detail)
        self.reason, self.retries = reason, retries


def ask_questions(
    questions: Sequence[Question], server: Server, cache: str = "", watch: Callable[[], None] | None = None
) -> Replies:
    """Ask what the cache lacks, `parallel` questions at a time; equal questions are asked once.

    `cache`: the file for these answers, where it is not the server's, which is then only read. `watch` is called while
    answers are awaited, and may raise.

    Raises UserError where the key is missing or refused, the model or address is unknown, or more than
    `failures_allowed` of the questions fail; answers received until then are in the cache.
    """
    keys = [chat_question.cache_key(question, server) for question in questions]
    different = dict(zip(keys, questions, strict=True))
    counts: Counter = Counter(asked=len(questions), repeated=len(questions) - len(different))
    cache = cache or server.cache
    with answer_cache.open_cache(cache, alone=cache != server.cache) as connection:
        with answer_cache.open_shared_cache(server.cache, cache) as shared:
            caches = [connection, shared] if shared else [connection]
            cached = {key: answer_cache.load_answer(key, *caches) for key in different}
        answers = {key: answer for key, answer in cached.items() if answer}
        counts["cached"] = len(answers)
        missing = {key: question for key, question in different.items() if key not in answers}
        if missing:
            with contextlib.closing(_Pool(replace(server, cache=cache), watch)) as pool:
                for key, answer in _fetch(missing, pool, len(different), counts):
                    answer_cache.store_answer(connection, key, answer)
                    answers[key] = answer
    return Replies(tuple(answers.get(key) for key in keys), counts)


def _fetch(missing: dict[str, Question], pool: _Pool, total: int, counts: Counter) -> Iterator[tuple[str, Answer]]:
    """Give answers as they arrive. Failures are counted; too many raise UserError."""
    server, failures = pool.server, 0
    for key, outcome in pool.outcomes(missing):
        counts["retries"] += outcome.retries
        if isinstance(outcome, _QuestionFailed):
            failures += 1
            counts[f"failed_{outcome.reason}"] += 1
            if failures > server.failures_allowed * total:
                raise UserError(
                    f"{server.url}: {failures} of {total} questions failed, the last with {outcome.reason} "
                    f"({outcome}); answers so far are kept in {server.cache}: run again, or raise failures_allowed"
                )
            continue
        answer = outcome.answer
        counts.update(answered=1, cut_short=int(answer.cut_short))
        counts.update(prompt_tokens=answer.prompt_tokens, completion_tokens=answer.completion_tokens)
        if outcome.was_repaired:
            counts["repaired_answers"] += 1
        cost = answer.prompt_tokens * server.prompt_price + answer.completion_tokens * server.completion_price
        if cost:
            counts.update({"cost": cost / 1e6})
        yield key, answer


# --- sending --------------------------------------------------------------------------------------------------


class _Pool:
    """Threads that ask; closing it ends what is under way. They are daemons: a process that ends waits for none."""

    def __init__(self, server: Server, watch: Callable[[], None] | None) -> None:
        self.server, self.watch = server, watch
        key = _read_api_key(server)
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
        self.poster = Poster(server.url.rstrip("/") + "/chat/completions", headers)
        self.stopped = threading.Event()

    def outcomes(self, missing: dict[str, Question]) -> Iterator[tuple[str, _Success | _QuestionFailed]]:
        """Give key and outcome of each question as they end. Raises UserError where all would fail."""
        waiting: queue.SimpleQueue = queue.SimpleQueue()
        ended: queue.SimpleQueue = queue.SimpleQueue()
        for pair in missing.items():
            waiting.put(pair)
        for _ in range(min(self.server.parallel, len(missing))):
            threading.Thread(target=self._work, args=(waiting, ended), daemon=True).start()
        remaining = len(missing)
        while remaining:
            if self.watch:
                self.watch()
            try:
                key, outcome = ended.get(timeout=TICK_S)
            except queue.Empty:
                continue
            if not isinstance(outcome, (_Success, _QuestionFailed)):
                raise outcome
            remaining -= 1
            yield key, outcome

    def close(self) -> None:
        """Drop what has not been sent, and end what has."""
        self.stopped.set()
        self.poster.stop()

    def _work(self, waiting: queue.SimpleQueue, ended: queue.SimpleQueue) -> None:
        while not self.stopped.is_set():
            try:
                key, question = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                ended.put((key, self._ask(question)))
            except Exception as error:  # raised in the thread that waits
                ended.put((key, error))

    def _ask(self, question: Question) -> _Success:
        try:
            body = json.dumps(chat_question.request_body(question, self.server)).encode()
        except images.ImageError as error:
            raise _QuestionFailed(f"{error.reason}_picture", str(error)) from None
        retries = 0
        while True:
            reply = self.poster.send(body, self.server.timeout_s)
            again = reply.reason != "oversized" if isinstance(reply, NoReply) else reply.status in RETRIED
            if not again or retries + 1 >= self.server.attempts:
                break
            if self.stopped.wait(_wait_s(reply, retries, self.server)):
                break
            retries += 1
        if isinstance(reply, NoReply):
            raise _QuestionFailed(reply.reason, reply.detail, retries)
        if reply.status != 200:
            raise _refusal(reply, retries, self.server)
        return _parse(reply.body, retries, question)


def _wait_s(reply: HttpReply | NoReply, retries: int, server: Server) -> float:
    """Return the seconds until the next attempt: as the server asks, else twice as long each time; bounded."""
    header = "" if isinstance(reply, NoReply) else reply.headers.get("Retry-After") or ""  # a number or a date
    try:
        is_number = header.strip().isdecimal()
        seconds = float(header) if is_number else email.utils.parsedate_to_datetime(header).timestamp() - time.time()
    except (ValueError, TypeError, OverflowError):
        seconds = server.backoff_s * (2.0 ** min(retries, 60) + random.random())
    return min(max(seconds, 0.0), server.backoff_max_s)


def _refusal(reply: HttpReply, retries: int, server: Server) -> Exception:
    """Return the error of a status other than 200."""
    detail = _excerpt(reply.body, 200)
    if reply.status not in HOPELESS:
        return _QuestionFailed(f"http_{reply.status}", detail, retries)
    variable = f"the key in {server.api_key_env or 'api_key_env (none is named)'}"
    return UserError(
        f"{server.url}: status {reply.status} for model {server.model!r}: {detail}; check url, model and {variable}"
    )


def _excerpt(raw: bytes, length: int) -> str:
    """Return the beginning of a body without keys, which some servers repeat in their errors."""
    return one_line(redact_secrets(raw[:100_000].decode("utf-8", "replace")))[:length]


def _parse(raw: bytes, retries: int, question: Question) -> _Success:
    try:
        value = json_text.parse_json(raw.decode("utf-8"), "answer")
        choice, usage = value["choices"][0], value.get("usage") or {}
        text = chat_question.parse_choice(choice, question)
        tokens = [int(usage.get(name) or 0) for name in ("prompt_tokens", "completion_tokens")]
        cut_short = choice.get("finish_reason") == "length"
    except (UserError, ValueError, LookupError, TypeError, AttributeError, OverflowError):
        raise _QuestionFailed("malformed", _excerpt(raw, 80), retries) from None
    if not all(0 <= number < MAX_TOKENS for number in tokens):
        raise _QuestionFailed("malformed", f"counts of tokens: {str(tokens)[:80]}", retries)
    if not text:
        raise _QuestionFailed("empty", "an empty answer", retries)
    return _Success(Answer(hide_known(replace_lone(text)), cut_short, *tokens), retries, has_lone(text))


def _read_api_key(server: Server) -> str:
    """Return the key. Raises UserError naming the variable, never its value."""
    if not server.api_key_env:
        return ""
    value = environment_variables.read_secret(server.api_key_env)
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


# --- one POST ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NoReply:
    """No reply: `reason` is "timeout", "unreached" or "oversized"."""

    reason: str
    detail: str


@dataclass(frozen=True)
class HttpReply:
    """A status, its headers and the whole body."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes


class Poster:
    """Post to one address, from any number of threads. Each POST has its own connection."""

    def __init__(self, address: str, headers: Mapping[str, str]) -> None:
        self._headers, self._parts = headers, urlsplit(address)
        self._safe = ssl.create_default_context() if self._parts.scheme == "https" else None
        self._open: set[socket.socket] = set()

    def send(self, body: bytes, seconds: float) -> HttpReply | NoReply:
        """Return the server's whole reply, whose last byte comes within so many seconds, or why there is none."""
        end = time.monotonic() + seconds
        host, port, timeout = self._parts.hostname or "", self._parts.port, min(seconds, CONNECT_TIMEOUT_S)
        connection = (
            http.client.HTTPSConnection(host, port, timeout=timeout, context=self._safe)
            if self._safe
            else http.client.HTTPConnection(host, port, timeout=timeout)
        )
        try:
            connection.connect()
            with self._until(connection.sock, end):
                connection.request("POST", self._parts.path, body, dict(self._headers))
                response = connection.getresponse()
                raw = response.read(MAX_REPLY_BYTES + 1)
            if len(raw) > MAX_REPLY_BYTES:
                return NoReply("oversized", f"more than {MAX_REPLY_BYTES >> 20} MiB")
            if time.monotonic() >= end:  # a body without a length ends where its socket is shut
                return NoReply("timeout", "TimeoutError")
            if response.length:
                return NoReply("unreached", "IncompleteRead")
            return HttpReply(response.status, response.headers, raw)
        except (OSError, http.client.HTTPException, ValueError) as error:
            is_late = isinstance(error, TimeoutError) or time.monotonic() >= end
            return NoReply("timeout" if is_late else "unreached", type(error).__name__)
        finally:
            connection.close()

    def stop(self) -> None:
        """End all requests."""
        for sock in tuple(self._open):
            _shut(sock)

    @contextlib.contextmanager
    def _until(self, sock: socket.socket, end: float) -> Iterator[None]:
        """Shut the socket at `end`: single bytes of a dripping reply come in time, and the whole never does."""
        seconds_left = max(end - time.monotonic(), 0.001)
        sock.settimeout(seconds_left)
        clock = threading.Timer(seconds_left, _shut, [sock])
        clock.daemon = True
        clock.start()
        self._open.add(sock)
        try:
            yield
        finally:
            clock.cancel()
            self._open.discard(sock)


def _shut(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
