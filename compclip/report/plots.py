"""Plots as inline SVG that takes its colours from the page, and the same series as CSV for `dvc plots`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import pairwise
from math import ceil, floor, log10
from types import MappingProxyType

import numpy as np

from compclip.config.cell import PRETRAINED
from compclip.report.escape import table_csv
from compclip.report.tables import SUMMARY, Group, Statistic
from compclip.runs.folder import SHARE
from compclip.runs.results import FinishedRun

NOT_TERMS = {
    "step", "epoch", "samples", "loss", "lr", "logit_scale", "scale", "bias", "grad_norm", "samples_per_second",
    "matrix_share", "data_wait", "time",
}  # fmt: skip
POINTS = 160  # a curve is drawn as at most so many means over neighbouring steps
COLOURS = 8
CROWD = 12  # a plot of more points has numbers in place of names


@dataclass(frozen=True)
class Axis:
    """A linear map from the values [low, high] to the pixels [start, stop], with its ticks."""

    low: float
    high: float
    start: float
    stop: float
    ticks: tuple[float, ...]

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.stop - self.start), 1)


def axis(values: Sequence[float], start: float, stop: float, ticks: int = 5) -> Axis:
    """An axis over `values` that ends on round ticks."""
    low, high = min(values), max(values)
    if high - low < 1e-9:
        low, high = low - 0.5, high + 0.5
    rough = (high - low) / ticks
    power = 10.0 ** floor(log10(rough))
    step = next(s * power for s in (1, 2, 2.5, 5, 10) if s * power >= rough * 0.999)
    first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
    found = tuple(round(i * step, 10) for i in range(first, last + 1))
    return Axis(found[0], found[-1], start, stop, found)


def terms(runs: Sequence[FinishedRun]) -> list[str]:
    """The named loss terms in the curves, in the order of the files; a method of one term has none beside the total."""
    names = [k for run in runs for line in run.curve for k, v in line.items() if isinstance(v, (int, float))]
    found = [n for n in dict.fromkeys(names) if n not in NOT_TERMS and not n.startswith(SHARE)]
    return found if len(found) > 1 else []


def series(runs: Sequence[FinishedRun], term: str) -> tuple[list[int], np.ndarray]:
    """Steps and values of one term, shape (S seeds, steps): only the steps that all seeds logged."""
    tables = [{line["step"]: line[term] for line in run.curve if line.get(term) is not None} for run in runs]
    tables = [t for t in tables if t]
    steps = sorted(set.intersection(*map(set, tables))) if tables else []
    return steps, np.array([[t[s] for s in steps] for t in tables], dtype=np.float64)


def thin(steps: Sequence[int], values: np.ndarray, points: int = POINTS) -> tuple[np.ndarray, np.ndarray]:
    """Means over runs of neighbouring steps, so that at most `points` remain; shapes (P,) and (S, P)."""
    pieces = np.array_split(np.arange(len(steps)), min(points, len(steps)))
    at = np.array([np.mean([steps[i] for i in piece]) for piece in pieces])
    return at, np.stack([values[:, piece].mean(axis=1) for piece in pieces], axis=1)


def loss_svg(runs: Sequence[FinishedRun], title: str, size: tuple[int, int] = (390, 240)) -> str:
    """Total and named terms against the step: a line is the mean over seeds, its band their range."""
    curves = {name: series(runs, name) for name in ["loss", *terms(runs)]}
    curves = {name: thin(*c) for name, c in curves.items() if c[0]}
    if not curves:
        return ""
    width, height = size
    x = axis([s for at, _ in curves.values() for s in (at[0], at[-1])], 44, width - 20, 4)
    # the first steps of a run can tower over the rest: the axis covers all but the highest 2 %
    tops = [0.0, *(float(np.quantile(v, 0.98)) for _, v in curves.values())]
    y = axis([*tops, *(float(v.min()) for _, v in curves.values())], height - 36, 48)
    drawn = [_curve(at, values, x, y, i) for i, (at, values) in enumerate(curves.values())]
    body = frame(x, y, "step", "") + f'<g clip-path="inset(0)">{"".join(drawn)}</g>' + _legend(curves, width)
    return svg(body, width, height, title)


def _curve(at: np.ndarray, values: np.ndarray, x: Axis, y: Axis, colour: int) -> str:
    top = y.ticks[-1]
    line = _path([(x(s), y(min(v, top))) for s, v in zip(at, values.mean(axis=0), strict=True)])
    shape = f'<path class="line c{colour % COLOURS}" d="{line}"/>'
    if len(values) < 2:
        return shape
    upper = [(x(s), y(min(v, top))) for s, v in zip(at, values.max(axis=0), strict=True)]
    lower = [(x(s), y(min(v, top))) for s, v in zip(at, values.min(axis=0), strict=True)]
    return f'<path class="band f{colour % COLOURS}" d="{_path(upper + lower[::-1])}Z"/>' + shape


def _legend(names: Sequence[str], width: int) -> str:
    out, left, top = [], 44.0, 7
    for i, name in enumerate(names):
        label = "total" if name == "loss" else name
        if left + 14 + 6.4 * len(label) > width:
            left, top = 44.0, top + 16
        out.append(f'<rect class="f{i % COLOURS}" x="{left:.0f}" y="{top}" width="10" height="10" rx="2"/>')
        out.append(text(left + 14, top + 9, label, "label"))
        left += 26 + 6.4 * len(label)
    return "".join(out)


@dataclass(frozen=True)
class Point:
    """A method in the trade-off plot, in percent; deviations are 0 for one seed."""

    name: str
    x: float
    y: float
    dx: float = 0.0
    dy: float = 0.0


def tradeoffs(
    group: Group, chosen: Sequence[Sequence[Statistic | None]], names: Sequence[str]
) -> dict[str, list[Point]]:
    """Compositionality (y) against each of the other summary columns (x): points in percent by x's name."""
    if "Comp" not in names:
        return {}
    comp = names.index("Comp")
    found = {}
    for i, name in enumerate(names):
        pairs = [(row.method, e[i], e[comp]) for row, e in zip(group.rows, chosen, strict=True)]
        if i != comp:
            found[name] = [_point(m, x, y) for m, x, y in pairs if x is not None and y is not None]
    return {name: points for name, points in found.items() if points}


