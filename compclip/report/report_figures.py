"""Plots as inline SVG that takes its colours from the page, and the same series as CSV for `dvc plots`.

SVG and not matplotlib: a point shows its name and values when pointed at, and colours follow the reader's dark mode.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import pairwise
from math import ceil, floor, log10
from statistics import median
from types import MappingProxyType

import numpy as np
from markupsafe import Markup

from compclip.config.cell import PRETRAINED
from compclip.report.escape import format_csv
from compclip.report.statistics import Interval
from compclip.report.tables import Column, ResultTable, format_summaries, summary_names
from compclip.runs.result_files import FinishedRun
from compclip.runs.run_folder import SHARE

# --- axes, lines and texts

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
    low = min(values)
    high = max(values)
    if high - low < 1e-9:
        low = low - 0.5
        high = high + 0.5
    rough = (high - low) / ticks
    power = 10.0 ** floor(log10(rough))
    step = next(s * power for s in (1, 2, 2.5, 5, 10) if s * power >= rough * 0.999)
    first = floor(low / step + 1e-9)
    last = ceil(high / step - 1e-9)
    round_ticks = tuple(round(i * step, 10) for i in range(first, last + 1))
    return Axis(round_ticks[0], round_ticks[-1], start, stop, round_ticks)


def logarithmic_axis(values: Sequence[float], start: float, stop: float) -> Axis:
    """Return an axis with ticks at 1, 2 and 5 times the powers of ten, or at the powers alone over two decades."""
    low = log10(min(values))
    high = log10(max(values))
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


# --- figures of the report

NOT_TERMS = {
    "step", "epoch", "samples", "loss", "lr", "logit_scale", "scale", "bias", "grad_norm", "samples_per_second",
    "matrix_share", "data_wait", "time", "loss_scale", "skipped_steps",
}  # fmt: skip
POINTS = 160  # a curve is drawn as at most so many means over neighbouring steps
Box = tuple[float, float, float, float]  # left, top, right and bottom, in pixels
CROWD = 12  # a plot of more points has numbers in place of names
WIDEST = 4.0  # times the median end of a column's intervals: where its small axis stops


def list_terms(runs: Sequence[FinishedRun]) -> list[str]:
    """List the named loss terms in the curves, in the order of the files.

    A method of one term has none beside the total.
    """
    names = [k for run in runs for line in run.curve for k, v in line.items() if isinstance(v, (int, float))]
    terms = [n for n in dict.fromkeys(names) if n not in NOT_TERMS and not n.startswith(SHARE)]
    return terms if len(terms) > 1 else []


def collect_series(runs: Sequence[FinishedRun], term: str) -> tuple[list[int], np.ndarray]:
    """Collect steps and values of one term, shape (S seeds, steps): only the steps that all seeds logged."""
    tables = [{line["step"]: line[term] for line in run.curve if line.get(term) is not None} for run in runs]
    tables = [t for t in tables if t]
    steps = sorted(set.intersection(*map(set, tables))) if tables else []
    return steps, np.array([[t[s] for s in steps] for t in tables], dtype=np.float64)


def collect_totals(runs: Sequence[FinishedRun], terms: Sequence[str]) -> dict[str, tuple[list[int], np.ndarray]]:
    """Collect the total's series by name; one for each kind of step where steps have different terms, as CLIC's do.

    One line through totals of different terms would leap. A kind of one term is that term's line.
    """
    by_kind: dict[tuple[str, ...], list[FinishedRun]] = {}
    for kind in dict.fromkeys(_present_terms(line, terms) for run in runs for line in run.curve):
        by_kind[kind] = [replace(r, curve=[x for x in r.curve if _present_terms(x, terms) == kind]) for r in runs]
    if len(by_kind) < 2:
        return {"loss": collect_series(runs, "loss")}
    return {f"total of {', '.join(k)}": collect_series(v, "loss") for k, v in by_kind.items() if len(k) != 1}


def _present_terms(line: Mapping[str, object], terms: Sequence[str]) -> tuple[str, ...]:
    return tuple(term for term in terms if line.get(term) is not None)


def average_neighbours(steps: Sequence[int], values: np.ndarray, points: int = POINTS) -> tuple[np.ndarray, np.ndarray]:
    """Return means over runs of neighbouring steps, so that at most `points` remain; shapes (P,) and (S, P)."""
    pieces = np.array_split(np.arange(len(steps)), min(points, len(steps)))
    at = np.array([np.mean([steps[i] for i in piece]) for piece in pieces])
    return at, np.stack([values[:, piece].mean(axis=1) for piece in pieces], axis=1)


def draw_loss(runs: Sequence[FinishedRun], title: str, size: tuple[int, int] = (390, 240)) -> str:
    """Draw total and named terms against the step: a line is the mean over seeds, its band their range.

    What was logged once is a dot.
    """
    terms = list_terms(runs)
    series = collect_totals(runs, terms) | {name: collect_series(runs, name) for name in terms}
    curves = {name: average_neighbours(*s) for name, s in series.items() if s[0]}
    if not curves:
        return ""
    width, height = size
    x = linear_axis([s for at, _ in curves.values() for s in (at[0], at[-1])], 44, width - 20, 4)
    # the first steps of a run can tower over the rest: the axis covers all but the highest 2 %
    tops = [0.0, *(float(np.quantile(v, 0.98)) for _, v in curves.values())]
    y = linear_axis([*tops, *(float(v.min()) for _, v in curves.values())], height - 36, 48)
    paths = [_draw_curve(at, values, x, y, i) for i, (at, values) in enumerate(curves.values())]
    body = (
        draw_axes(x, y, "step", "") + f'<g clip-path="inset(0)">{"".join(paths)}</g>' + _draw_legend([*curves], width)
    )
    return wrap_svg(body, width, height, title)


def _draw_curve(at: np.ndarray, values: np.ndarray, x: Axis, y: Axis, colour: int) -> str:
    top = y.ticks[-1]
    line = draw_path([(x(s), y(min(v, top))) for s, v in zip(at, values.mean(axis=0), strict=True)])
    shape = f'<path class="line c{colour % COLOURS}" d="{line}"/>'
    if len(at) < 2:
        return (
            f'<circle class="f{colour % COLOURS}" cx="{x(at[0]):.1f}" cy="{y(min(values.mean(), top)):.1f}" r="2.6"/>'
        )
    if len(values) < 2:
        return shape
    upper = [(x(s), y(min(v, top))) for s, v in zip(at, values.max(axis=0), strict=True)]
    lower = [(x(s), y(min(v, top))) for s, v in zip(at, values.min(axis=0), strict=True)]
    return f'<path class="band f{colour % COLOURS}" d="{draw_path(upper + lower[::-1])}Z"/>' + shape


def _draw_legend(names: Sequence[str], width: int) -> str:
    out = []
    x_px = 44.0
    y_px = 7
    for i, name in enumerate(names):
        label = "total" if name == "loss" else name
        if x_px + 14 + 6.4 * len(label) > width:
            x_px = 44.0
            y_px = y_px + 16
        out.append(f'<rect class="f{i % COLOURS}" x="{x_px:.0f}" y="{y_px}" width="10" height="10" rx="2"/>')
        out.append(draw_text(x_px + 14, y_px + 9, label, "label"))
        x_px += 26 + 6.4 * len(label)
    return "".join(out)


@dataclass(frozen=True)
class TradeoffPoint:
    """A method in the trade-off plot, in percent; deviations are 0 for one seed."""

    name: str
    x: float
    y: float
    dx: float = 0.0
    dy: float = 0.0


def collect_tradeoffs(group: ResultTable) -> dict[str, list[TradeoffPoint]]:
    """Collect points in percent, compositionality (y) against each other summary column (x), by x's name."""
    columns = group.summaries
    comp = columns.pop("Comp", None)
    if comp is None:
        return {}
    points_by_name: dict[str, list[TradeoffPoint]] = {}
    for name, column in columns.items():
        for row in group.rows:
            statistics = dict(zip(group.columns, row.statistics, strict=True))
            x = statistics[column]
            y = statistics[comp]
            if x and y:
                point = TradeoffPoint(
                    row.method, 100 * x.mean, 100 * y.mean, 100 * (x.std or 0.0), 100 * (y.std or 0.0)
                )
                points_by_name.setdefault(name, []).append(point)
    return points_by_name


