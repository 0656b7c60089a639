"""Run keys: those that the stages `plan` and `keys` leave are those of every command; what changes them, and what not."""

import shutil
from pathlib import Path

import pytest
from omegaconf import OmegaConf
from PIL import Image

from compclip.base import yaml_text
from compclip.base.errors import UserError
from compclip.base.files import CHECKSUMS
from compclip.base.safe_names import SafeName
from compclip.base.yaml_text import dump_yaml
from compclip.config import grid, read
from compclip.data.prepared_dataset import PreparedDataset
from compclip.prepare import shard_stages
from compclip.runs import keys, run_store
from compclip.train.neighbours import main as make_neighbours
from tests import tiny_project
from tests.conftest import ROOT
from tests.tiny_project import METHODS, at, cell


def by_cell() -> dict[str, str]:
    """The key of every cell, as the stages leave them in the current folder."""
    tiny_project.plan()
    return {stored_run.cell.name: stored_run.key for method in METHODS for stored_run in run_store.load_planned(method)}


def test_the_stage_writes_the_keys_of_the_commands(here):
    """For every cell the same as `run_store.locate_run`; the resolved run is config.yaml's, and loads."""
    assert by_cell() == {cell(method): at(cell(method)).key for method in METHODS}
    for method in METHODS:
        [stored_run] = run_store.load_planned(method)
        assert stored_run.resolved == at(cell(method)).resolved
        assert stored_run.run == grid.resolve(read.load_params("params.yaml"), cell(method))
        assert stored_run.data_fingerprint == at(cell(method)).data_fingerprint


def test_every_method_of_the_field_has_its_keys(here):
    """From the parameters of the shipped grid to the run key of every cell, as stages and commands make it.

    Two methods, and two seeds of one, share none; the pretrained model, which is not trained, is one under every seed.
    """
    field = read.read_with_overrides(ROOT / "experiments" / "grids" / "field.yaml", ())
    tiny = {"grid": {"backbones": ["tiny"]}, "backbones": {"tiny": {"model": "tiny.json"}}}
    Path("params.yaml").write_text(dump_yaml(yaml_text.to_unresolved(OmegaConf.merge(field, tiny))))
    assert make_neighbours(["--data", "scenes", "--backbone", "tiny"]) == 0
    tiny_project.plan()
    params = read.load_params("params.yaml")
    names = [SafeName(path.stem, "method") for path in Path("keys").iterdir()]
    key_of_cell = {run.cell.name: run.key for name in names for run in run_store.load_planned(name)}
    located = [run_store.locate_run(run) for run in grid.resolve_all(params)]
    assert key_of_cell == {run.cell.name: run.key for run in located}
    trained = [key for name, key in key_of_cell.items() if not name.startswith("pretrained-")]
    assert len(trained) == len(set(trained)) == 2 * (len(field.grid.methods) - 1)
    assert len(set(key_of_cell.values()) - set(trained)) == 1


def test_keys_of_a_method_that_left_the_grid_go(here):
    """The folder is DVC's: what lies there is what the grid has; without a plan the stage to run is named."""
    with pytest.raises(UserError, match="plan/train: no plan; run `compclip repro plan` first"):
        keys.write_keys(Path("."))
    by_cell()
    Path("plan/train/finetune.json").unlink()
    assert keys.write_keys(Path(".")) == 2
    assert {path.stem for path in Path("keys").iterdir()} == {"pretrained", "fsc_clip"}


@pytest.mark.parametrize("method", ["fsc_clip", "pretrained"])
def test_a_key_follows_what_matters(here, method):
    """Another number or seed gives another key; where it runs and how often it saves do not, nor what is not trained."""

    def key(*overrides: str, seed: int = 0) -> str:
        return at(f"{method}-tiny-scenes-{seed}", f"grid.seeds=[{seed}]", *overrides).key

    base = key()
    unaffecting = ("checkpoint_every_steps=5", "checkpoint_every_min=0.5", "workers=2")
    for override in (*(f"train.{text}" for text in unaffecting), "methods.negclip={}", "data.scenes.limit=3"):
        assert key(override) == base
    trained = [key("train.lr=2e-3"), key("train.threads=2"), key("train.lora={rank: 2}"), key(seed=1)]
    if method == "pretrained":
        assert set(trained) == {base} != {key("train.context_length=8")}
    else:
        assert len({base, key("methods.fsc_clip.gamma=1"), *trained}) == 6


CHANGES = {"weights": "models/tiny/open_clip_model.safetensors", "config": "models/tiny/open_clip_config.json"}


@pytest.mark.parametrize("name", CHANGES)
def test_a_backbone_that_changes_changes_the_keys(here, name):
    """One byte of any file that training reads; written back, the keys are the old ones."""
    Path("models/tiny", CHECKSUMS).unlink()  # somebody's own weights
    original_keys, path = by_cell(), Path(CHANGES[name])
    raw = path.read_bytes()
    place = raw.rindex(b"6")
    path.write_bytes(raw[:place] + b"7" + raw[place + 1 :])
    changed = by_cell()
    assert not set(original_keys.values()) & set(changed.values())
    path.write_bytes(raw)
    assert by_cell() == original_keys


def test_a_picture_that_is_changed_in_its_place_changes_the_keys_of_what_is_trained(here):
    """Of the same name and size; the pretrained model reads no data."""
    original_keys = by_cell()
    path = Path(PreparedDataset(Path("data/scenes")).sample(0).image)
    with Image.open(path) as picture:
        changed_picture = picture.rotate(180)
    changed_picture.save(path)
    for stage in ([], ["--annotate"]):
        assert shard_stages.main(["--data", "scenes", *stage]) == 0
    changed = by_cell()
    assert {name for name in changed if changed[name] == original_keys[name]} == {cell("pretrained")}


def test_names_are_no_part_of_a_key(here):
    """The same contents under other names are the same run: what it is called, and where it lies, makes no bits."""
    shutil.copytree("models/tiny", "models/twin")
    shutil.copytree("data/scenes", "data/twin")
    overrides = [
        "backbones.twin={model: elsewhere.json}", "data.twin={source: coco, path: x, images: y, captioner: none}",
        "grid.backbones=[tiny,twin]", "grid.data=[scenes,twin]",
    ]  # fmt: skip
    keys_of_twins = {at(f"finetune-{b}-{d}-0", *overrides).key for b in ("tiny", "twin") for d in ("scenes", "twin")}
    assert keys_of_twins == {at(cell("finetune")).key}
