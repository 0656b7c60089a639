"""Loss terms that two or more methods share: pure functions of a whole batch's features.

B images, K negatives an image, C = 1 + K candidate texts of an image (the original first), P patches, T tokens,
N texts or concepts, D dim.

Nothing here knows of processes: under DDP the caller passes the gathered features of all of them, with `owner_N`
counting images of the whole batch. Every mean is then over the whole batch, as on one process.
Half-precision inputs are widened and autocast is off inside, so that each term is computed in float32 at least.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import TYPE_CHECKING, Any

from compclip.base.lazy_torch import F, torch

if TYPE_CHECKING:
    from torch import Tensor

ATTENTION = ("minmax", "minmax_sparse", "softmax")


def _in_full_precision(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    @wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Tensor:
        with torch.autocast(args[0].device.type, enabled=False):
            return function(*map(_widen, args), **{name: _widen(value) for name, value in kwargs.items()})

    return wrapped


def _widen(value: Any) -> Any:
    half = isinstance(value, torch.Tensor) and value.dtype in (torch.bfloat16, torch.float16)
    return value.float() if half else value


# Contrast within a batch


@_in_full_precision
def matching(query_BD: Tensor, key_ND: Tensor, scale: Tensor, valid_N: Tensor | None = None) -> Tensor:
    """CE(s q·kᵀ, diag): query i against all keys, of which key i is its own.

    Keys where `valid_N` is False are left out. Unit vectors; keys beyond the first B are only ever wrong ones.
    """
    logits_BN = scale * query_BD @ key_ND.T
    if valid_N is not None:
        logits_BN = logits_BN.masked_fill(~valid_N, -torch.inf)
    return F.cross_entropy(logits_BN, torch.arange(len(query_BD), device=query_BD.device))


@_in_full_precision
def matching_of(query_BD: Tensor, key_ND: Tensor, scale: Tensor, valid_B: Tensor, valid_N: Tensor) -> Tensor:
    """`matching`, mean over the queries where `valid_B` is True alone, whose own keys must be valid.

    0 with a gradient of 0 where none is.
    """
    logits_BN = (scale * query_BD @ key_ND.T).masked_fill(~valid_N, -torch.inf)
    logits_BN = torch.where(valid_B[:, None], logits_BN, torch.zeros_like(logits_BN))
    own_B = torch.arange(len(query_BD), device=query_BD.device)
    return masked_mean(F.cross_entropy(logits_BN, own_B, reduction="none"), valid_B)


@_in_full_precision
def matching_with_own(query_BD: Tensor, key_BD: Tensor, foil_BD: Tensor, scale: Tensor, valid_B: Tensor) -> Tensor:
    """`matching_of` whole pairs, where each query is told from its own foil as well, and from no other's (CS-CLIP)."""
    foil_B1 = scale * (query_BD * foil_BD).sum(dim=1, keepdim=True)
    logits_BN = (scale * query_BD @ key_BD.T).masked_fill(~valid_B, -torch.inf)
    logits_BN = torch.cat([logits_BN, foil_B1], dim=1)
    logits_BN = torch.where(valid_B[:, None], logits_BN, torch.zeros_like(logits_BN))
    own_B = torch.arange(len(query_BD), device=query_BD.device)
    return masked_mean(F.cross_entropy(logits_BN, own_B, reduction="none"), valid_B)


@_in_full_precision
def similarities(query_BD: Tensor, key_ND: Tensor, scale: Tensor) -> Tensor:
    """Return logits s q·k [B, N] of unit vectors."""
    return scale * query_BD @ key_ND.T


@_in_full_precision
def squared_distance(a_D: Tensor, b_D: Tensor) -> Tensor:
    """Return ‖a − b‖² over the last dimension."""
    return (a_D - b_D).square().sum(dim=-1)


@_in_full_precision
def clip(image_BD: Tensor, text_BD: Tensor, scale: Tensor) -> Tensor:
    """½ [CE(s v·tᵀ, diag) + CE(s t·vᵀ, diag)] (CLIC Eq. 1, FSC-CLIP Eq. 2) of unit vectors; a scalar."""
    return (matching(image_BD, text_BD, scale) + matching(text_BD, image_BD, scale)) / 2


