"""Looking at a model on the way: the training's bits stay, and each rung is scored once however often it is killed."""

import json

import pytest
import torch

from compclip.base.files import write_json
from compclip.config import read
from compclip.evaluate.score import Rungs
from compclip.runs.run_folder import RunFolder
from tests import small_training, tiny_project


@pytest.fixture
def folder(here) -> RunFolder:
    """A run's folder in which a pruner asks for two rungs."""
    run_folder = RunFolder(here / "store" / "key")
    write_json(run_folder.rungs, {"shares": [0.4, 0.7, 1.0], "benchmarks": ["sugarcrepe"]})
    return run_folder


@pytest.fixture
def rungs(folder) -> Rungs:
    """What looks at the training of that run."""
    return Rungs.load(folder, read.load_params("params.yaml"))


def scored(folder) -> list[int]:
    """The steps that have scores."""
    return [json.loads(line)["step"] for line in folder.intermediate.read_text().splitlines()]


@pytest.mark.parametrize("workers", [0, 1])
def test_looking_changes_no_bit(here, folder, rungs, workers):
    """Ten steps, scored after four and seven: weights and log are those of the undisturbed run."""
    override = f"train.workers={workers}"
    plain = small_training.train(here, "fsc_clip", here / "plain", small_training.recorder.do_nothing, override)
    seen = small_training.train(here, "fsc_clip", folder.path, rungs, override)
    assert scored(folder) == [4, 7]
    assert all(torch.equal(a, b) for a, b in zip(plain.clip.parameters(), seen.clip.parameters(), strict=True))
    assert tiny_project.steps(here / "plain" / "metrics.jsonl") == tiny_project.steps(folder.metrics)


def test_a_rung_is_scored_once_and_leaves_no_trace(here, folder, rungs):
    """Mode, threads and generator are as they were. After a kill what was written whole stays, half a line goes."""
    model = small_training.backbone.load(here / "models" / "tiny")
    model.clip.train()
    torch.manual_seed(5)
    before = torch.get_rng_state()
    rungs(4, 10, model)
    assert model.clip.training and torch.get_num_threads() == 1
    assert torch.equal(before, torch.get_rng_state())
    first = folder.intermediate.read_text()
    with open(folder.intermediate, "a", encoding="utf-8") as file:
        file.write('{"step": 7, "metr')
    for done in (4, 5, 7, 10):
        rungs(done, 10, model)
    assert folder.intermediate.read_text().startswith(first) and scored(folder) == [4, 7]
