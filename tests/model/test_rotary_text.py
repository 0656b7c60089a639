"""A text tower of rotary positions: its attention against sums over complex numbers, what it keeps, what is refused."""

import cmath
import copy

import pytest
import torch
from torch import Tensor, nn

from compclip.base.errors import UserError
from compclip.methods import clip_in
from compclip.model import clip_model, rotary_text
from compclip.model.clip_model import ClipModel
from compclip.model.tokenizers import ClipTokenizer
from tests.distributed_check import SHAPE, L

TEXT = torch.tensor([[58, 7, 3, 59, 0], [58, 5, 59, 0, 0]])  # of SHAPE's 60 words, the last of which ends a text


def make_model(**text_cfg) -> ClipModel:
    cfg = copy.deepcopy(SHAPE) | {"text_cfg": SHAPE["text_cfg"] | {"width": 16, "heads": 2, "layers": 2} | text_cfg}
    torch.manual_seed(0)
    clip = clip_model.build_module(cfg).double().eval()
    for name, parameter in clip.named_parameters():
        parameter.data += 0.3 * torch.randn_like(parameter) * (name != "logit_scale")
    return ClipModel(clip, ClipTokenizer(clip.context_length), None, cfg, {}, "")


def turned(x_C: Tensor, position: int) -> list[complex]:
    """Neighbouring numbers as complex ones, times e^(i p / 10000^(2n/C))."""
    pairs = x_C.tolist()
    count = len(pairs) // 2
    angles = [position * 10000.0 ** (-n / count) for n in range(count)]
    return [complex(pairs[2 * n], pairs[2 * n + 1]) * cmath.exp(1j * angle) for n, angle in enumerate(angles)]


def attended_in_loops(attention: nn.MultiheadAttention, x_TW: Tensor) -> Tensor:
    """What each position sees of those up to itself."""
    q_TW, k_TW, v_TW = (x_TW @ attention.in_proj_weight.T + attention.in_proj_bias).chunk(3, dim=-1)
    C, rows = x_TW.shape[1] // attention.num_heads, []
    for t in range(len(x_TW)):
        row = []
        for head in (slice(h * C, (h + 1) * C) for h in range(attention.num_heads)):
            query = turned(q_TW[t, head], t)
            fits = [sum((a * b.conjugate()).real for a, b in zip(query, turned(k_TW[u, head], u), strict=True))
                    for u in range(t + 1)]  # fmt: skip
            shares = torch.tensor([fit / C**0.5 for fit in fits], dtype=torch.float64).softmax(0)
            row.append(shares @ v_TW[: t + 1, head])
        rows.append(torch.cat(row))
    return attention.out_proj(torch.stack(rows))


def test_attention_beside_loops_over_complex_numbers():
    torch.manual_seed(0)
    attention = nn.MultiheadAttention(12, 3, batch_first=True).double()
    attention.in_proj_bias.data.normal_()
    x_BTW, mask_TT = torch.randn(2, 6, 12, dtype=torch.float64), torch.full((6, 6), float("-inf")).triu_(1).double()
    expected = torch.stack([attended_in_loops(attention, x_TW) for x_TW in x_BTW])
    plain = attention(x_BTW, x_BTW, x_BTW, attn_mask=mask_TT)[0]
    attention.__class__ = rotary_text.RotaryAttention
    torch.testing.assert_close(attention(x_BTW, x_BTW, x_BTW, attn_mask=mask_TT)[0], expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(plain[:, 0], expected[:, 0])  # the first position sees itself alone
    assert not torch.allclose(plain[:, 1:], expected[:, 1:])


def test_a_converted_tower():
    """All weights but the positions stay; a text has the same vector in a longer row, and as its config builds it."""
    model = make_model()
    before = {name: tensor.clone() for name, tensor in model.clip.state_dict().items()}
    rotary_text.convert_tower(model, 9)
    after = model.clip.state_dict()
    assert after["positional_embedding"].shape == (9, 16) and not after.pop("positional_embedding").any()
    assert {name for name, tensor in after.items() if torch.equal(tensor, before[name])} == after.keys()
    assert "positional_embedding" not in dict(model.clip.named_parameters())
    assert model.tokenize(["a dog"]).shape == (1, 9) and model.model_cfg["text_cfg"]["context_length"] == 9
    again = rotary_text.build_module(model.model_cfg).double().eval()
    again.load_state_dict(model.clip.state_dict())
    longer = nn.functional.pad(TEXT, (0, 4))
    with torch.no_grad():
        vectors = again.encode_text(longer)
        assert torch.equal(vectors, model.clip.encode_text(longer))
        short = make_model()
        rotary_text.convert_tower(short, 5)
        torch.testing.assert_close(short.clip.encode_text(TEXT), vectors, rtol=1e-12, atol=1e-12)
        swapped = short.clip.encode_text(TEXT[:, [0, 2, 1, 3, 4]])
    assert (swapped - vectors)[0].abs().max() > 1e-3  # the order of words is seen


@pytest.mark.parametrize(("rotary", "positions"), [(0, L), (9, 9)])
def test_clip_in_asks_for_them(rotary, positions):
    model = make_model()
    clip_in.adapt(clip_in.Config(rotary=rotary), model, 0)
    assert model.model_cfg["text_cfg"].get("rotary", False) is (rotary > 0)
    assert model.tokenize(["a dog"]).shape == (1, positions) and len(model.clip.positional_embedding) == positions
    with pytest.raises(UserError, match="rotary=2: must be >= 3"):
        clip_in.Config(rotary=2)
