"""What a grid costs on a card, before it runs: numbers that a person can check, and the command that prints them."""

from dataclasses import replace
from pathlib import Path

import pytest

from compclip import __main__ as compclip_command
from compclip.base.errors import UserError
from compclip.base.files import write_json
from compclip.config.cell import Cell
from compclip.config.grid import Run
from compclip.config.sections import Backbone, Data, Train
from compclip.interface.method import load_method
from compclip.launch import cost_table
from compclip.launch.cost_table import GIB, Card, CostPredictor
from compclip.train import throughput
from tests.fake_device import test_steps
from tests.tiny_project import PARAMS

SHAPE = test_steps.SHAPE | {"text_cfg": test_steps.SHAPE["text_cfg"] | {"vocab_size": 49408}}
LARGE = Card("large", 100.0, 989.0, 494.0, 67.0, 3350.0)


@pytest.fixture
def model(tmp_path, monkeypatch) -> str:
    """A small model's config file, in the folder that the test runs in."""
    monkeypatch.chdir(tmp_path)
    write_json(tmp_path / "small.json", SHAPE)
    return "small.json"


def make_run(model: str, method: str = "finetune", **train) -> Run:
    """A cell with a method as it is configured by default."""
    cfg = load_method(method).Config()
    return Run(Cell(method, "b", "d", 0), cfg, Train(**{"batch_size": 16, **train}), Backbone(model=model), Data())


def with_memory(usable: int) -> Card:
    return replace(LARGE, memory_gib=(usable / GIB + throughput.CONTEXT_GIB) / (1 - throughput.ALLOCATOR_SHARE))


def test_memory_is_weights_slopes_moments_and_activations(model):
    """Weights and AdamW's two moments are 12 bytes a weight in float32, slopes 4, which come as activations go."""
    costs = [CostPredictor(LARGE).predict(make_run(model, batch_size=size)) for size in (256, 512, 1024)]
    small, twice, four = (cost.configured.peak_bytes for cost in costs)
    weights = costs[0].weights
    text = 49408 * 32 + 16 * 32 + 12 * 32 * 32 + 13 * 32 + 2 * 32 + 32 * 32
    image = 3 * 8 * 8 * 64 + 64 + 17 * 64 + 2 * 64 + 12 * 64 * 64 + 13 * 64 + 2 * 64 + 64 * 32
    assert weights == text + image + 1  # the logit scale
    # Of a block: its input, two normalised ones, queries, keys and values, attention's output, its projection, the
    # MLP's two inner layers of four widths and its output: 17 widths a position at least.
    activations = 4 * 256 * 17 * (17 * 64 + 16 * 32)
    assert 12 * weights + activations < small < 16 * weights + 3 * activations
    assert 2 < (four - twice) / (twice - small) < 2.3  # the loss's matrices of B x B are a small part


@pytest.mark.usefixtures("first_step")
def test_rates_and_hours_are_the_steps(model):
    """Samples over the time of the products, or of the launches; GPU-hours count all GPUs."""
    cost = CostPredictor(LARGE).predict(make_run(model, precision="bf16"))
    assert cost.arithmetic_rate(LARGE) == pytest.approx(16 / (cost.step.flops / 989e12))
    assert cost.launch_rate() == pytest.approx(16 / (cost.step.launches * 5e-6))
    assert cost.million_hours(LARGE) == pytest.approx(1e6 / cost.launch_rate() / 3600)  # small: launches are slower
    two = replace(cost, processes=2)
    assert two.million_hours(LARGE) == pytest.approx(2 * cost.million_hours(LARGE))


def test_rates_are_those_of_the_precision():
    v100, h100 = cost_table.find_card("v100-32gb"), cost_table.find_card("h100-80gb")
    assert h100.matrix_rate(Train(precision="bf16_weights")) == 989e12
    assert h100.matrix_rate(Train()) == 67e12 and h100.matrix_rate(Train(matmul="high")) == 494e12
    assert v100.matrix_rate(Train(precision="bf16")) == 15.7e12  # it has no units for bfloat16
    assert [card.matrix_rate(Train(precision="fp16")) for card in (v100, h100)] == [125e12, 989e12]


@pytest.mark.long
def test_the_largest_micro_batch_that_fits(model):
    """The one that is named fits, and the next larger one does not; what is equal is simulated once."""
    run = make_run(model, batch_size=256)
    full_batch_cost = CostPredictor(LARGE).predict(run)
    assert full_batch_cost.fits and full_batch_cost.micro_batch == 0
    half_batch_cost = CostPredictor(LARGE).predict(replace(run, train=replace(run.train, micro_batch=128))).configured
    card = with_memory(half_batch_cost.peak_bytes - 1)
    predictor = CostPredictor(card)
    cost = predictor.predict(run)
    assert not cost.fits and 0 < cost.micro_batch < 128
    assert cost.step.peak_bytes <= card.usable_bytes
    larger = replace(run, train=replace(run.train, micro_batch=2 * cost.micro_batch))
    assert CostPredictor(LARGE).predict(larger).configured.peak_bytes > card.usable_bytes


