"""Read COCO's caption annotations: captions_train2017.json and a folder of pictures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from compclip.base.files import read_json
from compclip.config.sections import Data
from compclip.data.sample import Sample
from compclip.prepare.sources import make_ids, require_field


def records(cfg: Data, counts: Counter) -> Iterator[Sample]:
    """Give samples in the order of the file's images; captions whose image the file does not list are counted."""
    raw = read_json(cfg.path)
    texts: dict[str, list[str]] = {}
    for i, note in enumerate(require_field(raw, "annotations", cfg.path, list)):
        where = f"{cfg.path}: annotation {i}"
        number = str(require_field(note, "image_id", where, (int, str)))
        texts.setdefault(number, []).append(require_field(note, "caption", where))
    images = []
    for i, image in enumerate(require_field(raw, "images", cfg.path, list)):
        where = f"{cfg.path}: image {i}"
        images.append((str(require_field(image, "id", where, (int, str))), require_field(image, "file_name", where)))
    numbers = {number for number, _ in images}
    counts["captions_without_image"] += sum(
        len(captions) for number, captions in texts.items() if number not in numbers
    )
    ids = make_ids([name for _, name in images])
    for sample_id, (number, name) in zip(ids, images, strict=True):
        yield Sample(sample_id, str(Path(cfg.images) / name), tuple(texts.pop(number, ())), cfg.split)