@_in_full_precision
def clip_of(a_ND: Tensor, b_ND: Tensor, scale: Tensor, valid_N: Tensor) -> Tensor:
    """`clip` of the pairs whose `valid_N` is True alone; 0 with a gradient of 0 where none is."""
    return (matching_of(a_ND, b_ND, scale, valid_N, valid_N) + matching_of(b_ND, a_ND, scale, valid_N, valid_N)) / 2


@_in_full_precision
def negclip(image_BD: Tensor, text_BD: Tensor, negative_BKD: Tensor, mask_BK: Tensor, scale: Tensor) -> Tensor:
    """CLIP where an image is told from all texts and all valid negatives of the batch (NegCLIP; CLIC Eq. 2); a scalar.

    Texts are told from images as in CLIP: negatives have no image. Without a valid negative it is `clip`.
    """
    key_ND = torch.cat([text_BD, negative_BKD.flatten(0, 1)])
    valid_N = torch.cat([mask_BK.new_ones(len(text_BD)), mask_BK.flatten()])
    return (matching(image_BD, key_ND, scale, valid_N) + matching(text_BD, image_BD, scale)) / 2


@_in_full_precision
def analogy(image_BD: Tensor, text_BD: Tensor, positive_BPD: Tensor, positive_mask_BP: Tensor, scale: Tensor) -> Tensor:
    """½ [CE(s v·qᵀ) + CE(s t·qᵀ)] (SVLC): image and caption each find the rewritten caption q that is theirs; a scalar.

    q is the first valid of a caption's rewrites, and the caption itself where it has none.
    """
    q_BD = first_valid(positive_BPD, positive_mask_BP, text_BD)
    return (matching(image_BD, q_BD, scale) + matching(text_BD, q_BD, scale)) / 2


def first_valid(given_BPD: Tensor, mask_BP: Tensor, otherwise_BD: Tensor) -> Tensor:
    """Return [B, D], the first of each row's vectors whose mask is True, or another vector where there is none."""
    all_BCD = torch.cat([given_BPD, otherwise_BD[:, None]], dim=1)
    valid_BC = torch.cat([mask_BP, mask_BP.new_ones(len(all_BCD), 1)], dim=1)
    first_B = valid_BC.int().argmax(dim=1)  # the first of equal maxima
    return all_BCD[torch.arange(len(all_BCD), device=all_BCD.device), first_B]


@_in_full_precision
def mil(image_BD: Tensor, bag_BMD: Tensor, scale: Tensor) -> Tensor:
    """Images and bags of M texts, MIL-NCE (DAC): an image is right with any of its bag's texts; a scalar.

    mean_i [LSE(image i with all texts ∪ all images with bag i) − LSE(image i with bag i)]. The own bag is in both sets,
    so that the least value is log 2.
    """
    x_BBM = scale * torch.einsum("id,jmd->ijm", image_BD, bag_BMD)
    own_BM = torch.diagonal(x_BBM, dim1=0, dim2=1).T
    columns_BBM = x_BBM.transpose(0, 1)
    all_BN = torch.cat([x_BBM.flatten(1), columns_BBM.flatten(1)], dim=1)
    return (all_BN.logsumexp(dim=1) - own_BM.logsumexp(dim=1)).mean()


# Contrast within the candidate texts of one image


@_in_full_precision
def candidate_scores(image_BD: Tensor, text_BD: Tensor, negative_BKD: Tensor, scale: Tensor) -> Tensor:
    """[B, 1 + K] scores s v_i·(t_i, n_i1 … n_iK) of unit vectors (FSC-CLIP Eq. 3)."""
    text_BCD = torch.cat([text_BD[:, None], negative_BKD], dim=1)
    return scale * torch.einsum("bd,bcd->bc", image_BD, text_BCD)


def with_original(mask_BK: Tensor) -> Tensor:
    """Return the candidates' mask [B, 1 + K]: the original always counts."""
    return torch.cat([mask_BK.new_ones(len(mask_BK), 1), mask_BK], dim=1)


