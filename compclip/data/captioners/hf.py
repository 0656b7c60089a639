"""Captions from an image-to-text model of transformers in a local folder, greedily decoded; BLIP is the example.

    captioner: hf
    options: {model: models/blip-image-captioning-base}

For models whose processor takes pictures and whose answer is the caption alone: BLIP and encoder-decoders like it.
Models that want a chat are better served by an endpoint. The only importer of transformers.
"""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from omegaconf import MISSING
from PIL import Image

from compclip.base.errors import UserError, one_line
from compclip.data import images
from compclip.data.captioners import Caption
from compclip.data.sample import Sample

if TYPE_CHECKING:
    from compclip.config.sections import Data

EXAMPLE = "Salesforce/blip-image-captioning-base"


@dataclass(frozen=True)
class Config:
    """A model's folder (config.json, weights, tokenizer, preprocessor_config.json) and how it is run."""

    model: str = MISSING
    prompt: str = ""  # words that the caption continues, as "a picture of"
    batch_size: int = 16
    max_new_tokens: int = 64
    device: str = "auto"  # cuda where there is one

    def __post_init__(self) -> None:
        for name in ("batch_size", "max_new_tokens"):
            if getattr(self, name) < 1:
                raise UserError(f"{name}={getattr(self, name)}: must be >= 1")


@contextmanager
def opened(data: Data, cfg: Config) -> Iterator[Caption]:
    """A captioner with its model loaded. Raises UserError for what is no model of transformers."""
    processor, model = _open(cfg)
    yield lambda samples, shard: captioned(samples, processor, model, cfg)


def captioned(samples: list[Sample], processor: Any, model: Any, cfg: Config) -> tuple[list[Sample], Counter]:
    """The samples with the model's caption instead of theirs; unreadable pictures and empty captions are counted."""
    made, counts = [], Counter()
    for batch in _batches(samples, cfg.batch_size, counts):
        texts = _described(processor, model, [picture for _, picture in batch], cfg)
        counts["empty_captions"] += sum(not text for text in texts)
        made += [replace(s, captions=(text,)) for (s, _), text in zip(batch, texts, strict=True) if text]
    return made, counts


def _described(processor, model, pictures: list[Image.Image], cfg: Config) -> list[str]:
    try:
        return describe(processor, model, pictures, cfg)
    except Exception as error:  # a tokenizer of another model, more tokens than it has places for, too little memory
        raise UserError(
            f"options.model={cfg.model}: cannot caption: {type(error).__name__}: {one_line(str(error))[:300]}; lower "
            f"max_new_tokens={cfg.max_new_tokens} or batch_size={cfg.batch_size}, or take a whole model's folder"
        ) from error


@torch.inference_mode()
def describe(processor, model, pictures: list[Image.Image], cfg: Config) -> list[str]:
    """A caption of each picture, without search and without chance."""
    texts = {"text": [cfg.prompt] * len(pictures)} if cfg.prompt else {}
    inputs = processor(images=pictures, return_tensors="pt", **texts).to(model.device)
    tokens_BL = model.generate(**inputs, do_sample=False, num_beams=1, max_new_tokens=cfg.max_new_tokens)
    return [one_line(text) for text in processor.batch_decode(tokens_BL, skip_special_tokens=True)]


def _batches(samples: list[Sample], size: int, counts: Counter) -> Iterator[list[tuple[Sample, Image.Image]]]:
    batch = []
    for sample in samples:
        try:
            batch.append((sample, images.load(sample.picture)))
        except images.ImageError as error:
            counts[f"{error.reason}_picture"] += 1
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def _open(cfg: Config) -> tuple:
    """Processor and model. Raises UserError saying what to install or to download."""
    if importlib.util.find_spec("transformers") is None:
        raise UserError("captioner 'hf' needs the package transformers; run `pip install compclip[captioners]`")
    if not (Path(cfg.model) / "config.json").is_file():
        raise UserError(
            f"options.model={cfg.model}: no config.json there; download a model where there is a hub, as "
            f"`hf download {EXAMPLE} --local-dir {cfg.model}`, and copy the folder to this place"
        )
    if (Path(cfg.model) / "adapter_config.json").is_file():
        raise UserError(f"options.model={cfg.model}: an adapter, which names a model elsewhere; merge it into that one")
    from transformers import AutoModelForImageTextToText, AutoProcessor

    device = ("cuda" if torch.cuda.is_available() else "cpu") if cfg.device == "auto" else cfg.device
    own: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}  # no hub, and no code of the folder's
    try:
        processor = AutoProcessor.from_pretrained(cfg.model, **own)
        model = AutoModelForImageTextToText.from_pretrained(cfg.model, weights_only=True, **own)
        return processor, model.eval().to(device)
    except Exception as error:  # a damaged file is met by whichever line of transformers reads it
        raise UserError(
            f"options.model={cfg.model}: transformers cannot open it: {one_line(str(error))[:300]}; it "
            "must be a whole image-to-text model"
        ) from error
