"""Heads, teachers and memory: in the loss and in the checkpoint; test_distributed.py has them in parts of a batch.

B images, D dim.
"""

import contextlib
import copy
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from compclip.base import plugins
from compclip.config.sections import Train
from compclip.interface.method import Method, load_method
from compclip.interface.views import Teacher, Views, Widths
from compclip.train import accumulate, checkpoint, extras, losses, optimiser
from compclip.train.extras import Extras
from tests import checkpoint_files, distributed_check, small_training, tiny_project

D = distributed_check.SHAPE["embed_dim"]


class KeepingMethod(Method):
    """A method with all three: it predicts the image from the text, stays near its teacher, and remembers a mean."""

    def __init__(self, decay: float) -> None:
        self.decay = decay

    def heads(self, cfg, widths: Widths) -> nn.Module:
        return nn.Linear(widths.joint, widths.joint)

    def teacher(self, cfg) -> Teacher:
        return Teacher(self.decay)

    def memory(self, cfg) -> dict[str, torch.Tensor]:
        return {"mean": torch.zeros((), dtype=torch.float64)}

    def remember(self, f, cfg) -> dict[str, torch.Tensor]:
        return {"mean": (f.image_BD * f.text_BD).sum(1).mean()}


def loss(f) -> dict[str, torch.Tensor]:
    return {
        "clip": losses.clip(f.image_BD, f.text_BD, f.scale),
        "head": (f.heads(f.text_BD) - f.image_BD).square().sum(1).mean(),
        "teacher": (f.text_BD - f.teacher.text_BD).square().sum(1).mean(),
        "memory": (f.memory["mean"] - (f.image_BD * f.text_BD).sum(1)).square().mean(),
    }


def build_state(decay: float = 0.5) -> tuple[nn.Module, Extras, torch.optim.AdamW]:
    clip = distributed_check.model(bias=False)
    model = SimpleNamespace(clip=clip, model_cfg=distributed_check.SHAPE)
    beside = extras.create_extras(KeepingMethod(decay), None, model, seed=0)
    beside.heads.double()
    return clip, beside, optimiser.adamw(clip, Train(lr=0.01), beside.parameters())


def steps(clip, beside: Extras, adamw, count: int) -> list[dict[str, float]]:
    """Some optimiser steps on one batch; the terms of each."""
    step, step_terms = accumulate.GradientComputer(clip, frozenset(), contextlib.nullcontext, 0, beside), []
    for _ in range(count):
        adamw.zero_grad(set_to_none=True)
        terms = step.compute_gradients(distributed_check.batch(Views()), Views(), loss)
        adamw.step()
        beside.after_step(clip)
        step_terms.append({name: term.item() for name, term in terms.items()})
    return step_terms


def test_a_moving_teacher_by_hand():
    """θ_t = d θ_t + (1 − d) θ after a step, and 1 stays where it was; at first it is the model."""
    for decay in (0.25, 1.0):
        clip, beside, adamw = build_state(decay)
        before = copy.deepcopy(clip).state_dict()
        assert steps(clip, beside, adamw, 1)[0]["teacher"] < 1e-25  # attention rounds otherwise without a graph
        for name, value in beside.teacher.state_dict().items():
            if value.is_floating_point():
                expected = decay * before[name] + (1 - decay) * clip.state_dict()[name]
                torch.testing.assert_close(value, expected, rtol=1e-12, atol=1e-12)


def test_memory_is_the_step_befores_mean():
    clip, beside, adamw = build_state()
    with torch.no_grad():
        batch = distributed_check.batch(Views())
        features = clip.encode_image(batch.image_B3HW, normalize=True), clip.encode_text(batch.text_BL, normalize=True)
    steps(clip, beside, adamw, 1)
    torch.testing.assert_close(beside.memory["mean"], (features[0] * features[1]).sum(1).mean(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("decay", [0.5, 1.0])
def test_a_resumed_run_goes_on_to_the_same_bits(tmp_path, capsys, decay):
    """Five steps equal two, a checkpoint read by a fresh process, and three; one of other parts is refused."""
    clip, beside, adamw = build_state(decay)
    expected = steps(clip, beside, adamw, 5)
    first = build_state(decay)
    assert steps(*first, 2) == expected[:2]
    checkpoint_files.write(tmp_path, 2, first[0], first[2], {"dropped": {}}, first[1])
    assert checkpoint.read(tmp_path, first[0], first[2]) is None and "of another model" in capsys.readouterr().err
    again = build_state(decay)
    for p in again[1].heads.parameters():
        nn.init.zeros_(p)
    assert checkpoint.read(tmp_path, again[0], again[2], extra_parts=again[1])["step"] == 2
    assert steps(*again, 3) == expected[2:]
    assert all(torch.equal(a, b) for a, b in zip(again[1].state().values(), beside.state().values(), strict=True))


def test_only_a_moving_teacher_is_written():
    """A frozen one is the backbone, which a resumed run has anyway."""
    names = {decay: {n.partition(".")[0] for n in build_state(decay)[1].state()} for decay in (0.5, 1.0)}
    assert names == {0.5: {"heads", "teacher", "memory"}, 1.0: {"heads", "memory"}}


def test_heads_are_the_same_for_a_seed_and_leave_torchs_generator_alone():
    torch.manual_seed(7)
    before = torch.get_rng_state()
    one, other = (build_state()[1].heads.weight for _ in range(2))
    assert torch.equal(one, other) and not torch.equal(one, torch.zeros_like(one))
    torch.manual_seed(7)
    assert torch.equal(before, torch.get_rng_state())


# --- whole runs ---------------------------------------------------------------------------------------------------


def keeping() -> list[str]:
    """The methods that keep something beside the model."""
    hooks = {"heads", "teacher", "memory"}
    return [name for name in plugins.list_plugins(plugins.METHODS) if hooks & vars(load_method(name)).keys()]


@pytest.fixture(scope="module")
def project(project, tmp_path_factory):
    """The small project with a cell for each of them, and the texts and pictures that they ask for."""
    params = tiny_project.PARAMS.replace("[pretrained, finetune, fsc_clip]", f"[{', '.join(keeping())}]")
    tables = ", ".join(f"{name}: {OPTIONS.get(name, '{}')}" for name in keeping())
    params = params.replace("{pretrained: {}, finetune: {}, fsc_clip: {}}", f"{{{tables}}}")
    return tiny_project.with_companions(project, tmp_path_factory.mktemp("extras") / "p", steps=4, params=params)


OPTIONS = {
    "degla": "{negatives: rules, decay: 0.5}",
    "ce_clip": "{words: wordnet}",
    "ahnpl": "{words: wordnet}",
    "codebook_clip": "{codes: 8, code_width: 4, temperature: 0.5}",
    "flair": "{texts: 2}",
    "llip": "{tokens: 3}",
    "il_clip": "{codes: 8, code_width: 4, temperature: 0.5, agents: 2, first_agent_step: 1, cycle_steps: 1, still_steps: 1}",
}  # small heads; what asks for files that are not here


@pytest.mark.parametrize("name", keeping())
def test_a_run_killed_in_its_third_step_ends_with_the_bits_of_one_that_was_not(project, name, tmp_path, monkeypatch):
    """The last two checkpoints are kept: the run goes on from the second, without what only memory held."""
    monkeypatch.chdir(project)
    small_training.check_killed_run(project, name, tmp_path)
