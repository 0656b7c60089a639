"""Runs and stages killed at random moments end as if nobody had touched them; often:
`python -m perf.faults.kills --kills 50 --slurm` and `… perf.faults.interrupted --kills 200`.
"""

import json
import subprocess
import sys

import pytest

from compclip.runs import lock
from compclip.runs.run_folder import RunFolder
from perf.faults import interrupted
from tests import tiny_project
from tests.conftest import ROOT


@pytest.mark.long
def test_a_kill_of_each_way_changes_nothing(tmp_path):
    """Bits, logged steps, outcomes and MLflow's runs are those of undisturbed runs; nothing half-written stays, nothing
    is trained twice, and a stage that is left behind says what trains on."""
    command = [sys.executable, "-m", "perf.faults.kills", "--kills", "5", "--seeds", "3", "--steps", "30"]
    env = {**tiny_project.environment(), "TMPDIR": str(tmp_path)}
    process = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    assert process.returncode == 0, process.stdout + process.stderr
    outcome = json.loads(process.stdout.splitlines()[-1])
    assert outcome["ways"] == {"dvc": 1, "kill": 1, "stage": 1, "term": 1, "write": 1}
    assert (outcome["differing"], outcome["trained_again"], outcome["left_behind"]) == ([], [], [])
    assert outcome["stages_that_left_untold"] == 0
    assert outcome["mlflow"] == "one run a cell, every step once"


def test_half_written_files_go_with_the_next_holder(tmp_path):
    """Else a kill while the finished model is written would publish its temporary file; files in place stay."""
    names = ".step_00000003.safetensors .metrics.jsonl final/.config.yaml final/checkpoint/.open_clip_model.safetensors"
    half_written = [f"{name}.7.tmp" for name in (*names.split(), "final/checkpoint/lora/.adapter.safetensors")]
    whole_files = [".job.json.8.tmp", "step_00000003.safetensors", "final/checkpoint/open_clip_config.json"]
    for name in half_written + whole_files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    with lock.hold(RunFolder(tmp_path)):
        remaining_files = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()}
    assert not remaining_files & set(half_written) and remaining_files >= set(whole_files)


@pytest.mark.usefixtures("unsynced_sqlite")
def test_a_few_kills_change_nothing(here_finished):
    """The same files, the same runs in MLflow, and no command that needs a person."""
    outcome = interrupted.experiment(here_finished, kills=4, seed=0, kinds=["call"])  # a moment is the clock's
    assert outcome["kills"] >= 4
    assert sorted(outcome["of"]) == ["evaluate", "prepare", "report", "track"]
    assert (outcome["differing"], outcome["needed_a_person"]) == ([], [])
