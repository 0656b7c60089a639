"""The tests of tests/team, in a process of their own: `TEAM_TESTS=1 pytest tests/team`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "team"


def test_a_team_shares_a_store():
    """All pass, or skip where nobody may start processes of other users."""
    environment = {**os.environ, "TEAM_TESTS": "1"}
    command = [sys.executable, "-m", "pytest", "-p", "no:xdist", "-p", "no:cacheprovider", str(FOLDER)]
    finished = subprocess.run(command, capture_output=True, text=True, cwd=FOLDER.parents[1], env=environment)
    assert finished.returncode == 0, finished.stdout[-4000:] + finished.stderr[-2000:]
    assert int(finished.stdout.rpartition(" passed")[0].split()[-1]) >= 5
