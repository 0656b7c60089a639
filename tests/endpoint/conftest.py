"""Settings without waits."""

from __future__ import annotations

import pytest

from compclip.config.servers import Server


@pytest.fixture
def server(tmp_path):
    """Makes the settings of a test: no waiting between attempts, a cache of its own."""

    def make(url, **more):
        return Server(
            **{
                "url": url,
                "model": "m",
                "backoff_s": 0.0,
                "attempts": 3,
                "failures_allowed": 1.0,
                "cache": str(tmp_path / "cache" / "answers.sqlite"),
            }
            | more
        )

    return make
