"""Checkpoints, weights, adapters, tokenizers, and the folder of a model that captions."""

import functools
import json
import random
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.fuzz import formats
from tests.fuzz.reader import Reader
from tests.fuzz.tiny import tiny, tiny_folder


def readers() -> Iterator[Reader]:
    """Whatever a model is opened from."""
    yield Reader("checkpoint", _checkpoint, lambda _: _opened("model"), ("model/*.json", "model/*.json", "model/*"))
    yield Reader("weights:safetensors", _checkpoint, lambda _: _opened("model"), ("model/*.safetensors",))
    yield Reader("weights:pt", _pickled, lambda _: _opened("weights.pt", "tiny.json", "gelu"), ("weights.pt",))
    yield Reader("weights:index", _indexed, lambda _: _opened("model"), ("model/*.index.json", "model/part.*"))
    yield Reader("weights:arrays", _arrays, lambda _: _opened("weights.npz", "tiny.json", "gelu"), ("weights.npz",))
    yield Reader("weights:archive", _archive, lambda _: _opened("weights.pt", "tiny.json"), ("weights.pt",))
    yield Reader("model", _checkpoint, lambda _: _created("tiny.json"), ("tiny.json",))
    yield Reader("adapter", _adapter, _adapted, ("adapter/*",))
    yield Reader("tokenizer", _tokenizer, lambda _: _opened("model"), ("model/tok*", "model/open_clip_config.json"))
    small = ("m/chat_template.jinja", "m/processor_config.json", "m/tokenizer_config.json", "m/generation_config.json")
    yield Reader("captioner:hf", _chat, lambda _: _captioned(), small)


def _checkpoint(folder: Path) -> None:
    shutil.copytree(tiny_folder(), folder / "model")
    shutil.copyfile(tiny_folder().parent / "tiny.json", folder / "tiny.json")


def _opened(ref: str, model: str = "", activation: str = "") -> None:
    from compclip.model import backbone

    opened = backbone.load(ref, model, activation=activation)
    opened.tokenize(["a red cup"])


def _created(model: str) -> None:
    from compclip.model import backbone

    backbone.create(model)


def _pickled(folder: Path) -> None:
    import torch

    _checkpoint(folder)
    torch.save(tiny().clip.state_dict(), folder / "weights.pt")


def _indexed(folder: Path) -> None:
    _checkpoint(folder)
    [file] = (folder / "model").glob("*.safetensors")
    file.rename(file.with_name("part.safetensors"))
    places = dict.fromkeys(tiny().clip.state_dict(), "part.safetensors")
    file.with_name(f"{file.name}.index.json").write_text(json.dumps({"weight_map": places}))


def _arrays(folder: Path) -> None:
    import numpy as np

    _checkpoint(folder)
    np.savez(folder / "weights.npz", **{name: tensor.numpy() for name, tensor in tiny().clip.state_dict().items()})


def _archive(folder: Path) -> None:
    import torch

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
    holder = Holder()
    for path, value in tiny().clip.state_dict().items():
        *module_path, name = path.split(".")
        functools.reduce(find_child, module_path, holder).register_buffer(name, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the format is to go, OpenAI's files are there
        script = torch.jit.script(holder)
    script.save(str(folder / "weights.pt"))


def _fresh() -> Any:
    from compclip.model import backbone

    return backbone.load("model").clip


def _adapter(folder: Path) -> None:
    from compclip.config.sections import Lora
    from compclip.model import backbone, lora

    _checkpoint(folder)
    clip = backbone.load(folder / "model").clip
    lora.inject(clip, Lora(patch="matrix"), ("image", "text"))
    lora.save_and_merge(clip, folder / "adapter")


def _adapted(_: random.Random) -> None:
    from compclip.model import lora

    lora.load_adapter(_fresh(), "adapter")


def _tokenizer(folder: Path) -> None:
    _checkpoint(folder)
    config = folder / "model" / "open_clip_config.json"
    content = json.loads(config.read_text())
    content["model_cfg"]["text_cfg"]["hf_tokenizer_name"] = "bert-base-uncased"
    config.write_text(json.dumps(content))
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "red", "cup"]
    coder = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
        "pre_tokenizer": {"type": "Whitespace"}, "post_processor": None, "decoder": None,
        "model": {"type": "WordLevel", "vocab": {word: i for i, word in enumerate(words)}, "unk_token": "[UNK]"},
    }  # fmt: skip
    (folder / "model" / "tokenizer.json").write_text(json.dumps(coder))
    (folder / "model" / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "[PAD]", "sep_token": "[SEP]"})
    )


def _chat(folder: Path) -> None:
    import transformers

    from tests import tiny_chat

    tiny_chat.llava(folder / "m", transformers)
    formats.pictures(folder, ("a.png",))


def _captioned() -> None:
    from compclip.base import plugins
    from compclip.config.sections import Data
    from compclip.data.sample import Sample

    captioner = plugins.load_plugin(plugins.CAPTIONERS, "hf")
    cfg = captioner.Config(model="m", device="cpu", max_new_tokens=2)
    with captioner.opened(Data("karpathy", "d.json", ".", captioner="hf"), cfg) as caption:
        caption([Sample("a", "a.png", ("old",))], "00000")
