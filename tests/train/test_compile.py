"""Towers whose blocks torch compiles: the same terms and gradients within rounding, the same names, a run resumed."""

import shutil

import pytest
import torch

from compclip.base.errors import UserError
from compclip.config import read
from compclip.interface.views import Views
from compclip.model import towers
from compclip.train import recorder
from tests import distributed_check, small_training
from tests.distributed_check import difference, run

OTHERS = [("c2lip", 0), ("hard_positives", 0), ("fsc_clip", 2)]  # with concepts, with texts alone, in parts
CASES = [("fsc_clip", 0), *(pytest.param(*case, marks=pytest.mark.long) for case in OTHERS)]
BUILD = distributed_check.model


@pytest.fixture
def compile_eagerly(monkeypatch) -> list[int]:
    """Compile without generating code; counts how often a block was."""
    from torch._dynamo.backends.debugging import aot_eager

    compiled: list[int] = []

    def count_and_compile(graph, inputs, **options):
        compiled.append(len(inputs))
        return aot_eager(graph, inputs, **options)

    monkeypatch.setattr(towers, "COMPILER", count_and_compile)
    yield compiled
    torch._dynamo.reset()


def build_compiled(bias: bool, dtype: torch.dtype = torch.float64) -> torch.nn.Module:
    clip = BUILD(bias, dtype)
    towers.compile_blocks(clip)
    return clip


@pytest.mark.parametrize(("name", "micro"), CASES)
def test_terms_and_gradients_are_those_of_eager_towers(monkeypatch, compile_eagerly, name, micro):
    """To 1e-10 in float64, the batch whole and in parts."""
    case = (name, {}, 0)
    eager = run(case, None, frozenset(), micro)
    monkeypatch.setattr(distributed_check, "model", build_compiled)
    differences = difference(eager, run(case, None, frozenset(), micro))
    assert differences["terms"] < 1e-10 and differences["gradients"] < 1e-10 and differences["one_sided"] == []
    assert compile_eagerly


@pytest.mark.long
@pytest.mark.skipif(not shutil.which("g++"), reason="torch's compiler for CPUs needs g++")
def test_generated_code_gives_the_same():
    """As users have it, of the text tower alone, which takes long enough: to 1e-9 in float64."""
    slopes = []
    for build in (BUILD, build_compiled):
        clip = build(False)
        towers.encode_texts(clip, distributed_check.batch(Views()).text_BL)[0].square().cumsum(-1).sum().backward()
        slopes.append([p.grad for p in clip.transformer.parameters()])
    torch._dynamo.reset()
    torch.testing.assert_close(slopes[1], slopes[0], rtol=1e-9, atol=1e-9)
    assert max(slope.abs().max() for slope in slopes[0]) > 1e-3


def train(here, folder: str, *options: str) -> dict[str, torch.Tensor]:
    overrides = ("train.max_steps=4", "train.checkpoint_every_steps=2", *options)
    model = small_training.train(here, "fsc_clip", here / folder, recorder.do_nothing, *overrides)
    return model.clip.state_dict()


@pytest.mark.parametrize("recomputes", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_run_is_resumed_and_its_names_stay(here, compile_eagerly, recomputes):
    """Resumed from its first checkpoint; names, and weights but for rounding, are those of the eager run."""
    options = ("train.max_steps=4", "train.compile=true", f"train.checkpoint_activations={recomputes}")
    eager = train(here, "eager")
    compiled = small_training.check_killed_run(here, "fsc_clip", here / "compiled", *options).clip.state_dict()
    assert list(eager) == list(compiled) and compile_eagerly
    for name, value in eager.items():
        torch.testing.assert_close(compiled[name], value, rtol=1e-3, atol=1e-5)


def test_what_is_not_compiled_is_refused(here, monkeypatch):
    """Adapters, a tower without blocks, and what torch's compiler cannot do: one line each."""
    with pytest.raises(UserError, match="compile=True with lora"):
        read.load_params("params.yaml", ["train.compile=true", "train.lora={rank: 2}"])
    with pytest.raises(UserError, match="train.compile=true: the image tower of this backbone has no blocks"):
        clip = BUILD(False)
        del clip.visual.transformer.resblocks
        towers.compile_blocks(clip)

    def fail(_graph, _inputs):
        raise RuntimeError("no such code")

    monkeypatch.setattr(towers, "COMPILER", fail)
    with pytest.raises(UserError, match="train.compile=true: torch cannot compile this backbone's blocks here"):
        train(here, "failing", "train.compile=true")
    torch._dynamo.reset()
