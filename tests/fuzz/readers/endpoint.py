"""Answers of an endpoint."""

from collections.abc import Iterator
from pathlib import Path

from compclip.llm import chat_client
from tests.fuzz import formats
from tests.fuzz.reader import Reader


def readers() -> Iterator[Reader]:
    """One body of an answer."""
    answer = {"choices": [{"message": {"content": "a cup"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 3}}
    yield Reader("endpoint", lambda folder: formats.write(folder, {"answer.json": answer}), lambda _: _answered())


def _answered() -> None:
    """An answer with no more to it than its bytes; the server's other ways are tried over HTTP in their own tests."""
    path = Path("answer.json")
    try:
        chat_client._parse(path.read_bytes() if path.is_file() else b"", 0)
    except chat_client._QuestionFailed:
        return
