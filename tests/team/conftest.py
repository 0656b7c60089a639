"""Members of a team are forks of the tests' process, which must not have used a device before: torch refuses to train then.

These tests run in a process of their own, which tests/runs/test_team.py starts.
"""

from __future__ import annotations

import os

collect_ignore_glob = [] if "TEAM_TESTS" in os.environ else ["test_*.py"]
