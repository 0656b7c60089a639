"""`compclip config check` says what a backbone's towers refuse, from their configs alone; so do commands that train."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from compclip.base.files import write_json
from compclip.config import grid, read
from compclip.fetch import missing_inputs
from compclip.launch import __main__ as launch_command
from compclip.launch import grid_check, repro
from compclip.runs import run_store
from compclip.runs.run_folder import RunFolder
from compclip.runs.run_store import StoredRun
from perf.truth import towers
from tests.tiny_project import PARAMS, TINY

RESNET = TINY | {"vision_cfg": {"image_size": 64, "layers": [1, 1, 1, 1], "width": 8, "head_width": 8}}
CONVNEXT = TINY | {"vision_cfg": towers.use_timm("test_convnext", "", "linear")}


@pytest.fixture
def check(tmp_path, monkeypatch, capsys):
    """The exit code and the lines of a check of a small grid, whose inputs are all there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(missing_inputs, "list_missing", lambda *_: [])

    def call(model_cfg: dict, *overrides: str) -> tuple[int, list[str]]:
        (tmp_path / "params.yaml").write_text(PARAMS.replace("STEPS", "2") + "wise_ft: {methods: []}\n")
        write_json(tmp_path / "tiny.json", model_cfg)
        code = grid_check.main(list(overrides))
        return code, "".join(capsys.readouterr()).splitlines()

    return call


def test_a_grid_that_can_be_trained(check):
    assert check(TINY) == (0, ["params.yaml: 3 cells, 1 benchmark: OK"])


def test_each_refusal_names_method_backbone_and_fix(check):
    """All of them, before anything runs; a method that trains is not named."""
    code, (line,) = check(CONVNEXT)
    assert code == 2
    assert line.startswith(
        "error: methods.fsc_clip on backbones.tiny: backbone: its image tower (ConvNeXt) has no patches"
    )
    assert line.endswith("take a ViT, SigLIP, PE or EVA02")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("train.micro_batch=4", "train.micro_batch=4: not with the batch norms of a trained ModifiedResNet"),
        ("train.compile=true", "train.compile=true: the image tower of this backbone has no blocks; leave it out"),
        (
            "train.lora={rank: 2, targets: [attention]}",
            "train.lora.targets: 'attention' fits nothing in the image tower",
        ),
    ],
)
def test_options_are_tried_as_well(check, override, message):
    """Of both methods that train."""
    code, lines = check(RESNET, override)
    assert code == 2
    assert [line.partition(" on backbones.tiny: ")[0] for line in lines] == [
        "error: methods.finetune", "error: methods.fsc_clip"
    ]  # fmt: skip
    assert all(message in line for line in lines)


def test_what_one_process_alone_trains_is_said(check):
    """Once for both methods; of a frozen tower nothing."""
    code, lines = check(RESNET)
    assert code == 0
    assert [line.partition("; leave it out")[0] for line in lines if line.startswith("warning: ")] == [
        "warning: one process a run alone trains methods.fsc_clip on backbones.tiny: 2 processes: not with the batch "
        "norms of a trained ModifiedResNet, whose statistics are those of the whole batch"
    ]
    assert check(RESNET, "train.trainable=text") == (0, ["params.yaml: 3 cells, 1 benchmark: OK"])


def test_a_config_that_is_not_here_is_named(check):
    """It is not tried, and nothing is fetched for it."""
    code, lines = check(TINY, "backbones.tiny.model=hf-hub:nobody/none")
    assert code == 0
    assert any("backbones.tiny: its config is not on this machine; its towers are not tried" in line for line in lines)


# --- before a command trains ----------------------------------------------------------------------------------------


def refuse_stages(*_):
    """Stand for DVC, which must not begin."""
    raise AssertionError("a stage was begun")


@pytest.fixture
def refused(check, monkeypatch, tmp_path):
    """A project whose grid a ResNet refuses, with a profile of two processes."""
    check(RESNET)
    (tmp_path / "params.yaml").write_text(Path("params.yaml").read_text().replace("lr:", "compile: true, lr:"))
    (tmp_path / "dvc.yaml").write_text("stages: {}\n")
    (tmp_path / "two.yaml").write_text("executor: slurm\ntasks_per_node: 2\n")
    monkeypatch.setattr(repro, "run_dvc", refuse_stages)
    monkeypatch.setattr(repro, "make_stages", refuse_stages)


@pytest.mark.parametrize("stages", [[], ["train@finetune"], ["report", "track"]])
def test_repro_begins_nothing_that_cannot_be_trained(refused, stages, capsys):
    """It says the lines of `config check`; stages that make data are begun."""
    with pytest.raises(SystemExit) as ended:
        repro.main(stages)
    assert ended.value.code == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(" on ")[0] for line in lines] == ["error: methods.finetune", "error: methods.fsc_clip"]
    with pytest.raises(AssertionError, match="a stage was begun"):
        repro.main(["annotate"])


def test_another_process_looks_where_torch_is_not_loaded(refused, monkeypatch, capsys):
    """The lines are the same."""
    runs = [*grid.resolve_all(read.load_params("params.yaml"))]
    monkeypatch.delitem(sys.modules, "torch")
    with pytest.raises(SystemExit):
        grid_check.require_towers(runs)
    assert capsys.readouterr().err.count("the image tower of this backbone has no blocks; leave it out") == 2


def test_launch_looks_at_the_processes_of_its_profile(refused, tmp_path, capsys):
    """A ResNet trains in one alone."""
    (tmp_path / "params.yaml").write_text(Path("params.yaml").read_text().replace("compile: true, ", ""))
    with pytest.raises(SystemExit):
        launch_command.main(["two.yaml", "--dry-run"])
    assert "on backbones.tiny: 2 processes: not with the batch norms of" in capsys.readouterr().err
    with pytest.raises(AssertionError, match="a stage was begun"):
        repro.main(["train@finetune"])


def test_a_finished_run_is_not_looked_at(refused, monkeypatch, capsys):
    """As the plan of the last time has it; one of other parameters is."""
    runs = [*grid.resolve_all(read.load_params("params.yaml"))]
    folder = RunFolder(Path("store/0"))
    finished = [StoredRun(run.cell, "0", run.plain, "", folder, Path(".")) for run in runs]
    monkeypatch.setattr(RunFolder, "finished", True)
    monkeypatch.setattr(run_store, "list_planned", lambda _: finished)
    grid_check.require_towers(runs)
    with pytest.raises(SystemExit):
        grid_check.require_towers([*runs[:-1], replace(runs[-1], train=replace(runs[-1].train, lr=0.5))])
    assert len(capsys.readouterr().err.splitlines()) == 1
