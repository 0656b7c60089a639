"""`compclip export`: runs and trials as another tracker reads them; TensorBoard's own reader reads ours back."""

from __future__ import annotations

import json
import types

import pytest

from compclip.base import plugins
from compclip.base.errors import UserError
from compclip.base.files import write_json
from compclip.track import export, exported_runs
from compclip.track.exporters import tensorboard
from tests import fake_runs
from tests.track import live
from tests.track.project import params


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Runs of pretrained, negclip and clic; a grid of pretrained and clic."""
    fake_runs.make(tmp_path)
    params(tmp_path, columns=["sugarcrepe/swap"])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def read_scalars(folder):
    """Every scalar of a folder by its tag: steps, values and times, by TensorBoard's own reader."""
    return list_scalars(open_board(folder).Reload())


def open_board(folder):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    return accumulator.EventAccumulator(str(folder))


def list_scalars(board):
    return {
        tag: [(p.step, round(p.value, 6), p.wall_time) for p in board.Scalars(tag)] for tag in board.Tags()["scalars"]
    }


def test_tensorboard_reads_curves_and_results(project, capsys):
    """Curves at their steps and times, results at the last step; runs outside of the grid are left out."""
    pytest.importorskip("tensorboard", reason="needs the extra `tensorboard`")
    assert export.main(["tensorboard"]) == 0
    assert capsys.readouterr().out == "tensorboard: 4 added, 0 replaced, 0 unchanged\n"
    cells = fake_runs.cells(("pretrained", "clic"))
    assert sorted(p.name for p in (project / "tensorboard").iterdir()) == sorted(cell.name for cell in cells)
    scalars = read_scalars(project / "tensorboard" / "clic-vit-scenes-0")
    assert scalars["train/clip"] == [(10, 2.5, 1_700_000_010), (20, 2.0, 1_700_000_020), (30, 1.5, 1_700_000_030)]
    assert scalars["sugarcrepe/swap_att"] == [(30, 0.9, 1_700_000_030)]
    assert scalars["score/sugarcrepe"] == [(30, 0.75, 1_700_000_030)]


