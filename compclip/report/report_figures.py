"""The report's figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import matplotlib
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from compclip.config.cell import PRETRAINED
from compclip.report import validation_curves
from compclip.report.escape import format_tick
from compclip.report.svg_plots import (
    BETTER,
    COLOURS,
    DIAMOND,
    DPI,
    INK,
    RULE,
    SOFT,
    STYLE,
    WORSE,
    SvgPlot,
    encode_xml,
    export_svg,
)
from compclip.report.table_formats import format_interval, format_number
from compclip.report.tables import Column, MethodRow, ResultTable, Statistic
from compclip.report.validation_curves import ValidatedPoint

TRADEOFF_SIZE = (430, 330)  # pixels
FOREST_WIDTH = 450
FOREST_HEAD = 62  # above and below the rows
FOREST_ROW = 34
CROWDED_ROW = 14.5  # of a plot of more rows than CROWD
VERDICT_COLOURS = {1: BETTER, -1: WORSE, 0: SOFT}
CROWD = 12  # a plot of more points has numbers in place of names


@dataclass(frozen=True)
class TradeoffPoint:
    """A method in the trade-off plot, in percent; half widths of its intervals are 0 without one."""

    name: str
    x: float
    y: float
    dx: float = 0.0
    dy: float = 0.0
    verdict: int = 0  # of y


def collect_tradeoffs(group: ResultTable) -> dict[str, list[TradeoffPoint]]:
    """Collect points in percent, compositionality (y) against each other summary column (x), by x's name."""
    columns = group.summaries
    comp = columns.pop("Comp", None)
    if comp is None:
        return {}
    points_by_name: dict[str, list[TradeoffPoint]] = {}
    for name, column in columns.items():
        for row in group.rows:
            x = row.statistics.get(column)
            y = row.statistics.get(comp)
            if x and y:
                widths = _half_width(x), _half_width(y)
                point = TradeoffPoint(row.method, 100 * x.mean, 100 * y.mean, *widths, y.verdict)
                points_by_name.setdefault(name, []).append(point)
    return points_by_name


def _half_width(statistic: Statistic) -> float:
    gap = statistic.difference
    return 50 * (gap.high - gap.low) if gap else 0.0


def number_methods(rows: Sequence[MethodRow]) -> dict[str, str]:
    """Number the methods of a plot that has no room for their names; empty where it has room."""
    return {row.method: str(i) for i, row in enumerate(rows, 1)} if len(rows) > CROWD else {}


def draw_tradeoff(
    points: Sequence[TradeoffPoint],
    x_label: str,
    base: str = PRETRAINED,
    short: Mapping[str, str] | None = None,
    is_crowded: bool = False,
) -> Markup:
    """Draw one point a method with the intervals of its differences; dashed lines through the row `base`.

    `short` has what to write at a point in place of its method's name. Where it is crowded intervals would hide names.
    """
    plot = SvgPlot(f"Compositionality against {x_label}", f"{x_label}, %", "Comp, %", TRADEOFF_SIZE)
    names = short or {}
    for point in points:
        if point.name != base and (point.dx or point.dy) and not is_crowded:
            plot.axes.errorbar(point.x, point.y, point.dy, point.dx, ecolor=RULE, elinewidth=1.5, fmt="none")
        _mark(plot, point, VERDICT_COLOURS[point.verdict], names.get(point.name, point.name), base)
    plot.keep_percent()
    return plot.to_svg()


def _mark(plot: SvgPlot, point: TradeoffPoint, colour: str, name: str, base: str = PRETRAINED) -> None:
    """Draw a method's mark; the row `base` is a diamond, where dashed lines meet."""
    style: dict[str, Any] = {"color": colour}
    if point.name == base:
        plot.guide(point.x, point.y)
        style = DIAMOND
    plot.mark(point.x, point.y, f"{point.name}: {point.x:.1f} / {point.y:.1f}", name, **style)


# --- differences with their intervals, a row a method


ForestRow = tuple[str, Sequence[Statistic | None]]  # a method's name, and its difference in each panel


