"""`compclip init --model`: names of open_clip and the hub, folders, and files, whose architecture their shapes tell."""

import json
from pathlib import Path

import open_clip
import pytest
import torch
from safetensors.torch import save_file

from compclip.base.errors import UserError
from compclip.begin.model_section import find_model, match_tensors
from compclip.config.sections import Backbone
from compclip.model import backbone, rotary_text, transformers_files, weight_files
from compclip.model.author_layouts import AuthorsModel
from tests.model.test_towers import TINY

QUICK = TINY | {"quick_gelu": True}


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    """Two small models among open_clip's, which differ by their activation alone; other tests' models are none."""
    shipped = {path.stem for path in Path(open_clip.__file__).with_name("model_configs").glob("*.json")}
    configs = {name: cfg for name, cfg in open_clip.factory._MODEL_CONFIGS.items() if name in shipped}
    configs |= {"Tiny": TINY, "Tiny-quickgelu": QUICK}
    monkeypatch.setattr(open_clip.factory, "_MODEL_CONFIGS", configs)


def make_state(name):
    """The tensors of a model with shapes alone."""
    with torch.device("meta"):
        return rotary_text.build_module(open_clip.get_model_config(name)).state_dict()


def make_weights():
    return dict(backbone.create("Tiny", seed=1).clip.state_dict())


def write_saved(folder):
    state = {f"module.{name}": tensor for name, tensor in make_weights().items()}
    torch.save({"epoch": 3, "state_dict": state}, folder / "my-clip.v2.pt")
    return folder / "my-clip.v2.pt"


def write_header(folder):
    save_file(make_weights(), folder / "mine.safetensors", {"activation": "quickgelu"})
    return folder / "mine.safetensors"


def write_open_clip(folder):
    backbone.create("Tiny-quickgelu", seed=1).save(folder / "run")
    return folder / "run"


def write_transformers(folder):
    (folder / "hub").mkdir()
    save_file(transformers_files.rename_to_transformers(make_weights()), folder / "hub/model.safetensors")
    (folder / "hub/config.json").write_text(json.dumps({"model_type": "clip"}))  # whose activation is QuickGELU
    return folder / "hub"


FILES = {  # what is written, the activation that is given; what the section has
    "gelu": (write_saved, "gelu", "my_clip", {"model": "Tiny", "activation": "gelu"}),
    "quickgelu": (write_saved, "quickgelu", "my_clip", {"model": "Tiny-quickgelu"}),
    "its own header": (write_header, "", "mine", {"model": "Tiny-quickgelu"}),
    "transformers": (write_transformers, "", "hub", {"model": "Tiny-quickgelu"}),
    "open_clip": (write_open_clip, "", "run", {}),
}


@pytest.mark.parametrize("kind", FILES)
def test_a_file_or_folder_is_a_backbone(tmp_path, kind):
    """Of the architecture that its tensors have, which reads it."""
    write, activation, expected_name, keys = FILES[kind]
    path = write(tmp_path)
    name, section = find_model(str(path), activation)
    place = {"weights": str(path)} if keys else {"model": f"local-dir:{path}"}
    assert (name, section) == (expected_name, keys | place)
    assert backbone.load_backbone(Backbone(**section), seed=0).model_cfg["embed_dim"] == TINY["embed_dim"]
    assert find_model(f"Tiny::{path}", activation)[1] == section


@pytest.mark.parametrize(("text", "name", "section"), [
    ("ViT-B-32::openai", "vit_b_32_openai", {"model": "ViT-B-32-quickgelu", "weights": "openai"}),
    ("ViT-B-32::laion2b_s34b_b79k", "vit_b_32_laion2b_s34b_b79k", {"model": "ViT-B-32", "weights": "laion2b_s34b_b79k"}),
    ("org/My-CLIP", "org_my_clip", {"model": "hf-hub:org/My-CLIP"}),
    ("hf-hub:org/name", "org_name", {"model": "hf-hub:org/name"}),
])  # fmt: skip
def test_a_name_needs_no_network(text, name, section):
    assert find_model(text) == (name, section)


@pytest.mark.parametrize(("text", "fault"), [
    ("my-clip.v2.pt", "a Tiny that does not say .*; add --activation quickgelu .* or --activation gelu"),
    ("other.pt", "no model of open_clip has them; .* as --model MODEL::"),
    ("empty", "a folder without open_clip_config.json or config.json"),
    ("my-clip.v3.pt", "no such file or folder; .* did you mean 'my-clip.v2.pt'"),
    ("empty/mine", "checkpoint 'empty/mine': no such file or folder"),
    ("models/mine.pt", "checkpoint 'models/mine.pt': no such file or folder"),
    ("ViT-B-32", "which weights.* ViT-B-32::openai"),
    ("ViT-B-33::openai", "unknown model 'ViT-B-33'; did you mean"),
    ("ViT-B-32::openia", "unknown weights 'openia'; did you mean 'openai'"),
    ("ViT-B-32::my-clip.v2.pt", "another architecture"),
])  # fmt: skip
def test_what_is_no_model_is_said(tmp_path, monkeypatch, text, fault):
    """Weights that tell no activation, those of no model, and a folder without any."""
    monkeypatch.chdir(tmp_path)
    write_saved(tmp_path)
    torch.save({"visual.proj": torch.ones(3, 2), "a": torch.ones(1)}, "other.pt")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=fault):
        find_model(text)


def test_another_activation_than_the_file_says_is_refused(tmp_path):
    with pytest.raises(UserError, match="trained with gelu .*give model Tiny"):
        find_model(str(write_header(tmp_path)), "gelu")


@pytest.mark.parametrize(("name", "changes", "expected"), [
    ("ViT-B-32-quickgelu", {}, ["ViT-B-32"]),
    ("ViT-B-16", {"positional_embedding": (64, 512)}, ["ViT-B-16"]),  # texts of 64 tokens
    ("ViT-B-32", {weight_files.POSITIONS: (101, 768)}, ["ViT-B-32", "ViT-B-32-256"]),  # pictures of 320 pixels
    ("ViT-B-32", {"logit_scale": (1,)}, ["ViT-B-32"]),
    ("ViT-B-32", {"ln_final.weight": (5,)}, []),
])  # fmt: skip
def test_shapes_tell_the_architecture(name, changes, expected):
    changed = {key: torch.empty(shape, device="meta") for key, shape in changes.items()}
    assert match_tensors(AuthorsModel(make_state(name) | changed)) == expected
