"""Pictures for captioners, and one shard through one."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from PIL import Image

from compclip.config.sections import Data
from compclip.data.sample import Sample

SIZES = ((40, 30), (32, 32), (20, 60), (64, 48), (33, 31))  # height and width


def noise_pictures(folder: Path, sizes: Iterable[tuple[int, int]] = SIZES, grey: int = -1) -> list[Sample]:
    """Pictures of noise, of which one may be grey."""
    rng, samples = np.random.default_rng(0), []
    for number, (height, width) in enumerate(sizes):
        picture = Image.fromarray(rng.integers(0, 256, (height, width, 3), dtype=np.uint8))
        picture.convert("L" if number == grey else "RGB").save(folder / f"{number}.png")
        samples.append(Sample(str(number), str(folder / f"{number}.png"), ("old", "older")))
    return samples


def captioned(captioner, samples, cfg, shard="00000", data=None):
    """What a captioner that is opened for this one call makes of the samples, and its counts."""
    with captioner.opened(data or Data("karpathy", "d.json", ".", captioner="x"), cfg) as caption:
        return caption(samples, shard)
