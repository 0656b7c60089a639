"""LoRA adapters (Hu et al., 2022) in both towers of an open_clip model; the only importer of peft, which takes seconds.

FSC-CLIP and TSVLC: rank 4, alpha 1, on attention, MLP and the patch convolution; the logit scale stays frozen.
Departures from their code: every update starts at zero (theirs draws both factors of the attention's input projection
at random, so that step 0 is not the pretrained model). The convolution's has rank `rank`, and with
`patch: matrix` theirs, `rank` times its side (`MatrixConv`), which PEFT cannot open.

PEFT's own layer for nn.MultiheadAttention (0.21) adds its update to the weights and takes it off again in every forward
pass: that moves frozen weights by rounding, breaks with two threads, and adds the output projection's twice. So the
attention of an adapted model calls two nn.Linear instead, and is an nn.MultiheadAttention again after the merge.

B batch, L length, W width; of convolutions C and O channels in and out, K side of the kernel, H, W of the picture.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from compclip.base.errors import UserError, report_failure
from compclip.base.files import read_json, write_json
from compclip.model import weight_files
from compclip.model.clip_model import ClipModule, write_tensors

if TYPE_CHECKING:
    from compclip.config.sections import Lora
    from compclip.model.clip_model import ClipModule


FOLDER = "adapter"  # in a run's checkpoint, with the names that PEFT gives its files
WEIGHTS = "adapter_model.safetensors"
CONFIG = "adapter_config.json"
NAME = "default"
# What each target means by module name, in open_clip's own towers and in timm's.
MODULES = {
    "attention": r"\.attn\.(in_proj|out_proj|qkv|q_proj|k_proj|v_proj|proj)|\.attn_pool\.(q|kv|proj)",
    "mlp": r"\.mlp\.(c_fc|c_proj|fc1|fc1_g|fc1_x|fc2)",
    "patch": r"visual\.(conv1|trunk\.patch_embed\.proj)",
}
LAYERS = (nn.Linear, nn.Conv2d)
_SELF_ATTENTION = re.compile(r"resblocks\.\d+\.attn$")


class Attention(nn.Module):
    """Self-attention with an nn.MultiheadAttention's own parameters, whose two projections are called as modules."""

    def __init__(self, source: nn.MultiheadAttention) -> None:
        super().__init__()
        self.num_heads = source.num_heads
        self.batch_first = source.batch_first
        self.in_proj = _linear(source.in_proj_weight, source.in_proj_bias)
        self.out_proj = _linear(source.out_proj.weight, source.out_proj.bias)

    def forward(
        self, query: Tensor, _key: Tensor, _value: Tensor, need_weights: bool = False, attn_mask: Tensor | None = None
    ) -> tuple[Tensor, None]:
        """Attend as nn.MultiheadAttention does with equal query, key and value; attention weights are not returned."""
        x_BLW = query if self.batch_first else query.transpose(0, 1)
        qkv_3BHLW = self.in_proj(x_BLW).unflatten(-1, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
        mask = attn_mask if attn_mask is None or attn_mask.ndim == 2 else attn_mask.unflatten(0, (-1, self.num_heads))
        q, k, v = qkv_3BHLW.unbind()
        y_BLW = F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2)
        y_BLW = self.out_proj(y_BLW)
        return (y_BLW if self.batch_first else y_BLW.transpose(0, 1)), None

    def restore(self) -> nn.MultiheadAttention:
        """Return an nn.MultiheadAttention with the same parameters."""
        width = self.out_proj.in_features
        bias = self.in_proj.bias is not None
        attention = nn.MultiheadAttention(width, self.num_heads, bias=bias, batch_first=self.batch_first, device="meta")
        attention.in_proj_weight = cast("nn.Parameter", self.in_proj.weight)
        attention.in_proj_bias = self.in_proj.bias
        attention.out_proj.weight = self.out_proj.weight
        attention.out_proj.bias = self.out_proj.bias
        return attention.train(self.training)


