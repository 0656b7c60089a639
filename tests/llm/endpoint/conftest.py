"""Settings without waits."""

import pytest

from compclip.config.servers import Server
from compclip.config.validation import load_section
from compclip.llm import chat_client
from tests.chat_server import serve
from tests.llm.endpoint.asked import questions


@pytest.fixture
def server(tmp_path, monkeypatch):
    """Make the settings of a test: no waiting between attempts, a cache of its own."""
    monkeypatch.setattr(chat_client, "WAIT_S", 0.0)
    monkeypatch.setattr(chat_client, "ATTEMPTS", 3)
    defaults = {"model": "m", "failures_allowed": 1.0, "cache": str(tmp_path / "cache" / "answers.sqlite")}
    return lambda url, **overrides: load_section(Server, {"url": url} | defaults | overrides, "server")


@pytest.fixture
def ask(server):
    """Ask a server that answers so the first questions; gives what came of it, and the server."""

    def ask_questions(answer, count=1, **settings):
        with serve(answer) as at:
            return chat_client.ask_questions(questions(count), server(at.url, **settings)), at

    return ask_questions
