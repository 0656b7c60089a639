"""What a grid takes at most: time, disk, and what nobody knows before."""

import json
from pathlib import Path

import pytest

from compclip.config import grid, read
from compclip.launch import forecast
from tests.conftest import ROOT

GRIDS = ROOT / "experiments" / "grids"
FLOAT32 = ["train.precision=float32"]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """A folder where nothing was made yet, on a machine without a GPU."""
    (tmp_path / "experiments").symlink_to(ROOT / "experiments")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(forecast.gpus, "list_gpus", list)


def load(name: str, *overrides: str):
    return read.load_params(GRIDS / f"{name}.yaml", overrides)


def write_census(params) -> None:
    """Every benchmark was read: each has 10 pictures and 20 texts."""
    for name in params.evaluate.benchmarks:
        path = Path("data", "benchmarks", f"{name}.json")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"images": 10, "texts": 20}))


def test_of_the_drawings_all_is_known():
    """Their sizes stand in params.yaml; twice the epochs take longer and no more disk."""
    first, second = forecast.describe_costs(load("try"), 20)
    assert "takes at most about" in first and "GiB of disk" in second
    longer = forecast.describe_costs(load("try", "train.epochs=40"), 20)
    assert longer[0] != first and longer[1] == second


@pytest.mark.parametrize("overrides, unknown", [
    ([], ["vit_b_32 in bf16", "sugarcrepe"]),
    ([*FLOAT32, "data.coco_20k.limit=0"], ["how many pictures coco_20k", "sugarcrepe"]),
    ([*FLOAT32, "data.coco_20k.captioner=endpoint", "data.coco_20k.options={url: 'http://x', model: m}"], ["captions"]),
])  # fmt: skip
def test_what_is_not_known_is_said(overrides, unknown):
    """In place of a number that leaves it out."""
    lines = forecast.describe_costs(load("first_hour", *overrides), 20)
    assert lines[0].startswith("How long it takes is not known before: ")
    assert not [text for text in unknown if text not in lines[0]]
    assert not [line for line in lines if "takes at most about" in line and "disk" not in line]


def test_what_was_read_is_counted():
    """A benchmark by its census, a data set by its limit."""
    params = load("first_hour", *FLOAT32)
    write_census(params)
    assert "takes at most about" in forecast.describe_costs(params, 20)[0]


def test_no_card_is_guessed(monkeypatch):
    """Another command bounds it."""
    monkeypatch.setattr(forecast.gpus, "list_gpus", lambda: ["0"])
    assert "`compclip config cost`" in forecast.describe_costs(load("try"), 20)[0]


def test_finished_runs_cost_nothing():
    """Of the same parameters, scored on every benchmark."""
    params = load("try")
    for run in grid.resolve_all(params):
        published = forecast.Published(Path(), run.cell)
        published.trained.environment.parent.mkdir(parents=True)
        published.trained.environment.write_text("{}")
        published.trained.config.write_text(grid.run_to_yaml(run))
        published.results.mkdir(parents=True)
        for name in params.evaluate.benchmarks:
            (published.results / f"{name}.json").write_text("{}")
    assert forecast.describe_costs(params, 20) == ["All models are trained and scored."]
    assert "training" in forecast.describe_costs(load("try", "train.lr=0.5"), 20)[0]
