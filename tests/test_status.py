"""`python -m compclip status`: one row a run, whatever became of it."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from compclip.base.files import write_json
from compclip.config import grid, read
from compclip.runs import jobs, progress, status
from compclip.train import __main__ as train_command
from compclip.train import loop
from tests import tiny_project
from tests.tiny_project import at, cell, wait_for


def rows() -> dict[str, status.Row]:
    """All rows by name."""
    return {e.name: status.row(e) for e in status.entries("params.yaml")[0]}


def test_a_run_from_nothing_to_published(here):
    """stale, running with its progress and process, stopped or failed, done, published."""
    name, made = cell("fsc_clip"), at(cell("fsc_clip"))
    assert {r.state for r in rows().values()} == {"stale"}
    job = jobs.Local(module="tests.held_job").submit(made, "params.yaml")
    wait_for(lambda: Path("held").exists())
    seen = rows()[name]
    assert (seen.state, seen.progress.step, seen.progress.steps, seen.job) == ("running", 3, 10, job.label())
    job.child.kill()
    assert jobs.wait(job, lambda: None) == jobs.FAILED
    assert rows()[name].state == "failed"
    assert "job.log" in rows()[name].error
    jobs.forget(made.folder)
    assert rows()[name].state == "stopped"
    again = jobs.Local().submit(made, "params.yaml")
    assert jobs.wait(again, lambda: None) == jobs.DONE
    assert rows()[name].state == "done"
    train_command.main(["--cell", name])
    assert rows()[name].state == "published"
    shown = status.page("params.yaml", 200)
    assert "10/10" in shown and "3 runs: 2 stale, 1 published" in shown


def test_a_run_that_dvc_trains_is_shown(here):
    """No job, but someone holds the run key."""
    made = at(cell("finetune"))
    with made.lock():
        seen = rows()[cell("finetune")]
    assert (seen.state, seen.job.startswith("process ")) == ("running", True)
    assert rows()[cell("finetune")].state == "stale"


def test_missing_inputs_are_an_error_of_the_row(here):
    """The table is there all the same."""
    shutil.rmtree("models")
    assert "dvc repro backbone" in rows()[cell("finetune")].error
    assert status.main([]) == 0


def test_trials_of_sweeps_and_older_folders(here):
    """A trial is called by its study and number; a folder of earlier code is only counted."""
    made = at(cell("finetune"), *["train.lr=2e-3"])
    with made.lock():
        pass
    jobs.write_inputs(made.key, "params.yaml", made.run)
    found, older = status.entries("params.yaml")
    assert (len(found), older) == (3, 1)
    trial = {"number": 4, "run_key": made.key, "reason": "it failed", "state": "failed"}
    write_json("studies/gamma/trials.json", {"trials": [trial, {"number": 5, "run_key": None, "reason": ""}]})
    found, older = status.entries("params.yaml")
    assert (len(found), older) == (4, 0)
    assert status.row(found[-1]).cells() == ("gamma#4", "stale", "", "", "", "", "", "it failed")


@pytest.mark.parametrize(
    ("settings", "per_epoch"),
    [
        ("train.epochs=2", 5),
        ("train.epochs=1.25", 5),
        ("train.epochs=0.3", 7),
        ("train.epochs=0.001", 3),
        ("train.max_steps=4", 9),
    ],
)
def test_steps_are_those_of_the_trainer(here, tmp_path, settings, per_epoch):
    """The total is worked out from a logged line as train works it out from its data."""
    override = [settings] if "max_steps" in settings else [settings, "train.max_steps=0"]
    cfg = grid.resolve(read.load("params.yaml", override), cell("finetune")).train
    log = tmp_path / "metrics.jsonl"
    log.write_text(
        '{"step": 3, "epoch": %r, "loss": 1.0, "samples_per_second": 10.0, "time": 0.0}\n{"step": 4' % (3 / per_epoch)
    )
    seen = progress.progress(log, cfg)
    assert (seen.step, seen.steps) == (3, loop.total_steps(cfg, per_epoch))


def test_the_table():
    """Aligned; empty columns left out; cut at the terminal's width."""
    done = progress.Progress(10, 10, 1.5, 80.0, 0.0, 0.0)
    going = progress.Progress(5, 10, 2.25, 40.0, 3700.0, 0.0)
    text = status.table([status.Row("a", "done", done), status.Row("bcd", "running", going, "job 5_1")], 200)
    assert text.splitlines() == [
        "run  state    step   loss    samples/s  left   job",
        "a    done     10/10  1.5000",
        "bcd  running  5/10   2.2500  40         1h01m  job 5_1",
    ]
    assert max(map(len, status.table([status.Row("a" * 50, "done")], 20).splitlines())) == 20
    assert [status.duration(s) for s in (0.4, 59, 200, 18420)] == ["0s", "59s", "3m20s", "5h07m"]


def test_a_trained_run_is_being_scored(here):
    """Someone holds the key of a run whose training is finished."""
    made = at(cell("pretrained"))
    train_command.main(["--cell", cell("pretrained")])
    shutil.rmtree("runs")
    with made.lock():
        assert rows()[cell("pretrained")].state == "scoring"


def test_a_short_window():
    """What lives or failed is shown, in the grid's order; the page says how many rows are not."""
    states = ("done", "stale", "failed", "published", "running", "pending")
    every = [status.Row(state[0], state) for state in states]
    assert [r.state for r in status.fitting(every, 3)] == ["failed", "running", "pending"]
    assert status.fitting(every, 6) == every
    assert [r.state for r in status.fitting(every, 0)] == ["running"]


def test_a_params_file_that_is_being_edited(here, monkeypatch):
    """The watch says what is wrong with it and goes on; in a short window it says how many rows are missing."""
    monkeypatch.setenv("LINES", "7")
    assert "3 runs: 3 stale (1 not shown: the window is short)" in status._screen("params.yaml")
    Path("params.yaml").write_text("grid: {methods: [")
    assert status._screen("params.yaml").startswith("error: params.yaml")


def test_watch_shows_it_again(here):
    """Until Ctrl-C, which is no error."""
    # a shell's background job, which these tests may be, hands down that SIGINT is ignored
    shown = subprocess.Popen(
        [sys.executable, "-m", "compclip.runs.status", "--watch"],
        stdout=subprocess.PIPE,
        text=True,
        env=tiny_project.environment(),
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        for _ in range(2):
            while "Ctrl-C ends" not in shown.stdout.readline():
                pass
        shown.send_signal(signal.SIGINT)
        assert shown.wait(timeout=30) == 0
    finally:
        shown.kill()
