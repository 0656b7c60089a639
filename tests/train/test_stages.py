"""The stages of a method, `train --method` and `evaluate --method`: all its cells, each run once, what is there is taken."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from compclip.base.files import read_json, write_json
from compclip.evaluate import __main__ as evaluate_command
from compclip.runs import cluster, jobs, local_runs, lock, run_store
from compclip.runs.progress import Follower
from compclip.train import __main__ as train_command
from tests import tiny_project
from tests.fake_slurm import queued, record
from tests.tiny_project import cell, outcome, results, trained

pytestmark = pytest.mark.usefixtures("forked_commands")
SEEDS = [f"finetune-tiny-scenes-{seed}" for seed in (0, 1)]


@pytest.fixture(autouse=True)
def signals():
    """The stage answers them in its own way; afterwards they mean what they meant."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job has it ignored
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def seeds(*numbers: int) -> None:
    """The grid of the current folder has these seeds; the stages before training have run."""
    text = Path("params.yaml").read_text().replace("seeds: [0]", f"seeds: {list(numbers)}")
    Path("params.yaml").write_text(text)
    tiny_project.plan()


def planned(name: str) -> run_store.StoredRun:
    """The run of a cell as the stages left it."""
    method = name.partition("-")[0]
    return next(stored for stored in run_store.load_planned(method) if stored.cell.name == name)


def bring(method: str) -> int:
    """The stage of a method's training."""
    return train_command.main(["--method", method])


LOOKS = """
import sys
from compclip.train import __main__ as train
assert train.main(["--method", "fsc_clip"]) == 0
from compclip.evaluate import __main__ as evaluate
assert evaluate.main(["--method", "fsc_clip"]) == 0
print("heavy:", *{"torch", "open_clip", "PIL", "numpy", "spacy", "mlflow", "dvc", "optuna"} & set(sys.modules))
"""


def test_what_is_finished_is_published_without_torch(here_finished, finished):
    """In a fresh process, whole: links to the store, and nothing of what training or scoring would import."""
    tiny_project.plan()
    assert evaluate_command.main(["--census", "sugarcrepe"]) == 0
    for folder in ("runs", "results"):
        shutil.rmtree(folder)
    done = subprocess.run([sys.executable, "-c", LOOKS], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0] == "fsc_clip: 1 cell, 1 run: 1 finished before"
    assert "fsc_clip: 1 cell, 0 runs scored" in done.stdout
    assert done.stdout.splitlines()[-1] == "heavy:"
    name = cell("fsc_clip")
    assert outcome(here_finished, name) == outcome(finished, name)
    place, final = planned(name).published.trained, planned(name).folder.final
    assert place.weights.samefile(final.weights) and place.environment.samefile(final.environment)
    assert not trained(here_finished, cell("finetune")).exists()


def test_cells_side_by_side_of_which_one_fails(here, finished, monkeypatch, capsys):
    """Both start before one ends; the one whose lock cannot be taken is named; the other is trained and published."""
    seeds(0, 1)
    planned(SEEDS[1]).folder.lock.mkdir(parents=True)
    capsys.readouterr()
    monkeypatch.setattr(local_runs, "list_slots", lambda threads: [{}, {}])
    before = signal.getsignal(signal.SIGTERM)
    assert bring("finetune") == 1
    assert signal.getsignal(signal.SIGTERM) == before  # or what comes afterwards would end by it with a traceback
    out, err = capsys.readouterr()
    state_lines = [line for line in out.splitlines() if "step" not in line]
    assert [line.partition(" as ")[0] for line in state_lines[:2]] == [f"{name}: started" for name in SEEDS]
    assert state_lines[-1] == "finetune: 2 cells, 2 runs: 1 trained now, 1 failed"
    assert err.startswith(f"error: {SEEDS[1]}: exit code 2: error: ")
    assert "lock: cannot write: Is a directory; free space" in err
    logs = [tiny_project.steps(trained(root, SEEDS[0]) / "metrics.jsonl") for root in (here, finished)]
    assert logs[0] == logs[1]
    assert not trained(here, SEEDS[1]).exists()
    assert read_json(Path("trained/finetune.json")).keys() == {SEEDS[0]}


