"""The device is there before the first backward pass, which starts a thread for each device that torch then knows.

A process with such threads cannot fork and train, as other tests do: these tests run in a process of their own, which
tests/train/test_on_fake_device.py starts.
"""

import os

import pytest

from compclip.train import fake_device, simulated_step

collect_ignore_glob = [] if "FAKE_DEVICE_TESTS" in os.environ else ["test_*.py"]


@pytest.fixture(autouse=True, scope="session")
def simulated_device() -> None:
    fake_device.register_device()


@pytest.fixture
def first_step(monkeypatch) -> None:
    """Count in a run's first step: what it has beside later ones is the optimiser's state, which it makes."""
    monkeypatch.setattr(simulated_step, "FIRST_STEPS", 0)
