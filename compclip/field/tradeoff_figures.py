"""The trade-off: composition against zero-shot and retrieval, a point a published model, families by colour and mark.

An arrow leads from the pretrained model to what was tuned from it, both as the same source prints them. The axes span
the models of papers that were tuned; what lies outside is counted. Colours are Okabe and Ito's, told apart by the
colour-blind; in the page ink, paper and rules are the page's own, so that they follow the reader's dark mode.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib
import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from compclip.config.cell import PRETRAINED
from compclip.field.published_field import (
    LIST,
    OURS,
    Picture,
    PublishedField,
    SourceModel,
    name_without_data,
    to_letters,
)
from compclip.report.svg_plots import DPI, PAPER, SOFT, STYLE, boxes_overlap, export_svg, name_box

# a family's colour, matplotlib's mark and the same mark as a character, in the order of field.yaml
STYLES = (
    ("#1c2430", "o", "○"), ("#737373", "X", "✖"), ("#0072b2", "o", "●"), ("#009e73", "D", "◆"), ("#cc79a7", "v", "▼"),
    ("#d55e00", "^", "▲"), ("#e69f00", "s", "■"), ("#56b4e9", "P", "✚"), ("#8c6d31", "h", "⬢"),
)  # fmt: skip
PANEL = (4.6, 4.3)  # inches
LEAST = 5  # points of a panel that is drawn
OFFSETS = ((6, 4), (6, -10), (-6, 4), (-6, -10), (6, 14), (-6, 14), (6, -20), (-6, -20))  # of a label, in points


@dataclass(frozen=True)
class Point:
    """A model at its two values, and the pretrained model's from which its arrow comes, if one does."""

    model: SourceModel
    x: float
    y: float
    base: tuple[float, float] | None = None


@dataclass(frozen=True)
class Panel:
    """One pair of axes on one backbone; `limits` are left, right, bottom and top."""

    backbone: str
    x: str
    y: str
    points: tuple[Point, ...]
    limits: tuple[float, float, float, float]

    @property
    def inside(self) -> list[Point]:
        """The points within the axes."""
        left, right, bottom, top = self.limits
        return [p for p in self.points if left <= p.x <= right and bottom <= p.y <= top]


def list_panels(published: PublishedField, picture: Picture, backbone: str) -> list[Panel]:
    """List the panels of a picture on a backbone and its kin (`ViT-L/14 CLIPA`); those with few points are left out."""
    models = [m for m in published.models if m.backbone.partition(" ")[0] == backbone and not m.is_wrong]
    panels = []
    for x in picture.x:
        points = locate_models(published, models, x, picture.y)
        tuned = [p for p in points if p.base]
        if len(points) >= LEAST and tuned:
            panels.append(Panel(backbone, x, picture.y, tuple(points), find_limits(tuned)))
    return panels


def locate_models(published: PublishedField, models: Sequence[SourceModel], x: str, y: str) -> list[Point]:
    """Return the models that have a value on both axes; those tuned with the place of their source's pretrained one."""
    bases: dict[tuple[str, str], tuple[float, float]] = {}
    points = []
    for model in sorted(models, key=lambda model: model.method != PRETRAINED):
        x_value = published.measure(model, x)
        y_value = published.measure(model, y)
        if x_value is None or y_value is None:
            continue
        key = (model.source, model.backbone)
        is_tuned = bool(model.method) and model.method != PRETRAINED and not published.is_from_scratch(model)
        points.append(Point(model, x_value, y_value, bases.get(key) if is_tuned else None))
        if model.method == PRETRAINED:
            bases.setdefault(key, (x_value, y_value))
    return points


def find_limits(points: Sequence[Point]) -> tuple[float, float, float, float]:
    """Return axes around tuned models and where they began, with a margin."""
    corners = np.array([corner for p in points for corner in ((p.x, p.y), p.base)])
    low = corners.min(axis=0)
    high = corners.max(axis=0)
    margin = np.maximum(1.0, 0.09 * (high - low))
    (left, bottom), (right, top) = low - margin, high + margin
    return left, right, bottom, top


def draw_panel(ax: Axes, panel: Panel, published: PublishedField) -> None:
    """Draw one panel: listed models below, then arrows, marks and as many names as have room."""
    styles = dict(zip(published.facts.families, STYLES, strict=True))
    axes = published.facts.axes
    ax.set(xlim=panel.limits[:2], ylim=panel.limits[2:], xlabel=axes[panel.x].title, ylabel=axes[panel.y].title)
    for index, point in enumerate(panel.inside):
        model = point.model
        colour, mark, _ = styles.get(published.facts.find_family(model.method), (SOFT, "o", ""))
        is_small = model.is_ablation or not model.method
        if point.base and not model.is_ablation:
            arrow = {"arrowstyle": "->", "color": colour, "alpha": 0.45, "linewidth": 1.0, "shrinkA": 4, "shrinkB": 4}
            ax.annotate("", (point.x, point.y), point.base, arrowprops=arrow, zorder=2)
        ax.plot(
            point.x, point.y, "*" if model.source == OURS else mark, color=colour, markersize=4 if is_small else 8,
            markerfacecolor=PAPER if model.method == PRETRAINED else colour, alpha=0.6 if is_small else 1.0,
            zorder=3 if is_small else 4, gid=f"mark{index}",
        )  # fmt: skip
    write_names(ax, panel)


