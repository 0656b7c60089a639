"""CoCa (Yu et al., TMLR 2022, arXiv:2205.01917) as open_clip has it, writing captions.

B pictures, T text positions, N image tokens, V words, K kept words, D width. Written here since open_clip's own
`generate` asks transformers for what the current one has no more. Left out of that: beams and a least length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from PIL.Image import Image
from torch import Tensor

from compclip.base.errors import UserError
from compclip.model import backbone, tokenizers
from compclip.model.clip_model import ClipModel

START_TOKEN, END_TOKEN = 49406, 49407  # of CLIP's own code
Draw = Callable[[Tensor], Tensor]  # the next word of each text, [B], from the scores [B, V]


@dataclass(frozen=True)
class CaptionModel:
    """A CoCa model that writes captions of at most `longest` tokens."""

    clip_model: ClipModel

    @property
    def longest(self) -> int:
        """Most tokens of a caption."""
        clip = self.clip_model.clip
        return min(clip.text.context_length, clip.text_decoder.context_length)

    def write_captions(self, pictures: Sequence[Image], max_tokens: int, draw: Draw) -> list[tuple[str, bool]]:
        """Return a caption of at most `max_tokens` tokens for each picture, and whether it came to an end."""
        device = self.clip_model.clip.logit_scale.device
        tokens_BT = generate(self.clip_model.clip, self.clip_model.pixels(pictures).to(device), max_tokens, draw)
        return [_decode(row) for row in tokens_BT.tolist()]


def load_captioner(name: str, weights: str = "", device: str = "cpu", seed: int = 0) -> CaptionModel:
    """Load a CoCa model by name. Raises UserError for another model, or another tokenizer than CLIP's."""
    model = backbone.create(name, weights, seed, device, captioner=True)
    if not isinstance(model.tokenizer, tokenizers.ClipTokenizer):
        raise UserError(f"model {name}: has a tokenizer of its own; give a CoCa model with CLIP's, as coca_ViT-L-14")
    model.clip.eval()
    return CaptionModel(model)


@torch.inference_mode()
def generate(clip: Any, image_B3HW: Tensor, max_tokens: int, draw: Draw) -> Tensor:
    """Return the tokens [B, T] of a caption for each picture; an ended text repeats its end token.

    The image tower runs once. The text tower is causal, so that a token does not depend on later ones.
    """
    image_BD, image_BND = clip._encode_image(image_B3HW)
    tokens_BT = torch.full((len(image_B3HW), 1), START_TOKEN, device=image_B3HW.device)
    for _ in range(max_tokens):
        output = clip(None, tokens_BT, image_latent=image_BD, image_embs=image_BND, output_labels=False)
        next_B = torch.where(tokens_BT[:, -1] == END_TOKEN, END_TOKEN, draw(output["logits"][:, -1]))
        tokens_BT = torch.cat([tokens_BT, next_B[:, None]], dim=1)
        if bool((next_B == END_TOKEN).all()):
            break
    return tokens_BT[:, 1:]


def take_likeliest(score_BV: Tensor) -> Tensor:
    """Return the token with the highest score."""
    return score_BV.argmax(-1)


def sample_from(top_k: int, temperature: float, rngs: Sequence[np.random.Generator]) -> Draw:
    """Return a function that draws one of the `top_k` likeliest tokens of each text, with that text's generator."""

    def draw(score_BV: Tensor) -> Tensor:
        score_BK, word_BK = score_BV.topk(min(top_k, score_BV.shape[1]))
        cumulative_BK = torch.softmax(score_BK.double().cpu() / temperature, -1).cumsum(-1)
        threshold_B1 = torch.tensor([rng.random() for rng in rngs])[:, None] * cumulative_BK[:, -1:]
        rank_B1 = (cumulative_BK <= threshold_B1).sum(-1, keepdim=True).clamp(max=score_BK.shape[1] - 1)
        return word_BK.gather(1, rank_B1.to(word_BK.device))[:, 0]

    return draw


def _decode(words: list[int]) -> tuple[str, bool]:
    import open_clip

    ended = END_TOKEN in words
    caption = words[: words.index(END_TOKEN)] if ended else words
    return open_clip.decode(torch.tensor([word for word in caption if word < START_TOKEN])).strip(), ended
