"""What all tests share: one thread, where the real photographs are, a small seeded generator."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent
# Machines differ and are shared: a slow example is no failure, and the same examples are drawn everywhere.
settings.register_profile("compclip", deadline=None, derandomize=True)
settings.load_profile("compclip")


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    """Tests compare bits; more threads add in another order."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder with real photographs and benchmark files, or a skip that says where it was looked for."""
    path = Path(os.environ.get("COMPCLIP_SHARED_DATA", ROOT.parent / "shared" / "data"))
    if not path.is_dir():
        pytest.skip(f"no real data at {path}; set COMPCLIP_SHARED_DATA to run this test")
    return path


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator that is the same in every test."""
    return np.random.default_rng(0)
