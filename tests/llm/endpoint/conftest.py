"""Settings without waits."""

import pytest

from compclip.config.servers import Server
from compclip.config.validation import load_section
from compclip.llm import chat_client


@pytest.fixture
def server(tmp_path, monkeypatch):
    """Make the settings of a test: no waiting between attempts, a cache of its own."""
    monkeypatch.setattr(chat_client, "WAIT_S", 0.0)
    monkeypatch.setattr(chat_client, "ATTEMPTS", 3)
    defaults = {"model": "m", "failures_allowed": 1.0, "cache": str(tmp_path / "cache" / "answers.sqlite")}
    return lambda url, **overrides: load_section(Server, {"url": url} | defaults | overrides, "server")