class MatrixConv(nn.Module):
    """A convolution with a low-rank update of its kernel as one matrix, as loralib has it; the update starts at zero.

    The kernel [out, in, k, k] is read as a matrix [out k, in k] whose update has rank r k: A [r k, in k],
    B [out k, r k], dW = alpha / r (B A), viewed as the kernel. On ViT-B/32 at rank 4 that is 3.16 of 4.14 million
    trained parameters. Names are PEFT's (`lora_A.default.weight`), so that it is saved and resumed like the others.
    """

    def __init__(self, base: nn.Conv2d, rank: int, alpha: float) -> None:
        super().__init__()
        side = base.kernel_size[0]
        self.base_layer = base
        self.scaling = alpha / rank
        down = nn.Linear(side * base.in_channels, rank * side, bias=False)
        up = nn.Linear(rank * side, side * base.out_channels, bias=False)
        nn.init.zeros_(up.weight)
        self.lora_A = nn.ModuleDict({NAME: down})
        self.lora_B = nn.ModuleDict({NAME: up})

    def kernel_update(self, scale: float = 1.0) -> Tensor:
        """Return `scale` times dW [O, C, K, K]."""
        down = cast("nn.Linear", self.lora_A[NAME]).weight
        up = cast("nn.Linear", self.lora_B[NAME]).weight
        return (up @ down).view(self.base_layer.weight.shape) * (scale * self.scaling)

    def forward(self, x_BCHW: Tensor) -> Tensor:
        """Convolve with the updated kernel."""
        base = self.base_layer
        return F.conv2d(x_BCHW, base.weight + self.kernel_update(), base.bias, base.stride, cast("tuple", base.padding))

    def merge(self, scale: float) -> nn.Conv2d:
        """Add `scale` times the update to the kernel in place, and return the convolution."""
        self.base_layer.weight.data += self.kernel_update(scale).detach()
        return self.base_layer


def check_convolution(name: str, module: nn.Module) -> None:
    """Raise UserError for a module whose kernel is no square that such a matrix stands for."""
    if (
        type(module) is not nn.Conv2d
        or len(set(module.kernel_size)) > 1
        or module.groups != 1
        or set(module.dilation) != {1}
        or module.padding_mode != "zeros"
    ):
        raise UserError(
            f"train.lora.patch: matrix: {name} is no plain convolution with a square kernel; set patch: factors"
        )


def _linear(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    linear = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, device="meta")
    linear.weight = cast("nn.Parameter", weight)
    linear.bias = cast("nn.Parameter", bias)
    return linear


def inject(clip: ClipModule, cfg: Lora, towers: tuple[str, ...], seed: int = 0) -> None:
    """Add an adapter to the named towers ("image", "text") in place; an untrained one does not change outputs.

    Raises UserError where a target fits nothing in a tower, or an attention that cannot be adapted.
    """
    names = _find_targets(clip, cfg.targets, towers)
    patches = [name for name in names if cfg.patch == "matrix" and re.search(f"({MODULES['patch']})$", name)]
    for name in patches:
        check_convolution(name, clip.get_submodule(name))
    add_layers(clip, cfg.rank, cfg.alpha, names, patches)
    generator = torch.Generator().manual_seed(seed)
    for name, factor in adapter_parameters(clip).items():
        if ".lora_A." in name:  # as nn.Linear's own start: uniform within 1 / sqrt(fan in)
            values = torch.rand(factor.shape, generator=generator) * 2 - 1
            factor.data.copy_(values / factor[0].numel() ** 0.5)


def add_layers(clip: ClipModule, rank: int, alpha: float, names: list[str], matrices: list[str]) -> None:
    """Add low-rank layers to the modules `names`: by PEFT, and `MatrixConv` for those that are in `matrices`."""
    import peft

    pattern = "|".join(map(re.escape, sorted(set(names) - set(matrices))))
    attention = re.compile(pattern)
    _replace_modules(
        clip,
        lambda name, m: isinstance(m, nn.MultiheadAttention) and bool(attention.fullmatch(f"{name}.in_proj")),
        Attention,
    )
    config = peft.LoraConfig(
        r=rank,
        lora_alpha=alpha,  # type: ignore[arg-type]  # peft takes any number
        target_modules=pattern,
    )
    with torch.random.fork_rng():  # PEFT draws from the global generator
        if pattern:
            peft.inject_adapter_in_model(config, clip, NAME)
        _replace_modules(
            clip, lambda name, _: name in matrices, lambda m: MatrixConv(m, rank, alpha).to(m.weight.device)
        )
    clip.peft_config = {NAME: config}


