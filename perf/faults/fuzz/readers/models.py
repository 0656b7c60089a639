"""Checkpoints, weights, adapters, tokenizers."""

import argparse
import functools
import json
import random
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file

from compclip.config.sections import Lora
from compclip.model import backbone, lora, transformers_files
from perf.faults.fuzz.reader import Reader
from perf.faults.fuzz.tiny import tiny, tiny_folder


def readers() -> Iterator[Reader]:
    """Whatever a model is opened from."""
    yield Reader("checkpoint", _checkpoint, lambda _: _opened("model"), ("model/*.json", "model/*.json", "model/*"))
    yield Reader("weights:safetensors", _checkpoint, lambda _: _opened("model"), ("model/*.safetensors",))
    yield Reader("weights:pt", _pickled, lambda _: _opened("weights.pt", "tiny.json", "gelu"), ("weights.pt",))
    yield Reader(
        "weights:beside", _write_with_settings, lambda _: _opened("weights.pt", "tiny.json", "gelu"), ("weights.pt",)
    )
    yield Reader("weights:loralib", _loralib, lambda _: _opened("weights.pt", "tiny.json", "gelu"), ("weights.pt",))
    yield Reader("weights:transformers", _transformers, lambda _: _opened("theirs", "tiny.json"), ("theirs/*",) * 2)
    yield Reader("weights:authors", _authors, lambda _: _opened("weights.pt", "quick.json"), ("weights.pt",))
    yield Reader("weights:index", _indexed, lambda _: _opened("model"), ("model/*.index.json", "model/part.*"))
    yield Reader("weights:arrays", _arrays, lambda _: _opened("weights.npz", "tiny.json", "gelu"), ("weights.npz",))
    yield Reader("weights:archive", _archive, lambda _: _opened("weights.pt", "tiny.json"), ("weights.pt",))
    yield Reader("model", _checkpoint, lambda _: backbone.create("tiny.json"), ("tiny.json",))
    yield Reader("adapter", _adapter, _adapted, ("adapter/*",))
    yield Reader("tokenizer", _tokenizer, lambda _: _opened("model"), ("model/tok*", "model/open_clip_config.json"))


def _checkpoint(folder: Path) -> None:
    shutil.copytree(tiny_folder(), folder / "model")
    shutil.copyfile(tiny_folder().parent / "tiny.json", folder / "tiny.json")


def _opened(ref: str, model: str = "", activation: str = "") -> None:
    opened = backbone.load(ref, model, activation=activation)
    opened.tokenize(["a red cup"])


def _pickled(folder: Path) -> None:
    _checkpoint(folder)
    torch.save(tiny().clip.state_dict(), folder / "weights.pt")


def _indexed(folder: Path) -> None:
    _checkpoint(folder)
    [file] = (folder / "model").glob("*.safetensors")
    file.rename(file.with_name("part.safetensors"))
    places = dict.fromkeys(tiny().clip.state_dict(), "part.safetensors")
    file.with_name(f"{file.name}.index.json").write_text(json.dumps({"weight_map": places}))


def _arrays(folder: Path) -> None:
    _checkpoint(folder)
    np.savez(folder / "weights.npz", **{name: tensor.numpy() for name, tensor in tiny().clip.state_dict().items()})


def _write_with_settings(folder: Path) -> None:
    """As CoN-CLIP's and others': settings beside the weights, which torch does not read by itself."""
    _checkpoint(folder)
    torch.save({"model": tiny().clip.state_dict(), "args": argparse.Namespace(lr=1e-6)}, folder / "weights.pt")


def _loralib(folder: Path) -> None:
    _checkpoint(folder)
    factors = {}
    for name, weight in tiny().clip.state_dict().items():
        if name.endswith(("in_proj_weight", "c_fc.weight", "conv1.weight")):
            side = weight.shape[-1] if weight.ndim == 4 else 1
            stem = f"{name}_" if name.endswith("in_proj_weight") else name.removesuffix("weight")
            factors[f"{stem}lora_A"] = torch.zeros(2 * side, weight.shape[1] * side)
            factors[f"{stem}lora_B"] = torch.zeros(weight.shape[0] * side, 2 * side)
    torch.save({"state_dict": tiny().clip.state_dict() | factors}, folder / "weights.pt")


def _transformers(folder: Path) -> None:
    """The tiny model under transformers' names."""
    _checkpoint(folder)
    (folder / "theirs").mkdir()
    acts = {"hidden_act": "gelu"}
    config = {"model_type": "clip", "text_config": acts, "vision_config": acts}
    (folder / "theirs" / "config.json").write_text(json.dumps(config))
    state = transformers_files.rename_to_transformers(tiny().clip.state_dict())
    save_file(state, folder / "theirs" / "model.safetensors")


def _authors(folder: Path) -> None:
    """Llip's layout: a tower with several class tokens, and a head."""
    _checkpoint(folder)
    config = json.loads((folder / "tiny.json").read_text())
    (folder / "quick.json").write_text(json.dumps(config | {"quick_gelu": True}))
    state = {name: tensor for name, tensor in tiny().clip.state_dict().items() if name != "visual.proj"}
    width, text_width = (state[name].shape[0] for name in ("visual.ln_post.weight", "ln_final.weight"))
    dim = config["embed_dim"]
    state["visual.class_embedding"] = torch.zeros(2, width)
    state["visual.positional_embedding"] = torch.zeros(1 + len(state["visual.positional_embedding"]), width)
    state |= {name: torch.zeros(2, width, dim) for name in ("k_proj", "v_proj")}
    state |= {"q_proj": torch.zeros(text_width, dim), "pred.out_proj": torch.zeros(dim, dim)}
    torch.save({"state_dict": state}, folder / "weights.pt")


def _archive(folder: Path) -> None:
    class Holder(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x

    def find_child(above: torch.nn.Module, name: str) -> torch.nn.Module:
        if not hasattr(above, name):
            above.add_module(name, Holder())
        return getattr(above, name)

    _checkpoint(folder)
    config = json.loads((folder / "tiny.json").read_text())
    (folder / "tiny.json").write_text(json.dumps(config | {"quick_gelu": True}))  # as OpenAI's archives are
    holder: torch.nn.Module = Holder()
    for path, value in tiny().clip.state_dict().items():
        *module_path, name = path.split(".")
        functools.reduce(find_child, module_path, holder).register_buffer(name, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the format is to go, OpenAI's files are there
        script = torch.jit.script(holder)
    script.save(str(folder / "weights.pt"))


def _adapter(folder: Path) -> None:
    _checkpoint(folder)
    clip = backbone.load(folder / "model").clip
    lora.inject(clip, Lora(patch="matrix"), ("image", "text"))
    lora.save_and_merge(clip, folder / "adapter")


def _adapted(_: random.Random) -> None:
    lora.load_adapter(backbone.load("model").clip, "adapter")


def _tokenizer(folder: Path) -> None:
    _checkpoint(folder)
    config = folder / "model" / "open_clip_config.json"
    content = json.loads(config.read_text())
    content["model_cfg"]["text_cfg"]["hf_tokenizer_name"] = "bert-base-uncased"
    config.write_text(json.dumps(content))
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "red", "cup"]
    coder: dict[str, Any] = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
        "pre_tokenizer": {"type": "Whitespace"}, "post_processor": None, "decoder": None,
        "model": {"type": "WordLevel", "vocab": {word: i for i, word in enumerate(words)}, "unk_token": "[UNK]"},
    }  # fmt: skip
    (folder / "model" / "tokenizer.json").write_text(json.dumps(coder))
    (folder / "model" / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "[PAD]", "sep_token": "[SEP]"})
    )
