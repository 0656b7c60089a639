"""A run that tests hold."""

import pytest

from compclip.runs.run_folder import RunFolder


@pytest.fixture
def run(tmp_path) -> RunFolder:
    """An empty run."""
    (tmp_path / "key").mkdir()
    return RunFolder(tmp_path / "key")
