"""`compclip status`: one row a run, whatever became of it."""

import shutil
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compclip.base.files import write_json
from compclip.launch import results_job as launch_job
from compclip.runs import gpus, jobs, lock, progress, run_store, run_table, status
from compclip.runs.run_folder import RunFolder
from compclip.train import __main__ as train_command
from compclip.train import fine_tuning
from tests.tiny_project import at, cell, wait_for

pytestmark = pytest.mark.usefixtures("forked_commands")


def rows() -> dict[str, run_table.RunRow]:
    return {listed_run.name: run_table.make_row(listed_run) for listed_run in run_table.list_runs("params.yaml")[0]}


def test_a_run_from_nothing_to_published(here):
    """stale, running with its progress and process, stopped or failed, done, published."""
    name, stored_run = cell("fsc_clip"), at(cell("fsc_clip"))
    assert {r.state for r in rows().values()} == {"stale"}
    job = jobs.Local("tests.held_job").submit(stored_run, "params.yaml")
    wait_for(lambda: Path("held").exists())
    row = rows()[name]
    assert (row.state, row.progress.step, row.progress.steps, row.job) == ("running", 3, 10, job.label())
    job.child.kill()
    assert jobs.wait_for_job(job, lambda: None) == jobs.FAILED
    assert rows()[name].state == "failed"
    assert "job.log" in rows()[name].error
    jobs.forget_job(stored_run.folder)
    assert rows()[name].state == "stopped"
    assert launch_job.main([stored_run.key]) == 0
    assert rows()[name].state == "done"
    train_command.main(["--cell", name])
    assert rows()[name].state == "published"
    page = status.format_page(*run_table.list_runs("params.yaml"), 200)
    assert "10/10" in page and "3 runs: 2 stale, 1 published; trained 1 of 3, scored 1 of 3" in page
    assert f"{progress.sum_device_seconds(stored_run.folder) / 3600:.2f} process-hours" in page
    assert "GPU" not in page and "1/1" in page
    assert page.splitlines()[-2:] == [f"  {state}: {status.MEANINGS[state]}" for state in ("stale", "published")]


def test_trials_of_sweeps_and_older_folders(here):
    """A trial is called by its study and number; a folder of earlier code is only counted."""
    stored_run = at(cell("finetune"), *["train.lr=2e-3"])
    with lock.hold(stored_run.folder):
        pass
    jobs.write_inputs(stored_run, "params.yaml")
    listed_runs, older = run_table.list_runs("params.yaml")
    assert (len(listed_runs), older) == (3, 1)
    trial = {"number": 4, "run_key": stored_run.key, "reason": "it failed", "state": "failed"}
    waiting_trial = {"number": 5, "run_key": None, "reason": "", "state": "waiting"}
    write_json("studies/gamma/trials.json", {"trials": [trial, waiting_trial]})
    listed_runs, older = run_table.list_runs("params.yaml")
    assert (len(listed_runs), older) == (4, 0)
    row = run_table.make_row(listed_runs[-1])
    assert (row.name, row.state, row.progress, row.job, row.error) == ("gamma#4", "stale", None, "", "it failed")


def test_a_trial_whose_driver_was_killed_has_not_failed(here):
    """Its job is gone with the driver, and the same command goes on with it; a trial that was told has failed."""
    folder = jobs.write_inputs(at(cell("finetune"), "train.lr=2e-3"), "params.yaml")
    gone = {"kind": "local", "module": jobs.SCORES, "host": socket.gethostname(), "pid": 2**22 + 1, "started": "1@x"}
    write_json(folder.job, gone)
    for trial_state, state in (("running", "stopped"), ("failed", "failed")):
        trial = {"number": 4, "run_key": folder.key, "reason": "", "state": trial_state}
        write_json("studies/gamma/trials.json", {"trials": [trial]})
        row = run_table.make_row(run_table.list_runs("params.yaml")[0][-1])
        assert (row.name, row.state) == ("gamma#4", state)
        assert ("compclip sweep --study gamma" in row.error) == (state == "stopped")


def test_a_live_run_of_neither_grid_nor_study_is_shown(here):
    """By the name that it was sent with, or by its key where nobody sent it."""
    named_run, unnamed_folder = at(cell("finetune"), "train.lr=2e-3"), run_store.find_folder("0123456789abcdef")
    jobs.write_inputs(named_run, "params.yaml")
    with lock.hold(named_run.folder), lock.hold(unnamed_folder):
        listed_runs, older = run_table.list_runs("params.yaml")
        live_rows = [run_table.make_row(listed_run) for listed_run in listed_runs[3:]]
    assert older == 0
    states = {row.name: row.state for row in live_rows}
    assert states == {cell("finetune"): "running", unnamed_folder.key: "running"}


