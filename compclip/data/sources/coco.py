"""COCO's own caption annotations: captions_train2017.json and a folder of pictures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from compclip.base.files import read_json
from compclip.config.sections import Data
from compclip.data.sample import Sample
from compclip.data.sources._common import need


def records(cfg: Data, counts: Counter) -> Iterator[Sample]:
    """Samples in the order of the file's images; captions whose image the file does not list are counted."""
    raw = read_json(cfg.path)
    texts: dict[int | str, list[str]] = {}
    for i, note in enumerate(need(raw, "annotations", cfg.path, list)):
        where = f"{cfg.path}: annotation {i}"
        texts.setdefault(need(note, "image_id", where, (int, str)), []).append(need(note, "caption", where))
    listed = list(_listed(need(raw, "images", cfg.path, list), cfg.path))
    known = {number for number, _ in listed}
    counts["captions_without_image"] += sum(len(own) for number, own in texts.items() if number not in known)
    for number, name in listed:
        yield Sample(Path(name).stem, str(Path(cfg.images) / name), tuple(texts.pop(number, ())), cfg.split)


def _listed(images: list, path: str) -> Iterator[tuple[int | str, str]]:
    """Number and name of each picture."""
    for i, image in enumerate(images):
        where = f"{path}: image {i}"
        name = need(image, "file_name", where)
        yield need(image, "id", where, (int, str)), name
