"""What the tests ask, and what is answered."""

from compclip.llm.chat_client import Question
from tests.chat_server import completion_body, prompt


def questions(count):
    return [Question(f"q{i}") for i in range(count)]


def echo(body):
    return completion_body(f"answer to {prompt(body)}")


def always(reply):
    """A server that gives every question this reply."""

    def answer(body):
        raise reply

    return answer
