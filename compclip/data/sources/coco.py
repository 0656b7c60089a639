"""COCO's own caption annotations: captions_train2017.json and a folder of pictures."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from compclip.base.files import read_json
from compclip.config.sections import Data
from compclip.data.sample import Sample
from compclip.data.sources._common import finish, need


def read(cfg: Data) -> tuple[list[Sample], Counter]:
    """Samples in the order of the file's images; captions whose image the file does not list are counted."""
    raw = read_json(cfg.path)
    texts: dict[int | str, list[str]] = {}
    for i, note in enumerate(need(raw, "annotations", cfg.path, list)):
        where = f"{cfg.path}: annotation {i}"
        texts.setdefault(need(note, "image_id", where, (int, str)), []).append(need(note, "caption", where))
    found = []
    for i, image in enumerate(need(raw, "images", cfg.path, list)):
        where = f"{cfg.path}: image {i}"
        name = need(image, "file_name", where)
        found.append((Path(name).stem, Path(cfg.images) / name, texts.pop(need(image, "id", where, (int, str)), [])))
    samples, counts = finish(found, cfg)
    counts["captions_without_image"] = sum(map(len, texts.values()))
    return samples, counts
