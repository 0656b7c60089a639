"""Read Karpathy's splits: one JSON with images, their split and sentences (dataset_coco.json, …)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from compclip.base.errors import UserError
from compclip.base.files import read_json
from compclip.config.sections import Data
from compclip.data.sample import Sample
from compclip.prepare.sources import make_ids, require_field

MERGED = {"train": ("train", "restval")}  # COCO's restval is trained on as usual


def records(cfg: Data, counts: Counter) -> Iterator[Sample]:
    """Give samples of `cfg.split` (train includes restval). Raises UserError for missing fields and unknown splits."""
    images = require_field(read_json(cfg.path), "images", cfg.path, list)
    splits = [require_field(image, "split", f"{cfg.path}: image {i}") for i, image in enumerate(images)]
    accepted_splits = MERGED.get(cfg.split, (cfg.split,))
    if not any(split in accepted_splits for split in splits):
        raise UserError(f"{cfg.path}: no image of split {cfg.split!r}; splits there: {', '.join(sorted(set(splits)))}")
    accepted = [(f"{cfg.path}: image {i}", image) for i, image in enumerate(images) if splits[i] in accepted_splits]
    names = [_read_name(image, where) for where, image in accepted]
    for (where, image), name, sample_id in zip(accepted, names, make_ids(names), strict=True):
        sentences = require_field(image, "sentences", where, list)
        texts = tuple(require_field(sentence, "raw", where) for sentence in sentences)
        yield Sample(sample_id, str(Path(cfg.images) / name), texts, cfg.split)


def _read_name(image: dict, where: str) -> str:
    """Return the picture's path below the folder of pictures."""
    name: str = require_field(image, "filename", where)
    folder = require_field(image, "filepath", where) if "filepath" in image else ""
    return f"{folder}/{name}" if folder else name
