"""Our difference against the published one as inline SVG: a point a pair, named when it is pointed at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from compclip.report.plots import COLOURS, Axis, axis, frame, line, short, svg
from compclip.report.validity.pairs import Pair

SHAPES = ("circle", "square", "triangle")
Look = tuple[int, str]  # colour and shape


def looks(pairs: Sequence[Pair]) -> dict[str, Look]:
    """A colour and a shape for each column, no two alike among the first 24."""
    names = dict.fromkeys(p.column.name for p in sorted(pairs, key=lambda p: p.column.place))
    return {name: (1 + i % (COLOURS - 1), SHAPES[i // (COLOURS - 1) % len(SHAPES)]) for i, name in enumerate(names)}


def scatter(pairs: Sequence[Pair], look: Mapping[str, Look], title: str, size: tuple[int, int] = (860, 520)) -> str:
    """All pairs in the unit of their columns; dashed lines through 0, the pretrained model, on both sides."""
    width, height = size
    x = axis([0.0, *(p.published for p in pairs)], 58, width - 20, 8 if width > 500 else 4)
    y = axis([0.0, *(p.mean for p in pairs)], height - 44, 18)
    unit = "" if any(p.unit.score for p in pairs) else ", points"
    body = frame(x, y, f"published difference{unit}", f"on the scenes{unit}") + _zero(x, y)
    return svg(body + "".join(_mark(p, look[p.column.name], x, y) for p in pairs), width, height, title)


def _zero(x: Axis, y: Axis) -> str:
    return line(x(0), y.start, x(0), y.stop, "guide") + line(x.start, y(0), x.stop, y(0), "guide")


def _mark(pair: Pair, look: Look, x: Axis, y: Axis) -> str:
    told = f"{pair.row}, {pair.column.name}: published {_signed(pair.published)}, ours {_signed(pair.mean)}"
    return mark(x(pair.published), y(pair.mean), look, told)


def _signed(value: float) -> str:
    return f"{'+' if value > 0 else ''}{short(round(value, 3))}"


def mark(left: float, top: float, look: Look, told: str = "") -> str:
    """One point, with what is shown when it is pointed at."""
    colour, shape = look
    css, title = f'class="f{colour} dot"', f"<title>{escape(told)}</title>" if told else ""
    if shape == "circle":
        return f'<circle {css} cx="{left:.1f}" cy="{top:.1f}" r="4.5">{title}</circle>'
    if shape == "square":
        return f'<rect {css} x="{left - 4:.1f}" y="{top - 4:.1f}" width="8" height="8">{title}</rect>'
    return f'<path {css} d="M{left:.1f} {top - 5:.1f}l5 9h-10Z">{title}</path>'


def swatch(look: Look) -> str:
    """The mark of a column for the key below a plot."""
    return svg(mark(7, 7, look), 14, 14, "", "spark")
