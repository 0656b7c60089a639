"""Weights as files: what a hub has, what a file holds, and which activation it was trained with.

A file holds a state dict, which is found in what its trainer saved, with adapters beside the weights or
without, or is the TorchScript archive in which OpenAI published its own. A folder is open_clip's or transformers'.
"""

from __future__ import annotations

import functools
import io
import math
import pickle
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor

from compclip.base import messages
from compclip.base.errors import UserError, report_failure, unknown
from compclip.model import hub_cache, model_config, pickle_bounds, transformers_files, weight_archives
from compclip.model.clip_model import CONFIG, GELU, QUICK, ClipModule, activation_name, describe_difference

# Names of the weights of a folder in open_clip's format, best first.
NAMES = ("open_clip_model.safetensors", "open_clip_pytorch_model.safetensors", "open_clip_pytorch_model.bin")
# Names of buffers that models compute themselves, and of the sizes in OpenAI's archives.
BUFFERS = ("attn_mask", "position_ids", "input_resolution", "context_length", "vocab_size")
LAYOUT = "give a file of tensors by name, as state_dict() has them"
UNREADABLE = "not a readable weights file"
ANEW = "fetch it again"
POINTER = b"version https://git-lfs.github.com/spec/"
OLDER_PICKLES = 4  # behind the number with which torch.save's files began before 1.6
LARGEST_SCALE = 20.0  # of logit_scale, a logarithm: 4.6 in CLIP, 6.9 in FDT; e to the power of 89 is infinite
MAX_SHARING = 4  # times that tensors may stand on the same bytes, in total
POSITIONS = "visual.positional_embedding"
DOWN_FACTOR = "lora_A"
UP_FACTOR = "lora_B"
_CORE = re.compile(r"^numpy\._core\b")  # as numpy 2 names it
_PLAIN = {
    "collections.OrderedDict", "numpy.ndarray", "numpy.dtype", "numpy.core.multiarray._reconstruct",
    "numpy.core.multiarray.scalar", "numpy.core.numeric._frombuffer",
    "torch._utils._rebuild_tensor_v2", "torch._utils._rebuild_parameter",
}  # fmt: skip
_PEFT_FACTOR = re.compile(r"^(.*\.lora_[AB])(?:\.\w+)?\.weight\Z")


def find_layout(path: Path) -> str:
    """Return the layout of weights at a path: a folder of open_clip or transformers, one of two towers, or a file."""
    if (path / CONFIG).is_file():
        return "open_clip"
    if transformers_files.is_folder(path):
        return "transformers" if (path / transformers_files.CONFIG).is_file() else "towers"
    return "file"


def read_weights(path: Path, alpha: float = 1.0, choice: str = "") -> dict[str, Tensor]:
    """Return tensors by open_clip's names, floats as float32, adapters of `alpha` merged; no code of a file is run.

    `choice`: which model of a file that has several. Raises UserError for a file that cannot be read, holds something
    else, or would grow beyond its size.
    """
    state = read_tensors(path, choice)
    if any(name.startswith(("vision_model.", "text_model.")) for name in state):
        state = transformers_files.rename_tensors(state)
    return merge_loralib(state, alpha, path)


def read_tensors(path: Path, choice: str = "") -> dict[str, Tensor]:
    """Return the tensors of a file's model, or of a folder of transformers, by the names that they have in it."""
    is_folder = transformers_files.is_folder(path)
    weight_paths = transformers_files.find_files(path) if is_folder else transformers_files.list_parts(path)
    select = functools.partial(select_model, path=path, choice=choice)
    if len(weight_paths) == 1:
        return _read_file(weight_paths[0], select)
    state: dict[str, Tensor] = {}
    for weight_path in weight_paths:
        state |= _read_file(weight_path, lambda content: content)  # one may have no name of a model
    return select(state)


def _read_file(path: Path, select: Callable[[Any], Any]) -> dict[str, Tensor]:
    """Return the tensors of the part of a file that `select` takes."""
    if not path.is_file():
        raise UserError(f"{path}: no such weights file; give an existing one")
    foreign = f"{path}: {UNREADABLE}: damaged, or with objects of its authors' code, which is not run here"
    advice = f"{ANEW}, or where you trust it save its state_dict alone"
    with report_failure(f"{path}: {UNREADABLE}", ANEW), report_failure(foreign, advice, pickle.UnpicklingError):
        state = _read_content(path, select)  # pickle, zip and safetensors errors share no base
    fault = _find_fault(state, MAX_SHARING * path.stat().st_size)
    if fault:
        raise UserError(f"{path}: {fault}")
    return {k: v.float() if v.is_floating_point() else v for k, v in state.items()}


