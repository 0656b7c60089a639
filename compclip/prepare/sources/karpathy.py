"""Read Karpathy's splits: one JSON with images, their split and sentences (dataset_coco.json, …)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from compclip.base.files import read_json
from compclip.config.sections import Data
from compclip.data.caption_files import read_karpathy
from compclip.data.sample import Sample
from compclip.prepare.sources import make_samples


def records(cfg: Data, counts: Counter) -> Iterator[Sample]:
    """Give samples of `cfg.split` (train includes restval). Raises UserError for missing fields and unknown splits."""
    yield from make_samples(cfg, read_karpathy(cfg.path, read_json(cfg.path), cfg.split))
