"""Karpathy's splits: one JSON with images, their split and sentences (dataset_coco.json, dataset_flickr30k.json, …)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from compclip.base.errors import UserError
from compclip.base.files import read_json
from compclip.config.sections import Data
from compclip.data.sample import Sample
from compclip.data.sources._common import finish, need

MERGED = {"train": ("train", "restval")}  # COCO's restval is trained on as usual


def read(cfg: Data) -> tuple[list[Sample], Counter]:
    """Samples of `cfg.split` (train includes restval). Raises UserError for a missing field or an unknown split."""
    records = list(enumerate(need(read_json(cfg.path), "images", cfg.path, list)))
    splits = [need(image, "split", f"{cfg.path}: image {i}") for i, image in records]
    wanted = MERGED.get(cfg.split, (cfg.split,))
    found = [
        _sample(image, f"{cfg.path}: image {i}", cfg)
        for (i, image), split in zip(records, splits, strict=True)
        if split in wanted
    ]
    if not found:
        raise UserError(f"{cfg.path}: no image of split {cfg.split!r}; splits there: {', '.join(sorted(set(splits)))}")
    return finish(found, cfg)


def _sample(image: dict, where: str, cfg: Data) -> tuple[str, Path, list[str]]:
    name = need(image, "filename", where)
    folder = need(image, "filepath", where) if "filepath" in image else ""
    texts = [need(sentence, "raw", where) for sentence in need(image, "sentences", where, list)]
    return Path(name).stem, Path(cfg.images) / folder / name, texts
