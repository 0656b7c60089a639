"""Answers of an endpoint."""

from collections.abc import Iterator
from pathlib import Path

from tests.fuzz import formats
from tests.fuzz.reader import Reader


def readers() -> Iterator[Reader]:
    """One body of an answer, and one with the likeliest tokens."""
    answer = {"choices": [{"message": {"content": "a cup"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 3}}
    likely = [{"token": "Yes", "logprob": -0.25}, {"token": " No", "logprob": -1.5}]
    scored_answer = {"choices": [{"message": {"content": "Yes"}, "logprobs": {"content": [{"top_logprobs": likely}]}}]}
    yield Reader("endpoint", lambda folder: formats.write(folder, {"answer.json": answer}), lambda _: _answered())
    yield Reader(
        "endpoint:likeliest", lambda folder: formats.write(folder, {"answer.json": scored_answer}), lambda _: _scored()
    )


def _answered(likeliest: int = 0) -> str:
    """An answer with no more to it than its bytes; the server's other ways are tried over HTTP in their own tests."""
    from compclip.llm import chat_client
    from compclip.llm.chat_question import Question

    path = Path("answer.json")
    try:
        response = chat_client._parse(
            path.read_bytes() if path.is_file() else b"", 0, Question("x", likeliest=likeliest)
        )
    except chat_client._QuestionFailed:
        return ""
    return response.answer.text


def _scored() -> None:
    from compclip.evaluate import foreign_models

    if text := _answered(likeliest=20):
        assert 0 <= foreign_models._likelihood(text, "Yes") < float("inf")
