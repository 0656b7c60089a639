"""Read COCO's caption annotations: captions_train2017.json and a folder of pictures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from compclip.base.files import read_json
from compclip.config.sections import Data
from compclip.data.caption_files import read_coco
from compclip.data.sample import Sample
from compclip.prepare.sources import make_samples


def records(cfg: Data, counts: Counter) -> Iterator[Sample]:
    """Give samples in the order of the file's images; captions whose image the file does not list are counted."""
    yield from make_samples(cfg, read_coco(cfg.path, read_json(cfg.path), counts))