def number_methods(methods: Sequence[str]) -> dict[str, str]:
    """Number the methods of a plot that has no room for their names; empty where it has room."""
    return {m: str(i) for i, m in enumerate(methods, 1)} if len(methods) > CROWD else {}


def draw_tradeoff(
    points: Sequence[TradeoffPoint],
    x_label: str,
    short: Mapping[str, str] | None = None,
    size: tuple[int, int] = (405, 350),
) -> str:
    """Draw one point a method with its deviation over seeds; dashed lines through the pretrained model.

    `short` has what to write at a point in place of its method's name.
    """
    width, height = size
    x = linear_axis([v for p in points for v in (p.x - p.dx, p.x + p.dx)], 58, width - 20)
    y = linear_axis([v for p in points for v in (p.y - p.dy, p.y + p.dy)], height - 44, 18)
    base = [p for p in points if p.name == PRETRAINED]
    body = draw_axes(x, y, f"{x_label}, %", "Comp, %") + "".join(_draw_guides(p, x, y) for p in base)
    body += "".join(_draw_point(p, x, y, i) for i, p in enumerate(points))
    body += _draw_labels(points, x, y, width, short=short or {})
    return wrap_svg(body, width, height, f"Compositionality against {x_label}")


@dataclass(frozen=True)
class Trajectory:
    """A method's way from the pretrained model, its first point, to its own weights, its last."""

    method: str
    colour: int
    points: tuple[TradeoffPoint, ...]


