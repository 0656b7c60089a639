"""Caption pictures with a CoCa model of open_clip, named as backbones are: a hub's tag, a weights file, or a folder.

captioner: coca
options: {model: coca_ViT-L-14, weights: mscoco_finetuned_laion2b_s13b_b90k}

CoCa (Yu et al., TMLR 2022, arXiv:2205.01917) is open_clip's; how captions are written stands here since open_clip's own
`generate` asks transformers for what the current one has no more. Left out of that: beams, chance and a least length.

B pictures, T text positions, N image tokens, V words, D width.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import open_clip
import torch
from PIL import Image
from pydantic import PositiveInt
from torch import Tensor

from compclip.base.errors import UserError
from compclip.llm.answer_cache import Answer
from compclip.model import backbone, tokenizers
from compclip.model.clip_model import ClipModel
from compclip.model.model_config import SCHEMES
from compclip.prepare.captioners import Caption, _device_replicas

if TYPE_CHECKING:
    from compclip.config.sections import Data

# of CLIP's own code
START_TOKEN = 49406
END_TOKEN = 49407
MAX_NEW_TOKENS = 30  # of a caption; fewer where the model has fewer places


@dataclass(frozen=True)
class Config(_device_replicas.ModelConfig):
    """A model, which writes the likeliest word each time: an open_clip name, a config file, or local-dir:FOLDER."""

    weights: str = ""  # a tag, a file or a folder; none where the model is a folder
    batch_size: PositiveInt = 32

    def __post_init__(self) -> None:
        if not (self.weights or self.model.startswith(SCHEMES)):
            raise UserError("weights: must be given: a tag of a hub, a weights file, or a folder")


def reads(data: Data, cfg: Config) -> list[str]:
    """Return the weights' files."""
    weights = Path(cfg.model.removeprefix("local-dir:") if not cfg.weights else cfg.weights)
    return sorted(map(str, weights.glob("*"))) if weights.is_dir() else [str(weights)]


@contextmanager
def opened(data: Data, cfg: Config) -> Iterator[Caption]:
    """Give a captioner with its model loaded on each device. Raises UserError for what is no CoCa model."""
    replicas = []
    for device in _device_replicas.parse_devices(cfg.device):
        model = load_captioner(cfg.model, cfg.weights, device)
        replicas.append(functools.partial(_describe_pictures, model))
    yield lambda samples, shard: _device_replicas.caption_samples(samples, replicas, cfg.batch_size, cfg.model)


def load_captioner(name: str, weights: str = "", device: str = "cpu") -> ClipModel:
    """Load a CoCa model by name. Raises UserError for another model, or another tokenizer than CLIP's."""
    model = backbone.create(name, weights, device=device, captioner=True)
    if not isinstance(model.tokenizer, tokenizers.ClipTokenizer):
        raise UserError(f"model {name}: has a tokenizer of its own; give a CoCa model with CLIP's, as coca_ViT-L-14")
    model.clip.eval()
    return model


def _describe_pictures(model: ClipModel, pictures: list[Image.Image]) -> list[Answer]:
    pixels_B3HW = model.pixels(pictures).to(model.clip.logit_scale.device)
    places = min(model.clip.text.context_length, model.clip.text_decoder.context_length)
    tokens_BT = generate(model.clip, pixels_B3HW, min(MAX_NEW_TOKENS, places))
    return list(map(_decode, tokens_BT.tolist()))


@torch.inference_mode()
def generate(clip: Any, image_B3HW: Tensor, max_tokens: int) -> Tensor:
    """Return the tokens [B, T] of a caption for each picture; an ended text repeats its end token.

    The image tower runs once. The text tower is causal, so that a token does not depend on later ones.
    """
    image_BD, image_BND = clip._encode_image(image_B3HW)
    tokens_BT = torch.full((len(image_B3HW), 1), START_TOKEN, device=image_B3HW.device)
    for _ in range(max_tokens):
        output = clip(None, tokens_BT, image_latent=image_BD, image_embs=image_BND, output_labels=False)
        next_B = torch.where(tokens_BT[:, -1] == END_TOKEN, END_TOKEN, output["logits"][:, -1].argmax(-1))
        tokens_BT = torch.cat([tokens_BT, next_B[:, None]], dim=1)
        if bool((next_B == END_TOKEN).all()):
            break
    return tokens_BT[:, 1:]


def _decode(words: list[int]) -> Answer:
    ended = END_TOKEN in words
    caption = words[: words.index(END_TOKEN)] if ended else words
    text = open_clip.decode(torch.tensor([word for word in caption if word < START_TOKEN])).strip()
    return Answer(text, not ended)