def test_a_second_call_adds_nothing(project, capsys):
    """A run whose result changed is replaced, not added to."""
    pytest.importorskip("tensorboard", reason="needs the extra `tensorboard`")
    export.main(["tensorboard", "--to", "board"])
    board = project / "board"
    before = {path: path.stat().st_mtime_ns for path in board.rglob("*")}
    assert export.main(["tensorboard", "--to", "board"]) == 0
    assert {path: path.stat().st_mtime_ns for path in board.rglob("*")} == before
    metrics = fake_runs.trained(project, "clic-vit-scenes-0").metrics
    line = json.loads(metrics.read_text().splitlines()[-1])
    metrics.write_text(metrics.read_text() + json.dumps(line | {"step": 40, "clip": 1.25}) + "\n")
    assert export.main(["tensorboard", "--to", "board"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "board: 0 added, 0 replaced, 4 unchanged",
        "board: 0 added, 1 replaced, 3 unchanged",
    ]
    scalars = read_scalars(board / "clic-vit-scenes-0")
    assert [step for step, _, _ in scalars["train/clip"]] == [10, 20, 30, 40]
    assert [step for step, _, _ in scalars["sugarcrepe/swap"]] == [40]


def test_an_exporter_writes_what_is_new_alone(project):
    """Whatever it is: by the content that it remembers."""
    contents: dict[str, str] = {}
    exporter = types.SimpleNamespace(
        find_content=lambda name, to: contents.get(name, ""),
        write_run=lambda run, to: contents.update({run.name: run.content}),
    )
    runs = list(exported_runs.list_exported_runs("params.yaml", project))
    assert export.export_runs(exporter, runs, "there") == {"added": 4}
    environment = fake_runs.trained(project, "clic-vit-scenes-1").environment
    write_json(environment, json.loads(environment.read_text()) | {"device": "another"})
    runs = list(exported_runs.list_exported_runs("params.yaml", project))
    assert export.export_runs(exporter, runs, "there") == {"replaced": 1, "unchanged": 3}
    assert {"train.lr", "seed"} <= runs[0].params.keys()


def test_a_run_under_way_has_its_curve_so_far(project):
    """In place of the published one of an older key; TensorBoard, which read the file before, has each step once."""
    pytest.importorskip("tensorboard", reason="needs the extra `tensorboard`")
    cell = fake_runs.cell("clic", seed=0)
    live.plan(project, [cell])
    live.begin(project, cell)
    environment = fake_runs.trained(project, cell.name).environment
    write_json(environment, json.loads(environment.read_text()) | {"run_key": "older"})
    assert [run.tags.get("state") for run in exported_runs.list_exported_runs("params.yaml", project)] == [None] * 4
    live.log(project, cell, 10, 20)
    assert export.main(["tensorboard"]) == 0
    board = open_board(project / "tensorboard" / cell.name)
    assert [step for step, _, _ in list_scalars(board.Reload())["train/clip"]] == [10, 20]
    live.log(project, cell, 30)
    [run] = [r for r in exported_runs.list_exported_runs("params.yaml", project) if r.name == cell.name]
    assert run.tags["state"] == "running" and run.params["train.max_steps"] == "100"
    assert export.main(["tensorboard"]) == 0
    scalars = list_scalars(board.Reload())
    assert [step for step, _, _ in scalars["train/clip"]] == [10, 20, 30]
    assert not any("sugarcrepe" in tag for tag in scalars)
    live.log(project, cell, 40)
    assert export.main(["tensorboard"]) == 0
    assert len(list((project / "tensorboard" / cell.name).iterdir())) == 2  # the newest, and the one before


def test_trials_are_there_finished_and_under_way(project):
    """Values at the last step, a curve so far from the trial's folder; one without either is left out."""
    cell = fake_runs.cell("negclip", seed=0)
    live.log(project, cell, 10)
    trial = {"params": {"method.gamma": 2.0}, "values": None, "state": "RUNNING"}
    trials = [
        {**trial, "number": 0, "state": "PRUNED", "intermediate": {"5": [0.25]}},
        {**trial, "number": 1, "folder": f"store/{live.folder(project, cell).key}"},
        {**trial, "number": 2},
    ]
    study = {"study": "gamma", "method": "clic", "objectives": ["a/b"], "trials": trials}
    write_json(project / "studies" / "gamma" / "trials.json", study)
    runs = {run.name: run for run in exported_runs.list_exported_runs("params.yaml", project)}
    names = [name for name in runs if name.startswith("gamma")]
    assert names == ["gamma-000", "gamma-001"]
    assert [(p.name, p.step) for p in runs["gamma-000"].points] == [("intermediate/a/b", 5)]
    assert {(p.name, p.step) for p in runs["gamma-001"].points} >= {("train/clip", 10)}
    before = runs["gamma-001"].content
    live.log(project, cell, 20)
    runs = {run.name: run for run in exported_runs.list_exported_runs("params.yaml", project)}
    assert runs["gamma-001"].content != before


def test_mistakes_of_a_call(project, monkeypatch):
    """A misspelt exporter, a folder without runs, and a machine without TensorBoard."""
    with pytest.raises(UserError, match=r"unknown exporter 'tensorbord'; did you mean 'tensorboard'"):
        export.main(["tensorbord"])
    with pytest.raises(UserError, match="holds no run of the grid"):
        export.main(["tensorboard", "--root", "elsewhere"])
    monkeypatch.setitem(__import__("sys").modules, "tensorboard.summary.writer.record_writer", None)
    with pytest.raises(UserError, match=r"pip install 'compclip\[tensorboard\]'"):
        export.main(["tensorboard"])


@pytest.mark.parametrize("name", plugins.list_plugins(plugins.EXPORTERS))
def test_every_exporter_offers_what_is_asked(name):
    """What an installed one is held to, ours have too."""
    module = plugins.load_plugin(plugins.EXPORTERS, name)
    assert all(hasattr(module, need) for need in plugins.NEEDS[plugins.EXPORTERS])
    assert tensorboard.TARGET == "tensorboard"
