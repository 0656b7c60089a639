"""Validation along training: it changes no bit, costs what was planned, and measures what the evaluation measures."""

import json
from pathlib import Path

import pytest

from tests import validated_runs
from tests.train.test_distributed import communicate, two
from tests.validated_runs import METHODS, STEPS


@pytest.fixture(scope="module")
def project(project, tmp_path_factory):
    """The small project with held-out pictures."""
    return validated_runs.make(project, tmp_path_factory.mktemp("validated") / "p")


@pytest.mark.parametrize("method", METHODS)
def test_the_bits_are_those_of_a_run_without(here, tmp_path, monkeypatch, method):
    """Weights, generators and modes."""
    validated_runs.measure_all(monkeypatch)
    outcome = validated_runs.compare(Path.cwd(), method, tmp_path)
    assert outcome == {"different": [], "changes": [False] * STEPS}


def test_the_bits_of_two_processes_are_those_without(here, tmp_path):
    """Of every method; the first process alone measures."""
    processes = two("-m", "tests.validated_runs", str(here), str(tmp_path), cwd=here)
    outputs = communicate(processes, 300)
    assert [process.returncode for process in processes] == [0, 0], outputs
    for rank, (output, _) in enumerate(outputs):
        rows = list(map(json.loads, filter(lambda line: line.startswith("{"), output.splitlines())))
        changes = [] if rank else [False] * STEPS
        assert rows == [{"method": method, "different": [], "changes": changes} for method in METHODS]
