"""Adapters inside a checkpoint, as FSC-CLIP, SVLC and DAC released theirs: whole weights, and factors beside them.

loralib's names: `X.lora_A` and `X.lora_B` belong to `X.weight`, `X.in_proj_weight_lora_A` to `X.in_proj_weight`. What
was trained computes with W + alpha / r (B A): r is read from the factors (of a convolution [r k, in k] and
[out k, r k], k its side); alpha stands in no file, and is 1 in the three.
"""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from compclip.base.errors import UserError

FIRST, SECOND = "lora_A", "lora_B"


def merged(state: dict[str, Tensor], alpha: float, path: Path) -> dict[str, Tensor]:
    """Weights with what their factors add; as they are where there are none.

    Raises UserError for factors that belong to no weight, or do not fit it.
    """
    firsts = [name for name in state if name.endswith(FIRST)]
    plain = {name: tensor for name, tensor in state.items() if not name.endswith((FIRST, SECOND))}
    if len(plain) + 2 * len(firsts) != len(state):
        raise UserError(f"{path}: {_single(state)!r}: a factor of an adapter without its other; fetch the file again")
    for first in firsts:
        weight = _weight(first)
        if weight not in plain:
            raise UserError(f"{path}: {first[:120]!r}: adapts {weight[:120]!r}, which the file lacks")
        plain[weight] = plain[weight] + _update(first, state, plain[weight], alpha, path)
    return plain


def _single(state: dict[str, Tensor]) -> str:
    other = {FIRST: SECOND, SECOND: FIRST}
    found = [
        n for n in state if n.endswith((FIRST, SECOND)) and n[: -len(FIRST)] + other[n[-len(FIRST) :]] not in state
    ]
    return found[0][:120]


def _weight(first: str) -> str:
    """The name of the weight that a first factor adapts."""
    base = first.removesuffix(FIRST)
    return base.removesuffix("_") if base.endswith("_") else f"{base}weight"


def _update(first: str, state: dict[str, Tensor], weight: Tensor, alpha: float, path: Path) -> Tensor:
    down, up = state[first], state.get(first.removesuffix(FIRST) + SECOND)
    side = weight.shape[-1] if weight.ndim == 4 else 1
    rank = down.shape[0] // side if down.ndim else 0
    shapes = up is not None and up.ndim == down.ndim == 2 <= weight.ndim and down.shape[0] == up.shape[1]
    whole = shapes and up is not None and up.shape[0] * down.shape[1] == weight.numel()
    if not whole or up is None or rank < 1 or down.shape[0] % side or down.shape[1] != weight.shape[1] * side:
        said = f"{list(down.shape)} and {list(up.shape) if up is not None else 'nothing'}"
        raise UserError(f"{path}: {first[:120]!r}: factors {said} are none of a weight {list(weight.shape)}")
    return (up @ down).view(weight.shape) * (alpha / rank)