def _point(method: str, x: Statistic, y: Statistic) -> Point:
    return Point(method, 100 * x.mean, 100 * y.mean, 100 * (x.std or 0.0), 100 * (y.std or 0.0))


def numbers(methods: Sequence[str]) -> dict[str, str]:
    """What stands for each method in a plot that has no room for their names; empty where it has."""
    return {m: str(i) for i, m in enumerate(methods, 1)} if len(methods) > CROWD else {}


def tradeoff_svg(
    points: Sequence[Point], x_label: str, short: Mapping[str, str] | None = None, size: tuple[int, int] = (405, 350)
) -> str:
    """One point a method with its deviation over seeds; dashed lines through the pretrained model.

    `short` has what to write at a point in place of its method's name.
    """
    width, height = size
    x = axis([v for p in points for v in (p.x - p.dx, p.x + p.dx)], 58, width - 20)
    y = axis([v for p in points for v in (p.y - p.dy, p.y + p.dy)], height - 44, 18)
    base = [p for p in points if p.name == PRETRAINED]
    body = frame(x, y, f"{x_label}, %", "Comp, %") + "".join(_cross(p, x, y) for p in base)
    body += "".join(_dot(p, x, y, i) for i, p in enumerate(points)) + _labels(points, x, y, width, short=short or {})
    return svg(body, width, height, f"Compositionality against {x_label}")


@dataclass(frozen=True)
class Trajectory:
    """A method's way from the pretrained model, its first point, to its own weights, its last."""

    method: str
    colour: int
    points: tuple[Point, ...]


