"""The released programs' side of `perf.truth.released_steps`: `python step_programs.py METHOD FOLDER INPUT OUTPUT`.

A process of its own, since these programs have packages of the same names as each other, and as ours. It makes a batch
with the program's data set and collate function, in which random parts of pictures are the whole picture, and takes one
step of the program's model and loss in float64. What they import and numbers do not need is replaced by nothing.
"""

from __future__ import annotations

import gzip
import os
import random
import runpy
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from importlib.metadata import distribution
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

Step = dict[str, Any]  # by name: pictures, tokens, terms, total, slopes
ABSENT = (
    "SVLC_learning", "SVLC_learning.negs_and_pos", "horovod", "horovod.torch",
    "local_setting", "clip", "clips",
    "loguru", "braceexpand", "webdataset", "webdataset.filters", "webdataset.tariterators", "wandb",
)  # fmt: skip


class _IdleClass(type):
    """A class whose methods do nothing, whatever they are called."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: None


class _IdleModule(ModuleType):
    """A module of such classes."""

    __path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _IdleClass(name, (), {})


def replace_absent(*names: str) -> None:
    """Put modules that do nothing in the place of those."""
    for name in names:
        sys.modules[name] = module = _IdleModule(name)
        module.__spec__ = ModuleSpec(name, None)


def show_whole_pictures() -> None:
    """Let a random part of a picture be all of it."""
    from torchvision import transforms

    def full_box(picture: Any, scale: Any, ratio: Any) -> tuple[int, int, int, int]:
        return 0, 0, picture.height, picture.width

    transforms.RandomResizedCrop.get_params = staticmethod(full_box)


def take_step(model: nn.Module, compute: Callable[[], dict[str, Tensor]], pictures: Tensor, tokens: Tensor) -> Step:
    """Return the batch, the terms of a loss, and the slopes of all parameters."""
    terms = compute()
    total = torch.stack(list(terms.values())).sum()
    total.backward()
    slopes = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    values = {name: value.detach() for name, value in terms.items()}
    return {"pictures": pictures, "tokens": tokens, "terms": values, "total": total.detach(), "slopes": slopes}


def use_float64(model: nn.Module) -> nn.Module:
    """Compute in float64 from here on, where a program says float32 too."""
    torch.set_default_dtype(torch.float64)
    torch.Tensor.float = torch.Tensor.double  # type: ignore[method-assign]
    return model.double().train()


def load(model: nn.Module, state: dict[str, Tensor]) -> nn.Module:
    """Fill a program's model with our weights, every one of them."""
    model_state = model.state_dict()
    differ = set(model_state) ^ set(state)
    if differ:
        raise SystemExit(f"weights of other names: {sorted(differ)[:6]}")
    model.load_state_dict({name: value.to(model_state[name]) for name, value in state.items()})
    return model


def towers_of(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights of the two towers, without those of our head and teacher."""
    return {name: value for name, value in state.items() if not name.startswith(("heads.", "teacher."))}


def head_of(state: dict[str, Tensor], prefix: str = "heads.") -> dict[str, Tensor]:
    """Return the weights of our head, or teacher, by their names in it."""
    return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}


def rename(tensors: dict[str, Tensor], names: dict[str, str]) -> dict[str, Tensor]:
    """Return tensors by other names: the first beginning of a name that is a key gives way to its value."""
    old_of = {name: next((old for old in names if name.startswith(old)), "") for name in tensors}
    return {names.get(old_of[name], "") + name.removeprefix(old_of[name]): value for name, value in tensors.items()}


def open_package(name: str, folder: Path) -> ModuleType:
    """Let the modules of a package be imported without what the package itself imports."""
    sys.modules[name] = package = ModuleType(name)
    package.__path__ = [str(folder)]
    return package


def build_tokenizer(**options: Any) -> Any:
    """Return transformers' tokenizer of OpenAI's CLIP, made of open_clip's list of words."""
    import transformers
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    file = distribution("open_clip_torch").locate_file("open_clip/bpe_simple_vocab_16e6.txt.gz")
    lines = gzip.decompress(Path(str(file)).read_bytes()).decode().split("\n")[1 : 49152 - 256 - 2 + 1]
    merges = [tuple(line.split()) for line in lines]
    letters = list(bytes_to_unicode().values())
    words = [*letters, *(f"{letter}</w>" for letter in letters), *("".join(pair) for pair in merges)]
    words += ["<|startoftext|>", "<|endoftext|>"]
    vocabulary = {word: number for number, word in enumerate(words)}
    return transformers.CLIPTokenizer(vocabulary, merges, **options)  # type: ignore[arg-type]


def main(method: str, folder: str, inputs_path: str, output: str) -> None:
    """Run one step and write it."""
    sys.modules["step_programs"] = sys.modules["__main__"]
    sys.path[:1] = [str(Path(folder) / "src"), folder]
    if (Path(folder) / "src").is_dir():
        os.chdir(Path(folder) / "src")  # from where TSVLC reads its vocabulary
    replace_absent(*ABSENT)
    show_whole_pictures()
    random.seed(0)
    torch.manual_seed(0)
    run = runpy.run_path(str(Path(__file__).with_name("steps") / f"{method}_program.py"))["run"]
    torch.save(run(Path(folder), torch.load(inputs_path, weights_only=False)), output)


if __name__ == "__main__":
    main(*sys.argv[1:])
