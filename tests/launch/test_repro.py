"""`compclip repro`: a line a stage, errors as they come, the rest in a log; the order of things with `--on`."""

import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from compclip.base.errors import UserError
from compclip.base.files import hold_exclusively
from compclip.config import plan, read
from compclip.launch import __main__ as launch_command
from compclip.launch import cost_table, repro, run_jobs
from tests.shipped_files import SHIPPED_PROJECT

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
    assert repro.run_dvc([], repro.StageLines(3)) == code
    page = capsys.readouterr()
    lines = [" ".join(line.split()) for line in page.out.splitlines()]
    assert lines[0] == "2/3 annotate scenes 0 s captions 1,200"
    assert lines[-1] == "1 stage had nothing to do"
    assert ("3/3 train negclip" in " ".join(lines)) == (code == 0)
    assert "warning: 3 captions are empty\nerror: negclip: CUDA is gone\nERROR: " in page.err
    assert ("train negclip: stopped or failed" in page.err) == (code != 0)
    assert Path(".work/repro.log").read_text() == OUTPUT


def test_stages_run_with_the_python_that_runs_repro(tmp_path, monkeypatch):
    """Their commands begin with `python`, and nobody has to activate an environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", os.defpath)
    monkeypatch.setattr(sys, "executable", fake_dvc(tmp_path, 0))
    (tmp_path / "python").write_text("#!/bin/sh\ncommand -v python\n")
    assert repro.run_dvc([], repro.StageLines(0)) == 0
    assert Path(".work/repro.log").read_text().strip() == sys.executable


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder with the stages and a grid of photographs, of which nobody asks where they are."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(repro.missing_inputs, "require_inputs", lambda params: None)
    for name in ("dvc.yaml", "experiments/scenes/dvc.yaml"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text((SHIPPED_PROJECT / name).read_text())
    use_grid("photographs")
    return tmp_path


def use_grid(name: str) -> None:
    """Make a shipped grid the current one."""
    Path("params.yaml").write_text((SHIPPED_PROJECT / "experiments" / "grids" / f"{name}.yaml").read_text())


OPTIONAL = {
    "scenes": [],  # what each asks for
    "rewrite": ["data.coco.rewriter={url: 'http://localhost', model: m}"],
    "neighbours": ["methods.negclip.hard_images=1"],
    "tune": ["tune.trials=1"],
    "blind": [],
}


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("overrides", [[], *OPTIONAL.values(), ["evaluate.blind=[]"]])
def test_stages_are_listed_that_have_something_to_do(overrides):
    """Each as often as it has, and described; the others are neither counted nor shown."""
    idle = plan.list_idle(read.load_params("params.yaml", overrides))
    stages = repro.list_stages(idle)
    assert all(what for _, what in stages.values())
    assert stages["train"][0] == 7 and stages["plan"][0] == 1 and stages["recaption"][0] == 2
    needed = {name for name, texts in OPTIONAL.items() if texts and texts == overrides}
    needed |= set() if overrides == ["evaluate.blind=[]"] else {"blind"}
    assert needed == OPTIONAL.keys() & stages.keys()
    assert stages.get("rewrite", (1,))[0] == 1


@pytest.mark.usefixtures("project")
def test_the_world_is_drawn_behind_the_plan():
    """Where a benchmark lies in it."""
    use_grid("try")
    assert list(repro.list_stages(plan.list_idle(read.load_params("params.yaml"))))[:2] == ["plan", "scenes"]


@pytest.mark.usefixtures("project")
def test_idle_stages_have_no_line(capsys):
    """DVC runs them, since it cannot know."""
    lines = repro.StageLines(1, {"tune", "rewrite@coco"})
    for line in ("Running stage 'rewrite@coco':", "{}", "Updating lock file 'dvc.lock'", "Stage 'tune' didn't change"):
        lines.read(line)
    lines.read("Running stage 'experiments/scenes/dvc.yaml:scenes':")
    lines.end()
    assert lines.unchanged == 0
    assert [line.split()[:2] for line in capsys.readouterr().out.splitlines()] == [["1/1", "scenes"]]


def test_one_at_a_time(project, monkeypatch):
    """The log is the first one's; a line names its process."""
    monkeypatch.setattr(sys, "executable", fake_dvc(project, 0))
    with hold_exclusively(repro.LOCK, "{}"), pytest.raises(UserError, match=f"process {os.getpid()} .*wait for it"):
        repro.main([])
    assert not repro.LOG.exists()


