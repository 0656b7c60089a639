"""Heads of released checkpoints that are scored and never trained here, beside those of `model.heads`.

B pictures or texts, T texts, N patches, L positions of a text, C codes, K class tokens, H attention heads, D joint dim,
W width of an image token, V width of a text token, E numbers of a text.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from compclip.model import heads
from compclip.model.heads import Head, in_float32


class FiniteTokens(Head):
    """The codebook of FDT and of iterated learning, as released (prototype/model/clip_fdt.py, Query_model).

    It differs from `heads.Codebook`: the start token asks too, and padding answers every code with 0. Patches come
    through their query's layer norm and first matrix, tokens through ln_final alone (`author_layouts`).
    """

    kind = "finite_tokens"
    needs_tokens = True
    temperature: Tensor

    def __init__(self, width: int, codes: int, context: int) -> None:
        super().__init__(width=width, codes=codes, context=context)
        self.code = nn.Parameter(torch.zeros(codes, width))
        self.image_bias = nn.Parameter(torch.zeros(width))
        self.image_query = nn.Sequential(nn.GELU(), nn.LayerNorm(width), nn.Linear(width, width))
        self.text_query = heads.query_network(width, width)
        self.register_buffer("temperature", torch.ones(()))

    @in_float32
    def map_images(self, image_BD: Tensor, patch_BND: Tensor | None = None) -> Tensor:
        """Return the normalised sum of the codes that patches ask for."""
        assert patch_BND is not None
        return self._sum_codes(self._answer(self.image_query(patch_BND + self.image_bias)).amax(dim=1))

    @in_float32
    def map_texts(self, text_BD: Tensor, token_BLD: Tensor | None = None, own_BL: Tensor | None = None) -> Tensor:
        """Return the normalised sum of the codes that a text's tokens ask for, from the start to the end token."""
        assert token_BLD is not None and own_BL is not None
        until_end_BL = own_BL.flip(1).cumsum(dim=1).flip(1) > 0
        answer_BLC = self._answer(self.text_query(token_BLD))
        answer_BC = answer_BLC.masked_fill(~until_end_BL[..., None], -torch.inf).amax(dim=1)
        is_padded_B1 = until_end_BL.sum(dim=1, keepdim=True) < self.options["context"]
        return self._sum_codes(torch.where(is_padded_B1, answer_BC.clamp_min(0), answer_BC))

    def _answer(self, query_BLD: Tensor) -> Tensor:
        """Return how well each position fits each code."""
        return query_BLD @ self.code.T / (self.code.shape[1] ** 0.5 * self.temperature)

    def _sum_codes(self, answer_BC: Tensor) -> Tensor:
        return F.normalize(heads.sparsemax(answer_BC) @ self.code, dim=-1)


class MixedTokens(Head):
    """Llip's mixture of a picture's class tokens, by attention with the text as its query (released code: xAttnPred).

    A picture is its class tokens (`model.class_tokens`), each with a key map and a value map of its own. A text is E
    numbers: its unit vector, its query, and a 1, so that a mean of texts, however scaled, still tells the mean query.
    """

    kind = "mixed_tokens"
    needs_tokens = True
    scores_pairs = True

    def __init__(self, width: int, tokens: int, token_width: int, text_width: int, **attention: int) -> None:
        super().__init__(width=width, tokens=tokens, token_width=token_width, text_width=text_width, **attention)
        if set(attention) != {"heads", "temperature"} or width % attention["heads"]:
            raise ValueError(
                f"{attention}: must be heads, which divide the {width} numbers of a vector, and temperature"
            )
        self.key, self.value = (nn.Parameter(torch.zeros(tokens, token_width, width)) for _ in range(2))
        self.query, self.text_projection = (nn.Parameter(torch.zeros(text_width, width)) for _ in range(2))
        self.out = nn.Parameter(torch.zeros(width, width))

    @property
    def text_numbers(self) -> int:
        """Texts are compared by their unit vectors."""
        return self.options["width"]

    @in_float32
    def map_texts(self, text_BD: Tensor, token_BLD: Tensor | None = None, own_BL: Tensor | None = None) -> Tensor:
        """Return [B, E] of texts, from the end token behind ln_final."""
        assert token_BLD is not None and own_BL is not None
        end_B = own_BL.shape[1] - 1 - own_BL.flip(1).int().argmax(dim=1)
        end_BV = token_BLD[torch.arange(len(end_B), device=end_B.device), end_B]
        text_BD = F.normalize(end_BV @ self.text_projection, dim=-1)
        return torch.cat([text_BD, end_BV @ self.query, torch.ones_like(text_BD[:, :1])], dim=1)

    @in_float32
    def score(self, patch_BKW: Tensor, text_TE: Tensor) -> Tensor:
        """Return the cosines of pictures, as texts mix their tokens, with these texts; the tokens stand for patches."""
        D = self.options["width"]
        text_TD, query_TD = text_TE[:, :D], text_TE[:, D : 2 * D] / text_TE[:, 2 * D :]
        attention = {name: self.options[name] for name in ("heads", "temperature")}
        mixed_BTD = heads.mix_tokens(patch_BKW, query_TD, self.key, self.value, self.out, **attention)
        return torch.einsum("btd,td->bt", mixed_BTD, F.normalize(text_TD, dim=-1))


KINDS: dict[str, Callable[..., Head]] = heads.KINDS | {head.kind: head for head in (FiniteTokens, MixedTokens)}
