"""What the tests ask, and what is answered."""

from compclip.llm.chat_client import Question
from tests.chat_server import completion_body, prompt


def questions(count):
    """Different questions without pictures."""
    return [Question(f"q{i}") for i in range(count)]


def echo(body):
    """An answer that names its question."""
    return completion_body(f"answer to {prompt(body)}")
