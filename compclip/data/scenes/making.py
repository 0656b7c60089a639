"""How the world's files are made: one generator a record, one picture a file, records over processes."""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image

from compclip.config.sections import World
from compclip.data.scenes import web
from compclip.data.scenes.layout import Scene


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


def seen(name: str, scene: Scene) -> np.ndarray:
    """The scene as the web shows it, uint8 [64, 64, 3]: where on which ground is a function of the file's name."""
    return web.shown(np.random.default_rng((2, zlib.crc32(name.encode()))), scene)


def picture(path: Path, scene: Scene) -> None:
    """Write the scene as a PNG, its folder with it."""
    buffer = io.BytesIO()
    Image.fromarray(seen(path.name, scene)).save(buffer, "PNG")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(buffer.getvalue())
