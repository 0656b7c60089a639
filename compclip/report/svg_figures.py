"""Axes, lines and texts of figures as inline SVG, shared by all pages; colours come from the page's style sheet.

SVG and not matplotlib: a point shows its name and values when pointed at, and colours follow the reader's dark mode.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

COLOURS = 8


@dataclass(frozen=True)
class Axis:
    """Map the values [low, high] to the pixels [start, stop]; `log` maps their decimal logarithms.

    `ticks` are in the mapped unit; `labels` are their texts, by default their numbers.
    """

    low: float
    high: float
    start: float
    stop: float
    ticks: tuple[float, ...]
    labels: tuple[str, ...] = ()
    log: bool = False

    def __call__(self, value: float) -> float:
        return self.pixel(log10(value) if self.log else value)

    def pixel(self, mapped: float) -> float:
        """Return the pixel of a value in the mapped unit, to one decimal."""
        share = (mapped - self.low) / (self.high - self.low)
        return round(self.start + share * (self.stop - self.start), 1)

    def labelled_ticks(self) -> list[tuple[float, str]]:
        """Return the pixel and the text of each tick."""
        labels = self.labels or tuple(map(format_tick, self.ticks))
        return [(self.pixel(tick), label) for tick, label in zip(self.ticks, labels, strict=True)]


def linear_axis(values: Sequence[float], start: float, stop: float, ticks: int = 5) -> Axis:
    """Return an axis over `values` that ends on round ticks."""
    low, high = min(values), max(values)
    if high - low < 1e-9:
        low, high = low - 0.5, high + 0.5
    rough = (high - low) / ticks
    power = 10.0 ** floor(log10(rough))
    step = next(s * power for s in (1, 2, 2.5, 5, 10) if s * power >= rough * 0.999)
    first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
    round_ticks = tuple(round(i * step, 10) for i in range(first, last + 1))
    return Axis(round_ticks[0], round_ticks[-1], start, stop, round_ticks)


def logarithmic_axis(values: Sequence[float], start: float, stop: float) -> Axis:
    """Return an axis with ticks at 1, 2 and 5 times the powers of ten, or at the powers alone over two decades."""
    low, high = log10(min(values)), log10(max(values))
    low, high = (low - 0.1, high + 0.1) if high - low < 1e-9 else (low, high)
    steps = (1,) if high - low > 2 else (1, 2, 5)
    ticks = [s * 10.0**p for p in range(floor(low), ceil(high) + 1) for s in steps]
    ticks = [t for t in ticks if low - 1e-9 <= log10(t) <= high + 1e-9]
    return Axis(low, high, start, stop, tuple(map(log10, ticks)), tuple(map(format_tick, ticks)), log=True)


def category_axis(labels: Sequence[str], start: float, stop: float) -> Axis:
    """Return an axis with one tick for each label, at 0, 1, 2, …"""
    return Axis(-0.5, len(labels) - 0.5, start, stop, tuple(map(float, range(len(labels)))), tuple(labels))


def draw_axes(x: Axis, y: Axis, x_label: str, y_label: str) -> str:
    """Return the grid lines, ticks and labels of both axes; an empty `y_label` is left out."""
    out = [draw_line(x.start, y_px, x.stop, y_px, "grid") for y_px, _ in y.labelled_ticks()]
    out += [draw_text(x.start - 6, y_px + 4, label, "tick end") for y_px, label in y.labelled_ticks()]
    out += [draw_text(x_px, y.start + 16, label, "tick middle") for x_px, label in x.labelled_ticks()]
    out.append(draw_text((x.start + x.stop) / 2, y.start + 32, x_label, "label middle"))
    if y_label:
        turn = f"translate(14 {(y.start + y.stop) / 2:.1f}) rotate(-90)"
        out.append(f'<text class="label middle" transform="{turn}">{escape(y_label)}</text>')
    return "".join(out)


def format_tick(value: float) -> str:
    """Return a number of at most four digits, with a true minus sign."""
    return f"{value:.4g}".replace("-", "−")


def draw_line(x1: float, y1: float, x2: float, y2: float, css: str) -> str:
    """Return a straight line, in pixels."""
    return f'<line class="{css}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def draw_text(x: float, y: float, text: str, css: str) -> str:
    """Return a text at a pixel; the class says whether it begins, ends or has its middle there."""
    return f'<text class="{css}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'


def draw_path(points: Sequence[tuple[float, float]]) -> str:
    """Return the `d` attribute of an open path through pixels."""
    return "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in points)


def wrap_svg(body: str, width: int, height: int, title: str, css: str = "plot") -> str:
    """Return the whole figure; one without a title is decoration."""
    label = f' role="img" aria-label="{escape(title)}"' if title else ' aria-hidden="true"'
    return f'<svg class="{css}" viewBox="0 0 {width} {height}" width="{width}" height="{height}"{label}>{body}</svg>'
