"""The tests of tests/fake_device, in a process of their own: `FAKE_DEVICE_TESTS=1 pytest tests/fake_device`."""

import os
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "fake_device"


def test_steps_on_a_gpu_that_is_not_there():
    """All pass, and there are as many as there should be."""
    environment = {**os.environ, "FAKE_DEVICE_TESTS": "1"}
    command = [sys.executable, "-m", "pytest", "-p", "no:xdist", "-p", "no:cacheprovider", str(FOLDER)]
    finished = subprocess.run(command, capture_output=True, text=True, cwd=FOLDER.parents[1], env=environment)
    assert finished.returncode == 0, finished.stdout[-4000:] + finished.stderr[-2000:]
    assert int(finished.stdout.rpartition(" passed")[0].split()[-1]) > 80