@pytest.mark.parametrize(
    ("settings", "per_epoch"),
    [("train.epochs=2", 5), ("train.epochs=1.25", 5), ("train.epochs=0.3", 7), ("train.epochs=0.001", 3),
     ("train.max_steps=4", 9)],
)  # fmt: skip
def test_steps_are_those_of_the_trainer(here, tmp_path, settings, per_epoch):
    """The total is worked out from a logged line as train works it out from its data."""
    override = [settings] if "max_steps" in settings else [settings, "train.max_steps=0"]
    cfg = at(cell("finetune"), *override)
    log = tmp_path / "metrics.jsonl"
    log.write_text(
        '{"step": 3, "epoch": %r, "loss": 1.0, "samples_per_second": 10.0, "time": 0.0}\n{"step": 4' % (3 / per_epoch)
    )
    run_progress = progress.read_progress(log, cfg.resolved["train"])
    assert (run_progress.step, run_progress.steps) == (3, fine_tuning.total_steps(cfg.run.train, per_epoch))


def test_the_last_validation_is_shown(here):
    """Also behind later steps without one; a line that is being written counts for nothing."""
    folder = at(cell("finetune")).folder
    validated = ('{"step": 1, "epoch": 0.2, "loss": 1.0, "samples_per_second": 10.0, "validation/loss": %s, '
             '"validation/loss_error": 0.1, "validation/i2t_recall_at_1": 0.5, "validation/t2i_recall_at_1": 0.25}\n')  # fmt: skip
    plain = '{"step": 3, "epoch": 0.6, "loss": 1.0, "samples_per_second": 10.0}\n'
    folder.make()
    folder.lock.touch()
    column = status.HEADER.index("validation")
    for text, expected in (
        (plain, ""),
        (validated % 1.5 + validated % 1.25 + plain + (validated % 1.75)[:-9], "1.250, R@1 37.5 %"),
    ):
        folder.metrics.write_text(text)
        assert status.list_cells(rows()[cell("finetune")])[column] == expected


def test_a_trained_run_whose_benchmarks_are_not_scored(here_finished):
    """It is trained, with the count of its results, and not stopped; in runs/ or not; scoring while somebody holds it."""
    name, stored_run = cell("pretrained"), at(cell("pretrained"))
    with lock.hold(stored_run.folder):
        assert rows()[name].state == "scoring"
    assert (rows()[name].state, rows()[name].scored) == ("published", (1, 1))
    shutil.rmtree("results")
    stored_run.folder.scored.unlink(missing_ok=True)
    assert (rows()[name].state, rows()[name].scored) == ("trained", (0, 1))
    shutil.rmtree("runs")
    assert (rows()[name].state, rows()[name].scored) == ("trained", (0, 1))


def test_a_run_under_way_on_a_gpu(tmp_path, monkeypatch):
    """Known by its process before it is finished, by its environment.json afterwards."""
    folder = RunFolder(tmp_path / "key")
    monkeypatch.setattr(gpus, "explain_request", lambda: ("", ""))
    progress.begin_life(folder, 1)
    assert not progress.ran_on_gpu(folder)
    monkeypatch.setattr(gpus, "explain_request", lambda: ("a GPU is there", ""))
    progress.begin_life(folder, 1)
    assert progress.ran_on_gpu(folder)
    write_json(folder.final.environment, {"device": "x86_64"})
    assert not progress.ran_on_gpu(folder)


@given(st.lists(st.sampled_from(status.URGENT)))
def test_sums_add_up(states):
    """Whatever the states: each run counts once, scored ones are trained, and each state is explained."""
    all_rows = [run_table.RunRow(str(i), state) for i, state in enumerate(states)]
    head, _, tail = status.summarize(all_rows).partition("; ")
    total, _, listing = head.replace("1 run: ", "1 runs: ", 1).partition(" runs: ")
    counts = dict(reversed(words.split()) for words in listing.split(", ") if listing != "none")
    assert sum(map(int, counts.values())) == int(total) == len(states)
    trained, scored = (tuple(map(int, sums.split()[1::2])) for sums in tail.split(", "))
    assert scored[0] <= trained[0] <= len(states) and trained[1] == scored[1] == len(states)
    assert [line.split(":")[0].strip() for line in status.format_legend(all_rows)] == list(counts)


def test_a_short_window():
    """What lives or failed is shown, in the grid's order; the page says how many rows are not."""
    states = ("done", "stale", "failed", "published", "running", "pending")
    all_rows = [run_table.RunRow(state[0], state) for state in states]
    assert [r.state for r in status.select_rows(all_rows, 3)] == ["failed", "running", "pending"]
    assert status.select_rows(all_rows, 6) == all_rows
    assert [r.state for r in status.select_rows(all_rows, 0)] == ["running"]
