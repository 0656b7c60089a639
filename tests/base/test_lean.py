"""open_clip without timm, transformers and torch's compiler, and with them where a model needs them."""

from __future__ import annotations

import subprocess
import sys

from tests.conftest import ROOT

BUILT = """
import sys
from compclip.base import lazy
from compclip.model import backbone
print(lazy.open_clip.timm_model.timm, lazy.open_clip.hf_model.transformers)
print(sorted({"timm", "transformers", "torch._dynamo"} & set(sys.modules)))
"""
TEXT = {"context_length": 8, "vocab_size": 9, "width": 16, "heads": 2, "layers": 1}
TIMM = """
cfg = {"embed_dim": 8, "vision_cfg": {"image_size": 224, "timm_model_name": "vit_tiny_patch16_224", "timm_pool": "avg"},
       "text_cfg": TEXT}
clip = backbone._build(cfg, "cfg")
print(type(clip.visual).__name__, "timm" in sys.modules, "transformers" in sys.modules)
"""
TRANSFORMERS = """
import open_clip
from compclip.base import lean
lean.complete("transformers")
from transformers import BertConfig
SIZES = BertConfig(vocab_size=9, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16)
tower = open_clip.model.HFTextEncoder("bert", 8, config=SIZES, proj_type="linear", pretrained=False)
print(tuple(tower(lazy.torch.ones(3, 4, dtype=int)).shape), "timm" in sys.modules)
"""
COMPILED = """
import torch, torchvision
boxes = [torch.tensor([[0.0, 0, 2, 2]])]
print(torchvision.ops.roi_align(torch.ones(1, 1, 4, 4), boxes, 1).item())
"""
TRAINED = """
import torch
from compclip.base import lean
from compclip.config.sections import Train
from compclip.train import optimiser
layer = torch.nn.Linear(2, 1)
adamw = optimiser.adamw(layer, Train(lr=0.1))
layer(torch.ones(1, 2)).sum().backward()
adamw.step(), adamw.zero_grad(), adamw.load_state_dict(adamw.state_dict())
print("torch._dynamo" in sys.modules)
with lean.eager():
    from torch._dynamo.utils import is_compile_supported
print(torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2)).tolist())
"""


def said(code: str) -> list[str]:
    """The lines that a fresh process prints."""
    given = f"{BUILT}\nTEXT = {TEXT}\n{code}"
    done = subprocess.run([sys.executable, "-c", given], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_timm_and_the_compiler_come_when_they_are_needed():
    """Alone, and into classes of open_clip's that were imported without them; not for an optimiser."""
    compiled = ["False", "[2.0, 2.0]", "1.0"]
    assert said(TRAINED + COMPILED + TIMM) == ["None None", "[]", *compiled, "TimmModel True False"]


def test_transformers_comes_when_it_is_needed():
    """The same, and without timm."""
    assert said(TRANSFORMERS) == ["None None", "[]", "(3, 8) False"]
