"""Every loss against loops in float64, values and gradients, over drawn shapes and masks; and its edges.

B images, K negatives, P patches, T tokens, N texts or concepts, D dim.
"""

import math

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from compclip.train import losses
from tests import reference

pytestmark = pytest.mark.filterwarnings("error")
few = settings(max_examples=25, deadline=None)
sizes = st.integers(1, 4)
seeds = st.integers(0, 10**6)
fills = st.sampled_from(["some", "all", "one", "none"])


class Draw:
    """Float64 leaves with gradients from one seed."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)

    def raw(self, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=self.generator, dtype=torch.float64).requires_grad_()

    def unit(self, *shape: int) -> Tensor:
        return F.normalize(self.raw(*shape).detach(), dim=-1).requires_grad_()

    def mask(self, fill: str, *shape: int) -> Tensor:
        mask = torch.rand(*shape, generator=self.generator) < 0.6
        if fill == "one":
            mask = torch.zeros(*shape, dtype=torch.bool)
            mask.view(-1)[:1] = True
        return {"all": torch.ones_like(mask), "none": torch.zeros_like(mask)}.get(fill, mask)

    def owner(self, texts: int, images: int) -> Tensor:
        return torch.randint(images, (texts,), generator=self.generator)


def scale(value: float = 3.0) -> Tensor:
    return torch.tensor(value, dtype=torch.float64, requires_grad=True)


def agree(actual: Tensor, expected: Tensor, leaves: list[Tensor]) -> None:
    """Same value and same gradients with respect to all leaves, to 1e-6 relative."""
    torch.testing.assert_close(actual, expected, rtol=1e-6, atol=1e-12)
    sums = (actual.sum(), expected.sum())
    slopes = [torch.autograd.grad(x, leaves, allow_unused=True, materialize_grads=True) for x in sums]
    for a, b in zip(*slopes, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-12)


@few
@given(seeds, sizes, sizes)
def test_clip_is_the_loop(seed, B, D):
    d, s = Draw(seed), scale()
    v, t = d.unit(B, D), d.unit(B, D)
    agree(losses.clip(v, t, s), reference.clip(v, t, s), [v, t, s])


@pytest.mark.parametrize("name", ["negclip", "s_neg"])
@few
@given(seed=seeds, B=sizes, K=st.integers(0, 3), D=sizes, fill=fills)
@example(seed=0, B=4, K=3, D=3, fill="some")
@example(seed=0, B=3, K=2, D=4, fill="none")
@example(seed=0, B=3, K=2, D=4, fill="one")
@example(seed=0, B=3, K=0, D=4, fill="all")
def test_a_loss_with_negatives_is_the_loop(name, seed, B, K, D, fill):
    d, s = Draw(seed), scale()
    v, t, n, mask = d.unit(B, D), d.unit(B, D), d.unit(B, K, D), d.mask(fill, B, K)
    agree(getattr(losses, name)(v, t, n, mask, s), getattr(reference, name)(v, t, n, mask, s), [v, t, n, s])


@few
@given(seeds, sizes, st.integers(0, 3), fills, st.sampled_from([0.0, 0.5, 2.0, 3.5]), st.sampled_from([0.0, 0.02, 0.5]))
@example(seed=0, B=4, K=3, fill="some", gamma=2.0, epsilon=0.02)
def test_focal_smoothed_is_the_loop(seed, B, K, fill, gamma, epsilon):
    d = Draw(seed)
    logits, mask = d.raw(B, 1 + K), d.mask(fill, B, 1 + K)
    actual = losses.focal_smoothed(logits, mask, gamma, epsilon)
    agree(actual, reference.focal_smoothed(logits, mask, gamma, epsilon, 0 * logits.sum()), [logits])


@few
@given(seeds, sizes, sizes, sizes, sizes, st.sampled_from(losses.ATTENTION))
@example(seed=0, B=3, P=6, T=4, D=3, attention="minmax_sparse")
def test_local_similarity_is_the_loop(seed, B, P, T, D, attention):
    d, s = Draw(seed), scale()
    patch, token, mask = d.raw(B, P, D), d.raw(B, T, D), d.mask("some", B, T)
    mask[:, 0] = True
    actual = losses.local_similarity(patch, token, mask, s, attention)
    assert actual.shape == (B,)
    agree(actual, reference.local_similarity(patch, token, mask, s, attention), [patch, token, s])


@few
@given(seeds, sizes, sizes, st.sampled_from(losses.ATTENTION))
def test_local_similarity_of_several_texts_is_one_text_at_a_time(seed, B, K, attention):
    d, s = Draw(seed), scale()
    patch, token, mask = d.raw(B, 5, 3), d.raw(B, K, 4, 3), d.mask("some", B, K, 4)
    mask[..., 0] = True
    single = [losses.local_similarity(patch, token[:, k], mask[:, k], s, attention) for k in range(K)]
    agree(losses.local_similarity(patch, token, mask, s, attention), torch.stack(single, 1), [patch, token, s])


@few
@given(seeds, sizes, st.integers(0, 5), sizes)
@example(seed=0, B=3, N=5, D=4)
def test_sigmoid_is_the_loop(seed, B, N, D):
    d, s, b = Draw(seed), scale(), scale(-1.5)
    v, c, owner = d.unit(B, D), d.unit(N, D), d.owner(N, B)
    agree(losses.sigmoid(v, c, owner, s, b), reference.sigmoid(v, c, owner, s, b), [v, c, s, b])


@few
@given(seeds, sizes, sizes, st.integers(0, 5), st.integers(2, 4))
@example(seed=0, B=3, P=4, N=5, D=4)
def test_cross_attended_is_the_loop(seed, B, P, N, D):
    d, s, b = Draw(seed), scale(), scale(-1.5)
    patch, c, owner = d.raw(B, P, D), d.unit(N, D), d.owner(N, B)
    expected = reference.cross_attended(patch, c, owner, s, b)
    agree(losses.cross_attended(patch, c, owner, s, b), expected, [patch, c, s, b])


def masked_batch(fill: str) -> tuple[Tensor, ...]:
    d = Draw(7)
    return d.unit(3, 4), d.unit(3, 4), d.unit(3, 2, 4), d.mask(fill, 3, 2), scale(100.0)


def test_no_valid_negative_gives_zero_with_zero_gradients():
    v, t, n, mask, s = masked_batch("none")
    value = losses.s_neg(v, t, n, mask, s)
    assert value.item() == 0.0 and losses.negclip(v, t, n, mask, s) == losses.clip(v, t, s)
    for slope in torch.autograd.grad(value, [v, t, n, s]):
        assert torch.equal(slope, torch.zeros_like(slope))
    coin_flip = losses.s_neg(v, t, t[:, None], torch.ones(3, 1, dtype=torch.bool), scale(50.0))
    assert coin_flip.item() == pytest.approx(math.log(2))  # of a negative that equals the caption


def test_focal_value_by_hand():
    # p = (3/4, 1/4), y = (0.9, 0.1)
    logits = torch.tensor([[math.log(3.0), 0.0]], dtype=torch.float64)
    value = losses.focal_smoothed(logits, torch.ones(1, 2, dtype=torch.bool), gamma=2.0, epsilon=0.2)
    assert value.item() == pytest.approx(-0.9 * (1 / 4) ** 2 * math.log(3 / 4) - 0.1 * (3 / 4) ** 2 * math.log(1 / 4))


@pytest.mark.parametrize("gamma", [0.0, 0.1, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("gap", [1e4, -1e4, 40.0])
def test_focal_is_finite_where_the_softmax_saturates(gamma, gap):
    logits = torch.tensor([[gap, 0.0], [gap, 0.0]], requires_grad=True)
    mask = torch.tensor([[True, True], [True, False]])
    value = losses.focal_smoothed(logits, mask, gamma, 0.02)
    value.backward()
    assert torch.isfinite(value) and torch.isfinite(logits.grad).all()


def test_sigmoid_is_finite_and_exact_at_large_scores():
    v = torch.tensor([[1.0, 0.0], [-1.0, 0.0]], requires_grad=True)
    value = losses.sigmoid(v, v, torch.tensor([1, 0]), torch.tensor(1e4), torch.tensor(0.0))
    assert value.item() == pytest.approx(2e4)  # four pairs, each wrong by 1e4, over two texts
    value.backward()
    assert torch.isfinite(v.grad).all()


def test_no_concepts_give_zero_with_zero_gradients():
    d, s, b = Draw(1), scale(), scale(-1.0)
    v, patch, c, owner = d.unit(3, 4), d.raw(3, 5, 4), d.unit(0, 4), torch.zeros(0, dtype=torch.long)
    for value, leaf in ((losses.sigmoid(v, c, owner, s, b), v), (losses.cross_attended(patch, c, owner, s, b), patch)):
        slopes = torch.autograd.grad(value, [leaf, s, b])
        assert value.item() == 0.0 and not any(slope.any() for slope in slopes)


def test_cross_attended_in_float32_is_close_to_float64():
    d, s, b = Draw(3), scale(100.0), scale(-10.0)
    patch, c, owner = d.raw(8, 196, 512), d.unit(12, 512), d.owner(12, 8)
    single = [x.detach().float() for x in (patch, c)]
    actual = losses.cross_attended(*single, owner, s.float(), b.float())
    torch.testing.assert_close(actual.double(), losses.cross_attended(patch, c, owner, s, b), rtol=1e-5, atol=0)


def test_attention_weights_by_hand():
    """A constant map weighs patches equally."""
    for attention in losses.ATTENTION:
        weights = losses.attention_weights(torch.full((2, 3, 4), 0.7), attention)
        torch.testing.assert_close(weights, torch.full((2, 3, 4), 0.25))
    row = torch.tensor([[[0.0, 1.0, 5.0, 10.0]]])
    assert losses.attention_weights(row, "minmax").flatten().tolist() == pytest.approx([0, 1 / 16, 5 / 16, 10 / 16])
    sparse = losses.attention_weights(row, "minmax_sparse").flatten().tolist()  # 0.1 is below 1/4
    assert sparse == pytest.approx([0, 0, 5 / 15, 10 / 15])
    with pytest.raises(ValueError, match=r"attention='cosine'.*minmax_sparse"):
        losses.attention_weights(row, "cosine")


def test_no_gradient_flows_through_the_attention_map():
    d, s = Draw(4), scale(1.0)
    patch, token = d.raw(1, 3, 2), d.raw(1, 1, 2)
    weights = losses.attention_weights(token @ patch.mT, "softmax").detach()
    frozen = s * F.cosine_similarity(weights @ patch, token, dim=-1)
    actual = losses.local_similarity(patch, token, torch.ones(1, 1, dtype=torch.bool), s, "softmax")
    agree(actual, frozen[:, 0], [patch, token])


def test_padding_tokens_do_not_count_and_a_text_without_tokens_has_finite_gradients():
    d, s = Draw(5), scale()
    patch, token = d.raw(2, 3, 2), d.raw(2, 4, 2)
    mask = torch.tensor([[True, True, False, False], [False] * 4])
    scores = losses.local_similarity(patch, token, mask, s, "minmax")
    short = losses.local_similarity(patch[:1], token[:1, :2], mask[:1, :2], s, "minmax")
    torch.testing.assert_close(scores[:1], short)
    logits = torch.stack([short.expand(2), scores], dim=1)
    losses.focal_smoothed(logits, torch.tensor([[True, True], [True, False]]), 2.0, 0.02).backward()
    assert torch.isfinite(patch.grad).all() and torch.isfinite(token.grad).all()


def half_calls(dtype: torch.dtype) -> dict[str, Tensor]:
    """Every loss on the same numbers, features in `dtype`, scale and bias in float32 as in a model."""
    d = Draw(6)
    v, t, n, c = (x.detach().bfloat16().to(dtype) for x in (d.unit(3, 8), d.unit(3, 8), d.unit(3, 2, 8), d.unit(4, 8)))
    patch, token = (x.detach().bfloat16().to(dtype) for x in (d.raw(3, 5, 8), d.raw(3, 4, 8)))
    mask, words, owner = d.mask("some", 3, 2), torch.ones(3, 4, dtype=torch.bool), d.owner(4, 3)
    s, b = torch.tensor(100.0), torch.tensor(-10.0)
    return {
        "clip": losses.clip(v, t, s),
        "negclip": losses.negclip(v, t, n, mask, s),
        "s_neg": losses.s_neg(v, t, n, mask, s),
        "local": losses.local_similarity(patch, token, words, s, "minmax"),
        "sigmoid": losses.sigmoid(v, c, owner, s, b),
        "cross_attended": losses.cross_attended(patch, c, owner, scale=s, bias=b),
    }


def test_losses_under_autocast_are_those_in_float32():
    """And features of half precision receive gradients of their type."""
    expected = half_calls(torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        actual = half_calls(torch.bfloat16)
    for name, value in expected.items():
        assert actual[name].dtype == torch.float32, name
        assert torch.equal(actual[name], value), name
    v = F.normalize(torch.randn(3, 8), dim=-1).bfloat16().requires_grad_()
    losses.clip(v, v.detach(), torch.tensor(10.0)).backward()
    assert v.grad.dtype == torch.bfloat16 and v.grad.any()