def _read_content(path: Path, select: Callable[[Any], Any]) -> Any:
    """Return what `select` takes of a file, whose kind is known by its content and not by its name."""
    if _read_start(path).startswith(POINTER):
        raise UserError(f"{path}: is a Git LFS pointer, not the weights; fetch them with `git lfs pull`")
    if _is_safetensors(path):
        return select(load_file(path))
    if _is_archive(path):
        return select(weight_archives.read_archive(path))
    is_zip = zipfile.is_zipfile(path)
    if is_zip:
        with zipfile.ZipFile(path) as file:
            members = file.infolist()
            objects = [io.BytesIO(file.read(info)) for info in members if _holds_objects(info)]
        has_arrays = bool(members) and all(info.filename.endswith(".npy") for info in members)
        growth = MAX_SHARING if has_arrays else 1  # torch compresses nothing, numpy may, a bomb does
        if sum(info.file_size for info in members) > growth * path.stat().st_size:
            raise weight_archives.UnsafePickle("its parts together are larger than the file")
        if has_arrays:
            with np.load(path, allow_pickle=False) as arrays:  # those of objects are pickles, and raise ValueError
                return select({name: torch.from_numpy(array) for name, array in arrays.items()})
        for pickled in objects:
            pickle_bounds.check_instructions(pickled, path.stat().st_size)
    else:
        with path.open("rb") as stream:
            pickle_bounds.check_instructions(stream, path.stat().st_size)
            stream.seek(0)
            content = _PlainUnpickler(stream).load()  # torch.save's older files begin with a number
            for _ in range(OLDER_PICKLES if isinstance(content, int) else 0):
                pickle_bounds.check_instructions(stream, path.stat().st_size)
        if isinstance(content, dict):
            state = select(content)
            for name, value in state.items():
                state[name] = torch.as_tensor(value) if isinstance(value, np.ndarray) else value
            return state
    try:
        with path.open("rb") as stream:  # by a path, torch goes by the name
            return select(torch.load(stream, "cpu", weights_only=True))
    except pickle.UnpicklingError:  # objects beside the tensors: settings, an optimiser, a number of numpy's
        if not is_zip:
            raise pickle.UnpicklingError("holds objects of other classes than tensors") from None
        return weight_archives.read_saved(path, select)


def _holds_objects(member: zipfile.ZipInfo) -> bool:
    """Return whether a member of torch's archive is its pickle, of no more than the archive may hold."""
    return member.filename.endswith("/data.pkl") and member.file_size <= weight_archives.SPARE_BYTES


class _PlainUnpickler(pickle.Unpickler):
    """Reads tensors and arrays of numpy's in plain containers; any other class or function is refused unimported."""

    def find_class(self, module: str, name: str) -> Any:
        """Return what makes a tensor or an array. Raises UnpicklingError for anything else."""
        if (module, name) == ("torch.storage", "_load_from_bytes"):  # which would run what the bytes hold
            return lambda data: torch.load(io.BytesIO(data), "cpu", weights_only=True)
        if f"{_CORE.sub('numpy.core', module)}.{name}" not in _PLAIN:
            raise pickle.UnpicklingError(f"{module}.{name} is not run")
        return super().find_class(module, name)


