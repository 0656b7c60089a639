"""Ask an OpenAI-compatible chat endpoint: questions with or without pictures, parallel, retried, cached, counted.

    replies = ask_questions([Question("Describe this image.", image="a.jpg")], server)

An attempt takes at most `timeout_s` and a wait between attempts at most `LONGEST_WAIT_S`, whatever the server does,
and Ctrl-C ends both. A reply has a size limit. No redirect is followed: a key goes only to its own address. Answers are
cached under a hash of all that decides them (model, prompt, picture's bytes, settings).

aiohttp's `total` holds from the connection to the last byte, also where a server sends its headers byte by byte.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import io
import json
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING

from compclip.base import environment_variables, files
from compclip.base.errors import UserError, hide_known, one_line, redact_secrets
from compclip.base.files import has_lone, replace_lone
from compclip.config.servers import Server
from compclip.data import images
from compclip.data.sample import ImageLocation
from compclip.llm import answer_cache
from compclip.llm.answer_cache import Answer

if TYPE_CHECKING:
    from aiohttp import ClientSession

# in the place of a status where there is no whole reply
UNREACHED = 0
TOO_LARGE = 1
RETRIED = (UNREACHED, 408, 425, 429, 500, 502, 503, 504, 529)
HOPELESS = (401, 403, 404)  # every further question would get the same reply
TICK_S = 0.1  # between two calls of `watch`
MAX_TOKENS = 2**31
MAX_REPLY_BYTES = 8 << 20
CONNECT_TIMEOUT_S = 10.0
ATTEMPTS = 6
WAIT_S = 1.0  # before the second attempt; doubles with each, and Retry-After goes before it
LONGEST_WAIT_S = 60.0


@dataclass(frozen=True)
class Question:
    """A prompt and, where `image` names one, a picture, sent with its longer side at most `image_side` pixels."""

    prompt: str
    image: str | ImageLocation = ""
    image_side: int = 0
    max_tokens: int = 512


def build_request(question: Question, server: Server) -> dict:
    """Return the request. Raises ImageError for a picture that cannot be sent."""
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
    """Return the picture upright and in RGB, as JPEG."""
    picture = images.load_image(question.image)
    if question.image_side:
        picture.thumbnail((question.image_side, question.image_side))
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=90)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()


def hash_question(question: Question, server: Server) -> str:
    """Return a hash of what decides the answer; the address is no part of it: a model may move."""
    settings = asdict(question) | {"model": server.model, "temperature": server.temperature, "seed": server.seed}
    if question.image:
        try:
            settings["image"] = hashlib.sha256(images.read_bytes(question.image)).hexdigest()
        except images.ImageError:  # counted when it is to be sent
            settings["image"] = str(question.image)
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


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
        self.reason = reason
        self.retries = retries


def ask_questions(
    questions: Sequence[Question], server: Server, cache: str = "", watch: Callable[[], None] | None = None
) -> Replies:
    """Ask what the cache lacks, `parallel` questions at a time; equal questions are asked once.

    `cache`: the file for these answers, where it is not the server's. `watch` is called while answers are awaited, and
    may raise.

    Raises UserError where the key is missing or refused, the model or address is unknown, or more than
    `failures_allowed` of the questions fail; answers received until then are in the cache.
    """
    keys = [hash_question(question, server) for question in questions]
    different = dict(zip(keys, questions, strict=True))
    counts: Counter = Counter(asked=len(questions), repeated=len(questions) - len(different))
    cache = cache or server.cache
    with answer_cache.open_cache(cache, alone=cache != server.cache) as connection:
        answers: dict[str, Answer] = {}
        missing: dict[str, Question] = {}
        for key, question in different.items():
            answer = answer_cache.load_answer(connection, key)
            if answer:
                answers[key] = answer
            else:
                missing[key] = question
        counts["cached"] = len(answers)

        def note(key: str, outcome: _Success | _QuestionFailed) -> None:
            _count_outcome(outcome, replace(server, cache=cache), len(different), counts)
            if isinstance(outcome, _Success):
                answer_cache.store_answer(connection, key, outcome.answer)
                answers[key] = outcome.answer

        if missing:
            asyncio.run(_ask_missing(missing, server, note, watch))
    return Replies(tuple(answers.get(key) for key in keys), counts)


def _count_outcome(outcome: _Success | _QuestionFailed, server: Server, total: int, counts: Counter) -> None:
    """Count an answer or a failure. Raises UserError where too many of the `total` questions have failed."""
    counts["retries"] += outcome.retries
    if isinstance(outcome, _QuestionFailed):
        counts[f"failed_{outcome.reason}"] += 1
        failures = sum(count for name, count in counts.items() if name.startswith("failed_"))
        if failures > server.failures_allowed * total:
            raise UserError(
                f"{server.url}: {failures} of {total} questions failed, the last with {outcome.reason} "
                f"({outcome}); answers so far are kept in {server.cache}: run again, or raise failures_allowed"
            )
        return
    answer = outcome.answer
    counts.update(answered=1, cut_short=int(answer.cut_short))
    counts.update(prompt_tokens=answer.prompt_tokens, completion_tokens=answer.completion_tokens)
    if outcome.was_repaired:
        counts["repaired_answers"] += 1


# --- sending --------------------------------------------------------------------------------------------------


async def _ask_missing(
    missing: dict[str, Question],
    server: Server,
    note: Callable[[str, _Success | _QuestionFailed], None],
    watch: Callable[[], None] | None,
) -> None:
    """Ask `parallel` questions at a time and note each outcome. Raises what `note` and `watch` raise."""
    waiting = iter(missing.items())
    remaining = set(missing)

    async def work() -> None:
        for key, question in waiting:
            try:
                note(key, await _ask(question, server, session))
            except _QuestionFailed as failure:
                note(key, failure)
            remaining.discard(key)

    async def look() -> None:
        while watch and remaining:
            watch()
            await asyncio.sleep(TICK_S)

    async with _open_session(server) as session:
        await asyncio.gather(look(), *(work() for _ in range(min(server.parallel, len(missing)))))


async def _ask(question: Question, server: Server, session: ClientSession) -> _Success:
    try:
        request = await asyncio.to_thread(build_request, question, server)
    except images.ImageError as error:
        raise _QuestionFailed(f"{error.reason}_picture", str(error)) from None
    body = json.dumps(request).encode()
    retries = 0
    reply = await _post(session, server, body)
    while reply.status in RETRIED and retries + 1 < ATTEMPTS:
        await asyncio.sleep(_wait_s(reply, retries))
        retries += 1
        reply = await _post(session, server, body)
    if reply.failure:
        raise _QuestionFailed(reply.failure, reply.body.decode(), retries)
    if reply.status != 200:
        raise _refusal(reply, retries, server)
    return _parse(reply.body, retries)


def _wait_s(reply: HttpReply, retries: int) -> float:
    """Return the seconds until the next attempt: as the server asks, else twice as long each time; bounded."""
    header = reply.headers.get("Retry-After", "").strip()
    seconds = float(header) if header.isdecimal() else WAIT_S * (2.0 ** min(retries, 60) + random.random())
    return min(seconds, LONGEST_WAIT_S)


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


def _parse(raw: bytes, retries: int) -> _Success:
    try:
        value = files.parse_json(raw.decode("utf-8"), "answer")
        choice = value["choices"][0]
        usage = value.get("usage") or {}
        text = str(choice["message"]["content"].strip())
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


@dataclass(frozen=True)
class HttpReply:
    """A status, its headers and the whole body.

    Without a reply `failure` is "timeout", "unreached" or "oversized", and the body says what happened.
    """

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    failure: str = ""


def _open_session(server: Server) -> ClientSession:
    """Open what all requests share, with the key; each has its own connection, which ends with it."""
    import aiohttp  # as long to import as all else of a stage, most of which ask nobody

    key = _read_api_key(server)
    headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
    headers |= {"Authorization": f"Bearer {key}"} if key else {}
    return aiohttp.ClientSession(
        headers=headers,
        connector=aiohttp.TCPConnector(limit=0, force_close=True),
        timeout=aiohttp.ClientTimeout(total=server.timeout_s, sock_connect=CONNECT_TIMEOUT_S),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
    )


async def _post(session: ClientSession, server: Server, body: bytes) -> HttpReply:
    """Return the server's whole reply, whose last byte comes within `timeout_s`, or why there is none."""
    import aiohttp

    address = server.url.rstrip("/") + "/chat/completions"
    raw = bytearray()
    try:
        async with session.post(address, data=body, allow_redirects=False) as response:
            async for chunk in response.content.iter_any():
                raw += chunk
                if len(raw) > MAX_REPLY_BYTES:
                    return HttpReply(TOO_LARGE, body=b"more than 8 MiB", failure="oversized")
            return HttpReply(response.status, response.headers, bytes(raw))
    except (aiohttp.ClientError, OSError, ValueError) as error:
        failure = "timeout" if isinstance(error, TimeoutError) else "unreached"
        return HttpReply(UNREACHED, body=type(error).__name__.encode(), failure=failure)
