"""Shards are written in the test's process: another one imports for seconds. test_shards.py shows that both write alike."""

import pytest

from compclip.prepare.shard_work import ShardWork


@pytest.fixture(autouse=True)
def one_process(monkeypatch) -> None:
    """No processes of a stage's own."""
    monkeypatch.setattr(ShardWork, "can_share_machine", lambda _work: False)
