"""LoRA adapters (Hu et al., 2022) in both towers of an open_clip model; the only importer of peft, which takes seconds.

FSC-CLIP and TSVLC: rank 4, alpha 1, on attention, MLP and the patch convolution; the logit scale stays frozen.
Departures from their code: every update starts at zero (theirs draws both factors of the attention's input projection
at random, so that step 0 is not the pretrained model). The convolution's has rank `rank`, and with
`patch: matrix` theirs, `rank` times its side (model/patch_lora.py): PEFT knows no such factors and cannot open them.

PEFT's own layer for nn.MultiheadAttention (0.21) adds its update to the weights and takes it off again in every forward
pass: that moves frozen weights by rounding, breaks with two threads, and adds the output projection's twice. So the
attention of an adapted model calls two nn.Linear instead, and is an nn.MultiheadAttention again after the merge.

B batch, L length, W width, H heads.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import save
from torch import Tensor, nn
from torch.nn import functional as F

from compclip.base.errors import UserError, one_line
from compclip.base.files import read_json, write_atomic, write_json
from compclip.model import patch_lora
from compclip.model import weights as weights_files
from compclip.model.patch_lora import MatrixConv

if TYPE_CHECKING:
    from compclip.config.sections import Lora

FOLDER = "adapter"  # in a run's checkpoint, with the names that PEFT gives its files
WEIGHTS, CONFIG = "adapter_model.safetensors", "adapter_config.json"
NAME = "default"
# What each target means by module name, in open_clip's own towers and in timm's.
MODULES = {
    "attention": r"\.attn\.(in_proj|out_proj|qkv|q_proj|k_proj|v_proj|proj)|\.attn_pool\.(q|kv|proj)",
    "mlp": r"\.mlp\.(c_fc|c_proj|fc1|fc1_g|fc1_x|fc2)",
    "patch": r"visual\.(conv1|trunk\.patch_embed\.proj)",
}
LAYERS = (nn.Linear, nn.Conv2d)
LARGEST_RANK, LARGEST_ALPHA = 4096, 1e6
# What makes an adapter another sum than ours, by PEFT's names.
OTHER_SUMS = ("use_rslora", "use_dora", "use_qalora", "lora_bias", "bias", "rank_pattern", "alpha_pattern",
              "modules_to_save", "trainable_token_indices", "layer_replication", "fan_in_fan_out")  # fmt: skip
_FACTOR = re.compile(r"([\w.]+)\.lora_([AB])\.weight")
_SELF_ATTENTION = re.compile(r"resblocks\.\d+\.attn$")


class Attention(nn.Module):
    """Self-attention with an nn.MultiheadAttention's own parameters, whose two projections are called as modules."""

    def __init__(self, source: nn.MultiheadAttention) -> None:
        super().__init__()
        self.num_heads, self.batch_first = source.num_heads, source.batch_first
        self.in_proj = _linear(source.in_proj_weight, source.in_proj_bias)
        self.out_proj = _linear(source.out_proj.weight, source.out_proj.bias)

    def forward(
        self, query: Tensor, _key: Tensor, _value: Tensor, need_weights: bool = False, attn_mask: Tensor | None = None
    ) -> tuple[Tensor, None]:
        """As nn.MultiheadAttention with query, key and value the same; there are no weights to give."""
        x_BLW = query if self.batch_first else query.transpose(0, 1)
        qkv_3BHLW = self.in_proj(x_BLW).unflatten(-1, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
        mask = attn_mask if attn_mask is None or attn_mask.ndim == 2 else attn_mask.unflatten(0, (-1, self.num_heads))
        y_BLW = F.scaled_dot_product_attention(*qkv_3BHLW.unbind(), attn_mask=mask).transpose(1, 2).flatten(2)
        y_BLW = self.out_proj(y_BLW)
        return (y_BLW if self.batch_first else y_BLW.transpose(0, 1)), None

    def restored(self) -> nn.MultiheadAttention:
        """The same parameters in an nn.MultiheadAttention."""
        width, bias = self.out_proj.in_features, self.in_proj.bias is not None
        made = nn.MultiheadAttention(width, self.num_heads, bias=bias, batch_first=self.batch_first, device="meta")
        made.in_proj_weight, made.in_proj_bias = self.in_proj.weight, self.in_proj.bias
        made.out_proj.weight, made.out_proj.bias = self.out_proj.weight, self.out_proj.bias
        return made.train(self.training)


def _linear(weight: nn.Parameter, bias: nn.Parameter | None) -> nn.Linear:
    made = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, device="meta")
    made.weight, made.bias = weight, bias
    return made