def draw_against_comp(
    group: ResultTable, build: Callable[[Column, Column], Sequence[Trajectory]], title: str
) -> list[Markup]:
    """Draw lines in the plane of each summary column and Comp, a figure each; `build` makes those of two columns."""
    columns = group.summaries
    comp = columns.pop("Comp", None)
    if comp is None:
        return []
    trajectories = {name: build(column, comp) for name, column in columns.items()}
    return [Markup(draw_trajectories(lines, name, title)) for name, lines in trajectories.items() if lines]


def draw_trajectories(
    trajectories: Sequence[Trajectory], x_label: str, title: str = "WiSE-FT", size: tuple[int, int] = (405, 350)
) -> str:
    """Draw a line a method: small dots between, a large one at its end, and the pretrained model where all begin."""
    width, height = size
    points = [p for t in trajectories for p in t.points]
    x = linear_axis([p.x for p in points], 58, width - 20)
    y = linear_axis([p.y for p in points], height - 44, 18)
    base = replace(trajectories[0].points[0], name=PRETRAINED)
    ends = [replace(t.points[-1], name=t.method) for t in trajectories]
    body = draw_axes(x, y, f"{x_label}, %", "Comp, %") + _draw_guides(base, x, y)
    for t in trajectories:
        body += f'<path class="line c{t.colour % COLOURS}" d="{draw_path([(x(p.x), y(p.y)) for p in t.points])}"/>'
        for p in t.points[1:-1]:
            tip = f"<title>{escape(p.name)}: {p.x:.1f} / {p.y:.1f}</title>"
            body += f'<circle class="f{t.colour % COLOURS}" cx="{x(p.x)}" cy="{y(p.y)}" r="2.6">{tip}</circle>'
    body += "".join(_draw_point(p, x, y, t.colour) for p, t in zip(ends, trajectories, strict=True))
    body += _draw_point(base, x, y, 0)
    body += _draw_labels([base, *ends], x, y, width, [t.points for t in trajectories])
    return wrap_svg(body, width, height, f"{title}: compositionality against {x_label}")


def _draw_guides(p: TradeoffPoint, x: Axis, y: Axis) -> str:
    return draw_line(x(p.x), y.start, x(p.x), y.stop, "guide") + draw_line(x.start, y(p.y), x.stop, y(p.y), "guide")


def _draw_point(p: TradeoffPoint, x: Axis, y: Axis, colour: int) -> str:
    bars = draw_line(x(p.x - p.dx), y(p.y), x(p.x + p.dx), y(p.y), "bar") + draw_line(
        x(p.x), y(p.y - p.dy), x(p.x), y(p.y + p.dy), "bar"
    )
    title = f"<title>{escape(p.name)}: {p.x:.1f} / {p.y:.1f}</title>"
    if p.name == PRETRAINED:
        x_px = x(p.x)
        y_px = y(p.y)
        return f'{bars}<path class="base" d="M{x_px} {y_px - 7}l7 7l-7 7l-7 -7Z">{title}</path>'
    return f'{bars}<circle class="f{colour % COLOURS}" cx="{x(p.x)}" cy="{y(p.y)}" r="5.5">{title}</circle>'


