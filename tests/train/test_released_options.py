"""Options of `train` that some authors' programs need: optimiser, what is decayed, rates, the scale, float16 weights."""

import math

import numpy as np
import open_clip
import pytest
import torch

from compclip.base.files import write_json
from compclip.config import grid as config_grid
from compclip.config import read
from compclip.config.sections import Train
from compclip.model import backbone, towers
from compclip.train import optimiser
from tests.conftest import ROOT
from tests.model.test_towers import TEXTS, TINY, make_model

GRIDS = ROOT / "experiments" / "grids"


@pytest.fixture(scope="module")
def clip(tmp_path_factory) -> torch.nn.Module:
    """A tiny model of open_clip's own towers."""
    return make_model(tmp_path_factory.mktemp("released_options")).clip


def written_out_rates(schedule: str, steps: int, warmup: int, lr: float) -> list[float]:
    """Rates as a program sets them step by step; open_clip's `cosine_lr` and `const_lr`, transformers' LambdaLR."""
    rates, current = [], lr
    for step in range(steps):
        fallen = 0.5 * (1 + math.cos(math.pi * (step - warmup) / (steps - warmup)))
        following = lr * (step + 1) / warmup if step < warmup else fallen * lr
        if schedule == "open_clip":
            current = following
        if schedule == "transformers":
            current = lr * step / warmup if step < warmup else fallen * lr
        if schedule == "constant":
            current = lr * (step + 1) / warmup if step < warmup else lr
        rates.append(current)
        current = following  # TripletCLIP: the scheduler is called behind the optimiser's step
    return rates


@pytest.mark.parametrize("schedule", ["open_clip", "transformers", "late", "constant"])
def test_rates_are_those_of_the_programs(schedule):
    cfg = Train(lr=3e-4, warmup_steps=7, schedule=schedule)
    rates = [optimiser.learning_rate(step, 40, cfg) for step in range(40)]
    np.testing.assert_allclose(rates, written_out_rates(schedule, 40, 7, 3e-4), rtol=1e-12, atol=0)


@pytest.mark.parametrize("cell", ["il_clip", "codebook_clip", "codebook_clip.fdt"])
def test_rates_of_the_codebooks_grids_are_their_program_s(cell):
    """prototype/lr_scheduler/scheduler.py, steps from 1: by a rise of a 499th, and a cosine from step 500 to the last."""
    params = read.load_params(GRIDS / f"{cell.partition('.')[0]}_released.yaml")
    cfg = config_grid.method_config(params, cell)[1]
    last, rise, base, peak = (86_560, 2500, 1e-4, 1e-3) if cell.endswith("fdt") else (80_000, 500, 5e-5, 5e-4)
    for step in [*range(1, 2 * rise), *range(2 * rise, last, 997), last]:
        fallen = peak * (1 + math.cos(math.pi * (step - rise) / (last - rise))) / 2
        theirs = base + (peak - base) / (rise - 1) * (step - 1) if step < rise else fallen
        assert optimiser.learning_rate(step - 1, cfg.max_steps, cfg) == pytest.approx(theirs, rel=0, abs=2e-5 * peak)


@pytest.mark.parametrize("name", ["adam", "adamw"])
def test_decay_is_in_the_gradients_of_adam_and_beside_those_of_adamw(name):
    """Five steps on numbers of float64 against Kingma and Ba's and Loshchilov and Hutter's lines, one by one."""
    cfg = Train(optimiser=name, lr=0.1, weight_decay=0.3, eps=1e-8, decayed="all")
    module = torch.nn.Linear(1, 3, bias=False).double()
    x, m, v = module.weight.detach().numpy().copy(), 0.0, 0.0
    adamw, slopes = optimiser.adamw(module, cfg), np.random.default_rng(0).normal(size=(5, 3, 1))
    for t, slope in enumerate(slopes, start=1):
        module.weight.grad = torch.from_numpy(slope.copy())
        adamw.step()
        gradient = slope + 0.3 * x if name == "adam" else slope
        m, v = 0.9 * m + 0.1 * gradient, 0.98 * v + 0.02 * gradient**2
        shrunk = x if name == "adam" else x * (1 - 0.1 * 0.3)
        x = shrunk - 0.1 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.98**t)) + 1e-8)
    np.testing.assert_allclose(module.weight.detach().numpy(), x, rtol=1e-12)


def decayed_names(clip: torch.nn.Module, which: str) -> set[str]:
    """Names of the parameters in the group with decay."""
    decayed, undecayed = optimiser.adamw(clip, Train(decayed=which, weight_decay=0.5)).param_groups
    assert (decayed["weight_decay"], undecayed["weight_decay"]) == (0.5, 0.0)
    ids = {id(p) for p in decayed["params"]}
    return {name for name, p in clip.named_parameters() if id(p) in ids}


def test_what_is_decayed(clip):
    """Of transformers' rule: class token and scale too, norms and biases not, nor a bias of two dims; beside the model also."""
    every = dict(clip.named_parameters())
    matrices = {name for name, p in every.items() if p.ndim >= 2}
    assert decayed_names(clip, "matrices") == matrices
    assert decayed_names(clip, "all") == set(every)
    assert decayed_names(clip, "all_but_norms") == matrices | {"logit_scale", "visual.class_embedding"}
    beside = [("heads.weight", torch.nn.Parameter(torch.ones(2, 2))), ("heads.gain", torch.nn.Parameter(torch.ones(2)))]
    counts = {which: len(optimiser.list_decayed(clip, which, beside)) for which in ("matrices", "all", "all_but_norms")}
    assert counts == {"matrices": 1, "all": 2, "all_but_norms": 1}


def test_a_scale_goes_no_further_than_its_bounds_where_there_are_any(clip):
    """On both sides; TripletCLIP, GNM-CLIP and READ-CLIP clamp nothing, and one that is not trained stays as it is."""
    cases = ((100.0, True, math.log(100), 0.0), (None, True, 9.0, -1.0), (100.0, False, 9.0, -1.0))
    for largest, trains, *expected in cases:
        optimiser.freeze(clip, Train(train_logit_scale=trains))
        assert clip.logit_scale.requires_grad is trains
        for value, clamped in zip((9.0, -1.0), expected, strict=True):
            clip.logit_scale.data.fill_(value)
            optimiser.clamp_scale(clip, largest)
            assert clip.logit_scale.item() == pytest.approx(clamped)


def test_float16_weights_are_open_clip_s(tmp_path):
    """Type by type, and a step of Adam moves what stays in float32 and little else: a rate of 1e-6 is below their gaps."""
    write_json(tmp_path / "float16_weights.json", TINY)
    model = backbone.create(str(tmp_path / "float16_weights.json"), seed=4)
    theirs = open_clip.create_model("float16_weights", precision="fp16")
    towers.cast_weights(model.clip, "fp16_weights")
    ours, others = ({n: p.dtype for n, p in clip.state_dict().items()} for clip in (model.clip, theirs))
    assert ours == others
    adam = optimiser.adamw(model.clip, Train(optimiser="adam", lr=1e-6, weight_decay=0.0))
    before = {name: p.detach().clone() for name, p in model.clip.named_parameters()}
    towers.encode_texts(model.clip, model.tokenize(TEXTS))[0].float()[:, 0].sum().backward()
    adam.step()
    moved = {n: (p != before[n]).float().mean().item() for n, p in model.clip.named_parameters() if p.grad is not None}
    assert moved["positional_embedding"] > 0.1
    assert moved["transformer.resblocks.0.mlp.c_fc.weight"] < 0.1
