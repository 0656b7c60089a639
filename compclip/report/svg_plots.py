"""A pair of axes by matplotlib that becomes SVG for a page.

Text stays text, colours are the page's own so that they follow the reader's dark mode, and a mark shows its name and
numbers when it is pointed at.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Sequence
from itertools import pairwise
from operator import itemgetter
from typing import Any

import matplotlib
import numpy as np
from markupsafe import Markup, escape
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import FuncFormatter

from compclip.report.escape import format_tick

INK = "#1c2430"
SOFT = "#5b6675"
PAPER = "#ffffff"
RULE = "#d9dee5"
COLOURS = ("#1c2431", "#2b6cb8", "#d0651f", "#2c8a63", "#8656b3", "#b83e63", "#8a7412", "#2490a5")  # c0 to c7 of pages
BETTER = "#1f62ad"  # blue and orange are told apart by the colour-blind
WORSE = "#b4500e"
PAGE_COLOURS = {INK: "ink", SOFT: "soft", PAPER: "paper", RULE: "rule", BETTER: "good", WORSE: "bad"}
PAGE_COLOURS |= {colour: f"c{number}" for number, colour in enumerate(COLOURS)}
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none", "svg.hashsalt": "compclip", "font.family": "sans-serif", "font.size": 11.5,
    "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": RULE, "xtick.color": SOFT, "ytick.color": SOFT,
    "axes.facecolor": PAPER, "figure.facecolor": "none", "axes.spines.top": False, "axes.spines.right": False,
    "axes.grid": True, "grid.color": RULE, "axes.axisbelow": True, "xtick.major.size": 0, "ytick.major.size": 0,
    "xtick.labelsize": 10.5, "ytick.labelsize": 10.5,
    "legend.frameon": False, "text.parse_math": False,
}  # fmt: skip
DIAMOND = {"marker": "D", "color": INK, "markerfacecolor": PAPER, "markersize": 7.5, "markeredgewidth": 1.6}
DPI = 72  # a point is a pixel of the page
# where a name may begin beside its mark, in pixels to the right and up; further away a line leads to it
OFFSETS = [(right, up) for up in (7, -7, 0, 19, -19, 32, -32, 45, -45) for right in (9, -9, 26, -26, 44, -44, 62, -62)]
NEAR = 20
Box = tuple[float, float, float, float]  # left, bottom, right and top, in pixels


class SvgPlot:
    """A pair of axes. `label` says what is drawn to those who cannot see it."""

    def __init__(self, label: str, x_label: str, y_label: str, size: tuple[int, int] = (405, 330)) -> None:
        self.label = label
        self._titles: list[str] = []
        self._names: list[tuple[float, float, str]] = []
        self._lines: list[Sequence[tuple[float, float]]] = []
        with matplotlib.rc_context(STYLE):
            self.figure = Figure(figsize=(size[0] / DPI, size[1] / DPI), dpi=DPI, layout="constrained")
            self.axes = self.figure.add_subplot(xlabel=x_label, ylabel=y_label)
            self.axes.margins(0.09)
            for axis in (self.axes.xaxis, self.axes.yaxis):
                axis.set_major_formatter(FuncFormatter(format_tick))

    def mark(self, x: float, y: float, title: str, name: str = "", **style: Any) -> None:
        """Draw a mark, which shows `title` when it is pointed at and has `name` beside it."""
        gid = f"mark{len(self._titles)}"
        self._titles.append(title)
        defaults: dict[str, Any] = {"marker": "o", "linestyle": "", "markersize": 8, "gid": gid}
        self.axes.plot([x], [y], **defaults | style)
        self._names.append((x, y, name))

    def line(self, points: Sequence[tuple[float, float]], **style: Any) -> None:
        """Draw a line through points, which names keep clear of."""
        self._lines.append(points)
        self.axes.plot(*zip(*points, strict=True), **{"linewidth": 1.5} | style)

    def guide(self, x: float | None = None, y: float | None = None, name: str = "") -> None:
        """Draw a dashed line across the axes, with its name above it where it lies."""
        style: dict[str, Any] = {"color": SOFT, "linestyle": (0, (4, 4)), "linewidth": 0.9, "zorder": 1}
        if x is not None:
            self.axes.axvline(x, **style)
        if y is not None:
            self.axes.axhline(y, **style)
            across = self.axes.get_yaxis_transform()
            self.axes.text(0.99, y, name, transform=across, ha="right", va="bottom", color=SOFT, fontsize=10)

    def keep_percent(self) -> None:
        """Let no axis pass 0 or 100, whatever intervals reach there."""
        self.axes.set_xlim(*np.clip(self.axes.get_xlim(), 0.0, 100.0))
        self.axes.set_ylim(*np.clip(self.axes.get_ylim(), 0.0, 100.0))

    def to_svg(self) -> Markup:
        """Return the figure as an element of a page."""
        with matplotlib.rc_context(STYLE):
            if self.axes.get_legend_handles_labels()[1]:
                self.figure.legend(
                    loc="outside upper left", ncols=4, fontsize=10.5, handlelength=1.2, columnspacing=1.2
                )
            for text in self.figure.findobj(Text):
                text.set_parse_math(False)
                text.set_text(encode_xml(text.get_text()))
            self._write_names()
            return export_svg(self.figure, self.label, self._titles)

    def _write_names(self) -> None:
        """Write each name at the first of a few places that overlaps least with what is drawn."""
        self.figure.draw_without_rendering()
        to_pixel = self.axes.transData.transform
        frame = self.axes.get_window_extent()
        occupied = []
        for x, y, _ in self._names:
            x_px, y_px = to_pixel((x, y))
            occupied.append((x_px - 6, y_px - 6, x_px + 6, y_px + 6))
        for line in self._lines:
            for start, end in pairwise(np.asarray(to_pixel(line))):
                occupied += [(x - 1, y - 1, x + 1, y + 1) for x, y in np.linspace(start, end, 8)]
        for x, y, name in filter(itemgetter(2), self._names):
            x_px, y_px = to_pixel((x, y))
            boxes = [name_box(x_px, y_px, offset, 7.0 * len(name), 6, 7) for offset in OFFSETS]
            inside = [b for b in boxes if b[0] > frame.x0 and b[2] < self.figure.bbox.x1 and frame.y0 < b[1] < frame.y1]
            box = min(inside or boxes, key=lambda b: sum(boxes_overlap(b, used) for used in occupied))
            occupied.append(box)
            right, up = OFFSETS[boxes.index(box)]
            arrow = {"arrowstyle": "-", "color": SOFT} if max(abs(right), abs(up)) > NEAR else None
            self.axes.annotate(
                encode_xml(name), (x, y), (right, up), textcoords="offset points", ha="left" if right > 0 else "right",
                va="center", fontsize=11.5, gid="name", arrowprops=arrow,
            )  # fmt: skip


def encode_xml(text: str) -> str:
    """Return text that XML can hold."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def name_box(x: float, y: float, offset: tuple[float, float], width: float, below: float, above: float) -> Box:
    """Return the box of a name that begins, or ends where it lies to the left, at an offset from a mark."""
    right, up = offset
    left = x + right if right > 0 else x + right - width
    return left, y + up - below, left + width, y + up + above


