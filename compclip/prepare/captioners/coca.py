"""Caption pictures with a CoCa model of open_clip, named as backbones are: a hub's tag, a weights file, or a folder.

captioner: coca
options: {model: coca_ViT-L-14, weights: mscoco_finetuned_laion2b_s13b_b90k}
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image
from pydantic import NonNegativeInt, PositiveFloat, PositiveInt

from compclip.base.errors import UserError, one_line
from compclip.config.validation import RequiredText
from compclip.data.sample import Sample
from compclip.llm.answer_cache import Answer
from compclip.model import caption_model
from compclip.model.model_config import SCHEMES
from compclip.prepare.captioners import Caption, _device_replicas

if TYPE_CHECKING:
    from compclip.config.sections import Data


@dataclass(frozen=True)
class Config:
    """A model, and how it writes: the likeliest word each time, or one of the `top_k` likeliest by chance."""

    model: RequiredText = ""  # an open_clip name, a config file, or local-dir:FOLDER
    weights: str = ""  # a tag, a file or a folder; none where the model is a folder
    batch_size: PositiveInt = 32
    max_new_tokens: PositiveInt = 30
    top_k: PositiveInt = 1
    temperature: PositiveFloat = 1.0  # of the chances, where top_k > 1
    seed: NonNegativeInt = 0
    device: str = "auto"  # every GPU there is, or names as cuda:0,cuda:1; each has the whole model

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
    tellers = [
        caption_model.load_captioner(cfg.model, cfg.weights, device, cfg.seed)
        for device in _device_replicas.parse_devices(cfg.device)
    ]
    if cfg.max_new_tokens > tellers[0].longest:
        raise UserError(
            f"options.max_new_tokens={cfg.max_new_tokens}: {cfg.model} has {tellers[0].longest} places; lower it"
        )
    replicas = [functools.partial(_describe_batch, teller, cfg) for teller in tellers]
    yield lambda samples, shard: _device_replicas.caption_samples(samples, replicas, cfg.batch_size)


def _describe_batch(
    teller: caption_model.CaptionModel, cfg: Config, samples: list[Sample], pictures: list[Image.Image]
) -> list[Answer]:
    try:
        captions = teller.write_captions(pictures, cfg.max_new_tokens, _choose_draw(cfg, samples))
    except Exception as error:  # parts that do not go together, too little memory
        raise UserError(
            f"options.model={cfg.model}: cannot caption: {type(error).__name__}: {one_line(str(error))[:300]}; lower "
            f"batch_size={cfg.batch_size}, or take a whole CoCa model"
        ) from error
    return [Answer(text, not ended) for text, ended in captions]


def _choose_draw(cfg: Config, samples: list[Sample]) -> caption_model.Draw:
    """Return how words are drawn: by chance with a generator per picture, so that batches do not matter."""
    if cfg.top_k == 1:
        return caption_model.take_likeliest
    rngs = [np.random.default_rng((cfg.seed, zlib.crc32(sample.id.encode()))) for sample in samples]
    return caption_model.sample_from(cfg.top_k, cfg.temperature, rngs)
