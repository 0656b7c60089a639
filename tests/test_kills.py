"""Runs killed at random moments end as if nobody had touched them; all ways, often: `perf/kills.py --kills 50 --slurm`."""

from __future__ import annotations

import json
import subprocess
import sys

from compclip.runs import lock
from compclip.runs.folder import Folder
from tests import tiny_project
from tests.conftest import ROOT


def test_a_kill_of_each_way_changes_nothing(tmp_path):
    """Bits, logged steps, outcomes and MLflow's runs are those of undisturbed runs; nothing half-written stays, nothing
    is trained twice, and a stage that is left behind says what trains on."""
    command = [sys.executable, str(ROOT / "perf" / "kills.py"), "--kills", "5", "--seeds", "3", "--steps", "30"]
    env = {**tiny_project.environment(), "TMPDIR": str(tmp_path)}
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["ways"] == {"dvc": 1, "kill": 1, "stage": 1, "term": 1, "write": 1}
    assert (found["differing"], found["trained_again"], found["left_behind"]) == ([], [], [])
    assert found["stages_that_left_untold"] == 0
    assert found["mlflow"] == "one run a cell, every step once"


def test_half_written_files_go_with_the_next_holder(tmp_path):
    """Else a kill while the finished model is written would publish its temporary file; files in place stay."""
    half = [
        ".step_00000003.safetensors.7.tmp",
        ".metrics.jsonl.7.tmp",
        "final/.config.yaml.7.tmp",
        "final/checkpoint/.open_clip_model.safetensors.7.tmp",
        "final/checkpoint/lora/.adapter.safetensors.7.tmp",
    ]
    whole = [".job.json.8.tmp", "step_00000003.safetensors", "final/checkpoint/open_clip_config.json"]
    for name in half + whole:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    with lock.hold(Folder(tmp_path)):
        left = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()}
    assert not left & set(half) and left >= set(whole)
