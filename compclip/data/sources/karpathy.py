"""Karpathy's splits: one JSON with images, their split and sentences (dataset_coco.json, dataset_flickr30k.json, …)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from compclip.data.sample import Sample
from compclip.data.sources._common import finish, need
from compclip.errors import UserError
from compclip.files import read_json

MERGED = {"train": ("train", "restval")}  # COCO's restval is trained on as usual


def read(cfg) -> tuple[list[Sample], Counter]:
    """Samples of `cfg.split` (train includes restval). Raises UserError for a missing field or an unknown split."""
    images = need(read_json(cfg.path), "images", cfg.path)
    wanted = MERGED.get(cfg.split, (cfg.split,))
    known = sorted({str(image.get("split")) for image in images})
    found = [_sample(image, i, cfg) for i, image in enumerate(images) if image.get("split") in wanted]
    if not found:
        raise UserError(f"{cfg.path}: no image of split {cfg.split!r}; splits there: {', '.join(known)}")
    return finish(found, cfg.split, cfg.limit)


def _sample(image: dict, index: int, cfg) -> tuple[str, Path, list[str]]:
    where = f"{cfg.path}: image {index}"
    name = need(image, "filename", where)
    texts = [need(sentence, "raw", where) for sentence in need(image, "sentences", where)]
    return Path(name).stem, Path(cfg.images) / image.get("filepath", "") / name, texts
