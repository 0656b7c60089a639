"""`compclip repro`: a line a stage, errors as they come, the rest in a log."""

import sys
from pathlib import Path

import pytest

from compclip.config import read
from compclip.launch import repro
from tests.shipped_files import SHIPPED_PARAMS, SHIPPED_PROJECT

OUTPUT = """Stage 'look' didn't change, skipping
Running stage 'annotate@scenes':
> python -m compclip.launch.shard_jobs --data "$DVC_STAGE" --annotate
annotating:  45%|####5     | 5/11 [00:12<00:14,  2.4s/it]
warning: 3 captions are empty
{"captions": 1200, "excluded": 0, "fingerprint": "a1"}
Updating lock file 'dvc.lock'

Running stage 'train@negclip':
negclip-scenes-scenes-0: started as process 7
error: negclip: CUDA is gone
ERROR: failed to reproduce 'train@negclip': exited with 1
"""


def fake_dvc(folder: Path, code: int) -> str:
    """A program that prints what `dvc repro` does, in the place of Python."""
    (folder / "output").write_text(OUTPUT)
    (folder / "python").write_text(f"#!/bin/sh\ncat '{folder}/output'\nexit {code}\n")
    (folder / "python").chmod(0o755)
    return str(folder / "python")


@pytest.mark.parametrize("code", [0, 255])
def test_a_line_a_stage(code, tmp_path, monkeypatch, capsys):
    """Also where the last one fails: then it has none, and stderr names it and the log."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "executable", fake_dvc(tmp_path, code))
    assert repro.run_dvc([], 3) == code
    page = capsys.readouterr()
    lines = [" ".join(line.split()) for line in page.out.splitlines()]
    assert lines[0] == "2/3 annotate scenes 0 s captions 1,200"
    assert lines[-1] == "1 stage had nothing to do"
    assert ("3/3 train negclip" in " ".join(lines)) == (code == 0)
    assert "warning: 3 captions are empty\nerror: negclip: CUDA is gone\nERROR: " in page.err
    assert ("train negclip: stopped or failed" in page.err) == (code != 0)
    assert Path(".work/repro.log").read_text() == OUTPUT


def test_every_stage_is_counted_and_described(monkeypatch):
    """As often as dvc.yaml has it over the shipped grid."""
    monkeypatch.chdir(SHIPPED_PROJECT)
    stages = repro.list_stages()
    assert stages["train"][0] == 7 and stages["plan"][0] == 1
    assert all(what for _, what in stages.values())


@pytest.mark.parametrize(
    ("gpus", "bytes_needed", "answer"), [(["0"], 0, "config cost"), ([], 1 << 60, "not estimated")]
)
def test_no_step_is_timed_where_trainings_need_the_memory(monkeypatch, gpus, bytes_needed, answer):
    """Of the GPU that they train on, or of a small machine."""
    monkeypatch.setattr(repro.gpus, "list_gpus", lambda: gpus)
    monkeypatch.setattr(repro, "least_bytes", lambda run: bytes_needed)
    monkeypatch.setattr(repro, "time_step", lambda run: pytest.fail("a step was timed"))
    assert answer in repro.estimate_time(read.load_params(SHIPPED_PARAMS))