def _read_start(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(len(POINTER))


def _is_safetensors(path: Path) -> bool:
    """Return whether a file begins with a length and a header in JSON, as safetensors does."""
    if not path.is_file():
        return False
    start = _read_start(path)
    return start[8:9] == b"{" and int.from_bytes(start[:8], "little") < path.stat().st_size


def _find_fault(state: Any, room: int) -> str:
    """Return why a file's content is no plain tensors by name of at most `room` bytes; "" where it is."""
    if not isinstance(state, dict):
        return f"holds a {type(state).__name__}, not tensors by name; {LAYOUT}"
    for name, tensor in state.items():
        if not isinstance(name, str):
            return f"names something by a {type(name).__name__}, not by a text; {LAYOUT}"
        if not isinstance(tensor, Tensor):
            kind = tensor.kind[:80] if isinstance(tensor, weight_archives.InertObject) else type(tensor).__name__
            return f"{name[:80]!r} is a {kind}, not a tensor; {LAYOUT}"
        if tensor.layout != torch.strided or tensor.device.type != "cpu" or tensor.is_quantized:
            return f"{name[:80]!r} is no plain tensor; save it dense, on the CPU, not quantized"
        room -= tensor.nbytes
    return "" if room >= 0 else f"its tensors are larger than the file; {ANEW}"


def fill_weights(clip: ClipModule, state: dict[str, Tensor], path: Path) -> None:
    """Load weights strictly, in place.

    Raises UserError naming the tensor for those of another architecture, those that are no numbers to compute with, and
    a scale beyond `LARGEST_SCALE`.
    """
    import open_clip

    expected = clip.state_dict()
    buffers = [name for name in state if name not in expected and name.endswith(BUFFERS)]
    state = dict(state)
    for name in buffers:
        del state[name]
    if buffers:
        messages.note(f"{path}: left out {name_few(buffers)}, which the model computes itself")
    for name in ("logit_scale", "logit_bias"):  # some files have them as vectors of one
        if name in state and name in expected and state[name].numel() == 1:
            state[name] = state[name].reshape(expected[name].shape)
    resizing = describe_resizing(clip, state)
    if resizing:
        open_clip.model.resize_pos_embed(state, clip)
        messages.note(f"{path}: of pictures of another size: positions resized, {resizing}")
    fault = "a checkpoint of another architecture"
    check_state(state, expected, str(path), fault, "give the model it was trained with")
    scale = state["logit_scale"].item()
    if abs(scale) > LARGEST_SCALE:
        advice = f"write its logarithm (100 is {math.log(100):.4f}), or give another checkpoint"
        raise UserError(f"{path}: 'logit_scale': is {scale:g}, and scores are multiplied by e to its power; {advice}")
    clip.load_state_dict(state)


def describe_resizing(clip: ClipModule, state: Mapping[str, Tensor]) -> str:
    """Return between which grids of patches the positions of a square picture must be resized; nothing where none."""
    theirs = state.get(POSITIONS)
    ours = clip.state_dict().get(POSITIONS)
    if theirs is None or ours is None or theirs.ndim != 2 or theirs.shape[1] != ours.shape[1]:
        return ""
    side = math.isqrt(max(0, len(theirs) - 1))
    grid = clip.visual.grid_size
    if len(theirs) == len(ours) or side < 1 or side**2 + 1 != len(theirs) or math.prod(grid) + 1 != len(ours):
        return ""
    return f"{side} x {side} to {grid[0]} x {grid[1]}"


def check_state(state: Mapping[str, Tensor], expected: Mapping[str, Tensor], source: str, fault: str, fix: str) -> None:
    """Raise UserError for tensors of other names or shapes, saying `fault` and `fix`; for another kind of number
    than the model's, and for those that are none.
    """
    difference = describe_difference(state, expected)
    if difference:
        raise UserError(f"{source}: {fault}: {difference}; {fix}")
    for name, tensor in state.items():
        kind = "floats" if expected[name].is_floating_point() else "whole numbers"
        if (kind == "floats") != tensor.is_floating_point() or tensor.is_complex():
            dtype = str(tensor.dtype).removeprefix("torch.")
            raise UserError(f"{source}: {name!r}: holds {dtype}, not {kind}; convert the file")
        if not torch.isfinite(tensor.sum()) and not torch.isfinite(tensor).all():  # the sum alone is read in one pass
            advice = "the training diverged, give another checkpoint"
            raise UserError(f"{source}: {name!r}: holds NaN or infinite weights; {advice}")


def _is_archive(path: Path) -> bool:
    """Return whether a file is TorchScript, as OpenAI's are."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as file:
        return any(name.endswith("/constants.pkl") for name in file.namelist())


def _recorded_activation(path: Path) -> tuple[str, str]:
    """Return the activation that a file was trained with and what says so; empty where nothing does."""
    if _is_safetensors(path):
        with report_failure(f"{path}: {UNREADABLE}", ANEW), safe_open(path, "pt") as file:
            activation = (file.metadata() or {}).get("activation")
        if activation:
            return activation, "its own header"
    if transformers_files.is_folder(path):
        activation = transformers_files.read_activation(path)
        return activation, transformers_files.CONFIG if activation else ""
    config = path.parent / CONFIG
    if path.name.removesuffix(transformers_files.INDEX) in NAMES and config.is_file():
        return activation_name(model_config.read_config(config)["model_cfg"]), str(config)
    return (QUICK, "OpenAI's archive") if path.is_file() and _is_archive(path) else ("", "")


def check_activation_name(activation: str) -> None:
    """Raise UserError for an unknown activation; "" is fine."""
    if activation and activation not in (GELU, QUICK):
        raise unknown("activation", activation, (GELU, QUICK), "activation")


def check_activation(path: Path, name: str, model_cfg: dict, stated: str = "") -> None:
    """Raise UserError where a file was trained with another activation than the model computes, or does not say.

    With the wrong one every tensor fits and every embedding is off. A name that open_clip has with and without
    -quickgelu does not tell by itself that the plain one was meant.
    """
    import open_clip

    check_activation_name(stated)
    recorded, source = _recorded_activation(path)
    models = open_clip.list_models()
    twin = f"{name}-quickgelu"
    computed = activation_name(model_cfg)
    for trained, says in ((recorded, source), (stated, "activation")):
        if trained not in ("", computed):
            model = twin if trained == QUICK else name.removesuffix("-quickgelu")
            advice = f"give model {model}" if model in models else "give the config that it was trained with"
            raise UserError(f"{path}: trained with {trained} (says {says}), model {name} computes {computed}; {advice}")
    if not recorded and not stated and twin in models:
        raise UserError(
            f"{path}: does not say with which activation it was trained; give model {twin} for OpenAI's "
            f"weights and what was tuned from them, or activation: {GELU} (LAION-2B, DataComp)"
        )


def fetch_tag(name: str, tag: str, model_cfg: dict) -> dict:
    """Have the weights of a tag in the hub's cache; gives how their pictures are prepared.

    Raises UserError for an unknown tag, another activation, and a missing file, with the place to put it.
    """
    import open_clip

    tags = open_clip.list_pretrained_tags_by_model(name)
    if tag not in tags:
        raise unknown("weights", tag, tags, f"model {name}")
    cfg = open_clip.pretrained.get_pretrained_cfg(name, tag)
    if cfg.get("quick_gelu", False) and activation_name(model_cfg) != QUICK:
        raise UserError(f"model {name} with weights {tag!r}: trained with QuickGELU; use {name}-quickgelu")
    failure = report_failure(f"{name}::{tag}: cannot fetch the weights", _download_advice(cfg), OSError, RuntimeError)
    with failure, hub_cache.reachable_or_offline():
        open_clip.pretrained.download_pretrained(cfg)
    return select_preprocessing(cfg)


def select_preprocessing(cfg: dict) -> dict:
    """Return how the pictures of a tag's weights are prepared."""
    return {k: cfg[k] for k in ("mean", "std", "interpolation", "resize_mode", "fill_color") if k in cfg}


def default_preprocessing(name: str) -> dict:
    """Return how pictures are prepared for an architecture's first known weights; empty where it has none.

    Random weights and files by path say nothing of it: SigLIP squashes to the square and scales to [-1, 1].
    """
    import open_clip

    tags = open_clip.list_pretrained_tags_by_model(name)
    return select_preprocessing(open_clip.pretrained.get_pretrained_cfg(name, tags[0])) if tags else {}


def fetch_repository(repository: str, weights: bool = True) -> Path:
    """Return the folder of a hub's repository in open_clip's format, from the cache or fetched.

    Without `weights` it has the config alone.
    """
    import open_clip

    advice = _download_advice({"hf_hub": f"{repository}/"})
    failure = report_failure(f"hf-hub:{repository}: cannot fetch it", advice, OSError, ValueError, RuntimeError)
    with failure, hub_cache.reachable_or_offline():
        config = Path(open_clip.pretrained.download_pretrained_from_hf(repository, filename=CONFIG))
        if weights:
            open_clip.pretrained.download_pretrained_from_hf(repository)
    return config.parent


def _download_advice(cfg: dict) -> str:
    """Return which file of which address to download to which folder."""
    repository, _, file = cfg.get("hf_hub", "").rpartition("/")
    if not repository:
        file = Path(cfg["url"]).name
        return f"download {cfg['url']} to {Path.home() / '.cache' / 'clip' / file}, or give its path as weights"
    file = file or NAMES[0]
    return (
        f"download {file}, {CONFIG} and, if there is one, the tokenizer of {hub_cache.page_address(repository)} into "
        f"a folder and give it as weights, or fill the cache: {hub_cache.cache_path(repository, file)}"
    )


def find_weights(folder: Path) -> Path:
    """Return the weights file of a folder in open_clip's format, or its index. Raises UserError where there is none."""
    return transformers_files.find_file(folder, NAMES, f"has {CONFIG} but no weights")


# --- adapters inside a file -----------------------------------------------------------------------------------


def merge_loralib(state: dict[str, Tensor], alpha: float, path: Path) -> dict[str, Tensor]:
    """Add the low-rank factors that a file holds to its weights, as FSC-CLIP, SVLC and DAC released theirs.

    loralib's names: `X.lora_A` and `X.lora_B` belong to `X.weight`, `X.in_proj_weight_lora_A` to `X.in_proj_weight`;
    PEFT's: `X.lora_A.NAME.weight` to `X.weight` or, of attention, `X.in_proj_weight`.
    Training computes with W + alpha / r (B A). r is read from the factors (of a convolution [r k, in k] and
    [out k, r k], k its side); alpha is in no file, and is 1 in the three. Raises UserError for factors that belong
    to no weight, or do not fit it.
    """
    weights: dict[str, Tensor] = {}
    factors: dict[str, Tensor] = {}
    for file_name, tensor in state.items():
        name = _PEFT_FACTOR.sub(r"\1", file_name)  # a factor of PEFT's by loralib's name
        section = factors if name.endswith((DOWN_FACTOR, UP_FACTOR)) else weights
        if name in section:
            raise UserError(f"{path}: has several adapters of one weight; merge what is meant, and save it again")
        section[name] = tensor
    for name in sorted(factors):
        base = name.removesuffix(DOWN_FACTOR).removesuffix(UP_FACTOR)
        down = factors.get(base + DOWN_FACTOR)
        up = factors.get(base + UP_FACTOR)
        weight = base.removesuffix("_") if base.endswith("_") else f"{base}weight"
        if weight not in weights and f"{base}in_proj_weight" in weights:
            weight = f"{base}in_proj_weight"
        update = None
        if down is None or up is None:
            fault = "a factor of an adapter without its other; fetch the file again"
        elif name.endswith(UP_FACTOR):
            continue  # with its other
        elif weight not in weights:
            fault = f"adapts {weight[:120]!r}, which the file lacks"
        else:
            update = _multiply_factors(down, up, weights[weight], alpha)
            shapes = f"{list(down.shape)} and {list(up.shape)}"
            fault = f"factors {shapes} are none of a weight {list(weights[weight].shape)}"
        if update is None:
            raise UserError(f"{path}: {name[:120]!r}: {fault}")
        weights[weight] = weights[weight] + update
    if factors:
        count = len(factors) // 2
        messages.note(f"{path}: {count} adapters merged with alpha {alpha:g} (released's lora_alpha gives another)")
    return weights


def _multiply_factors(down: Tensor, up: Tensor, weight: Tensor, alpha: float) -> Tensor | None:
    """Return the update of a weight, or None where the factors do not fit it."""
    shape = weight.shape
    if down.ndim == up.ndim == weight.ndim == 4 and up.shape[2:] == (1, 1):  # PEFT's, of a convolution
        down = down.flatten(1)
        up = up.flatten(1)
        weight = weight.flatten(1)
    side = weight.shape[-1] if weight.ndim == 4 else 1
    if not down.ndim == up.ndim == 2 <= weight.ndim or down.shape[0] != up.shape[1]:
        return None
    rank, remainder = divmod(down.shape[0], side)
    fits = down.shape[1] == weight.shape[1] * side and up.shape[0] * down.shape[1] == weight.numel()
    if rank < 1 or remainder or not fits:
        return None
    return (up @ down).view(shape) * (alpha / rank)


# --- weights of a model ---------------------------------------------------------------------------------------------
# Which tensors of a file are the model's: below keys, behind a wrapper's prefix, or beside a loss's or an average's.
#
# Every layout that is read here has a name of ROOTS. What is before it, keys and prefix, is the model's, whatever
# a trainer called it: `state_dict.module.` of open_clip's, `module.` of DeepSpeed's, `state_dict.net.` of
# Lightning's, `state_dict_ema.` of a moving average. Names of wrappers within a model are taken out.


ROOTS = re.compile(r"(|.*?\.)(?:visual|vision_model|text_model|logit_scale)(?:\.|$)")
WRAPPERS = re.compile(
    r"(?:^|(?<=\.))(?:_fsdp_wrapped_module|_checkpoint_wrapped_module|_forward_module|_orig_mod|base_layer)\."
)
AVERAGE = re.compile(r"(?:^|[._])(?:ema|swa|shadow|averaged?)(?:[._]|$)")
# of keys above a tensor's own; of mappings that are looked into
MAX_DEPTH = 4
MAX_SECTIONS = 1000
FEW = 3  # names in a note


@dataclass(frozen=True)
class Entry:
    """A value of a file: the keys above it, each with a dot behind, and its own name without those of wrappers."""

    section: str
    name: str
    value: Any

    @property
    def path(self) -> str:
        """The keys and the name."""
        return self.section + self.name


def select_model(content: Any, path: Path, choice: str = "") -> Any:
    """Return the entries of a file's model by their names in it; content without a model is returned as it is.

    `choice`: a word of the prefix of the model that is meant where a file holds several; without it, a moving average
    is read only where it stands alone. A note says what was taken off and left out. Raises UserError where not one
    model is meant.
    """
    entries = list(_walk(content, "", set()))
    prefixes = _find_prefixes(entries)
    if not prefixes and not choice:
        return content
    prefix = _choose_prefix(prefixes, path, choice)
    unread_prefixes = tuple(candidate for candidate in prefixes if candidate != prefix)
    nested_prefixes = tuple(candidate for candidate in unread_prefixes if candidate.startswith(prefix))
    state: dict[str, Any] = {}
    sections = set()
    for entry in entries:
        if entry.path.startswith(prefix) and not entry.path.startswith(nested_prefixes):
            name = entry.path.removeprefix(prefix)
            if name in state:
                raise UserError(
                    f"{path}: has a name twice, with a wrapper's and without; save the bare model's tensors"
                )
            state[name] = entry.value
            sections.add(entry.section)
    beside = []
    for entry in entries:
        if entry.section in sections and not entry.path.startswith((prefix, *unread_prefixes)):
            beside.append(entry.path)
    _tell_choice(path, prefix, unread_prefixes, beside)
    return state


def _walk(content: Any, section: str, visited: set[int]) -> Iterator[Entry]:
    """Yield what is in a mapping and in those below it; each of these is entered once."""
    if not isinstance(content, dict) or id(content) in visited or len(visited) > MAX_SECTIONS:
        return
    visited.add(id(content))
    for name, value in content.items():
        if isinstance(name, str) and isinstance(value, dict):
            yield from _walk(value, f"{section}{name}.", visited) if section.count(".") < MAX_DEPTH else ()
        elif isinstance(name, str):
            yield Entry(section, WRAPPERS.sub("", name), value)


def _find_prefixes(entries: Sequence[Entry]) -> list[str]:
    """Return the prefixes of a file's models; the scale that a loss has beside one is none."""
    counts: Counter[str] = Counter()
    for entry in entries:
        root = ROOTS.match(entry.name)
        if root:
            counts[entry.section + root[1]] += 1
    most = max(counts.values(), default=0)
    return [prefix for prefix, count in counts.items() if 2 * count >= most]


def _choose_prefix(prefixes: Sequence[str], path: Path, choice: str) -> str:
    """Return the one that a word stands in; without a word the bare one, or the only one that is no average's."""
    if choice:
        suitable = [prefix for prefix in prefixes if choice in prefix]
    elif "" in prefixes:
        suitable = [""]
    else:
        suitable = [prefix for prefix in prefixes if not AVERAGE.search(prefix)] or list(prefixes)
    if len(suitable) != 1:
        names = name_few(prefixes) or "no name of a model"
        fault = f"--weights {choice}: fits {len(suitable)} of its models" if choice else "holds several models"
        raise UserError(f"{path}: {fault}, below {names}; give --weights with a word that one of these has")
    return suitable[0]


def _tell_choice(path: Path, prefix: str, unread_prefixes: Sequence[str], beside: Sequence[str]) -> None:
    """Say which names were read, and what is beside them."""
    phrases = [f"weights below {prefix[:80]!r}"] if prefix else []
    phrases += [f"not those below {candidate[:80]!r} (--weights)" for candidate in unread_prefixes]
    if beside:
        phrases.append(f"without {name_few(beside)}")
    if phrases:
        messages.note(f"{path}: read {', '.join(phrases)}")


def name_few(names: Sequence[str]) -> str:
    """Return the first of some names, and how many there are."""
    remainder = f" and {len(names) - FEW} more" if len(names) > FEW else ""
    return ", ".join(repr(name[:80]) for name in names[:FEW]) + remainder
