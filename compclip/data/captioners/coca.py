"""Captions from a CoCa model of open_clip, named as backbones are: a tag of a hub, a weights file, or a folder.

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
from omegaconf import MISSING
from PIL import Image

from compclip.base.errors import UserError, one_line
from compclip.data.answers import Answer
from compclip.data.captioners import Caption, _replicas
from compclip.data.sample import Sample
from compclip.model import coca
from compclip.model.backbone import SCHEMES

if TYPE_CHECKING:
    from compclip.config.sections import Data


@dataclass(frozen=True)
class Config:
    """A model, and how it writes: the likeliest word each time, or one of the `top_k` likeliest by chance."""

    model: str = MISSING  # an open_clip name, a config file, or local-dir:FOLDER
    weights: str = ""  # a tag, a file or a folder; none where the model is a folder
    batch_size: int = 32
    max_new_tokens: int = 30
    top_k: int = 1
    temperature: float = 1.0  # of the chances, where top_k > 1
    seed: int = 0
    device: str = "auto"  # every GPU there is, or names as cuda:0,cuda:1; each has the whole model

    def __post_init__(self) -> None:
        for name in ("batch_size", "max_new_tokens", "top_k"):
            if getattr(self, name) < 1:
                raise UserError(f"{name}={getattr(self, name)}: must be >= 1")
        if self.seed < 0:
            raise UserError(f"seed={self.seed}: must be >= 0")
        if not 0 < self.temperature < float("inf"):
            raise UserError(f"temperature={self.temperature}: must be > 0")
        if not (self.weights or self.model == MISSING or self.model.startswith(SCHEMES)):
            raise UserError("weights: must be given: a tag of a hub, a weights file, or a folder")


def reads(data: Data, cfg: Config) -> list[str]:
    """The weights' files."""
    place = Path(cfg.model.removeprefix("local-dir:") if not cfg.weights else cfg.weights)
    return sorted(map(str, place.glob("*"))) if place.is_dir() else [str(place)]


@contextmanager
def opened(data: Data, cfg: Config) -> Iterator[Caption]:
    """A captioner with its model loaded on each device. Raises UserError for what is no CoCa model."""
    tellers = [coca.load(cfg.model, cfg.weights, device, cfg.seed) for device in _replicas.devices(cfg.device)]
    if cfg.max_new_tokens > tellers[0].places:
        raise UserError(
            f"options.max_new_tokens={cfg.max_new_tokens}: {cfg.model} has {tellers[0].places} places; lower it"
        )
    replicas = [functools.partial(_described, teller, cfg) for teller in tellers]
    yield lambda samples, shard: _replicas.caption(samples, replicas, cfg.batch_size)


def _described(teller: coca.Teller, cfg: Config, samples: list[Sample], pictures: list[Image.Image]) -> list[Answer]:
    try:
        told = teller.texts(pictures, cfg.max_new_tokens, _draw(cfg, samples))
    except Exception as error:  # parts that do not go together, too little memory
        raise UserError(
            f"options.model={cfg.model}: cannot caption: {type(error).__name__}: {one_line(str(error))[:300]}; lower "
            f"batch_size={cfg.batch_size}, or take a whole CoCa model"
        ) from error
    return [Answer(text, not ended) for text, ended in told]


def _draw(cfg: Config, samples: list[Sample]) -> coca.Draw:
    """By chance with a generator for each picture, so that batches do not matter."""
    if cfg.top_k == 1:
        return coca.likeliest
    rngs = [np.random.default_rng((cfg.seed, zlib.crc32(sample.id.encode()))) for sample in samples]
    return coca.among(cfg.top_k, cfg.temperature, rngs)