def _find_targets(clip: nn.Module, targets: Sequence[str], towers: tuple[str, ...]) -> list[str]:
    """Return the names of the modules to adapt."""
    selected = []
    for tower in towers:
        modules = {
            name: module
            for name, module in clip.named_modules()  # CoCa's decoder belongs to no tower
            if name.startswith("visual.") == (tower == "image") and not name.startswith("text_decoder.")
        }
        for target in targets:
            if target == "patch" and tower == "text":
                continue
            layers = [name for name, module in modules.items() if isinstance(module, LAYERS)]
            names = _find_projections(modules) if target == "attention" else layers
            matches = [name for name in names if re.search(f"({MODULES[target]})$", name)]
            if not matches:
                raise UserError(
                    f"train.lora.targets: {target!r} fits nothing in the {tower} tower of this backbone; "
                    "remove it, or train without lora"
                )
            selected += matches
    if not selected:
        raise UserError(
            "train.lora: nothing to adapt; name a tower in train.trainable and a target in train.lora.targets"
        )
    return selected


def _find_projections(modules: dict[str, nn.Module]) -> list[str]:
    """Return the linear layers, and the two that self-attention will have.

    Raises UserError for attention of another kind.
    """
    names = []
    for name, module in modules.items():
        plain = type(module) is nn.MultiheadAttention and module.dropout == 0 and module.bias_k is None
        if plain and _SELF_ATTENTION.search(name):
            names += [f"{name}.in_proj", f"{name}.out_proj"]
        elif hasattr(module, "in_proj_weight") or getattr(module, "q_bias", None) is not None:
            # timm's EVA with a bias beside its weights reads these past whatever is in the layer's place
            raise UserError(
                f"train.lora.targets: {name} is attention that cannot be adapted "
                f"({type(module).__name__}); remove 'attention'"
            )
        elif isinstance(module, nn.Linear) and name not in names:
            names.append(name)
    return names


def adapter_parameters(clip: nn.Module) -> dict[str, nn.Parameter]:
    """Return the adapter's parameters by name; empty for a plain model."""
    return {name: p for name, p in clip.named_parameters() if ".lora_A." in name or ".lora_B." in name}


def _file_names(factors: dict[str, nn.Parameter]) -> dict[str, Tensor]:
    """Return an adapter's parameters by the names that PEFT gives them in a file."""
    return {name.replace(f".{NAME}.", "."): factor for name, factor in factors.items()}


def save_and_merge(clip: ClipModule, folder: str | Path) -> None:
    """Write the adapter's weights and config to `folder`, then merge it; do nothing for a model without one."""
    factors = adapter_parameters(clip)
    if not factors:
        return
    config = clip.peft_config[NAME].to_dict()
    plain = {k: sorted(v) if isinstance(v, set) else v for k, v in config.items()}
    write_json(Path(folder) / CONFIG, plain)
    write_tensors(Path(folder) / WEIGHTS, _file_names(factors))
    merge(clip)


def merge(clip: ClipModule, scale: float = 1.0) -> None:
    """Add `scale` times the adapter to the weights in place and remove it: a plain open_clip model again."""
    from peft.tuners.lora import LoraLayer

    def merge_layer(layer: Any) -> nn.Module:
        layer.set_scale(NAME, scale)
        layer.merge(safe_merge=True)
        return layer.get_base_layer()

    _replace_modules(clip, lambda _, m: isinstance(m, LoraLayer), merge_layer)
    _replace_modules(clip, lambda _, m: isinstance(m, MatrixConv), lambda m: m.merge(scale))
    _replace_modules(clip, lambda _, m: isinstance(m, Attention), Attention.restore)
    del clip.peft_config