def test_a_place_that_cannot_be_written_leaves_the_others(here_finished, monkeypatch, capsys):
    """Of two cells of one finished run: the one is named, the other published."""
    monkeypatch.setattr(train_command, "train_runs", None)
    names = [f"pretrained-tiny-scenes-{seed}" for seed in (0, 1)]
    seeds(0, 1)
    shutil.rmtree("runs")
    Path("runs/pretrained").mkdir(parents=True)
    trained(here_finished, names[0]).write_text("a file where the folder should be")
    assert bring("pretrained") == 1
    error = f"error: {names[0]}: runs/pretrained/tiny-scenes-0/config.yaml: cannot write"
    assert capsys.readouterr().err.startswith(error)
    assert (trained(here_finished, names[1]) / "environment.json").is_file()


def test_cells_that_share_a_key_are_one_run(here, here_finished, monkeypatch):
    """Seeds of the model that is not trained: one run to make, published as both with the cells' own config.yaml."""
    os.chdir(here)
    seeds(0, 1)
    seen = []
    monkeypatch.setattr(train_command, "train_runs", lambda todo, *_: seen.append([s.cell.seed for s in todo]) or {})
    assert bring("pretrained") == bring("finetune") == 0
    assert seen == [[0], [0, 1]]
    os.chdir(here_finished)
    seeds(0, 1)
    assert bring("pretrained") == 0 and len(seen) == 2
    both = [trained(here_finished, f"pretrained-tiny-scenes-{seed}") for seed in (0, 1)]
    assert (both[0] / "environment.json").samefile(both[1] / "environment.json")
    assert ["seed: 0" in (p / "config.yaml").read_text() for p in both] == [True, False]
    assert evaluate_command.main(["--method", "pretrained"]) == 0
    files = [results(here_finished, f"pretrained-tiny-scenes-{seed}") / "sugarcrepe.json" for seed in (0, 1)]
    assert files[0].samefile(files[1])


@pytest.fixture
def held_trainings(monkeypatch):
    """Trainings of the stage stop in their fourth step."""
    monkeypatch.setattr(jobs, "TRAINS", "tests.held_job")
    monkeypatch.setenv("HELD_JOB", "compclip.train.job")


def when_held(number: signal.Signals):
    """In place of the look whether the stage is an orphan: a signal to this process when its training is held."""
    sent = []

    def look() -> bool:
        if not sent and Path("held").exists():
            sent.append(os.kill(os.getpid(), number))
        return False

    return lambda: look


def test_ctrl_c_stops_the_trainings_which_save(here, monkeypatch, capsys, held_trainings):
    """They leave after the step that they are in; the command says that it goes on where they were."""
    monkeypatch.setenv("HELD_UNTIL", "signal")
    monkeypatch.setattr(train_command, "_orphan_check", when_held(signal.SIGINT))
    tiny_project.plan()
    with pytest.raises(SystemExit) as exit_info:
        bring("finetune")
    assert exit_info.value.code == 130
    assert "stopping; what trains saves first, and the same command goes on" in capsys.readouterr().err
    folder = planned(cell("finetune")).folder
    assert [path.name for path in folder.checkpoints()][-1] == "step_00000004.safetensors"
    assert jobs.find_worker(folder) is None and lock.find_holder(folder) is None
    assert not Path("runs").exists()


def test_sigterm_leaves_the_trainings_and_the_next_call_attaches(here, finished, monkeypatch, capsys, held_trainings):
    """It says what goes on; the run is trained once, with the bits of an undisturbed one."""
    name = cell("finetune")
    monkeypatch.setattr(train_command, "_orphan_check", when_held(signal.SIGTERM))
    tiny_project.plan()
    with pytest.raises(SystemExit) as exit_info:
        bring("finetune")
    assert exit_info.value.code == 143
    message = f"stopped; in the background train on: {name}; `compclip repro train@finetune` attaches"
    assert message in capsys.readouterr().err
    folder = planned(name).folder
    pid = jobs.find_worker(folder).record["pid"]
    monkeypatch.setattr(train_command, "_orphan_check", lambda: lambda: False)
    monkeypatch.setattr(Follower, "__call__", lambda _: Path("go").touch())
    assert bring("finetune") == 0
    assert f"{name}: attached to process {pid}\n" in capsys.readouterr().out
    assert len(list(folder.lives.glob("*.json"))) == 1
    assert evaluate_command.main(["--method", "finetune"]) == 0
    assert outcome(here, name) == outcome(finished, name)


def test_what_another_command_trained_is_counted_as_such(here, monkeypatch, capsys):
    """Two commands of one store: the second waits for the process that the first has started."""
    tiny_project.plan()
    monkeypatch.setattr(train_command, "_orphan_check", lambda: lambda: False)
    with monkeypatch.context() as patch:
        patch.setattr(os, "getppid", lambda: 1)  # of the training, which is a fork of this process
        assert bring("finetune") == 0
    assert capsys.readouterr().out.endswith("finetune: 1 cell, 1 run: 1 trained by another command\n")


