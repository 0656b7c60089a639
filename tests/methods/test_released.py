"""Published checkpoints as rows: scored as they are, beside ours, and known by what their file holds."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from compclip.base.errors import UserError
from compclip.base.files import write_json
from compclip.config import read
from compclip.config.sections import Backbone
from compclip.evaluate import __main__ as evaluate_command
from compclip.evaluate import benchmark_module, score, wise_ft
from compclip.methods import released
from compclip.model import backbone
from compclip.runs import run_store
from compclip.train import __main__ as train_command
from tests import tiny_project
from tests.model.test_author_layouts import finite_tokens_file, llip_file
from tests.tiny_project import trained

PATH = "models/released/theirs/theirs.pt"
VARIANTS = (
    f"methods.released.variants={{theirs: {{path: {PATH}, activation: gelu}}, "
    "adapted: {path: models/released/lora.pt, activation: gelu, lora_alpha: 2}}"
)
ARGS = ["grid.methods=[pretrained,released.theirs,released.adapted]", VARIANTS]
CELL = tiny_project.cell("released.theirs")


@pytest.fixture
def here(project, tmp_path, monkeypatch):
    """A project with two checkpoints of others."""
    root = shutil.copytree(project, tmp_path / "project")
    monkeypatch.chdir(root)
    (root / "models" / "released" / "theirs").mkdir(parents=True)
    state = backbone.create("tiny.json", seed=5).clip.state_dict()
    torch.save({"state_dict": {f"module.{k}": v for k, v in state.items()}}, PATH)
    torch.manual_seed(0)
    factors = {"visual.conv1.lora_A": torch.randn(32, 48), "visual.conv1.lora_B": torch.randn(512, 32)}
    torch.save({"state_dict": state | factors}, "models/released/lora.pt")
    return root


def test_a_published_checkpoint_is_scored_and_never_trained(here):
    """Its weights are the run's checkpoint to the bit, nothing is logged, and its results are those of the file."""
    assert train_command.main(["--cell", CELL, *ARGS]) == 0
    folder = trained(here, CELL)
    model, theirs = backbone.load(folder / "checkpoint"), torch.load(PATH)["state_dict"]
    assert all(torch.equal(v, theirs[f"module.{k}"]) for k, v in model.clip.state_dict().items())
    facts = json.loads((folder / "environment.json").read_text())
    assert facts["trained_parameters"] == 0 and facts["parameters"] > 0
    assert (folder / "metrics.jsonl").read_bytes() == b""
    for name in (CELL, tiny_project.cell("released.adapted")):
        assert train_command.main(["--cell", name, *ARGS]) == 0
    adapted = backbone.load(trained(here, tiny_project.cell("released.adapted")) / "checkpoint").clip
    files = torch.load("models/released/lora.pt")["state_dict"]
    update = (files["visual.conv1.lora_B"] @ files["visual.conv1.lora_A"]).view(32, 3, 16, 16)
    torch.testing.assert_close(adapted.visual.conv1.weight, files["visual.conv1.weight"] + 2 / 2 * update)


def test_models_of_their_authors_own_are_scored_by_their_heads(here, capsys):
    """A cell's results are those of the file by its path; how pictures are prepared is kept."""
    write_json(here / "quick.json", tiny_project.TINY | {"quick_gelu": True})
    source = backbone.create("quick.json", seed=5)
    finite_tokens_file(source, Path("models/released/fdt.pth"))
    llip_file(source, Path("models/released/llip.pt"))
    args = [
        "grid.methods=[pretrained,released.fdt,released.llip]",
        "methods.released.variants={fdt: {path: models/released/fdt.pth, model: quick.json, resize_mode: squash}, "
        "llip: {path: models/released/llip.pt, model: quick.json}}",
    ]
    for name in ("fdt", "llip"):
        cell = tiny_project.cell(f"released.{name}")
        assert train_command.main(["--cell", cell, *args]) == evaluate_command.main(["--cell", cell, *args]) == 0
    results = json.loads((tiny_project.results(here, cell) / "sugarcrepe.json").read_text())
    capsys.readouterr()
    file = ["--checkpoint", "models/released/llip.pt", "--model", "quick.json", "--json"]
    assert evaluate_command.main(file) == 0
    assert json.loads(capsys.readouterr().out)["sugarcrepe"]["metrics"] == results["metrics"]
    checkpoint = trained(here, tiny_project.cell("released.fdt")) / "checkpoint"
    preprocess = json.loads((checkpoint / "open_clip_config.json").read_text())["preprocess_cfg"]
    assert (preprocess["resize_mode"], preprocess["interpolation"]) == ("squash", "bilinear")


