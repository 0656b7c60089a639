"""How a run computes: rounding of float32 products, deterministic kernels, activations that are computed again."""

import contextlib
import functools
import json
import os
from dataclasses import replace

import open_clip
import pytest
import torch
from torch.nn import functional as F

from compclip.config.sections import Train
from compclip.interface.method import load_method
from compclip.model import towers
from compclip.train import accumulate, fine_tuning, job
from tests import distributed_check
from tests.tiny_project import at, cell

TIMM = {
    "embed_dim": 16,
    "vision_cfg": {"timm_model_name": "test_vit", "timm_pool": "", "timm_proj": "linear", "image_size": 160},
    "text_cfg": {"context_length": 12, "vocab_size": 60, "width": 16, "heads": 1, "layers": 2},
}


@pytest.fixture
def workspace(monkeypatch):
    """No workspace of cuBLAS is set, and none stays."""
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", "")
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG")


@pytest.mark.parametrize(("options", "arithmetic", "workspace_size"), [
    ({"matmul": "high", "deterministic": True}, ["high", True, True], ":4096:8"),
    ({}, ["highest", False, False], None),
])  # fmt: skip
def test_arithmetic_is_set_for_a_run_alone(workspace, options, arithmetic, workspace_size):
    """By default nothing is rounded, convolutions neither, which torch would round to TF32."""
    before = fine_tuning.describe_arithmetic()
    with fine_tuning.set_arithmetic(Train(**options)):
        assert list(fine_tuning.describe_arithmetic().values()) == arithmetic
        assert os.environ.get("CUBLAS_WORKSPACE_CONFIG") == workspace_size
    assert fine_tuning.describe_arithmetic() == before


def test_a_run_records_its_arithmetic(here, workspace):
    """As torch had it while it trained, with the options of its config; bits on a CPU are those without the options."""
    overrides = ["train.deterministic=true", "train.checkpoint_activations=true", "train.max_steps=2"]
    runs = [at(cell("finetune"), *changes) for changes in (overrides, overrides[2:])]
    for run in runs:
        run.folder.make()
        job.complete_run(run)
    records = [json.loads(run.folder.final.environment.read_text()) for run in runs]
    assert [record["arithmetic"]["deterministic"] for record in records] == [True, False]
    assert runs[0].key != runs[1].key
    assert records[0]["weights_fingerprint"] == records[1]["weights_fingerprint"]


def compute_gradients(clip, recomputes: bool, micro: int = 0) -> dict[str, torch.Tensor]:
    """Gradients of FSC-CLIP's loss, which looks at patches and tokens."""
    method = load_method("fsc_clip")
    cfg = method.Config()
    views = method.views(cfg, 0)
    clip.zero_grad(set_to_none=True)
    towers.checkpoint_activations(clip, recomputes)
    computer = accumulate.GradientComputer(clip, frozenset(), contextlib.nullcontext, micro)
    batch, side = distributed_check.batch(views), 160 if hasattr(clip.visual, "trunk") else 32
    batch = replace(batch, image_B3HW=F.interpolate(batch.image_B3HW, side)).rows(0, 4)
    computer.compute_gradients(batch, views, functools.partial(method.loss, cfg=cfg, step=0))
    return {name: p.grad for name, p in clip.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("micro", [0, 2])
@pytest.mark.parametrize("kind", ["openai", "timm"])
def test_gradients_are_equal_bit_for_bit(kind, micro):
    torch.manual_seed(0)
    clip = distributed_check.model(bias=False) if kind == "openai" else open_clip.CustomTextCLIP(**TIMM).double()
    plain, recomputed = (compute_gradients(clip.train(), recomputes, micro) for recomputes in (False, True))
    assert plain.keys() == recomputed.keys() and len(plain) > 10
    assert all(torch.equal(plain[name], recomputed[name]) for name in plain)