def inject(clip: nn.Module, cfg: Lora, towers: tuple[str, ...], seed: int = 0) -> None:
    """Add an adapter to the named towers ("image", "text") in place; as long as it is untrained, outputs are as before.

    Raises UserError where a target fits nothing in a tower, or an attention that cannot be adapted.
    """
    names = _targets(clip, cfg.targets, towers)
    _adapt(clip, cfg.rank, cfg.alpha, names, _patches(clip, names) if cfg.patch == "matrix" else [])
    generator = torch.Generator().manual_seed(seed)
    for name, factor in adapter(clip).items():
        if ".lora_A." in name:  # as nn.Linear's own start: uniform within 1 / sqrt(fan in)
            drawn = torch.rand(factor.shape, generator=generator) * 2 - 1
            factor.data.copy_(drawn / factor[0].numel() ** 0.5)


def _adapt(clip: nn.Module, rank: int, alpha: float, names: list[str], matrices: list[str]) -> None:
    """Adapt the modules `names`; those that are `matrices` as one, and not by PEFT."""
    import peft

    pattern = "|".join(map(re.escape, sorted(set(names) - set(matrices))))
    _replace_all(clip, lambda name, m: _adaptable(name, m, pattern), Attention)
    made = peft.LoraConfig(r=rank, lora_alpha=alpha, target_modules=pattern)
    with torch.random.fork_rng():  # PEFT draws from the global generator
        if pattern:
            peft.inject_adapter_in_model(made, clip, NAME)
        _replace_all(clip, lambda name, _: name in matrices, lambda m: MatrixConv(m, rank, alpha).to(m.weight.device))
    clip.peft_config = {NAME: made}


def _patches(clip: nn.Module, names: list[str]) -> list[str]:
    """Of the modules to adapt the patch convolutions. Raises UserError for one that has another form."""
    found = [name for name in names if re.search(f"({MODULES['patch']})$", name)]
    for name in found:
        patch_lora.check(name, clip.get_submodule(name))
    return found


def _adaptable(name: str, module: nn.Module, pattern: str) -> bool:
    return isinstance(module, nn.MultiheadAttention) and bool(re.fullmatch(pattern, f"{name}.in_proj"))


def _targets(clip: nn.Module, wanted: list[str], towers: tuple[str, ...]) -> list[str]:
    """The modules to adapt, by name."""
    found = []
    for tower in towers:
        own = {n: m for n, m in clip.named_modules() if _in_tower(n, tower)}
        for target in wanted if tower == "image" else [t for t in wanted if t != "patch"]:
            names = _projections(own) if target == "attention" else [n for n, m in own.items() if isinstance(m, LAYERS)]
            fitting = [n for n in names if re.search(f"({MODULES[target]})$", n)]
            if not fitting:
                raise UserError(
                    f"train.lora.targets: {target!r} fits nothing in the {tower} tower of this backbone; "
                    "remove it, or train without lora"
                )
            found += fitting
    if not found:
        raise UserError(
            "train.lora: nothing to adapt; name a tower in train.trainable and a target in train.lora.targets"
        )
    return found


def _in_tower(name: str, tower: str) -> bool:
    """CoCa's decoder is no part of what gives the embeddings."""
    return name.startswith("visual.") == (tower == "image") and not name.startswith("text_decoder.")


def _projections(modules: dict[str, nn.Module]) -> list[str]:
    """Linear layers, and the two that self-attention will have. Raises UserError for attention of another kind."""
    found = []
    for name, module in modules.items():
        plain = type(module) is nn.MultiheadAttention and module.dropout == 0 and module.bias_k is None
        if plain and _SELF_ATTENTION.search(name):
            found += [f"{name}.in_proj", f"{name}.out_proj"]
        elif hasattr(module, "in_proj_weight") or getattr(module, "q_bias", None) is not None:
            # timm's EVA with a bias beside its weights reads these past whatever stands in the layer's place
            raise UserError(
                f"train.lora.targets: {name} is attention that cannot be adapted "
                f"({type(module).__name__}); remove 'attention'"
            )
        elif isinstance(module, nn.Linear) and name not in found:
            found.append(name)
    return found


def adapter(clip: nn.Module) -> dict[str, nn.Parameter]:
    """The adapter's own parameters by name; empty for a plain model."""
    return {name: p for name, p in clip.named_parameters() if ".lora_A." in name or ".lora_B." in name}


def finish(clip: nn.Module, folder: str | Path) -> None:
    """Write the adapter's weights and config to `folder`, then merge it; nothing for a model without one."""
    factors = adapter(clip)
    if not factors:
        return
    config = clip.peft_config[NAME].to_dict()
    plain = {k: sorted(v) if isinstance(v, set) else v for k, v in config.items()}
    tensors = {name.replace(f".{NAME}.", "."): p.detach().contiguous() for name, p in factors.items()}
    write_json(Path(folder) / CONFIG, plain)
    write_atomic(Path(folder) / WEIGHTS, save(tensors))
    merge(clip)


