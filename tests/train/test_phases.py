"""Parts that start anew and parts that stand still: what changes, what stays, and resumed runs' bits."""

import math
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from compclip.interface.method import load_method
from compclip.interface.views import PLAIN, Phase
from compclip.methods import il_clip
from compclip.train import extras, optimiser, recorder
from tests import distributed_check, small_training, tiny_project

STEPS = 6
CYCLES = "agents: 2, first_agent_step: 2, cycle_steps: 2, still_steps: 1, rising_steps: 2"
CODES = "codes: 8, code_width: 4, temperature: 0.5"


def test_the_steps_of_the_released_configuration():
    """reset_steps 6000, reset_nums 12, smooth_steps 1500, warmup_steps 500 from a tenth: counted by hand."""
    cfg = il_clip.Config()
    new_agents = [step for step in range(81_000) if il_clip.phase(cfg, step).restarted]
    assert new_agents == [12000, 18000, 24000, 30000, 36000, 42000, 48000, 54000, 60000, 66000]
    still = {step for step in range(81_000) if il_clip.phase(cfg, step).frozen}
    assert still == {step + age for step in new_agents for age in range(1500)}
    rates = {age: il_clip.phase(cfg, 18000 + age).rate for age in (0, 250, 499, 500, 5999)}
    assert rates == pytest.approx({0: 0.1, 250: 0.1 + 0.9 * 250 / 499, 499: 1.0, 500: 1.0, 5999: 1.0}, rel=1e-12)
    assert il_clip.phase(cfg, 0) == il_clip.phase(cfg, 11999) == PLAIN
    assert {il_clip.phase(il_clip.Config(agents=0), step) for step in (0, 12000, 90000)} == {PLAIN}


def build_model() -> tuple[nn.Module, extras.Extras]:
    clip = distributed_check.model(bias=False)
    model = SimpleNamespace(clip=clip, model_cfg=distributed_check.SHAPE)
    cfg = il_clip.Config(codes=8, code_width=4)
    return clip, extras.create_extras(load_method("il_clip"), cfg, model, 0)


def snapshot(clip: nn.Module, extra_parts: extras.Extras) -> dict[str, torch.Tensor]:
    return {name: p.detach().clone() for name, p in [*clip.named_parameters(), *extra_parts.parameters()]}


def changed(before: dict[str, torch.Tensor], after: dict[str, torch.Tensor]) -> set[str]:
    return {name for name in before if not torch.equal(before[name], after[name])}


def shift(clip: nn.Module, extra_parts: extras.Extras) -> None:
    """What training does."""
    with torch.no_grad():
        for parameter in [*clip.parameters(), *(p for _, p in extra_parts.parameters())]:
            parameter.add_(0.5)


DRAWN = Phase(restarted=il_clip.AGENT)
BLOCK = "transformer.resblocks.0"
LINEAR = {f"{BLOCK}.attn.out_proj", f"{BLOCK}.mlp.c_fc", f"{BLOCK}.mlp.c_proj"}
NORMS = {f"{BLOCK}.ln_1", f"{BLOCK}.ln_2", "ln_final"}
QUERY = {f"heads.text_query.{number}" for number in (0, 1, 3, 4)}  # behind GELU, which has no weights


def test_a_drawn_agent_and_a_first_one_by_name():
    """Linear maps, norms and texts' projection, no embeddings nor pictures; a first agent is the one the run began with."""
    clip, extra_parts = build_model()
    start, first = snapshot(clip, extra_parts), Phase(restarted=il_clip.AGENT, start="first")
    keeper = optimiser.PhaseKeeper(clip, extra_parts, [PLAIN, first])
    shift(clip, extra_parts)
    keeper.restart(first)
    stays = changed(start, snapshot(clip, extra_parts))
    assert stays == {n for n in start if n.startswith(("visual.", "logit_", "heads.code", "heads.image_query"))}
    shift(clip, extra_parts)
    before = snapshot(clip, extra_parts)
    torch.manual_seed(3)
    optimiser.PhaseKeeper(clip, extra_parts, [DRAWN]).restart(DRAWN)
    after = snapshot(clip, extra_parts)
    of_layers = {f"{layer}.{kind}" for layer in LINEAR | NORMS | QUERY for kind in ("weight", "bias")}
    assert changed(before, after) == of_layers | {"text_projection"}
    for layer in NORMS | {"heads.text_query.0", "heads.text_query.3"}:
        assert (after[f"{layer}.weight"] == 1).all() and (after[f"{layer}.bias"] == 0).all()
    for name, inputs in (("text_projection", 16), (f"{BLOCK}.mlp.c_proj.weight", 64), ("heads.text_query.4.weight", 4)):
        bound = 1 / math.sqrt(inputs)  # of torch's linear maps
        assert 0.8 * bound < after[name].abs().max() <= bound, name