def test_a_line_goes_from_the_backbone_to_a_published_checkpoint(here):
    """Its ends are the results of the pretrained and of the published model."""
    params = read.load_params("params.yaml", ARGS)
    section = params.benchmarks["sugarcrepe"]
    task = wise_ft.LineTask([0.0, 0.5, 1.0], {"sugarcrepe": section}, params.evaluate.scoring)
    assert train_command.main(["--cell", CELL, *ARGS]) == 0
    points = wise_ft.bring_line(tiny_project.at(CELL, *ARGS).cell, task, here, "cpu")[0]["points"]
    ends = [backbone.load(here / "models" / "tiny"), backbone.load(PATH, "tiny.json", activation="gelu")]
    benchmarks = benchmark_module.load_benchmarks({"sugarcrepe": section}, ["sugarcrepe"]).benchmarks
    for point, model in zip((points[0], points[-1]), ends, strict=True):
        metrics = score.score_model(model, benchmarks)["sugarcrepe"].metrics
        assert point["metrics"] == {f"sugarcrepe/{name}": value for name, value in metrics.items()}
    assert [point["alpha"] for point in points] == [0.0, 0.5, 1.0]


def test_its_run_is_known_by_the_file(here):
    """Another file is another run; other parameters of training, and another seed, are not."""
    key = tiny_project.at(CELL, *ARGS).key
    for more in (["train.lr=1e-5"], ["train.average_alpha=0.5"], ["grid.seeds=[0]"]):
        assert tiny_project.at(CELL, *ARGS, *more).key == key
    state = torch.load(PATH)
    torch.save({**state, "epoch": 2}, PATH)
    assert tiny_project.at(CELL, *ARGS).key != key


def test_plan_and_keys_name_what_is_read(here):
    """The stage `keys` needs the file, not the method's code; it says how a missing one is had."""
    table = f"methods: {{released: {{variants: {{theirs: {{path: {PATH}, activation: gelu}}}}}}, "
    params = Path("params.yaml").read_text().replace("methods: {", table)
    Path("params.yaml").write_text(params.replace("[pretrained, finetune", "[pretrained, released.theirs, finetune"))
    tiny_project.plan()
    planned = {stored.name: stored.key for stored in run_store.load_planned("released.theirs")}
    assert planned == {CELL: tiny_project.at(CELL).key}
    Path(PATH).unlink()
    with pytest.raises(UserError, match=rf"{PATH}: not there; run `compclip fetch theirs`"):
        tiny_project.plan()


def test_a_missing_file_of_the_catalogue_is_named_with_its_command():
    """By the folder that it belongs to."""
    (fix,) = released.reads(released.Config(path="models/released/negclip/negclip.pth")).values()
    assert fix == "run `compclip fetch negclip`"
    (fix,) = released.reads(released.Config(path="elsewhere/negclip.pth")).values()
    assert fix == "put it there"
    with pytest.raises(UserError, match=r"names no checkpoint; name a variant of it that has a path: released.NAME"):
        released.reads(released.Config())


def test_another_architecture_is_named_before_and_after_it_is_opened(here):
    """By its name with the grid, by its sizes with the file; an activation of its own is no other architecture."""
    where = "grid: methods.released.x on backbones.b"
    with pytest.raises(UserError, match=f"{where}: is a ViT-B-32-quickgelu, not a ViT-B-16"):
        released.check(released.Config(path="x", model="ViT-B-32-quickgelu"), Backbone("ViT-B-16"), where)
    released.check(released.Config(path="x", model="ViT-B-32-quickgelu"), Backbone("ViT-B-32"), where)
    released.check(released.Config(path="x"), Backbone("ViT-B-16"), where)
    with pytest.raises(UserError, match=r"released.b32 on backbones.b16: is a ViT-B-32, not a ViT-B-16"):
        read.load_params("params.yaml", ["methods.released.variants={b32: {path: x, model: ViT-B-32}}",
                                  "backbones.b16={model: ViT-B-16}", "grid.backbones=[b16]",
                                  "grid.methods=[pretrained,released.b32]"])  # fmt: skip
    other = tiny_project.TINY | {"vision_cfg": tiny_project.TINY["vision_cfg"] | {"width": 48}}
    write_json(here / "other.json", other)
    backbone.create("other.json").save("models/released/other")
    variant = "methods.released.variants={other: {path: models/released/other}}"
    stored = tiny_project.at(tiny_project.cell("released.other"), "grid.methods=[released.other]", variant)
    with pytest.raises(UserError, match=r"backbone tiny: vision_cfg differs; give released.other"):
        released.model(stored.run, stored.root, backbone.load("models/tiny").model_cfg, "cpu")