def merge(clip: nn.Module, scale: float = 1.0) -> None:
    """Add `scale` times the adapter to the weights in place and remove it: a plain open_clip model again."""
    from peft.tuners.lora import LoraLayer

    def merged(layer: Any) -> nn.Module:
        layer.set_scale(NAME, scale)
        layer.merge(safe_merge=True)
        return layer.get_base_layer()

    _replace_all(clip, lambda _, m: isinstance(m, LoraLayer), merged)
    _replace_all(clip, lambda _, m: isinstance(m, MatrixConv), lambda m: m.merged(scale))
    _replace_all(clip, lambda _, m: isinstance(m, Attention), Attention.restored)
    del clip.peft_config


def load(clip: nn.Module, folder: str | Path) -> None:
    """Add a saved adapter to the model that it was trained on. Raises UserError where it fits another."""
    folder = Path(folder)
    rank, alpha = _settings(folder / CONFIG)
    saved = weights_files.read(folder / WEIGHTS)
    names = _adapted(saved, folder)
    matrices = [name for name in names if _is_matrix(clip, saved, name)]
    _check_ranks(saved, rank, matrices, folder)
    try:
        _adapt(clip, rank, alpha, names, matrices)
    except (KeyError, ValueError, RuntimeError) as error:
        why = f"{folder}: not an adapter of this model: {one_line(str(error))[:160]}"
        raise UserError(f"{why}; give the backbone that it was trained on") from error
    own = {name.replace(f".{NAME}.", "."): factor for name, factor in adapter(clip).items()}
    if foreign := sorted(set(saved) - set(own)):
        raise UserError(
            f"{folder}: an adapter of another model: {foreign[0]!r} has no place here; "
            "give the backbone that it was trained on"
        )
    with torch.no_grad():
        for name, factor in own.items():
            factor.copy_(_fitting(saved, name, factor, folder))


def _settings(path: Path) -> tuple[int, float]:
    """Rank and alpha. Raises UserError for an adapter whose sum is another than W + alpha / rank B A."""
    config = read_json(path)
    found = config if isinstance(config, dict) else {}
    rank, alpha = found.get("r"), found.get("lora_alpha")
    if type(rank) is not int or not 1 <= rank <= LARGEST_RANK:
        raise UserError(f"{path}: r={str(rank)[:40]}: must be a whole number from 1 to {LARGEST_RANK}")
    if type(alpha) not in (int, float) or not 0 < alpha <= LARGEST_ALPHA:
        raise UserError(f"{path}: lora_alpha={str(alpha)[:40]}: must be a number above 0, at most {LARGEST_ALPHA:g}")
    if other := [key for key in OTHER_SUMS if found.get(key) not in (None, False, "none", {}, [])]:
        raise UserError(f"{path}: {other[0]}: adapters with it are not supported; give the merged checkpoint instead")
    return rank, alpha


def _adapted(saved: dict[str, Tensor], folder: Path) -> list[str]:
    """The modules that an adapter has factors for; what its config names is a pattern of whoever wrote it."""
    for name in saved:
        if not _FACTOR.fullmatch(name):
            raise UserError(f"{folder}: {name[:120]!r} is no factor of an adapter; give a folder that PEFT wrote")
    if not saved:
        raise UserError(f"{folder}: holds no factors of an adapter; fetch the folder again")
    return sorted({name.partition(".lora_")[0] for name in saved})


def _is_matrix(clip: nn.Module, saved: dict[str, Tensor], name: str) -> bool:
    """Whether the factors of a convolution are those of one matrix."""
    first, module = saved.get(f"{name}.lora_A.weight"), dict(clip.named_modules()).get(name)
    if first is None or first.ndim != 2 or not isinstance(module, nn.Conv2d):
        return False
    patch_lora.check(name, module)
    return True


def _check_ranks(saved: dict[str, Tensor], rank: int, matrices: list[str], folder: Path) -> None:
    for name, factor in saved.items():
        place = _FACTOR.fullmatch(name)
        matrix = place is not None and place[1] in matrices  # _fitting looks at its shape
        if not matrix and (factor.ndim < 2 or factor.shape[0 if ".lora_A." in name else 1] != rank):
            raise UserError(f"{folder}: {name!r} is {list(factor.shape)}, not of rank {rank}; fetch the folder again")


def _fitting(saved: dict[str, Tensor], name: str, factor: Tensor, folder: Path) -> Tensor:
    found = saved.get(name)
    if found is None or found.shape != factor.shape:
        has = "lacks it" if found is None else f"has {list(found.shape)}"
        raise UserError(
            f"{folder}: not an adapter of this model: {name!r} is {list(factor.shape)} here, and it {has}; "
            "give the backbone that it was trained on"
        )
    weights_files.check_numbers(found, factor, f"{folder}: {name!r}")
    return found


def _replace_all(clip: nn.Module, chosen: Any, made: Any) -> None:
    for name, module in list(clip.named_modules()):
        if chosen(name, module):
            parent, _, child = name.rpartition(".")
            setattr(clip.get_submodule(parent), child, made(module))