@_in_full_precision
def focal_smoothed(logits_BC: Tensor, mask_BC: Tensor, gamma: float, epsilon: float) -> Tensor:
    """−mean_i Σ_k y_ik (1 − p_ik)^γ log p_ik (FSC-CLIP Eq. 9–10); a scalar.

    Column 0 is the original, the others are negatives that count where `mask_BC` is True. p is the softmax over what
    counts, y = (1 − ε) onehot + ε / (1 + K_i) with K_i valid negatives. Images without one are left out of the mean;
    where none is left the value is 0, with a gradient of 0.
    Departure from the released code: masked negatives leave the softmax (there they stay, with logit 0).
    """
    mask_BC = with_original(mask_BC[:, 1:])
    log_p_BC = logits_BC.masked_fill(~mask_BC, -torch.inf).log_softmax(dim=1).masked_fill(~mask_BC, 0.0)
    counted_BC = mask_BC.to(logits_BC.dtype)
    y_BC = epsilon * counted_BC / counted_BC.sum(dim=1, keepdim=True)
    y_BC[:, 0] += 1 - epsilon
    # 1 − p without cancellation; the floor keeps the slope of (1 − p)^γ finite at p = 1 for 0 < γ < 1
    wrong_BC = (-torch.expm1(log_p_BC)).clamp_min(torch.finfo(log_p_BC.dtype).tiny)
    # an original alone has p = 1 and adds nothing to the sum, so only the divisor has to know of it
    images = mask_BC[:, 1:].any(dim=1).sum()
    return -(y_BC * wrong_BC**gamma * log_p_BC).sum() / images.clamp_min(1)


@_in_full_precision
def s_neg(image_BD: Tensor, text_BD: Tensor, negative_BKD: Tensor, mask_BK: Tensor, scale: Tensor) -> Tensor:
    """CE over {t_i, n_i1 … n_iK} per image (CLIC Eq. 3; FSC-CLIP Eq. 3–4), one softmax; a scalar.

    Images without a valid negative are left out of the mean; none in the batch gives 0 with a gradient of 0.
    """
    scores_BC = candidate_scores(image_BD, text_BD, negative_BKD, scale)
    return focal_smoothed(scores_BC, with_original(mask_BK), gamma=0.0, epsilon=0.0)


@_in_full_precision
def masked_mean(values_N: Tensor, mask_N: Tensor) -> Tensor:
    """Return the mean of the values whose mask is True; 0 with a gradient of 0 where none is."""
    return values_N.masked_fill(~mask_N, 0.0).sum() / mask_N.sum().clamp_min(1)


# Local similarity of patches and tokens


@_in_full_precision
def local_similarity(
    patch_BPD: Tensor, token_BTD: Tensor, token_mask_BT: Tensor, scale: Tensor, attention: str
) -> Tensor:
    """Return local scores S_l [B] of image i with text i (FSC-CLIP Eq. 6–8) from raw patches and tokens.

    Also takes several texts an image: tokens [B, K, T, D] with masks [B, K, T] give scores [B, K]. `token_mask_BT` is
    True on a text's own tokens and its end token; a text with none scores −inf.
    """
    flat_BTD = token_BTD.reshape(len(token_BTD), -1, token_BTD.shape[-1])
    with torch.no_grad():
        weight_BTP = attention_weights(flat_BTD @ patch_BPD.mT, attention)
    aligned_BTD = F.normalize(weight_BTP @ patch_BPD, dim=-1)  # Eq. 7
    cosine_BT = (aligned_BTD * F.normalize(flat_BTD, dim=-1)).sum(dim=-1).reshape(token_mask_BT.shape)
    scores_BT = (scale * cosine_BT).masked_fill(~token_mask_BT, -torch.inf)
    return scores_BT.logsumexp(dim=-1)  # Eq. 8


def attention_weights(map_BTP: Tensor, attention: str) -> Tensor:
    """Return weights over patches, summing to 1 for each token, from the similarity map T Vᵀ (FSC-CLIP Eq. 6).

    A constant map gives uniform min–max weights; the released code divides 0 by 0 there.
    """
    if attention == "softmax":
        return map_BTP.softmax(dim=-1)
    low_BT1 = map_BTP.amin(dim=-1, keepdim=True)
    high_BT1 = map_BTP.amax(dim=-1, keepdim=True)
    spread_BT1 = high_BT1 - low_BT1
    weight_BTP = torch.where(spread_BT1 > 0, (map_BTP - low_BT1) / spread_BT1, 1.0)
    if attention == "minmax_sparse":
        weight_BTP = weight_BTP.masked_fill(weight_BTP < 1 / map_BTP.shape[-1], 0.0)
    elif attention != "minmax":
        raise ValueError(f"attention={attention!r}: must be one of {', '.join(ATTENTION)}")
    return weight_BTP / weight_BTP.sum(dim=-1, keepdim=True)


