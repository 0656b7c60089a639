"""`python -m compclip status`: one row a run, whatever became of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from compclip.base.files import write_json
from compclip.launch import job as launch_job
from compclip.runs import jobs, lives, lock, progress, status, store
from compclip.train import __main__ as train_command
from compclip.train import loop
from tests.tiny_project import at, cell, wait_for


def rows() -> dict[str, status.Row]:
    """All rows by name."""
    return {found.name: status.row(found) for found in status.listed("params.yaml")[0]}


def test_a_run_from_nothing_to_published(here):
    """stale, running with its progress and process, stopped or failed, done, published."""
    name, made = cell("fsc_clip"), at(cell("fsc_clip"))
    assert {r.state for r in rows().values()} == {"stale"}
    job = jobs.Local("tests.held_job").submit(made, "params.yaml")
    wait_for(lambda: Path("held").exists())
    seen = rows()[name]
    assert (seen.state, seen.progress.step, seen.progress.steps, seen.job) == ("running", 3, 10, job.label())
    job.child.kill()
    assert jobs.wait(job, lambda: None) == jobs.FAILED
    assert rows()[name].state == "failed"
    assert "job.log" in rows()[name].error
    jobs.forget(made.folder)
    assert rows()[name].state == "stopped"
    assert launch_job.main([made.key]) == 0
    assert rows()[name].state == "done"
    train_command.main(["--cell", name])
    assert rows()[name].state == "published"
    shown = status.page("params.yaml", 200)
    assert "10/10" in shown and "3 runs: 2 stale, 1 published" in shown
    assert f"{lives.device_seconds(made.folder) / 3600:.2f} GPU-hours" in shown


def test_a_run_that_dvc_trains_is_shown(here):
    """No job, but someone holds the run key."""
    made = at(cell("finetune"))
    with lock.hold(made.folder):
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
    with lock.hold(made.folder):
        pass
    jobs.write_inputs(made, "params.yaml")
    found, older = status.listed("params.yaml")
    assert (len(found), older) == (3, 1)
    trial = {"number": 4, "run_key": made.key, "reason": "it failed", "state": "failed"}
    write_json("studies/gamma/trials.json", {"trials": [trial, {"number": 5, "run_key": None, "reason": ""}]})
    found, older = status.listed("params.yaml")
    assert (len(found), older) == (4, 0)
    shown = status.row(found[-1])
    assert (shown.name, shown.state, shown.progress, shown.job, shown.error) == (
        "gamma#4",
        "stale",
        None,
        "",
        "it failed",
    )


def test_a_live_run_of_neither_grid_nor_study_is_shown(here):
    """By the name that it was sent with, or by its key where nobody sent it."""
    sent, other = at(cell("finetune"), "train.lr=2e-3"), store.folder("0123456789abcdef")
    jobs.write_inputs(sent, "params.yaml")
    with lock.hold(sent.folder), lock.hold(other):
        found, older = status.listed("params.yaml")
        shown = [status.row(one) for one in found[3:]]
    assert older == 0
    assert {(row.name, row.state) for row in shown} == {(cell("finetune"), "running"), (other.key, "running")}


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
    cfg = at(cell("finetune"), *override)
    log = tmp_path / "metrics.jsonl"
    log.write_text(
        '{"step": 3, "epoch": %r, "loss": 1.0, "samples_per_second": 10.0, "time": 0.0}\n{"step": 4' % (3 / per_epoch)
    )
    seen = progress.progress(log, cfg.resolved["train"])
    assert (seen.step, seen.steps) == (3, loop.total_steps(cfg.run.train, per_epoch))


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


def test_a_trained_run_is_being_scored(here_finished):
    """Someone holds the key of a run whose training is finished."""
    with lock.hold(at(cell("pretrained")).folder):
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


def test_watch_shows_it_again(here, monkeypatch, capsys):
    """Until Ctrl-C, which is no error."""
    seen = []

    def wait(seconds: float) -> None:
        seen.append(seconds)
        if len(seen) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(status.time, "sleep", wait)
    assert status.main(["--watch"]) == 0
    assert seen == [status.REFRESH_S] * 2
    assert capsys.readouterr().out.count("3 runs: 3 stale") == 2