def _replace_modules(clip: nn.Module, selects: Any, replace: Any) -> None:
    for name, module in list(clip.named_modules()):
        if selects(name, module):
            parent, _, child = name.rpartition(".")
            setattr(clip.get_submodule(parent), child, replace(module))


# --- files of adapters ----------------------------------------------------------------------------------------------
# Saved LoRA adapters in PEFT's format, from a run or from elsewhere, checked and added to their model.


LARGEST_RANK = 4096
LARGEST_ALPHA = 1e6
# PEFT's options that make an adapter another sum than W + alpha / rank B A.
OTHER_SUMS = ("use_rslora", "use_dora", "use_qalora", "lora_bias", "bias", "rank_pattern", "alpha_pattern",
              "modules_to_save", "trainable_token_indices", "layer_replication", "fan_in_fan_out")  # fmt: skip
ADVICE = "give the backbone that it was trained on"
_FACTOR = re.compile(r"([\w.]+)\.lora_([AB])\.weight")


def load_adapter(clip: ClipModule, folder: str | Path) -> None:
    """Add a saved adapter to the model that it was trained on. Raises UserError where it fits another."""
    folder = Path(folder)
    rank, alpha = _read_settings(folder / CONFIG)
    saved = weight_files.read_tensors(folder / WEIGHTS)
    names = sorted({name.partition(".lora_")[0] for name in saved})  # the config's pattern of them is not used
    matrices = [name for name in names if _is_matrix(clip, saved, name)]
    _check_factors(saved, matrices, rank, folder)
    fault = "not an adapter of this model"
    with report_failure(f"{folder}: {fault}", ADVICE, KeyError, ValueError, RuntimeError):
        add_layers(clip, rank, alpha, names, matrices)
    expected = _file_names(adapter_parameters(clip))
    weight_files.check_state(saved, expected, str(folder), fault, ADVICE)
    for name, factor in expected.items():
        factor.data.copy_(saved[name])


def _read_settings(path: Path) -> tuple[int, float]:
    """Return rank and alpha. Raises UserError for an adapter whose sum is another than W + alpha / rank B A."""
    content = read_json(path)
    config = content if isinstance(content, dict) else {}
    rank: Any = config.get("r")
    alpha: Any = config.get("lora_alpha")
    unsupported = [key for key in OTHER_SUMS if config.get(key) not in (None, False, "none", {}, [])]
    if type(rank) is not int or not 1 <= rank <= LARGEST_RANK:
        fault = f"r={str(rank)[:40]}: must be a whole number from 1 to {LARGEST_RANK}"
    elif type(alpha) not in (int, float) or not 0 < alpha <= LARGEST_ALPHA:
        fault = f"lora_alpha={str(alpha)[:40]}: must be a number above 0, at most {LARGEST_ALPHA:g}"
    elif unsupported:
        fault = f"{unsupported[0]}: adapters with it are not supported; give the merged checkpoint instead"
    else:
        return rank, alpha
    raise UserError(f"{path}: {fault}")


def _is_matrix(clip: nn.Module, saved: dict[str, Tensor], name: str) -> bool:
    """Return whether the factors of a convolution are those of one matrix."""
    first = saved.get(f"{name}.lora_A.weight")
    module = dict(clip.named_modules()).get(name)
    if first is None or first.ndim != 2 or not isinstance(module, nn.Conv2d):
        return False
    check_convolution(name, module)
    return True


def _check_factors(saved: dict[str, Tensor], matrices: list[str], rank: int, folder: Path) -> None:
    """Raise UserError for what is no factor, and for one of another rank; those of matrices are compared later."""
    if not saved:
        raise UserError(f"{folder}: holds no factors of an adapter; fetch the folder again")
    for name, factor in saved.items():
        fault = "" if _FACTOR.fullmatch(name) else "no factor of an adapter; give a folder that PEFT wrote"
        is_matrix = name.partition(".lora_")[0] in matrices
        if not is_matrix and (factor.ndim < 2 or factor.shape[0 if ".lora_A." in name else 1] != rank):
            fault = fault or f"{list(factor.shape)}, not of rank {rank}; fetch the folder again"
        if fault:
            raise UserError(f"{folder}: {name[:120]!r} is {fault}")
