"""Answers of an endpoint."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from tests.fuzz import formats
from tests.fuzz.reader import Reader


def readers() -> Iterator[Reader]:
    """One body of an answer."""
    answer = {"choices": [{"message": {"content": "a cup"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 3}}
    yield Reader("endpoint", lambda folder: formats.write(folder, {"answer.json": answer}), _answered)


def _answered(_: random.Random) -> None:
    """An answer with no more to it than its bytes; the server's other ways are tried over HTTP in their own tests."""
    from compclip.data import chat

    path = Path("answer.json")
    try:
        chat._parsed(path.read_bytes() if path.is_file() else b"", 0)
    except chat._Failed:
        return