def test_the_whole_says_what_it_compares_and_ends_with_its_heading(project, monkeypatch, capsys):
    """The pretrained row is no method; reports/ is the report of the last call."""
    monkeypatch.setattr(sys, "executable", fake_dvc(project, 0))
    Path("reports").mkdir()
    Path("reports/index.html").write_text("<h1>Best: a &amp; b</h1>")
    assert repro.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "This compares 6 methods, 1 pretrained model, 2 data sets, 1 seed:"
    assert lines[-2] == "Best: a & b" and "reports/index.html" in lines[-1] and "compclip dashboard" in lines[-1]


@pytest.fixture
def calls(project, monkeypatch) -> list[tuple]:
    """What is done, one after the other: calls of DVC with the profile that its stages see, and what is sent where."""
    done: list[tuple] = []

    def run_dvc(words, lines, root=None, environment=None) -> int:
        done.append((*words, environment.get("COMPCLIP_ON", "")))
        return 0

    monkeypatch.setattr(repro, "run_dvc", run_dvc)
    monkeypatch.setattr(run_jobs, "send", lambda profile, params, workers: done.append((profile.executor, workers)))
    monkeypatch.setattr(run_jobs.slurm, "read_max_array_size", lambda: 9)
    Path("far.yaml").write_text("{partition: gpu, gpus: 1, constraint: a100, jobs: 4}")
    Path("near.yaml").write_text("{executor: local}")
    Path("reports").mkdir()
    Path("reports/index.html").write_text("<h1>Best: a</h1>")
    return done


@pytest.mark.parametrize(("command", "expected"), [
    ([repro.main, "--on", "far.yaml"], [("far.yaml",), ("slurm", 4), ("--keep-going", "far.yaml")]),
    ([repro.main, "--on", "far.yaml", "--send"], [("far.yaml",), ("slurm", 4)]),
    ([launch_command.main, "far.yaml", "--send"], [("far.yaml",), ("slurm", 4)]),
    ([repro.main, "--on", "near.yaml", "-j", "2"], [("",), ("local", 2), ("--keep-going", "")]),
])  # fmt: skip
def test_prepared_sent_collected(command, expected, calls, capsys):
    """Stages see a cluster's profile, so that they send their trials there; the last lines say what comes next."""
    params = read.load_params("params.yaml")
    first = ("keys", *(f"benchmark@{name}" for name in params.evaluate.benchmarks), *expected[0])
    assert command[0](command[1:]) == 0
    assert calls == [first, *expected[1:]]
    last = capsys.readouterr().out.splitlines()[-1]
    assert ("`compclip repro --on far.yaml` attaches" in last) == ("--send" in command)
    assert ("reports/index.html" in last) == ("--send" not in command)