def draw_forest(rows: Sequence[ForestRow], panels: Mapping[str, Column], base: str, standalone: bool = False) -> Markup:
    """Draw a dot and its 95 % interval a row and panel, in points; grey where the interval holds 0."""
    titles: list[str] = []
    height = FOREST_HEAD + (FOREST_ROW if len(rows) <= CROWD else CROWDED_ROW) * max(len(rows), 2)
    with matplotlib.rc_context(STYLE | {"font.size": 12, "ytick.labelsize": 12}):
        figure = Figure(figsize=(FOREST_WIDTH / DPI, height / DPI), dpi=DPI, layout="constrained")
        all_axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        for panel, (axes, label) in enumerate(zip(all_axes, panels, strict=True)):
            column = panels[label]
            axes.set_title(label, fontsize=12.5)
            axes.axvline(0, color=INK, linewidth=1)
            axes.grid(False, axis="y")
            axes.xaxis.set_major_formatter(FuncFormatter(format_tick))
            axes.xaxis.set_major_locator(MaxNLocator(4))
            for place, (name, statistics) in enumerate(rows):
                _draw_interval(axes, place, name, statistics[panel], column, titles)
        names = [encode_xml(name) for name, _ in rows]
        all_axes[0].set_yticks(range(len(rows)), names, color=INK)
        all_axes[0].set_ylim(len(rows) - 0.4, -0.6)
        figure.supxlabel(encode_xml(f"difference to {base}, points"), fontsize=11, color=SOFT)
        return export_svg(figure, f"Differences to {base}: {', '.join(panels)}", titles, standalone)


def _draw_interval(
    axes: Axes, place: int, name: str, statistic: Statistic | None, column: Column, titles: list[str]
) -> None:
    if statistic is None or statistic.change is None:
        return
    colour = VERDICT_COLOURS[statistic.verdict]
    gap = statistic.difference
    title = f"{name}: {format_number(statistic.change, column, sign=True)}"
    if gap:
        axes.plot([column.scale * gap.low, column.scale * gap.high], [place, place], color=colour, linewidth=2)
        title += f" {format_interval(gap, column)}"
    for benchmark in statistic.rests_on:
        title += f"; not decided without {benchmark}"
    style: dict[str, Any] = {"marker": "o", "markersize": 7, "color": colour, "gid": f"mark{len(titles)}"}
    axes.plot([column.scale * statistic.change], [place], linestyle="", **style)
    titles.append(title)


@dataclass(frozen=True)
class Trajectory:
    """A method's way from the pretrained model, its first point, to its own weights, its last."""

    method: str
    colour: int
    points: tuple[TradeoffPoint, ...]


def draw_trajectories(trajectories: Sequence[Trajectory], x_label: str, title: str = "WiSE-FT") -> Markup:
    """Draw a line a method: small dots between, a large one at its end, and the pretrained model where all begin."""
    plot = SvgPlot(f"{title}: compositionality against {x_label}", f"{x_label}, %", "Comp, %")
    for way in trajectories:
        colour = COLOURS[way.colour % len(COLOURS)]
        plot.line([(point.x, point.y) for point in way.points], color=colour)
        for point in way.points[1:-1]:
            plot.mark(point.x, point.y, f"{point.name}: {point.x:.1f} / {point.y:.1f}", color=colour, markersize=4)
        _mark(plot, replace(way.points[-1], name=way.method), colour, way.method)
    _mark(plot, replace(trajectories[0].points[0], name=PRETRAINED), INK, PRETRAINED)
    plot.keep_percent()
    return plot.to_svg()


# --- along training, by steps

PANELS: dict[str, Callable[[ValidatedPoint], float]] = {
    "training loss": lambda point: point.training_loss,
    "held-out loss": lambda point: point.loss,
    "held-out R@1, %": lambda point: 100 * point.recall,
}


def draw_validation(group: ResultTable) -> list[Markup]:
    """Draw training loss, held-out loss and recall of a table's methods by steps, a line each; none without points."""
    curves = {row.method: validation_curves.average_points(row) for row in group.rows}
    short = number_methods([row for row in group.rows if curves[row.method]])
    figures = []
    for label, read_number in PANELS.items() if any(curves.values()) else ():
        plot = SvgPlot(f"{label} along training", "step", label)
        for number, (method, points) in enumerate(curves.items()):
            colour = COLOURS[number % len(COLOURS)]
            pairs = [(point.step, read_number(point)) for point in points]
            if pairs:
                plot.line(pairs, color=colour)
            for step, value in pairs:
                name = short.get(method, method) if step == pairs[-1][0] else ""
                plot.mark(step, value, f"{method}, step {step}: {value:.3f}", name, color=colour, markersize=4)
        figures.append(plot.to_svg())
    return figures
