"""A study's figures as inline SVG that takes its colours from the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

from compclip.report.plots import Axis, axis

WIDTH, HEIGHT = 410, 290
LEFT, RIGHT, TOP, BOTTOM = 62, WIDTH - 16, 16, HEIGHT - 44


@dataclass(frozen=True)
class Dot:
    """A trial in a figure; `kind`: trial, paper or best."""

    x: float
    y: float
    kind: str
    title: str


@dataclass(frozen=True)
class Scale:
    """An axis and what is written at its ticks."""

    axis: Axis
    labels: tuple[str, ...]
    log: bool = False

    def __call__(self, value: float) -> float:
        return self.axis(log10(value) if self.log else value)


def linear(values: Sequence[float], start: float, stop: float, whole: bool = False) -> Scale:
    """Round ticks over `values`; whole numbers only for counts."""
    made = axis(values, start, stop)
    ticks = [t for t in made.ticks if not whole or t == int(t)]
    return Scale(Axis(made.low, made.high, start, stop, tuple(ticks)), tuple(short(t) for t in ticks))


def logarithmic(values: Sequence[float], start: float, stop: float) -> Scale:
    """Ticks at 1, 2 and 5 times the powers of ten, or at the powers alone over more than two decades."""
    low, high = log10(min(values)), log10(max(values))
    low, high = (low - 0.1, high + 0.1) if high - low < 1e-9 else (low, high)
    steps = (1,) if high - low > 2 else (1, 2, 5)
    ticks = [s * 10.0**p for p in range(floor(low), ceil(high) + 1) for s in steps]
    ticks = [t for t in ticks if low - 1e-9 <= log10(t) <= high + 1e-9]
    return Scale(Axis(low, high, start, stop, tuple(map(log10, ticks))), tuple(map(short, ticks)), log=True)


def names(labels: Sequence[str], start: float, stop: float) -> Scale:
    """One place for each name."""
    return Scale(Axis(-0.5, len(labels) - 0.5, start, stop, tuple(map(float, range(len(labels))))), tuple(labels))


def scatter(dots: Sequence[Dot], x: Scale, y: Scale, labels: tuple[str, str], extra: str = "", title: str = "") -> str:
    """Dots over a frame; `extra` is drawn below them. Paper and best come last, on top."""
    order = sorted(dots, key=lambda d: ("trial", "paper", "best").index(d.kind))
    return svg(frame(x, y, *labels) + extra + "".join(_dot(d, x, y) for d in order), WIDTH, HEIGHT, title)


def _dot(d: Dot, x: Scale, y: Scale) -> str:
    left, top, title = x(d.x), y(d.y), f"<title>{escape(d.title)}</title>"
    if d.kind == "paper":
        return f'<path class="paper" d="M{left} {top - 7}l7 7l-7 7l-7 -7Z">{title}</path>'
    return f'<circle class="{d.kind}" cx="{left}" cy="{top}" r="{6.5 if d.kind == "best" else 4.5}">{title}</circle>'


def level(value: float, y: Scale, text: str) -> str:
    """A dashed line across the frame, with its name."""
    top = y(value)
    return line(LEFT, top, RIGHT, top, "guide") + label(RIGHT, top - 4, text, "tick end")


def steps(points: Sequence[tuple[float, float]], x: Scale, y: Scale) -> str:
    """A line that keeps each value until the next point."""
    path = "".join(
        f"{'M' if i == 0 else 'H'}{x(a)}" + (f" {y(b)}" if i == 0 else f"V{y(b)}") for i, (a, b) in enumerate(points)
    )
    return f'<path class="line c3" d="{path}"/>' if points else ""


def bars(shares: Sequence[tuple[str, float]], title: str) -> str:
    """One horizontal bar for each name, as a share of 1."""
    height, left = 20 + 26 * len(shares), 130
    rows = []
    for i, (name, share) in enumerate(shares):
        top, wide = 12 + 26 * i, share * (WIDTH - left - 60)
        rows.append(label(left - 8, top + 13, name, "name end"))
        rows.append(f'<rect class="f1" x="{left}" y="{top}" width="{wide:.1f}" height="17" rx="2"/>')
        rows.append(label(left + wide + 6, top + 13, f"{100 * share:.0f} %", "tick"))
    return svg("".join(rows), WIDTH, height, title)


def frame(x: Scale, y: Scale, x_label: str, y_label: str) -> str:
    """Grid, ticks and names of the two axes."""
    out = [line(LEFT, y.axis(t), RIGHT, y.axis(t), "grid") for t in y.axis.ticks]
    pairs = zip(y.axis.ticks, y.labels, strict=True)
    out += [label(LEFT - 6, y.axis(t) + 4, text, "tick end") for t, text in pairs]
    pairs = zip(x.axis.ticks, x.labels, strict=True)
    out += [label(x.axis(t), BOTTOM + 16, text, "tick middle") for t, text in pairs]
    out.append(label((LEFT + RIGHT) / 2, BOTTOM + 34, x_label, "label middle"))
    turn = f"translate(14 {(TOP + BOTTOM) / 2:.1f}) rotate(-90)"
    return "".join(out) + f'<text class="label middle" transform="{turn}">{escape(y_label)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, css: str) -> str:
    """A straight line."""
    return f'<line class="{css}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def label(x: float, y: float, text: str, css: str) -> str:
    """A text."""
    return f'<text class="{css}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'


def svg(body: str, width: int, height: int, title: str) -> str:
    """The whole figure."""
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    return f'<svg class="plot" {size} role="img" aria-label="{escape(title)}">{body}</svg>'


def short(value: float) -> str:
    """A number of at most four digits, with a real minus sign."""
    return f"{value:.4g}".replace("-", "−")
