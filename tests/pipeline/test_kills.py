"""Runs killed at random moments end as if nobody had touched them; all ways, often: `perf/kills.py --kills 50 --slurm`."""

import json
import subprocess
import sys

import pytest

from compclip.runs import lock
from compclip.runs.run_folder import RunFolder
from tests import tiny_project
from tests.conftest import ROOT


@pytest.mark.long
def test_a_kill_of_each_way_changes_nothing(tmp_path):
    """Bits, logged steps, outcomes and MLflow's runs are those of undisturbed runs; nothing half-written stays, nothing
    is trained twice, and a stage that is left behind says what trains on."""
    command = [sys.executable, str(ROOT / "perf" / "kills.py"), "--kills", "5", "--seeds", "3", "--steps", "30"]
    env = {**tiny_project.environment(), "TMPDIR": str(tmp_path)}
    process = subprocess.run(command, env=env, capture_output=True, text=True)
    assert process.returncode == 0, process.stdout + process.stderr
    outcome = json.loads(process.stdout.splitlines()[-1])
    assert outcome["ways"] == {"dvc": 1, "kill": 1, "stage": 1, "term": 1, "write": 1}
    assert (outcome["differing"], outcome["trained_again"], outcome["left_behind"]) == ([], [], [])
    assert outcome["stages_that_left_untold"] == 0
    assert outcome["mlflow"] == "one run a cell, every step once"


def test_half_written_files_go_with_the_next_holder(tmp_path):
    """Else a kill while the finished model is written would publish its temporary file; files in place stay."""
    half_written = [
        ".step_00000003.safetensors.7.tmp",
        ".metrics.jsonl.7.tmp",
        "final/.config.yaml.7.tmp",
        "final/checkpoint/.open_clip_model.safetensors.7.tmp",
        "final/checkpoint/lora/.adapter.safetensors.7.tmp",
    ]
    whole_files = [".job.json.8.tmp", "step_00000003.safetensors", "final/checkpoint/open_clip_config.json"]
    for name in half_written + whole_files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    with lock.hold(RunFolder(tmp_path)):
        remaining_files = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()}
    assert not remaining_files & set(half_written) and remaining_files >= set(whole_files)