def trajectory_svg(found: Sequence[Trajectory], x_label: str, size: tuple[int, int] = (405, 350)) -> str:
    """A line a method: small dots between, a large one at its end, and the pretrained model where all begin."""
    width, height = size
    every = [p for t in found for p in t.points]
    x = axis([p.x for p in every], 58, width - 20)
    y = axis([p.y for p in every], height - 44, 18)
    base = replace(found[0].points[0], name=PRETRAINED)
    ends = [replace(t.points[-1], name=t.method) for t in found]
    body = frame(x, y, f"{x_label}, %", "Comp, %") + _cross(base, x, y)
    body += "".join(_way(t, x, y) for t in found)
    body += "".join(_dot(p, x, y, t.colour) for p, t in zip(ends, found, strict=True)) + _dot(base, x, y, 0)
    body += _labels([base, *ends], x, y, width, [t.points for t in found])
    return svg(body, width, height, f"WiSE-FT: compositionality against {x_label}")


def _way(t: Trajectory, x: Axis, y: Axis) -> str:
    line = f'<path class="line c{t.colour % COLOURS}" d="{_path([(x(p.x), y(p.y)) for p in t.points])}"/>'
    dots = [
        f'<circle class="f{t.colour % COLOURS}" cx="{x(p.x)}" cy="{y(p.y)}" r="2.6"><title>{escape(p.name)}: '
        f"{p.x:.1f} / {p.y:.1f}</title></circle>"
        for p in t.points[1:-1]
    ]
    return line + "".join(dots)


def _cross(p: Point, x: Axis, y: Axis) -> str:
    return line(x(p.x), y.start, x(p.x), y.stop, "guide") + line(x.start, y(p.y), x.stop, y(p.y), "guide")


def _dot(p: Point, x: Axis, y: Axis, colour: int) -> str:
    bars = line(x(p.x - p.dx), y(p.y), x(p.x + p.dx), y(p.y), "bar") + line(
        x(p.x), y(p.y - p.dy), x(p.x), y(p.y + p.dy), "bar"
    )
    title = f"<title>{escape(p.name)}: {p.x:.1f} / {p.y:.1f}</title>"
    if p.name == PRETRAINED:
        left, top = x(p.x), y(p.y)
        return f'{bars}<path class="base" d="M{left} {top - 7}l7 7l-7 7l-7 -7Z">{title}</path>'
    return f'{bars}<circle class="f{colour % COLOURS}" cx="{x(p.x)}" cy="{y(p.y)}" r="5.5">{title}</circle>'


def _labels(
    points: Sequence[Point], x: Axis, y: Axis, width: int, lines: Sequence[Sequence[Point]] = (),
    short: Mapping[str, str] = MappingProxyType({}),
) -> str:  # fmt: skip
    """Names beside their points, moved to the first of a few places that overlaps least of names, points and lines."""
    taken = [(x(p.x) - 6, y(p.y) - 6, x(p.x) + 6, y(p.y) + 6) for p in points]
    for a, b in (pair for line in lines for pair in pairwise(line)):
        ways = [(x(a.x + s * (b.x - a.x)), y(a.y + s * (b.y - a.y))) for s in np.linspace(0, 1, 8)]
        taken += [(left - 1, top - 1, left + 1, top + 1) for left, top in ways]
    out = []
    for p in points:
        name = short.get(p.name, p.name)
        boxes = _places(x(p.x), y(p.y), 6.6 * len(name))
        inside = [b for b in boxes if b[0] > x.start and b[2] < width and b[1] > 0]
        box = min(inside or boxes, key=lambda b: sum(_overlap(b, t) for t in taken))
        taken.append(box)
        out.append(_leader(x(p.x), y(p.y), box) + text(box[0], box[3] - 2, name, "name"))
    return "".join(out)


def _places(left: float, top: float, long: float) -> list[tuple[float, ...]]:
    """Boxes for a name of that length around a point, the nearest first."""
    found = [(at, top + 4 + d) for d in (0, -12, 12, -24, 24, -36, 36)
             for at in (left + 9, left - 9 - long, left - long / 2)]  # fmt: skip
    found += [(at, top + 4 + d) for gap in (24, 40, 56, 72) for d in (0, -18, 18, -36, 36, -54, 54)
              for at in (left + gap, left - gap - long)]  # fmt: skip
    return [(a, b - 10, a + long, b + 2) for a, b in found]


