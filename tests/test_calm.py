"""Waiting threads sleep: the setting reaches OpenMP, comes before torch, and gives way to somebody's own choice."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from compclip.base import calm
from tests.conftest import ROOT


def told(code: str, **changes: str) -> str:
    """What OpenMP says of its settings in a fresh process."""
    plain = {k: v for k, v in os.environ.items() if k not in calm.CHOICES}
    env = {**plain, "PYTHONPATH": str(ROOT), "OMP_DISPLAY_ENV": "verbose", **changes}
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stderr


def test_settled_before_torch_it_reaches_openmp():
    said = told("from compclip.base import calm; assert calm.settle(); import torch; assert not calm.settle()")
    assert "GOMP_SPINCOUNT = '0'" in said


def test_without_it_threads_spin():
    """What is changed is not how torch is by itself."""
    said = told("import torch")
    assert "GOMP_SPINCOUNT = " in said and "GOMP_SPINCOUNT = '0'" not in said


@pytest.mark.parametrize("name,value", [("OMP_WAIT_POLICY", "active"), ("GOMP_SPINCOUNT", "1000")])
def test_a_choice_is_left_alone(name, value):
    assert calm.settings({name: value}) == {}
    assert calm.settings({}) == {"OMP_WAIT_POLICY": "passive"}