def write_names(ax: Axes, panel: Panel) -> None:
    """Write the name of each tuned model beside its mark, where no other name or mark is in the way.

    Of the same weights at one place, as several sources have them, one name is written.
    """
    taken = []
    for point in panel.inside:
        x, y = ax.transData.transform((point.x, point.y))
        taken.append((x - 4, y - 4, x + 4, y + 4))
    scale = ax.figure.dpi / 72
    frame = ax.get_window_extent()
    names: dict[tuple[str, int, int], Point] = {}
    for point in panel.inside:
        x, y = ax.transData.transform((point.x, point.y))
        key = (to_letters(name_without_data(point.model.method, point.model.data)), round(x / 20), round(y / 20))
        if point.base and not point.model.is_ablation:
            names.setdefault(key, point)
            if to_letters(point.model.short_name) == key[0]:  # rather than "Baseline [41]"
                names[key] = point
    repeated = Counter(point.model.short_name for point in names.values())
    for point in names.values():
        x, y = ax.transData.transform((point.x, point.y))
        name = point.model.short_name
        name += f" [{point.model.source}]" if repeated[name] > 1 else ""
        width = 4.6 * len(name) * scale
        for right, up in OFFSETS:
            box = name_box(x, y, (right * scale, up * scale), width, 2 * scale, 8 * scale)
            if box[0] > frame.x0 and box[2] < frame.x1 and not any(boxes_overlap(box, other) for other in taken):
                side = "left" if right > 0 else "right"
                ax.annotate(
                    name, (point.x, point.y), (right, up), textcoords="offset points", ha=side, fontsize=8.5, zorder=5
                )
                taken.append(box)
                break


def render_panel(panel: Panel, published: PublishedField) -> Markup:
    """Return a panel as SVG for the page: each mark shows its name and numbers."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=PANEL, dpi=DPI)
        figure.subplots_adjust(left=0.13, right=0.98, top=0.98, bottom=0.13)
        draw_panel(figure.add_subplot(), panel, published)
        titles = [f"{p.model.row} ({p.model.source}): {p.x:.1f}, {p.y:.1f}" for p in panel.inside]
        return export_svg(figure, f"{panel.backbone}: {panel.y} against {panel.x}", titles)


def render_picture(published: PublishedField, panels: Sequence[Panel], caption: str, form: str) -> bytes:
    """Return panels side by side with legend and caption, as a file of its own: png, svg or pdf."""
    with matplotlib.rc_context(STYLE | {"font.size": 9.5}):
        figure = Figure(figsize=(PANEL[0] * len(panels), PANEL[1] + 1.1), dpi=110)
        axes = figure.subplots(1, len(panels), squeeze=False)[0]
        figure.subplots_adjust(left=0.05, right=0.99, top=0.97, bottom=0.29, wspace=0.17)
        for ax, panel in zip(axes, panels, strict=True):
            draw_panel(ax, panel, published)
        methods = {point.model.method for panel in panels for point in panel.inside}
        families = {published.facts.find_family(method) for method in methods}
        for name, (colour, mark, _) in list_legend(published):
            if name in published.facts.families and name not in families:
                continue
            face = PAPER if name == PRETRAINED else colour
            axes[0].plot([], [], mark, color=colour, markerfacecolor=face, markersize=8, label=name)
        figure.legend(loc="lower center", ncols=5, frameon=False, bbox_to_anchor=(0.5, 0.05))
        figure.text(0.5, 0.02, caption, ha="center")
        stream = io.BytesIO()
        figure.savefig(stream, format=form, facecolor=PAPER)
    if form == "png":  # few colours: a quarter of the bytes
        image = Image.open(stream).convert("RGB").quantize(96)
        stream = io.BytesIO()
        image.save(stream, "png", optimize=True)
    return stream.getvalue()


def count_numbers(published: PublishedField, panels: Sequence[Panel]) -> dict[str, int]:
    """Count what panels show: papers, listed models, models, and the printed numbers that place them."""
    models = {}
    used = set()
    for panel in panels:
        for point in panel.points:
            models[id(point.model)] = point.model.source
            for axis in (panel.x, panel.y):
                columns = published.find_numbers(point.model, published.facts.axes[axis])
                used |= {(id(point.model), column) for column in columns}
    sources = list(models.values())
    papers = set(sources) - {LIST, OURS}
    return {"papers": len(papers), "listed": sources.count(LIST), "points": len(models), "numbers": len(used)}


def list_legend(published: PublishedField) -> list[tuple[str, tuple[str, str, str]]]:
    """List the families, each with colour, matplotlib's mark, and the mark as a character."""
    styles = list(zip(published.facts.families, STYLES, strict=True))
    return [*styles, (f"other models of {LIST}", (SOFT, "o", "●"))]
