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
from compclip.base.lazy import open_clip
from compclip.model import backbone, tokenizers

START, END = 49406, 49407  # of CLIP's own code
Draw = Callable[[Tensor], Tensor]  # the next word of each text, [B], from the scores [B, V]


@dataclass(frozen=True)
class Teller:
    """A CoCa model that writes captions of at most `places` words."""

    model: backbone.Model

    @property
    def places(self) -> int:
        """The most words of a caption."""
        clip = self.model.clip
        return min(clip.text.context_length, clip.text_decoder.context_length)

    def texts(self, pictures: Sequence[Image], most: int, draw: Draw) -> list[tuple[str, bool]]:
        """A caption of each picture, of at most `most` words, and whether it came to an end."""
        device = self.model.clip.logit_scale.device
        said_BT = tell(self.model.clip, self.model.pixels(pictures).to(device), most, draw)
        return [_text(row) for row in said_BT.tolist()]


def load(model: str, weights: str = "", device: str = "cpu", seed: int = 0) -> Teller:
    """A CoCa model, named as backbones are. Raises UserError for what is none, or has another tokenizer than CLIP's."""
    made = backbone.create(model, weights, seed, device, tells=True)
    if not isinstance(made.tokenizer, tokenizers.Clip):
        raise UserError(f"model {model}: has a tokenizer of its own; give a CoCa model with CLIP's, as coca_ViT-L-14")
    made.clip.eval()
    return Teller(made)


@torch.inference_mode()
def tell(clip: Any, image_B3HW: Tensor, most: int, draw: Draw) -> Tensor:
    """The words [B, T] of a caption each, word by word; behind a text's end its end token is repeated.

    The image tower runs once. A text looks at nothing behind it, so that a word does not depend on those to come.
    """
    seen_BD, seen_BND = clip._encode_image(image_B3HW)
    said_BT = torch.full((len(image_B3HW), 1), START, device=image_B3HW.device)
    for _ in range(most):
        found = clip(None, said_BT, image_latent=seen_BD, image_embs=seen_BND, output_labels=False)
        next_B = torch.where(said_BT[:, -1] == END, END, draw(found["logits"][:, -1]))
        said_BT = torch.cat([said_BT, next_B[:, None]], dim=1)
        if bool((next_B == END).all()):
            break
    return said_BT[:, 1:]


def likeliest(score_BV: Tensor) -> Tensor:
    """The word with the highest score."""
    return score_BV.argmax(-1)


def among(top_k: int, temperature: float, rngs: Sequence[np.random.Generator]) -> Draw:
    """Draws one of the `top_k` likeliest words of each text, by its chance, with that text's own generator."""

    def draw(score_BV: Tensor) -> Tensor:
        score_BK, word_BK = score_BV.topk(min(top_k, score_BV.shape[1]))
        upto_BK = torch.softmax(score_BK.double().cpu() / temperature, -1).cumsum(-1)
        drawn_B1 = torch.tensor([rng.random() for rng in rngs])[:, None] * upto_BK[:, -1:]
        place_B1 = (upto_BK <= drawn_B1).sum(-1, keepdim=True).clamp(max=score_BK.shape[1] - 1)
        return word_BK.gather(1, place_B1.to(word_BK.device))[:, 0]

    return draw


def _text(words: list[int]) -> tuple[str, bool]:
    ended = END in words
    own = words[: words.index(END)] if ended else words
    return open_clip.decode(torch.tensor([word for word in own if word < START])).strip(), ended
