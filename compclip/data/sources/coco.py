"""COCO's own caption annotations: captions_train2017.json and a folder of pictures."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from compclip.data.sample import Sample
from compclip.data.sources._common import finish, need
from compclip.files import read_json


def read(cfg) -> tuple[list[Sample], Counter]:
    """Samples in the order of the file's images. Raises UserError for a missing field."""
    raw = read_json(cfg.path)
    texts: dict[int, list[str]] = {}
    for i, note in enumerate(need(raw, "annotations", cfg.path)):
        where = f"{cfg.path}: annotation {i}"
        texts.setdefault(need(note, "image_id", where), []).append(need(note, "caption", where))
    found = []
    for i, image in enumerate(need(raw, "images", cfg.path)):
        where = f"{cfg.path}: image {i}"
        name = need(image, "file_name", where)
        found.append((Path(name).stem, Path(cfg.images) / name, texts.get(need(image, "id", where), [])))
    return finish(found, cfg.split, cfg.limit)
