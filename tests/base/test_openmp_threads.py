"""Waiting threads sleep: the setting reaches OpenMP, and gives way to the user's own choice."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from compclip.base import openmp_threads
from tests.conftest import ROOT


def openmp_settings(**changes: str) -> str:
    """Return what OpenMP prints of its settings when a fresh process loads torch."""
    plain = {k: v for k, v in os.environ.items() if k not in openmp_threads.CHOICES}
    env = {**plain, "PYTHONPATH": str(ROOT), "OMP_DISPLAY_ENV": "verbose", **changes}
    command = [sys.executable, "-c", "import torch"]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stderr


def test_the_setting_reaches_openmp():
    assert "GOMP_SPINCOUNT = '0'" in openmp_settings(**openmp_threads.passive_waiting({}))


@pytest.mark.parametrize("name,value", [("OMP_WAIT_POLICY", "active"), ("GOMP_SPINCOUNT", "1000")])
def test_the_users_choice_is_left_alone(name, value):
    assert openmp_threads.passive_waiting({name: value}) == {}
    assert openmp_threads.passive_waiting({}) == {"OMP_WAIT_POLICY": "passive"}