def boxes_overlap(a: Box, b: Box) -> bool:
    """Return whether two boxes have a pixel in common."""
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def export_svg(figure: Figure, label: str, titles: Sequence[str], standalone: bool = False) -> Markup:
    """Return a figure with the page's colours, ids of its own, and a title for each mark, whose gid is mark<number>.

    One that is `standalone` is a file by itself, in light colours.
    """
    stream = io.StringIO()
    figure.savefig(stream, format="svg", dpi=DPI, metadata={"Date": None, "Creator": None})
    text = stream.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->|<defs>\s*<style.*?</defs>", "", text, flags=re.DOTALL)
    text = re.sub(r">\s+<", "><", text)
    used_ids = re.findall(r'(?:href="|url\()#([^")]+)', text)
    prefix = "f" + hashlib.sha256(text.encode()).hexdigest()[:6]
    for number, title in enumerate(titles):
        text = text.replace(f'<g id="mark{number}">', f'<g class="mark"><title>{escape(title)}</title>', 1)

    def slim(tag: re.Match[str]) -> str:
        """Return a tag without fonts, turns by 0 and ids that nothing refers to, and with digits that show."""
        slimmed = re.sub(r"\d+\.\d{2,}", lambda digits: f"{float(digits[0]):.4g}", tag[0].replace("\n", ""))
        slimmed = re.sub(r'font-family: [^;]*; |(?<=[;:]) +| transform="rotate\(-0 [^"]*"|(?<= )xlink:', "", slimmed)
        slimmed = re.sub(r' id="([^"]*)"', lambda i: f' id="{prefix}-{i[1]}"' if i[1] in used_ids else "", slimmed)
        return re.sub(r'(href="|url\()#', rf"\1#{prefix}-", slimmed)

    width, height = (f"{pixels:g}" for pixels in figure.bbox.size)
    root = f'<svg class="plot" role="img" aria-label="{escape(label)}" width="{width}" height="{height}"'
    root += f' viewBox="0 0 {width} {height}"'
    if standalone:
        root += f' xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" style="background:{PAPER}"'
    svg = f"{root}>" + re.sub(r"<[^>]*>", slim, text.partition(">")[2])
    for colour, variable in PAGE_COLOURS.items() if not standalone else ():
        svg = svg.replace(colour, f"var(--{variable})")
    return Markup(svg)
