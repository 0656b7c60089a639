"""Settings without waits."""

import pytest

from compclip.config.servers import Server
from compclip.config.validation import load_section


@pytest.fixture
def server(tmp_path):
    """Make the settings of a test: no waiting between attempts, a cache of its own."""
    defaults = {
        "model": "m",
        "backoff_s": 0.0,
        "attempts": 3,
        "failures_allowed": 1.0,
        "cache": str(tmp_path / "cache" / "answers.sqlite"),
    }
    return lambda url, **overrides: load_section(Server, {"url": url} | defaults | overrides, "server")
