"""How the world's files are made: one generator a record, one picture a file, records over processes."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image

from compclip.config.sections import World
from compclip.data.scenes.layout import Scene
from compclip.data.scenes.render import render


def rng(world: World, split: int, *index: int) -> np.random.Generator:
    """The generator of one record of one part."""
    return np.random.default_rng((world.seed, split, *index))


def parallel(world: World, make: Callable, jobs: Iterable) -> list:
    """`make` over jobs in order, in chunks over processes."""
    jobs = list(jobs)
    if world.processes == 1:
        return [make(job) for job in jobs]
    with ProcessPoolExecutor(world.processes) as pool:
        return list(pool.map(make, jobs, chunksize=64))


def picture(path: Path, scene: Scene) -> None:
    """Write the scene as a PNG, its folder with it."""
    pixels(path, render(scene))


def pixels(path: Path, picture_HW3: np.ndarray) -> None:
    """Write a picture, uint8 [H, W, 3], as a PNG, its folder with it."""
    buffer = io.BytesIO()
    Image.fromarray(picture_HW3).save(buffer, "PNG")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(buffer.getvalue())
