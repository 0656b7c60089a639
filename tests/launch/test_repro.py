"""`compclip repro`: a line a stage, errors as they come, the rest in a log."""

import os
import sys
from pathlib import Path

import pytest

from compclip.base.errors import UserError
from compclip.base.files import hold_exclusively
from compclip.config import plan, read
from compclip.launch import repro
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