def test_a_stage_whose_dvc_is_gone_goes_too(monkeypatch):
    """Its parent, or the shell's above it, is another one than when it began."""
    above = [(7, 1)]
    monkeypatch.setattr(train_command, "_ancestors", lambda: above[-1])
    gone = train_command._orphan_check()
    assert not gone()
    above.append((7, 2))
    assert gone()


def test_a_live_job_of_a_cluster_is_waited_for(here_finished, monkeypatch, capsys):
    """It takes no place on this machine; what it made is published."""
    tiny_project.plan()
    name, states = cell("finetune"), ["PENDING", "RUNNING"]
    folder = planned(name).folder
    write_json(folder.job, record("7_1", module=jobs.TRAINS))
    shutil.rmtree("runs")
    aside = folder.final.path.rename(folder.path / "aside")

    def find(*_: object) -> cluster.QueuedJob | None:
        if not states and aside.exists():
            aside.rename(folder.final.path)
        return queued(states.pop(0)) if states else None

    monkeypatch.setattr(cluster, "queue", lambda *_: type("Queue", (), {"find": staticmethod(find)}))
    monkeypatch.setattr(local_runs, "list_slots", lambda threads: [])
    assert bring("finetune") == 0
    assert f"{name}: attached to job 7_1\n" in capsys.readouterr().out
    assert (trained(here_finished, name) / "environment.json").is_file()


def test_published_runs_go_back_into_an_empty_store(here_finished, finished, monkeypatch):
    """A clone that pulled runs/ has no store: nothing trains again, and the store then has the same files."""
    monkeypatch.setattr(train_command, "train_runs", None)
    tiny_project.plan()
    shutil.rmtree("store")
    for method in tiny_project.METHODS:
        assert bring(method) == 0
        stored = planned(cell(method))
        assert stored.folder.finished
        assert stored.folder.final.weights.samefile(stored.published.trained.weights)
        assert outcome(here_finished, cell(method)) == outcome(finished, cell(method))
    seeds(0, 1)
    shutil.rmtree("store")
    shutil.rmtree("runs/pretrained/tiny-scenes-0")
    Path("runs/pretrained").mkdir(exist_ok=True)
    shutil.copytree(trained(finished, cell("pretrained")), "runs/pretrained/tiny-scenes-1")
    assert bring("pretrained") == 0  # where only another cell of the key was pulled
    assert (trained(here_finished, cell("pretrained")) / "environment.json").is_file()


def test_what_stands_behind_training_changes_with_a_training_alone(here_finished):
    """trained/<method>.json: the same for files that are linked anew; another where a run of that key was made again."""
    seeds(0, 1)
    trained_file, name = Path("trained/pretrained.json"), cell("pretrained")
    assert bring("pretrained") == 0
    first = trained_file.read_bytes()
    assert json.loads(first).keys() == {name, name.replace("-0", "-1")}
    shutil.rmtree("runs")
    trained_file.unlink()
    assert bring("pretrained") == 0
    assert trained_file.read_bytes() == first
    final = planned(name).folder.final
    write_json(final.environment, final.facts() | {"started": "another day"})
    assert bring("pretrained") == 0
    changed = read_json(trained_file)
    assert changed.keys() == json.loads(first).keys()
    assert all(changed[key] != before for key, before in json.loads(first).items())  # both seeds are this one run


def test_evaluate_scores_what_nobody_scored(here_finished, finished, monkeypatch, capsys):
    """Once for cells that share a run; a checkpoint that is broken is named, and the others are scored."""
    seeds(0, 1)
    assert bring("pretrained") == 0
    for method in ("pretrained", "finetune"):
        shutil.rmtree(planned(cell(method)).folder.path / "scores")
    shutil.rmtree("results")
    weights = planned(cell("finetune")).folder.final.weights
    weights.unlink()
    weights.write_bytes(b"no")
    capsys.readouterr()
    assert evaluate_command.main(["--method", "pretrained"]) == 0
    assert "pretrained: 2 cells, 1 run scored" in capsys.readouterr().out
    assert outcome(here_finished, cell("pretrained")) == outcome(finished, cell("pretrained"))
    assert evaluate_command.main(["--method", "finetune"]) == 1
    err = capsys.readouterr().err
    assert f"error: {SEEDS[0]}: " in err and "damaged since its training" in err
