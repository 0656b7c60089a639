"""A study's figures as inline SVG that takes its colours from the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape

from compclip.report.svg_figures import Axis, draw_axes, draw_line, draw_text, linear_axis, wrap_svg

WIDTH, HEIGHT = 410, 290
LEFT, RIGHT, TOP, BOTTOM = 62, WIDTH - 16, 16, HEIGHT - 44


@dataclass(frozen=True)
class Dot:
    """A trial in a figure; `kind`: trial, paper or best."""

    x: float
    y: float
    kind: str
    title: str


def linear(values: Sequence[float], start: float, stop: float, whole: bool = False) -> Axis:
    """Return an axis with round ticks over `values`; `whole` leaves out ticks that are no whole numbers."""
    axis = linear_axis(values, start, stop)
    return replace(axis, ticks=tuple(t for t in axis.ticks if t == int(t))) if whole else axis


def scatter(dots: Sequence[Dot], x: Axis, y: Axis, labels: tuple[str, str], extra: str = "", title: str = "") -> str:
    """Dots over a frame; `extra` is drawn below them. Paper and best come last, on top."""
    order = sorted(dots, key=lambda d: ("trial", "paper", "best").index(d.kind))
    return wrap_svg(draw_axes(x, y, *labels) + extra + "".join(_dot(d, x, y) for d in order), WIDTH, HEIGHT, title)


def _dot(d: Dot, x: Axis, y: Axis) -> str:
    left, top, title = x(d.x), y(d.y), f"<title>{escape(d.title)}</title>"
    if d.kind == "paper":
        return f'<path class="paper" d="M{left} {top - 7}l7 7l-7 7l-7 -7Z">{title}</path>'
    return f'<circle class="{d.kind}" cx="{left}" cy="{top}" r="{6.5 if d.kind == "best" else 4.5}">{title}</circle>'


def level(value: float, y: Axis, text: str) -> str:
    """A dashed line across the frame, with its name."""
    top = y(value)
    return draw_line(LEFT, top, RIGHT, top, "guide") + draw_text(RIGHT, top - 4, text, "tick end")


def steps(points: Sequence[tuple[float, float]], x: Axis, y: Axis) -> str:
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
        rows.append(draw_text(left - 8, top + 13, name, "name end"))
        rows.append(f'<rect class="f1" x="{left}" y="{top}" width="{wide:.1f}" height="17" rx="2"/>')
        rows.append(draw_text(left + wide + 6, top + 13, f"{100 * share:.0f} %", "tick"))
    return wrap_svg("".join(rows), WIDTH, height, title)
