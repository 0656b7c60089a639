"""Karpathy's splits: one JSON with images, their split and sentences (dataset_coco.json, dataset_flickr30k.json, …)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from compclip.base.errors import UserError
from compclip.base.files import read_json
from compclip.config.sections import Data
from compclip.data.sample import Sample
from compclip.data.sources._common import need

MERGED = {"train": ("train", "restval")}  # COCO's restval is trained on as usual


def records(cfg: Data, counts: Counter) -> Iterator[Sample]:
    """Samples of `cfg.split` (train includes restval). Raises UserError for a missing field or an unknown split."""
    images = need(read_json(cfg.path), "images", cfg.path, list)
    splits = [need(image, "split", f"{cfg.path}: image {i}") for i, image in enumerate(images)]
    wanted = MERGED.get(cfg.split, (cfg.split,))
    if not any(split in wanted for split in splits):
        raise UserError(f"{cfg.path}: no image of split {cfg.split!r}; splits there: {', '.join(sorted(set(splits)))}")
    for i, (image, split) in enumerate(zip(images, splits, strict=True)):
        if split in wanted:
            yield _sample(image, f"{cfg.path}: image {i}", cfg)


def _sample(image: dict, where: str, cfg: Data) -> Sample:
    name = need(image, "filename", where)
    folder = need(image, "filepath", where) if "filepath" in image else ""
    texts = [need(sentence, "raw", where) for sentence in need(image, "sentences", where, list)]
    return Sample(Path(name).stem, str(Path(cfg.images) / folder / name), tuple(texts), cfg.split)
