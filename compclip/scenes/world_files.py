"""Make the world's files: one generator for each record, records over processes."""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image

from compclip.config.sections import World
from compclip.scenes import web_pictures
from compclip.scenes.layout import Scene


def record_rng(world: World, split: int, *index: int) -> np.random.Generator:
    """Return the generator of one record of one part."""
    return np.random.default_rng((world.seed, split, *index))


def parallel(world: World, make: Callable, jobs: Iterable) -> list:
    """Return `make` of each job, in order, computed in chunks by `world.processes`."""
    jobs = list(jobs)
    if world.processes == 1:
        return [make(job) for job in jobs]
    with ProcessPoolExecutor(world.processes) as pool:
        return list(pool.map(make, jobs, chunksize=64))


def render_checked(name: str, scene: Scene) -> np.ndarray:
    """Render the scene as on the web, uint8 [64, 64, 3]; position and background depend on the file's name alone."""
    return web_pictures.render_scene(np.random.default_rng((2, zlib.crc32(name.encode()))), scene)


def write_picture(path: Path, scene: Scene) -> None:
    """Write the scene as a PNG; make its folder."""
    buffer = io.BytesIO()
    Image.fromarray(render_checked(path.name, scene)).save(buffer, "PNG")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(buffer.getvalue())
