"""Heads of a checkpoint: their files, what is refused, and their numbers on vectors that a person can check."""

import json
import math

import pytest
import torch

from compclip.base.errors import UserError
from compclip.model import heads

WIDTH = 8
OPTIONS = {
    "text_map": {},
    "long_texts": {"raw_width": 6, "maps": 2},
    "text_pooling": {"heads": 2},
    "token_mixture": {"tokens": 2, "token_width": 3, "heads": 2, "temperature": 5},
    "codebook": {"codes": 5, "code_width": 4},
}


def make_head(kind: str) -> heads.Head:
    """A head of each kind, away from where it starts."""
    torch.manual_seed(0)
    head = heads.KINDS[kind](width=WIDTH, **OPTIONS[kind])
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape))
    return head.eval()


@pytest.mark.parametrize("kind", heads.KINDS)
def test_a_saved_head_is_read_as_it_was(kind, tmp_path):
    head = make_head(kind)
    head.save(tmp_path)
    loaded = heads.load_head(tmp_path)
    assert loaded.kind == kind and loaded.options == head.options and not loaded.training
    torch.testing.assert_close(loaded.state_dict(), head.state_dict(), rtol=0, atol=0)
    assert heads.has_head(tmp_path) and not heads.has_head(tmp_path / "elsewhere")
    assert heads.load_head(tmp_path / "elsewhere") is None


def test_a_map_of_texts_moves_towards_the_identity():
    """At 0 it is the identity, at 1 what it was, and half-way between in between; attention has no such start."""
    head = heads.TextMap(2)
    head.weight.data.copy_(torch.tensor([[0.0, 1.0], [2.0, 0.0]]))
    mapped = head.map_texts(torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]))
    torch.testing.assert_close(mapped, torch.tensor([[0.0, 1.0], [1.0, 0.0], [0.8 / 2.08**0.5, 1.2 / 2.08**0.5]]))
    image = torch.tensor([[0.6, 0.8]])
    assert head.map_images(image) is image
    weight = torch.tensor([[3.0, 1.0], [0.0, -1.0]])
    for alpha, expected in ((0.0, [[1.0, 0.0], [0.0, 1.0]]), (0.5, [[2.0, 0.5], [0.0, 0.0]]), (1.0, weight.tolist())):
        head = heads.TextMap(2)
        head.weight.data.copy_(weight)
        assert head.move_towards_start(alpha)
        assert head.weight.tolist() == expected
    pooling = make_head("text_pooling")
    assert not pooling.move_towards_start(0.0)
    torch.testing.assert_close(pooling.state_dict(), make_head("text_pooling").state_dict(), rtol=0, atol=0)


def test_a_picture_of_equal_patches_is_the_same_for_every_text_but_for_how_much_of_it_is_seen():
    """The pooled vector lies between the value of the patches and that of zeros, whatever the text asks."""
    head = make_head("text_pooling")
    patch_BND = torch.randn(1, 1, WIDTH).expand(1, 4, -1)
    text_TD = torch.nn.functional.normalize(torch.randn(3, WIDTH), dim=1)
    attention = head.attention
    out, bias = attention.out_proj.weight, attention.out_proj.bias
    value_map, value_bias = attention.in_proj_weight[2 * WIDTH :], attention.in_proj_bias[2 * WIDTH :]
    value = value_map @ head.norm_value(patch_BND[0, 0]) + value_bias
    basis = torch.stack([*(out[:, h * 4 : h * 4 + 4] @ value[h * 4 : h * 4 + 4] for h in range(2)), bias], dim=1)
    pooled = head.pool(patch_BND, text_TD[None])[0]
    share = torch.linalg.lstsq(basis, pooled.T).solution
    torch.testing.assert_close(basis @ share, pooled.T, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(head.score(patch_BND, text_TD), (pooled * text_TD).sum(1)[None])


def test_a_mixture_by_hand():
    """Two tokens, two attention heads of one number: each takes the tokens in shares that the text decides."""
    head = heads.TokenMixture(width=2, tokens=2, token_width=1, heads=2, temperature=1)
    with torch.no_grad():
        head.key.copy_(torch.tensor([[[1.0, 0.0]], [[0.0, 0.0]]]))
        head.value.copy_(torch.tensor([[[4.0, 0.0]], [[0.0, 3.0]]]))
        head.query.copy_(torch.eye(2) / 2**0.5)
        head.out.copy_(torch.eye(2))
    tokens, text = torch.tensor([[[math.log(3)], [1.0]]]), torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    # the first head fits the tokens by log 3 and 0 for the first text, alike for the second; the second head always alike
    first, second = math.log(3) * 4, 3.0
    expected = torch.tensor([[3 / 4 * first, second / 2], [first / 2, second / 2]])
    expected = expected / expected.norm(dim=1, keepdim=True)
    torch.testing.assert_close(head.mix(tokens, text)[0], expected)
    torch.testing.assert_close(head.score(tokens, text), expected.diagonal()[None])


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_sparsemax_by_hand(bad):
    """A diverged row gives NaN, so that the run ends with its own line; the other row is what it is alone."""
    rows = torch.tensor([[2.0, 0.0, 0.0], [0.5, 0.5, 0.0], [1.0, 0.5, -3.0], [0.0, 0.0, 0.0]])
    expected = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.75, 0.25, 0.0], [1 / 3, 1 / 3, 1 / 3]])
    torch.testing.assert_close(heads.sparsemax(rows), expected)
    shares = heads.sparsemax(torch.tensor([[0.0, bad, 0.5], [0.5, 0.5, 0.0]]))
    assert shares[0].isnan().any() and torch.equal(shares[1], torch.tensor([0.5, 0.5, 0.0]))


def test_padding_asks_for_no_code():
    head = make_head("codebook")
    tokens, token_mask = torch.randn(1, 3, WIDTH), torch.tensor([[True, True, False]])
    text = torch.randn(1, WIDTH)
    changed = tokens.clone()
    changed[0, 2] = 100.0
    mapped = head.map_texts(text, tokens, token_mask)
    assert torch.equal(mapped, head.map_texts(text, changed, token_mask))
    torch.testing.assert_close(mapped, head.map_texts(text, tokens[:, :2], token_mask[:, :2]))


@pytest.mark.parametrize("config, message", [
    ({"kind": "text_mapp", "options": {"width": WIDTH}}, "did you mean 'text_map'"),
    ({"kind": "text_map", "options": {"width": "8"}}, "must be whole numbers by name"),
    ({"kind": "text_map", "options": {"width": 10**12}}, "must be whole numbers by name"),
    ({"kind": "text_map", "options": {"depth": 8}}, "options: .*depth"),
    ({"kind": "text_pooling", "options": {"width": WIDTH, "heads": 3}}, "heads=3: must divide"),
    ({"kind": "text_map", "options": {"width": 9}}, "weights of another head"),
    ({"kind": "codebook", "options": {"width": WIDTH, "codes": 1000000, "code_width": 1000000}}, "of another head"),
])  # fmt: skip
def test_a_head_that_is_none_is_refused(config, message, tmp_path):
    make_head("text_map").save(tmp_path)
    (tmp_path / heads.CONFIG).write_text(json.dumps(config))
    with pytest.raises(UserError, match=message):
        heads.load_head(tmp_path)
