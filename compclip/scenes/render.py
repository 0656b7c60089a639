"""Layouts to pixels: tinted glyphs of DejaVu Sans on grounds of all kinds; and the pictures' files.

H, W pixels. Masks are made once for each (symbol, size, texture).
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from compclip.base import worker_processes
from compclip.config.sections import World
from compclip.scenes.layout import COLUMNS, EVERY_COLOUR, EVERY_SYMBOL, Scene, Thing

SIDE = 64  # pixels of a picture's side
EXTENT = {"small": 22, "large": 28}  # pixels of a symbol's longer side
JITTER = 0.3  # share of the room that a symbol leaves in its cell
SMALLEST = 44  # pixels: the least side of the square that a scene fills
LIGHT = (195, 256)  # range of a background's values
WHOLE = 0.4  # share of scenes that fill their picture
# shares of grounds
GRADIENT = 0.3
GRAIN = 0.3
TINT = 0.5


def parallel(world: World, make: Callable, jobs: Iterable) -> list:
    """Return `make` of each job, in order, computed in chunks by `world.processes`."""
    jobs = list(jobs)
    if world.processes == 1:
        return [make(job) for job in jobs]
    with ProcessPoolExecutor(world.processes, initializer=worker_processes.end_with_parent) as pool:
        return list(pool.map(make, jobs, chunksize=64))


def write_picture(path: Path, scene: Scene) -> None:
    """Write the scene as a PNG; make its folder."""
    buffer = io.BytesIO()
    Image.fromarray(render_named(path.name, scene)).save(buffer, "PNG")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(buffer.getvalue())


def render_named(name: str, scene: Scene) -> np.ndarray:
    """Render the scene as on the web, uint8 [64, 64, 3]; position and background depend on the file's name alone."""
    return render_scene(np.random.default_rng((2, zlib.crc32(name.encode()))), scene)


def render_scene(rng: np.random.Generator, scene: Scene) -> np.ndarray:
    """Draw the scene somewhere on a random background, uint8 [64, 64, 3]."""
    canvas_HW3 = _ground(rng)
    side, top, left_edge = _draw_square(rng)
    paint(canvas_HW3[top : top + side, left_edge : left_edge + side], scene)
    return canvas_HW3.clip(0, 255).astype(np.uint8)


def locate_things(name: str, scene: Scene) -> list[tuple[int, int, int, int]]:
    """Return each thing's box in the picture of this name, in pixels: left, upper, right, lower."""
    rng = np.random.default_rng((2, zlib.crc32(name.encode())))
    _ground(rng)
    side, first_row, first_column = _draw_square(rng)
    boxes = []
    for thing in scene.things:
        mask_HW, top, left_edge = _place(thing, side)
        left = first_column + left_edge
        upper = first_row + top
        boxes.append((left, upper, left + mask_HW.shape[1], upper + mask_HW.shape[0]))
    return boxes


def _draw_square(rng: np.random.Generator) -> tuple[int, int, int]:
    """Draw the side of the square that a scene fills, its top and its left edge."""
    side = SIDE if rng.random() < WHOLE else int(rng.integers(SMALLEST, SIDE + 1))
    top, left_edge = rng.integers(0, SIDE - side + 1, 2).tolist()
    return side, top, left_edge


def _ground(rng: np.random.Generator) -> np.ndarray:
    ground_HW3 = np.empty((SIDE, SIDE, 3), np.float32)
    ground_HW3[...] = start_3 = _light(rng)
    if rng.random() < GRADIENT:
        ramp_S13 = np.linspace(0, 1, SIDE, dtype=np.float32)[:, None, None] * (_light(rng) - start_3)
        ground_HW3 += ramp_S13 if rng.random() < 0.5 else ramp_S13.transpose(1, 0, 2)
    if rng.random() < GRAIN:
        ground_HW3 += rng.standard_normal(ground_HW3.shape, np.float32) * np.float32(rng.uniform(2, 10))
    return ground_HW3


def _light(rng: np.random.Generator) -> np.ndarray:
    values = rng.integers(*LIGHT, 3) if rng.random() < TINT else np.full(3, rng.integers(*LIGHT))
    return values.astype(np.float32)


def paint(canvas_HW3: np.ndarray, scene: Scene) -> None:
    """Draw the things of a scene into a square of any side, float32 from 0 to 255; they scale with it."""
    for thing in scene.things:
        mask_HW, top, left_edge = _place(thing, canvas_HW3.shape[0])
        height, width = mask_HW.shape
        patch = canvas_HW3[top : top + height, left_edge : left_edge + width]
        alpha = mask_HW[..., None]
        patch[...] = patch * (1 - alpha) + np.asarray(EVERY_COLOUR[thing.colour][0], np.float32) * alpha


def _place(thing: Thing, side: int) -> tuple[np.ndarray, int, int]:
    """Return the mask of a thing, its top and its left edge in a square of `side` pixels."""
    cell = side / COLUMNS
    mask_HW = _mask(thing.symbol, round(EXTENT[thing.size] * side / SIDE), thing.texture)
    height, width = mask_HW.shape
    row, column = divmod(thing.cell, COLUMNS)
    room_y = (cell - height) / 2
    room_x = (cell - width) / 2
    top = round(row * cell + room_y * (1 + JITTER * thing.shift[1]))
    left_edge = round(column * cell + room_x * (1 + JITTER * thing.shift[0]))
    return mask_HW, top, left_edge


@cache
def _mask(symbol: str, extent: int, texture: str) -> np.ndarray:
    glyph = _glyph(EVERY_SYMBOL[symbol][0])
    scale = extent / max(glyph.size)
    width, height = (max(1, round(side * scale)) for side in glyph.size)
    mask_HW = np.asarray(glyph.resize((width, height), Image.Resampling.LANCZOS), np.float32) / 255
    y, x = np.indices(mask_HW.shape)
    if texture == "striped":
        return mask_HW * np.where(y % 4 < 2, 1.0, 0.35)
    if texture == "spotted":
        return mask_HW * np.where((y % 5 < 2) & (x % 5 < 2), 0.1, 1.0)
    return mask_HW


@cache
def _glyph(character: str) -> Image.Image:
    import matplotlib

    path = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"
    font = ImageFont.truetype(str(path), 96)
    image = Image.new("L", (192, 192))
    ImageDraw.Draw(image).text((40, 40), character, fill=255, font=font)
    return image.crop(image.getbbox())
