"""A run with an adapter, by its commands: what it publishes, kills and resumes, and what it is known by."""

import json
import shutil

import pytest
import torch
from safetensors import safe_open

from compclip.base.errors import UserError
from compclip.base.files import fingerprint
from compclip.config import read
from compclip.model import backbone, lora
from compclip.train import __main__ as train_command
from compclip.train import optimiser
from tests import tiny_project
from tests.model.test_lora import outputs
from tests.model.test_towers import TEXTS
from tests.tiny_project import trained

VARIANT = "methods.fsc_clip.variants.lora={train: {lora: {rank: 2}}}"
CELL = tiny_project.cell("fsc_clip.lora")
ARGS = ["--cell", CELL, "grid.methods=[fsc_clip.lora]", VARIANT]


@pytest.fixture(scope="module")
def project(project, tmp_path_factory):
    """All that a run of six steps needs."""
    return tiny_project.other(project, tmp_path_factory.mktemp("lora") / "project", steps=6)


@pytest.fixture(scope="module")
def undisturbed_project(project, tmp_path_factory):
    """The project with the run made, undisturbed."""
    root = shutil.copytree(project, tmp_path_factory.mktemp("whole") / "project")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        assert train_command.main(ARGS) == 0
    return root


def test_a_run_publishes_adapter_and_merged_weights(undisturbed_project):
    """Adapter and merged checkpoint agree, what has no adapter keeps the backbone's bits, the count is reported."""
    folder = trained(undisturbed_project, CELL) / "checkpoint"
    base, merged = backbone.load(undisturbed_project / "models" / "tiny"), backbone.load(folder)
    before, after = base.clip.state_dict(), merged.clip.state_dict()
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert {n.split(".")[-2] for n in moved - {"visual.conv1.weight"}} == {"attn", "out_proj", "c_fc", "c_proj"}
    torch.manual_seed(0)
    inputs = torch.randn(3, 3, 64, 64), base.tokenize(TEXTS)
    lora.load_adapter(base.clip, folder / lora.FOLDER)
    for a, b in zip(outputs(merged.clip, inputs), outputs(base.clip, inputs), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-5)
    facts = json.loads((trained(undisturbed_project, CELL) / "environment.json").read_text())
    assert facts["trained_parameters"] == sum(p.numel() for p in lora.adapter_parameters(base.clip).values())
    assert facts["parameters"] == sum(v.numel() for v in before.values())


def test_killed_and_resumed_ends_with_the_same_bits(here, monkeypatch, undisturbed_project):
    """What is saved on the way is the adapter and its moments alone, and it is enough."""
    calls = iter([None] * 4)  # the fifth step is the last
    with monkeypatch.context() as patch, pytest.raises(StopIteration):
        patch.setattr(optimiser, "clamp_scale", lambda *_: next(calls))
        train_command.run_cell(tiny_project.at(CELL, *ARGS[2:]))
    saved = sorted(here.glob("store/*/step_*.safetensors"))
    assert [p.name for p in saved] == ["step_00000002.safetensors", "step_00000004.safetensors"]
    with safe_open(saved[-1], "pt") as file:
        kinds = {name.partition(".")[0] for name in file.keys()}  # noqa: SIM118 (no mapping)
        assert all(".lora_" in name for name in file.keys())  # noqa: SIM118
    assert kinds == {"model", "exp_avg", "exp_avg_sq", "step"}
    assert train_command.main(ARGS) == 0
    resumed, expected = (fingerprint(trained(root, CELL) / "checkpoint") for root in (here, undisturbed_project))
    assert resumed == expected


@pytest.mark.parametrize("value,message", [
    ("{rank: 0}", r"variants.lora.train.lora.rank=0: "),
    ("{alpha: 0}", r"train.lora.alpha=0: "),
    ("{targets: [atention]}", r"'atention'.*did you mean 'attention'"),
    ("{patch: matrx}", r"'matrx'.*did you mean 'matrix'"),
    ("{targets: []}", r"targets=\[\]: "),
])  # fmt: skip
def test_wrong_parameters(here, value, message):
    """Key, value and fix, or the nearest name."""
    with pytest.raises(UserError, match=message):
        read.load_params("params.yaml", [f"methods.fsc_clip.variants.lora={{train: {{lora: {value}}}}}"])
