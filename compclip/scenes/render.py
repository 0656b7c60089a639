"""Layouts to pixels: tinted glyphs of DejaVu Sans on a light ground.

H, W pixels. Pure functions of the layout; masks are made once for each (symbol, size, texture).
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from compclip.scenes.layout import COLUMNS, Scene, Thing
from compclip.scenes.world_words import EVERY_COLOUR, EVERY_SYMBOL

SIDE = 64  # pixels of a picture's side
EXTENT = {"small": 22, "large": 28}  # pixels of a symbol's longer side
JITTER = 0.3  # share of the room that a symbol leaves in its cell


def render(scene: Scene) -> np.ndarray:
    """Return the picture of a scene, uint8 [64, 64, 3]."""
    canvas_HW3 = np.full((SIDE, SIDE, 3), scene.background, np.float32)
    paint(canvas_HW3, scene)
    return canvas_HW3.astype(np.uint8)


def paint(canvas_HW3: np.ndarray, scene: Scene) -> None:
    """Draw the things of a scene into a square of any side, float32 from 0 to 255; they scale with it."""
    for thing in scene.things:
        _paint(canvas_HW3, thing)


def _paint(canvas_HW3: np.ndarray, thing: Thing) -> None:
    side = canvas_HW3.shape[0]
    cell = side / COLUMNS
    mask_HW = _mask(thing.symbol, round(EXTENT[thing.size] * side / SIDE), thing.texture)
    height, width = mask_HW.shape
    row, column = divmod(thing.cell, COLUMNS)
    room_y, room_x = (cell - height) / 2, (cell - width) / 2
    top = round(row * cell + room_y * (1 + JITTER * thing.shift[1]))
    left_edge = round(column * cell + room_x * (1 + JITTER * thing.shift[0]))
    patch = canvas_HW3[top : top + height, left_edge : left_edge + width]
    alpha = mask_HW[..., None]
    patch[...] = patch * (1 - alpha) + np.asarray(EVERY_COLOUR[thing.colour][0], np.float32) * alpha


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
