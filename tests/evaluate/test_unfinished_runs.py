"""`compclip evaluate` of a run that still trains: the model of its newest checkpoint, as the end would save it."""

import copy
import json
import shutil
from pathlib import Path

import pytest

from compclip.base.errors import UserError
from compclip.base.files import read_json
from compclip.config import grid
from compclip.evaluate import __main__ as evaluate_command
from compclip.runs.run_store import StoredRun
from compclip.train import job, saved_model
from tests import tiny_project

LORA = tiny_project.PARAMS.replace("log_every_steps: 1", "log_every_steps: 1, lora: {rank: 2}, average_alpha: 0.5")


class Cut(Exception):
    """The run is cut here."""


def train_five_steps(run: StoredRun, expected: Path) -> None:
    """Cut a run at its fifth step; what it would have saved after the fourth is written to `expected`."""

    def on_step(step, steps, model):
        if step == 4:
            saved_model.save_model(run.run, run.root, copy.deepcopy(model), expected)
        if step == 5:
            raise Cut

    run.folder.make()
    with pytest.raises(Cut):
        job.complete_run(run, on_step)


def test_the_newest_checkpoint_is_scored(project, tmp_path, monkeypatch, capsys):
    """With its adapter merged and its weights averaged; the numbers are those of the model at that step."""
    project = tiny_project.other(project, tmp_path / "project", params=LORA)
    monkeypatch.chdir(project)
    run = tiny_project.at("finetune-tiny-scenes-0")
    train_five_steps(run, project / "expected" / "checkpoint")
    files = {path.name: path.read_bytes() for path in run.folder.path.iterdir() if path.is_file()}
    arguments = ["--checkpoint", str(run.folder.path), "expected/checkpoint", "--json"]
    capsys.readouterr()
    assert evaluate_command.main([*arguments, "--out", "out"]) == 0
    out, error = capsys.readouterr()
    assert f"note: {run.folder.path}: not finished: scored as of step 4 of 10" in error
    numbers = json.loads(out)
    assert numbers[str(run.folder.path)] == numbers["expected/checkpoint"]
    documents = [read_json(next(Path("out").glob(f"*{name}/sugarcrepe.json"))) for name in (run.key, "checkpoint")]
    assert [d["checkpoint"].get("step") for d in documents] == ["4", None]
    assert documents[0]["checkpoint"]["fingerprint"] == documents[1]["checkpoint"]["fingerprint"]
    assert {path.name: path.read_bytes() for path in run.folder.path.iterdir() if path.is_file()} == files
    assert not list(Path(".work").glob("unfinished-*"))


def test_parameters_come_from_the_job_that_was_sent(project, tmp_path, monkeypatch, capsys):
    """A run of no cell of params.yaml needs them; without it is refused with the fix."""
    monkeypatch.chdir(tiny_project.other(project, tmp_path / "project", params=LORA))
    shutil.rmtree("store", ignore_errors=True)
    run = tiny_project.at("finetune-tiny-scenes-0", "train.lr=0.01")
    train_five_steps(run, tmp_path / "expected")
    with pytest.raises(UserError, match=f"{run.key}: not finished, and no cell of params.yaml; evaluate it in its own"):
        evaluate_command.main(["--checkpoint", str(run.folder.path)])
    run.folder.run.write_text(grid.run_to_yaml(run.run))
    assert evaluate_command.main(["--checkpoint", str(run.folder.path)]) == 0
    assert "step 4 of 10" in capsys.readouterr().err
    for path in run.folder.checkpoints():
        path.unlink()
    run.folder.lock.touch()
    with pytest.raises(UserError, match="has no checkpoint yet; wait for the first"):
        evaluate_command.main(["--checkpoint", str(run.folder.path)])