def _leader(left: float, top: float, box: tuple[float, ...]) -> str:
    """A line from a point to a name that does not stand beside it."""
    near = (min(max(left, box[0]), box[2]), (box[1] + box[3]) / 2)
    return line(left, top, *near, "bar") if abs(near[0] - left) > 12 or abs(near[1] - top) > 14 else ""


def _overlap(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def interval_svg(low: float, high: float, estimate: float, limit: float, verdict: int, width: int = 96) -> str:
    """A small interval around 0 on an axis of ± limit: the dot is the estimate."""
    x = Axis(-limit, limit, 2, width - 2, ())
    mark = {1: "good", -1: "bad", 0: "none"}[verdict]
    body = line(x(0), 1, x(0), 13, "zero") + line(x(low), 7, x(high), 7, f"range {mark}")
    return svg(body + f'<circle class="{mark}" cx="{x(estimate)}" cy="7" r="3"/>', width, 14, "", "spark")


def frame(x: Axis, y: Axis, x_label: str, y_label: str) -> str:
    """Grid lines, ticks and labels of both axes."""
    out = [line(x.start, y(t), x.stop, y(t), "grid") for t in y.ticks]
    out += [text(x.start - 6, y(t) + 4, short(t), "tick end") for t in y.ticks]
    out += [text(x(t), y.start + 16, short(t), "tick middle") for t in x.ticks]
    out.append(text((x.start + x.stop) / 2, y.start + 32, x_label, "label middle"))
    if y_label:
        turn = f"translate(14 {(y.start + y.stop) / 2:.1f}) rotate(-90)"
        out.append(f'<text class="label middle" transform="{turn}">{escape(y_label)}</text>')
    return "".join(out)


def short(value: float) -> str:
    """A tick's number, with a true minus sign."""
    return f"{value:.4g}".replace("-", "−")


def line(x1: float, y1: float, x2: float, y2: float, css: str) -> str:
    """A straight line, in pixels."""
    return f'<line class="{css}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def text(x: float, y: float, told: str, css: str) -> str:
    """A text that begins, ends or has its middle there, by its class."""
    return f'<text class="{css}" x="{x:.1f}" y="{y:.1f}">{escape(told)}</text>'


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in points)


def svg(body: str, width: int, height: int, title: str, css: str = "plot") -> str:
    """The whole figure; one without a title is decoration."""
    label = f' role="img" aria-label="{escape(title)}"' if title else ' aria-hidden="true"'
    return f'<svg class="{css}" viewBox="0 0 {width} {height}" width="{width}" height="{height}"{label}>{body}</svg>'


def loss_csv(runs: Sequence[FinishedRun]) -> str:
    """step, loss and each term, means over seeds, for `dvc plots`; empty without curves."""
    curves = {name: series(runs, name) for name in ["loss", *terms(runs)]}
    steps = curves["loss"][0]
    rows = [[s, *(_mean_at(*c, s) for c in curves.values())] for s in steps]
    return table_csv([["step", *curves], *rows]) if steps else ""


def _mean_at(steps: list[int], values: np.ndarray, step: int) -> str:
    return f"{values[:, steps.index(step)].mean():.6g}" if step in steps else ""


def tradeoff_csv(groups: Sequence[Group]) -> str:
    """One line a method: summary columns in percent, for `dvc plots`."""
    names = list(dict.fromkeys(c.metric for g in groups for c in g.columns if c.benchmark == SUMMARY))
    rows = []
    for group in groups:
        for row in group.rows:
            found = {c.metric: e for c, e in zip(group.columns, row.statistics, strict=True) if c.benchmark == SUMMARY}
            values = [f"{100 * found[n].mean:.4f}" if found.get(n) else "" for n in names]
            rows.append([f"{row.method}-{group.backbone}-{group.data}", *values])
    return table_csv([["method", *names], *rows])
