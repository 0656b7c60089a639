"""A run that tests hold."""

from __future__ import annotations

import pytest

from compclip.runs.folder import Folder


@pytest.fixture
def run(tmp_path) -> Folder:
    """An empty run."""
    (tmp_path / "key").mkdir()
    return Folder(tmp_path / "key")