# Sigmoid terms: every image against every text


@_in_full_precision
def sigmoid(image_BD: Tensor, text_ND: Tensor, owner_N: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    """−1/N ΣΣ log σ(z_ij (s v_i·t_j + b)), z = 1 where image i owns text j, else −1 (C2LIP Eq. 4, 5); a scalar.

    Unit vectors. With captions N = B and `owner_N` counts up; with concepts an image may own several or none.
    No texts give 0 with a gradient of 0.
    """
    return _sigmoid_sum(scale * image_BD @ text_ND.T + bias, owner_N)


@_in_full_precision
def cross_attended(patch_BPD: Tensor, concept_ND: Tensor, owner_N: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    """The sigmoid term on v̂_i(c_k)·c_k, with v̂_i(c) = normalise(V'ᵢᵀ softmax(V'ᵢ c)) (C2LIP Eq. 6, 7); a scalar.

    Patches are normalised here, concepts are unit vectors; every image attends for every concept of the batch. The
    pooled vectors [B, N, D] are never made: with attention a and map m = V'c, v̂·c = aᵀm / √(aᵀ V'V'ᵀ a), so that
    memory grows with B·N·P instead.
    """
    patch_BPD = F.normalize(patch_BPD, dim=-1)
    map_BPN = patch_BPD @ concept_ND.T
    attention_BPN = map_BPN.softmax(dim=1)
    dot_BN = (attention_BPN * map_BPN).sum(dim=1)
    square_BN = _squared_length()(patch_BPD, attention_BPN)
    cosine_BN = dot_BN * square_BN.clamp_min(torch.finfo(dot_BN.dtype).eps).rsqrt()
    return _sigmoid_sum(scale * cosine_BN + bias, owner_N)


@cache
def _squared_length() -> Callable[[Tensor, Tensor], Tensor]:
    """Return the function ‖Vᵀa‖² = aᵀ(VVᵀ)a for each image and column a, whose slope needs half the products.

    V Vᵀ is symmetric. The class is defined at its first use, so that importing this module imports no torch.
    """

    class SquaredLength(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, patch_BPD: Tensor, attention_BPN: Tensor) -> Tensor:
            pulled_BPN = patch_BPD @ patch_BPD.mT @ attention_BPN
            ctx.save_for_backward(patch_BPD, attention_BPN, pulled_BPN)
            return (attention_BPN * pulled_BPN).sum(dim=1)

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx: Any, slope_BN: Tensor) -> tuple[Tensor | None, Tensor]:
            patch_BPD, attention_BPN, pulled_BPN = ctx.saved_tensors
            slope_B1N = 2 * slope_BN[:, None]
            if not ctx.needs_input_grad[0]:
                return None, pulled_BPN * slope_B1N
            return (attention_BPN * slope_B1N) @ attention_BPN.mT @ patch_BPD, pulled_BPN * slope_B1N

    return SquaredLength.apply


@_in_full_precision
def sigmoid_pairs(logits_BN: Tensor, own_BN: Tensor) -> Tensor:
    """Return −log σ(z x) of each pair's logit x, with z = 1 where the two belong together, else −1."""
    return -F.logsigmoid(torch.where(own_BN, logits_BN, -logits_BN))


@_in_full_precision
def cosines(a_ND: Tensor, b_ND: Tensor) -> Tensor:
    """Return a·b over the last dimension of unit vectors."""
    return (a_ND * b_ND).sum(dim=-1)


@_in_full_precision
def mean_patches(patch_BPD: Tensor) -> Tensor:
    """Return the mean of each picture's patches, [B, D]."""
    return patch_BPD.mean(dim=1)


@_in_full_precision
def soft_cross_entropy(logits_BV: Tensor, share_BV: Tensor) -> Tensor:
    """−mean_i Σ_v share_iv log softmax(logits_i)_v, a scalar."""
    return -(share_BV.to(logits_BV) * logits_BV.log_softmax(dim=1)).sum(dim=1).mean()


def _sigmoid_sum(logits_BN: Tensor, owner_N: Tensor) -> Tensor:
    owns_BN = torch.arange(len(logits_BN), device=owner_N.device)[:, None] == owner_N
    return -F.logsigmoid(torch.where(owns_BN, logits_BN, -logits_BN)).sum() / max(len(owner_N), 1)