# --- whole runs ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def project(project, tmp_path_factory) -> Iterator:
    """A small project with a cell of six steps for each kind of new agent."""
    table = f"il_clip: {{{CODES}, {CYCLES}, agent: drawn, variants: {{pretrained: {{agent: pretrained}}}}}}"
    params = tiny_project.PARAMS.replace("[pretrained, finetune, fsc_clip]", "[il_clip, il_clip.pretrained]")
    params = params.replace("{pretrained: {}, finetune: {}, fsc_clip: {}}", f"{{{table}}}")
    params = params.replace("checkpoint_every_steps: 2", "checkpoint_every_steps: 1")
    root = tiny_project.other(project, tmp_path_factory.mktemp("phases") / "p", steps=STEPS, params=params)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        yield root


@pytest.mark.parametrize(("name", "kills"), [("il_clip", (2, 3)), ("il_clip.pretrained", (3, 4))])
def test_a_run_killed_in_a_phase_or_between_two_ends_with_the_bits_of_one_that_was_not(project, name, kills, tmp_path):
    """At a border (new agents before steps 2 and 4), and between both, behind the step in which codes stand still."""
    uninterrupted = small_training.train(project, name, tmp_path / "whole")
    for done in kills:
        with pytest.raises(small_training.Killed):
            small_training.train(project, name, tmp_path / str(done), small_training.kill_at(done))
        small_training.assert_same_bits(small_training.train(project, name, tmp_path / str(done)), uninterrupted)


def test_new_agents_and_codes_that_stand_still_in_a_run(project, tmp_path):
    """Codes move in plain steps and stand still in steps 2 and 4; a new agent is the first one before its step."""
    seen: dict[int, dict[str, torch.Tensor]] = {}

    def look(step: int, _steps: int, model) -> None:
        seen[step] = {name: tensor.detach().clone() for name, tensor in small_training.bits(model).items()}

    small_training.train(project, "il_clip.pretrained", tmp_path, look)
    moved = {step for step in range(STEPS - 1) if not torch.equal(seen[step]["head.code"], seen[step + 1]["head.code"])}
    assert moved == {0, 1, 3}
    embedding = "token_embedding.weight"
    far = [(seen[step][embedding] - seen[0][embedding]).abs().max() for step in range(1, STEPS)]
    assert far[2] < far[1] and far[4] < far[3]  # one step from the first agent, less than two


LATE = {"first_agent_step": 5, "cycle_steps": 2, "still_steps": 1}
STAGE = "1,000 steps end before the stage with negatives/sub_graphs.draw"


@pytest.mark.parametrize(("warn", "name", "options", "steps", "says"), [
    ("warn_of_phases", "il_clip", LATE, 5, "in none of the 5 steps"),
    ("warn_of_phases", "il_clip", LATE, 6, ""),
    ("warn_of_phases", "il_clip", LATE | {"agents": 0}, 5, ""),  # new agents are left out
    ("warn_of_phases", "negclip", {}, 5, ""),
    ("warn_of_stages", "mosaiclip", {}, 1000, STAGE),  # MosaiCLIP's second stage is of other rules
    ("warn_of_stages", "mosaiclip", {}, 1001, ""),
    ("warn_of_stages", "mosaiclip", {"single_steps": 0}, 5, ""),
    ("warn_of_stages", "clic", {}, 1, ""),  # composites and single pictures take turns
    ("warn_of_stages", "clic", {}, 2, ""),
])  # fmt: skip
def test_a_run_that_ends_before_a_phase_or_a_stage_says_so(capsys, warn, name, options, steps, says):
    cell, cfg = SimpleNamespace(method=f"{name}.short"), load_method(name).Config(**options)
    getattr(recorder, warn)(SimpleNamespace(method_name=name, method=cfg, cell=cell), steps, 3)
    error = capsys.readouterr().err
    assert f"methods.{name}.short: {says}" in error if says else not error