@pytest.mark.parametrize(("usable", "size", "below", "expected"), [
    (1000, 256, 256, 128), (700, 256, 256, 32), (500, 256, 256, 0), (2000, 256, 64, 32), (1350, 768, 768, 384),
    (1349, 768, 768, 256), (590, 96, 96, 12),
])  # fmt: skip
def test_the_search_by_hand(usable, size, below, expected):
    """A peak of 540 and two and a bit a sample: few are tried, and what a line through two rules out is not."""
    tried = []

    def peak(micro_batch: int) -> int:
        tried.append(micro_batch)
        return 582 + 2 * micro_batch if size != 96 else 540 + 4 * micro_batch

    assert throughput.find_micro_batch(peak, size, below, usable) == expected
    assert len(tried) <= 3 and sorted(tried, reverse=True) == tried


def test_a_peak_that_no_micro_batch_lowers():
    """The loss of the whole batch alone is too large."""
    assert throughput.find_micro_batch(lambda _: 10, 64, 64, 9) == 0


@pytest.mark.parametrize(("method", "turns"), [("finetune", 1), ("clic", 2)])
def test_steps_that_take_turns(method, turns):
    declared = load_method(method)
    assert throughput.count_turns(declared, declared.Config()) == turns


@pytest.mark.usefixtures("first_step")
def test_processes_share_a_batch(model):
    """Each encodes its share, and the loss contrasts the rows of all; an uneven share is refused as in training."""
    one_process, two_processes = (CostPredictor(LARGE, n).predict(make_run(model, batch_size=512)) for n in (1, 2))
    share = CostPredictor(LARGE).predict(make_run(model, batch_size=256))
    assert share.step.flops < two_processes.step.flops < one_process.step.flops
    assert share.step.peak_bytes < two_processes.step.peak_bytes < one_process.step.peak_bytes
    with pytest.raises(UserError, match="batch_size=15: not a multiple of the 2 processes"):
        CostPredictor(LARGE, 2).predict(make_run(model, batch_size=15))


def test_a_profile_names_its_card():
    cards = {"": "h100-80gb", "a100": "a100-40gb", "a100&80gb": "a100-80gb", "infiniband": "h100-80gb"}
    assert {constraint: cost_table.choose_card(constraint).name for constraint in cards} == cards


@pytest.fixture
def small_grid(model, first_step) -> None:
    """A grid of three methods, one of which trains nothing, in the current folder."""
    text = PARAMS.replace("STEPS", "1000").replace("tiny.json", model).replace("seeds: [0]", "seeds: [0, 1]")
    Path("params.yaml").write_text(text)


def test_the_command_prints_a_row_for_each_kind(small_grid, capsys):
    assert compclip_command.main(["config", "cost", "--card", "l4-24gb"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("predicted for 1 x l4-24gb, nothing measured: bounds, no forecasts")
    assert "24 GiB, 22.3 usable (5% is the allocator's, 0.5 GiB CUDA's context)" in out[1]
    assert out[-3].split()[:3] == list(cost_table.NAMES)
    rows = [line.split() for line in out[-2:]]
    assert [row[:3] for row in rows] == [["finetune", "tiny", "scenes"], ["fsc_clip", "tiny", "scenes"]]
    for row in rows:
        assert row[3] == "1.7M" and row[7] == "yes"
        million, cells, hours = map(float, row[-3:])
        assert cells == 2 and hours == pytest.approx(2 * 1000 * 8 / 1e6 * million, rel=0.01)


def test_one_cell_with_other_values(small_grid, capsys):
    """Without `max_steps` or data the hours of a run are not known; those of a million samples are."""
    words = ["cost", "--cell", "finetune-tiny-scenes-1", "train.batch_size=16", "train.max_steps=0"]
    assert compclip_command.main(["config", *words]) == 0
    row = capsys.readouterr().out.splitlines()[-1].split()
    assert row[4] == "16" and row[-1] == "?" and float(row[-3]) > 0


def test_what_cannot_be_predicted_is_said(small_grid, capsys, monkeypatch):
    """The other rows stand, and the exit code is 1."""
    monkeypatch.setattr("compclip.methods.finetune.loss", lambda f, cfg, step: {"broken": f.text_BD[7:, 99]})
    assert compclip_command.main(["config", "cost"]) == 1
    broken, predicted = capsys.readouterr().out.splitlines()[-2:]
    assert "not predicted: its step cannot be simulated: " in broken and "yes" in predicted


def test_an_unknown_card(small_grid):
    with pytest.raises(UserError, match=r"unknown card 'a100-80g'; did you mean 'a100-80gb'"):
        compclip_command.main(["config", "cost", "--card", "a100-80g"])
