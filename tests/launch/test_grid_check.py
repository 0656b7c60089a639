"""`compclip config check` says what a backbone's towers refuse, from their configs alone."""

import pytest

from compclip.base.files import write_json
from compclip.fetch import missing_inputs
from compclip.launch import grid_check
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


def test_a_config_that_is_not_here_is_named(check):
    """It is not tried, and nothing is fetched for it."""
    code, lines = check(TINY, "backbones.tiny.model=hf-hub:nobody/none")
    assert code == 0
    assert any("backbones.tiny: its config is not on this machine; its towers are not tried" in line for line in lines)
