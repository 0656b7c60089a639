"""Questions to an OpenAI-compatible chat endpoint, each with or without a picture: parallel, retried, cached, counted.

    replies = ask([Question("Describe this image.", image="a.jpg")], server)

urllib3 does the HTTP and the retries. Answers are kept in one SQLite file under a hash of everything that decides them
(model, prompt, picture's bytes, settings), so that asking again sends nothing, whether or not the first time finished.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import urllib3

from compclip.base.errors import UserError, one_line
from compclip.config.servers import Server
from compclip.data import images

RETRIED = (408, 425, 429, 500, 502, 503, 504, 529)
HOPELESS = (401, 403, 404)  # every further question would be answered alike
CONNECT_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Question:
    """A prompt and, where `image` names a file, a picture, sent with its longer side at most `image_side` pixels."""

    prompt: str
    image: str = ""
    image_side: int = 0
    max_tokens: int = 512


@dataclass(frozen=True)
class Answer:
    """What the model said; `cut_short` where it reached `max_tokens`."""

    text: str
    cut_short: bool = False
    prompt_tokens: int = 0
    completion_tokens: int = 0


@dataclass(frozen=True)
class Replies:
    """An answer for each question, None where it failed, and the counts of what happened."""

    answers: tuple[Answer | None, ...]
    counts: Counter


class _Failed(Exception):
    """A question without an answer: `reason` is counted, `detail` is shown."""

    def __init__(self, reason: str, detail: str, retries: int = 0) -> None:
        super().__init__(detail)
        self.reason, self.retries = reason, retries


def ask(questions: Sequence[Question], server: Server) -> Replies:
    """Ask what the cache does not know, `parallel` questions at a time; equal questions are asked once.

    Raises UserError where the key is missing or refused, the model or address is unknown, or more than
    `failures_allowed` of the questions fail; answers received until then are in the cache.
    """
    keys = [_key(q, server) for q in questions]
    different = dict(zip(keys, questions, strict=True))
    counts: Counter = Counter(asked=len(questions), repeated=len(questions) - len(different))
    with _cache(server.cache) as cache:
        known = {key: found for key in different if (found := _recall(cache, key))}
        counts["cached"] = len(known)
        missing = {key: question for key, question in different.items() if key not in known}
        for key, answer in _fetch(missing, server, len(different), counts):
            _remember(cache, key, answer)
            known[key] = answer
    return Replies(tuple(known.get(key) for key in keys), counts)


def _fetch(missing: dict[str, Question], server: Server, total: int, counts: Counter) -> Iterator[tuple[str, Answer]]:
    """Answers as they arrive; failures are counted, and too many end it."""
    if not missing:
        return
    secret, failed = _secret(server), 0
    with closing(_Pool(server, secret)) as pool:
        for key, outcome in pool.outcomes(missing):
            if isinstance(outcome, _Failed):
                failed += 1
                counts.update({f"failed_{outcome.reason}": 1, "retries": outcome.retries})
                if failed > server.failures_allowed * total:
                    raise _too_many(server, failed, total, outcome)
                continue
            answer, retries = outcome
            _count(counts, answer, retries, server)
            yield key, answer


def _count(counts: Counter, answer: Answer, retries: int, server: Server) -> None:
    tokens = {"prompt_tokens": answer.prompt_tokens, "completion_tokens": answer.completion_tokens}
    counts.update(tokens | {"answered": 1, "retries": retries, "cut_short": int(answer.cut_short)})
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
    """Threads that share one pool of connections; closing it drops what has not been sent."""

    def __init__(self, server: Server, secret: str) -> None:
        self.server, self.secret = server, secret
        self.http = urllib3.PoolManager(maxsize=server.parallel, block=True)
        self.threads = ThreadPoolExecutor(server.parallel)

    def outcomes(self, missing: dict[str, Question]) -> Iterator[tuple[str, tuple[Answer, int] | _Failed]]:
        """Key and outcome of each question, in the order in which they end. Raises UserError where all would fail."""
        futures = {self.threads.submit(self._send, question): key for key, question in missing.items()}
        for future in as_completed(futures):
            error = future.exception()
            if error is not None and not isinstance(error, _Failed):
                raise error
            yield futures[future], error or future.result()

    def close(self) -> None:
        """Wait for what is being sent, no more."""
        self.threads.shutdown(cancel_futures=True)
        self.http.clear()

    def _send(self, question: Question) -> tuple[Answer, int]:
        body = json.dumps(_body(question, self.server)).encode()
        headers = {"Content-Type": "application/json"} | (
            {"Authorization": f"Bearer {self.secret}"} if self.secret else {}
        )
        address = self.server.url.rstrip("/") + "/chat/completions"
        try:
            response = self.http.request(
                "POST",
                address,
                body=body,
                headers=headers,
                redirect=False,
                retries=_retries(self.server),
                timeout=_timeout(self.server),
            )
        except urllib3.exceptions.HTTPError as error:
            raise _unreached(error, self.server) from None
        retries = len(response.retries.history) if response.retries else 0
        if response.status != 200:
            raise self._refused(response, retries)
        return _parsed(response.data, retries), retries

    def _refused(self, response: urllib3.BaseHTTPResponse, retries: int) -> Exception:
        """The error of a status other than 200; some servers repeat the key in theirs, which must not be shown."""
        said = one_line(response.data[:2000].decode("utf-8", "replace"))
        detail = (said.replace(self.secret, "***") if self.secret else said)[:200]
        if response.status not in HOPELESS:
            return _Failed(f"http_{response.status}", detail, retries)
        where = f"the key in {self.server.api_key_env or 'api_key_env (none is named)'}"
        return UserError(
            f"{self.server.url}: status {response.status} for model {self.server.model!r}: {detail}; "
            f"check url, model and {where}"
        )


def _retries(server: Server) -> urllib3.Retry:
    return urllib3.Retry(
        total=server.attempts - 1,
        redirect=0,
        allowed_methods=None,
        status_forcelist=RETRIED,
        backoff_factor=server.backoff_s,
        backoff_jitter=server.backoff_s,
        raise_on_status=False,
    )


def _timeout(server: Server) -> urllib3.Timeout:
    return urllib3.Timeout(connect=min(CONNECT_TIMEOUT_S, server.timeout_s), read=server.timeout_s)


def _unreached(error: urllib3.exceptions.HTTPError, server: Server) -> _Failed:
    cause = getattr(error, "reason", None) or error
    late = isinstance(cause, urllib3.exceptions.TimeoutError) and not isinstance(
        cause, urllib3.exceptions.NewConnectionError
    )  # which urllib3 counts among the time-outs
    retries = server.attempts - 1 if isinstance(error, urllib3.exceptions.MaxRetryError) else 0
    return _Failed("timeout" if late else "unreached", type(cause).__name__, retries)


def _parsed(raw: bytes, retries: int) -> Answer:
    try:
        value = json.loads(raw)
        choice, usage = value["choices"][0], value.get("usage") or {}
        text = choice["message"]["content"].strip()
        tokens = [int(usage.get(name) or 0) for name in ("prompt_tokens", "completion_tokens")]
    except (ValueError, LookupError, TypeError, AttributeError):
        raise _Failed("malformed", one_line(raw[:80].decode("utf-8", "replace")), retries) from None
    if not text:
        raise _Failed("empty", "an empty answer", retries)
    return Answer(text, choice.get("finish_reason") == "length", *tokens)


def _body(question: Question, server: Server) -> dict:
    content: str | list = question.prompt
    if question.image:
        picture = {"type": "image_url", "image_url": {"url": _data_url(question)}}
        content = [{"type": "text", "text": question.prompt}, picture]
    return {
        "model": server.model,
        "messages": [{"role": "user", "content": content}],
        "max_tokens": question.max_tokens,
        "temperature": server.temperature,
        "seed": server.seed,
    }


def _data_url(question: Question) -> str:
    """The picture upright and in RGB, as JPEG."""
    try:
        picture = images.load(question.image)
    except images.ImageError as error:
        raise _Failed(f"{error.reason}_picture", str(error)) from None
    if question.image_side:
        picture.thumbnail((question.image_side, question.image_side))
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=90)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()


def _secret(server: Server) -> str:
    """The key. Raises UserError naming the variable, never its value."""
    if not server.api_key_env:
        return ""
    value = os.environ.get(server.api_key_env, "").strip()
    if not value:
        raise UserError(
            f"api_key_env={server.api_key_env}: this environment variable is not set; export it with the "
            f"key of {server.url}, or leave api_key_env empty where none is needed"
        )
    return value


# --- the cache ------------------------------------------------------------------------------------------------


def _key(question: Question, server: Server) -> str:
    """A hash over what decides the answer; the address is no part of it: the same model may move."""
    asked = asdict(question) | {"model": server.model, "temperature": server.temperature, "seed": server.seed}
    if question.image:
        asked["image"] = _file_hash(question.image)
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def _file_hash(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}; give the path of an existing picture") from error


@contextmanager
def _cache(path: str) -> Iterator[sqlite3.Connection]:
    """The open file of answers; what was written is safe after each answer."""
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path, timeout=60, isolation_level=None)) as cache:
            cache.execute("PRAGMA journal_mode=WAL")
            cache.execute(
                "CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, text TEXT NOT NULL, cut_short "
                "INTEGER NOT NULL, prompt_tokens INTEGER NOT NULL, completion_tokens INTEGER NOT NULL)"
            )
            yield cache
    except (sqlite3.Error, OSError) as error:
        raise UserError(f"{path}: no usable cache of answers ({error}); remove it or give another path") from error


def _recall(cache: sqlite3.Connection, key: str) -> Answer | None:
    row = cache.execute(
        "SELECT text, cut_short, prompt_tokens, completion_tokens FROM answers WHERE key = ?", (key,)
    ).fetchone()
    return Answer(row[0], bool(row[1]), row[2], row[3]) if row else None


def _remember(cache: sqlite3.Connection, key: str, answer: Answer) -> None:
    cache.execute(
        "INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?, ?)",
        (key, answer.text, int(answer.cut_short), answer.prompt_tokens, answer.completion_tokens),
    )