def _draw_labels(
    points: Sequence[TradeoffPoint], x: Axis, y: Axis, width: int, lines: Sequence[Sequence[TradeoffPoint]] = (),
    short: Mapping[str, str] = MappingProxyType({}),
) -> str:  # fmt: skip
    """Draw names beside their points, each at the first of a few places that overlaps least with what is drawn."""
    occupied = [(x(p.x) - 6, y(p.y) - 6, x(p.x) + 6, y(p.y) + 6) for p in points]
    for a, b in (pair for line in lines for pair in pairwise(line)):
        samples = [(x(a.x + s * (b.x - a.x)), y(a.y + s * (b.y - a.y))) for s in np.linspace(0, 1, 8)]
        occupied += [(x_px - 1, y_px - 1, x_px + 1, y_px + 1) for x_px, y_px in samples]
    out = []
    for p in points:
        name = short.get(p.name, p.name)
        boxes = _list_label_boxes(x(p.x), y(p.y), 6.6 * len(name))
        inside = [b for b in boxes if b[0] > x.start and b[2] < width and b[1] > 0]
        box = min(inside or boxes, key=lambda b: sum(_boxes_overlap(b, t) for t in occupied))
        occupied.append(box)
        end = (min(max(x(p.x), box[0]), box[2]), (box[1] + box[3]) / 2)
        if abs(end[0] - x(p.x)) > 12 or abs(end[1] - y(p.y)) > 14:  # a name that does not stand beside its point
            out.append(draw_line(x(p.x), y(p.y), *end, "bar"))
        out.append(draw_text(box[0], box[3] - 2, name, "name"))
    return "".join(out)


def _list_label_boxes(x_px: float, y_px: float, width: float) -> list[Box]:
    """List boxes for a name of that length around a point, the nearest first."""
    corners = [(at, y_px + 4 + d) for d in (0, -12, 12, -24, 24, -36, 36)
             for at in (x_px + 9, x_px - 9 - width, x_px - width / 2)]  # fmt: skip
    corners += [(at, y_px + 4 + d) for gap in (24, 40, 56, 72) for d in (0, -18, 18, -36, 36, -54, 54)
              for at in (x_px + gap, x_px - gap - width)]  # fmt: skip
    return [(a, b - 10, a + width, b + 2) for a, b in corners]


def _boxes_overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def draw_interval(low: float, high: float, estimate: float, limit: float, verdict: int, width: int = 96) -> str:
    """Draw a small interval around 0 on an axis of ± limit: the dot is the estimate, an arrow one beyond the axis."""
    x = Axis(-limit, limit, 2, width - 2, ())
    mark = {1: "good", -1: "bad", 0: "none"}[verdict]
    start, stop, place = (x(min(max(value, -limit), limit)) for value in (low, high, estimate))
    body = draw_line(x(0), 1, x(0), 13, "zero") + draw_line(start, 7, stop, 7, f"range {mark}")
    if abs(estimate) > limit:
        tip = f'<path class="{mark}" d="M{place} 7l{-6 if estimate > 0 else 6} -4v8Z"/>'
    else:
        tip = f'<circle class="{mark}" cx="{place}" cy="7" r="3"/>'
    return wrap_svg(body + tip, width, 14, "", "spark")


def limit_axis(intervals: Sequence[Interval]) -> float:
    """Return the axis of a column's intervals: the largest end, at most `WIDEST` times the rows' median one."""
    ends = [max(abs(interval.low), abs(interval.high)) for interval in intervals]
    return min(max(ends), WIDEST * median(ends) or max(ends)) or 1.0 if ends else 1.0


def format_loss_csv(runs: Sequence[FinishedRun]) -> str:
    """Format step, loss and each term, means over seeds, for `dvc plots`; empty without curves."""
    curves = {name: collect_series(runs, name) for name in ["loss", *list_terms(runs)]}
    rows = []
    for step in curves["loss"][0]:
        means = [f"{v[:, s.index(step)].mean():.6g}" if step in s else "" for s, v in curves.values()]
        rows.append([step, *means])
    return format_csv([["step", *curves], *rows]) if rows else ""


def format_tradeoff_csv(groups: Sequence[ResultTable]) -> str:
    """Format one line a method: summary columns in percent, for `dvc plots`."""
    names = summary_names(groups)
    rows = []
    for group in groups:
        for row in group.rows:
            means = {c: s.mean if s else None for c, s in zip(group.columns, row.statistics, strict=True)}
            name = f"{row.method}-{group.backbone}-{group.data}"
            rows.append([name, *format_summaries(group, names, means.__getitem__)])
    return format_csv([["method", *names], *rows])