def test_ctrl_c_while_jobs_are_sent(calls, monkeypatch, capsys):
    """Nothing is collected, and the line says how to go on and how to end them."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(run_jobs, "send", stop)
    assert repro.main(["--on", "far.yaml"]) == 130
    assert len(calls) == 1
    error_output = capsys.readouterr().err
    assert "`compclip repro --on far.yaml`" in error_output and "`compclip launch far.yaml cancel`" in error_output


@pytest.mark.parametrize(("words", "message"), [
    (["--on", "far.yaml", "report"], "leave out report; "), (["--on", "far.yaml", "-f"], "leave out -f; "),
    (["--send"], "give --on PROFILE too; "), (["-j", "2"], "give --on PROFILE too; "),
])  # fmt: skip
def test_words_that_do_not_fit(words, message, calls, capsys):
    """A line, and nothing is done."""
    with pytest.raises(SystemExit):
        repro.main(words)
    assert message in capsys.readouterr().err and not calls
    with pytest.raises(UserError, match="--send: this profile's runs are processes of this machine"):
        repro.main(["--on", "near.yaml", "--send"])
    assert not calls


def test_a_dry_run_in_a_fresh_project(calls, project, monkeypatch, capsys):
    """What would be sent, with the bounds of the profile's card, before anything is prepared; nothing is written."""
    bounds = lambda runs, profile, card, root: [f"bounds of {len(runs)} runs on {profile.constraint}"]  # noqa: E731
    monkeypatch.setattr(cost_table, "describe_costs", bounds)
    use_grid("first_hour")
    before = sorted(project.rglob("*"))
    assert repro.main(["--on", "far.yaml", "--dry-run"]) == 0
    assert sorted(project.rglob("*")) == before and not calls
    lines = capsys.readouterr().out.splitlines()
    counts = "12 runs: 0 finished, 0 on their way, 12 to send"
    assert {counts, "bounds of 12 runs on a100", "partition: gpu", "gpus_per_node: 1"} <= set(lines)


@pytest.mark.usefixtures("project")
def test_a_stage_is_shown_once(capsys):
    """`plan` and `look` run before runs are sent, and again before they are collected."""
    lines = repro.StageLines(3)
    for line in OUTPUT.splitlines() * 2:
        lines.read(line)
    lines.end()
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["2/3", "3/3"]


def test_a_stage_that_failed_while_others_go_on(capsys):
    """With --keep-going DVC says only what it leaves out."""
    lines = repro.StageLines(2)
    skipped = "WARNING: Stage 'evaluate@a' will be skipped due to this failure"
    for line in ("Running stage 'train@a':", "{}", skipped, "Running stage 'train@b':", "b: 1 cell"):
        lines.read(line)
    lines.end()
    assert [line.split(" s  ")[1] for line in capsys.readouterr().out.splitlines()] == [
        "failed; what needs it is left out", "b: 1 cell"
    ]  # fmt: skip


@pytest.fixture
def dvc_project(tmp_path, monkeypatch) -> Path:
    """A project of one stage that DVC has brought up to date."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dvc.yaml").write_text(
        "stages: {copy: {cmd: echo x >> runs; cp notes copy, deps: [notes], outs: [copy]}}\n"
    )
    (tmp_path / "notes").write_text("two shards\n")
    subprocess.run([sys.executable, "-m", "dvc", "init", "--no-scm", "--quiet"], check=True)
    assert repro.run_dvc([], repro.StageLines(1)) == 0
    return tmp_path


CUT = {
    "dvc.lock": "schema: '2.0'\nstages:\n  copy:\n    cm",
    "experiments/scenes/dvc.lock": "sch",
    ".dvc/tmp/rwlock": "",
}


def test_files_that_a_killed_dvc_has_cut_stop_nobody(dvc_project, capsys):
    """Without its lock file DVC finds by its list of runs what the stage made: it does not run again."""
    (dvc_project / "experiments" / "scenes").mkdir(parents=True)
    for path, text in CUT.items():
        (dvc_project / path).write_text(text)
    assert repro.run_dvc([], repro.StageLines(1)) == 0
    err = capsys.readouterr().err
    for path, text in CUT.items():
        assert f"note: {path}: half-written" in err
        assert (dvc_project / f".work/{path.replace('/', '-')}.cut").read_text() == text
    assert (dvc_project / "runs").read_text() == "x\n"
    assert (dvc_project / "dvc.lock").read_text().endswith("size: 11\n")


@pytest.mark.parametrize("conflict", [True, False])
def test_lock_files_that_others_have_in_hand_stay(dvc_project, conflict):
    """A merge conflict, and a file that another dvc is about to finish."""
    text = "<<<<<<< ours\nstages: {}\n>>>>>>> theirs\n" if conflict else CUT["dvc.lock"]
    (dvc_project / "dvc.lock").write_text(text)
    with nullcontext() if conflict else hold_exclusively(dvc_project / repro.DVC_LOCK, ""):
        repro.remove_cut_files(dvc_project)
    assert (dvc_project / "dvc.lock").read_text() == text
