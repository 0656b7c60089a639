"""Figures of a study's page: its history, slices, front and importance, from a document whose values are scaled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any

from compclip.report.report_figures import (
    Axis,
    category_axis,
    draw_axes,
    draw_line,
    draw_text,
    format_tick,
    linear_axis,
    logarithmic_axis,
    wrap_svg,
)

WIDTH, HEIGHT = 410, 290
LEFT, RIGHT, TOP, BOTTOM = 62, WIDTH - 16, 16, HEIGHT - 44


def label_objective(objective: Mapping[str, Any]) -> str:
    """Return an objective with its unit, as an axis and a column are named."""
    return f"{objective['metric']} ({'a cosine' if objective.get('score') else '%'})"


def format_numbers(study: Mapping[str, Any], values: Sequence[float] | None) -> list[str]:
    """Format a trial's scaled values, each as its objective asks; empty texts of a trial without any."""
    digits = [4 if o.get("score") else 2 for o in study["objectives"]]
    return [f"{v:.{d}f}" for v, d in zip(values, digits, strict=True)] if values else [""] * len(digits)


def format_value(value: Any) -> str:
    """Return a parameter's value as text; a dot where the trial did not draw it."""
    if value is None:
        return "·"
    return format_tick(value) if isinstance(value, float) else str(value)


def _choose_kind(study: Mapping[str, Any], t: Mapping[str, Any]) -> str:
    is_best = t["number"] in study["front"] if len(study["objectives"]) > 1 else t["number"] == study["best"]
    return "paper" if t["paper"] else "best" if is_best else "trial"


def _describe_trial(study: Mapping[str, Any], t: Mapping[str, Any]) -> str:
    params = ", ".join(f"{k} {format_value(v)}" for k, v in t["params"].items())
    return f"trial {t['number']}: {params}: {', '.join(format_numbers(study, t['values']))}"


def _make_objective_axis(study: Mapping[str, Any], complete: list[dict], i: int, start: float, stop: float) -> Axis:
    """Make the axis of an objective, the pretrained model's value on it too."""
    return linear_axis([*(t["values"][i] for t in complete), *_reference_values(study, i)], start, stop)


def _reference_values(study: Mapping[str, Any], i: int) -> list[float]:
    return [study["reference"]["values"][i]] if study["reference"] else []


def draw_history(study: Mapping[str, Any], complete: list[dict], i: int) -> str:
    """Draw an objective against the trial's number, with the best so far."""
    objective = study["objectives"][i]
    x = linear_axis([0, max(t["number"] for t in complete) or 1], LEFT, RIGHT)
    x = replace(x, ticks=tuple(tick for tick in x.ticks if tick == int(tick)))
    y = _make_objective_axis(study, complete, i, BOTTOM, TOP)
    pick = max if objective["direction"] == "maximize" else min
    best: list[tuple[int, float]] = []
    for t in sorted(complete, key=lambda t: t["number"]):
        best.append((t["number"], pick([t["values"][i], *(b for _, b in best[-1:])])))
    extra = draw_steps(best, x, y) + "".join(draw_level(v, y, "pretrained") for v in _reference_values(study, i))
    dots = [Dot(t["number"], t["values"][i], _choose_kind(study, t), _describe_trial(study, t)) for t in complete]
    return draw_scatter(dots, x, y, ("trial", label_objective(objective)), extra, f"History of {objective['metric']}")


def draw_slice(study: Mapping[str, Any], complete: list[dict], d: Mapping[str, Any], i: int) -> str:
    """Draw an objective against one parameter, over the trials that drew it."""
    name, trials = d["name"], [t for t in complete if d["name"] in t["params"]]
    if not trials:
        return ""
    position: Any = (lambda v: float([repr(c) for c in d["choices"]].index(repr(v)))) if d["choices"] else float
    if d["choices"]:
        x = category_axis([str(c) for c in d["choices"]], LEFT, RIGHT)
    else:
        x = (logarithmic_axis if d["log"] else linear_axis)([d["low"], d["high"]], LEFT, RIGHT)
    y, objective = _make_objective_axis(study, complete, i, BOTTOM, TOP), study["objectives"][i]
    extra = "".join(draw_level(v, y, "pretrained") for v in _reference_values(study, i))
    dots = [
        Dot(position(t["params"][name]), t["values"][i], _choose_kind(study, t), _describe_trial(study, t))
        for t in trials
    ]
    return draw_scatter(dots, x, y, (name, label_objective(objective)), extra, f"{objective['metric']} against {name}")


def draw_pareto(study: Mapping[str, Any], complete: list[dict]) -> str:
    """Draw the second objective (x) against the first (y): what no trial beats in both is marked."""
    x, y = _make_objective_axis(study, complete, 1, LEFT, RIGHT), _make_objective_axis(study, complete, 0, BOTTOM, TOP)
    dots = [Dot(t["values"][1], t["values"][0], _choose_kind(study, t), _describe_trial(study, t)) for t in complete]
    extra = ""
    if study["reference"]:
        first, second = study["reference"]["values"]
        extra = draw_line(x(second), TOP, x(second), BOTTOM, "guide") + draw_level(first, y, "pretrained")
    corners = sorted((t["values"][1], t["values"][0]) for t in complete if t["number"] in study["front"])
    extra += '<path class="line c3" d="M' + "L".join(f"{x(a)} {y(b)}" for a, b in corners) + '"/>'
    labels = label_objective(study["objectives"][1]), label_objective(study["objectives"][0])
    return draw_scatter(dots, x, y, labels, extra, "Pareto front")


@dataclass(frozen=True)
class Dot:
    """A trial in a figure; `kind`: trial, paper or best."""

    x: float
    y: float
    kind: str
    title: str


def draw_scatter(
    dots: Sequence[Dot], x: Axis, y: Axis, labels: tuple[str, str], extra: str = "", title: str = ""
) -> str:
    """Draw dots over a frame; `extra` is drawn below them. Paper and best come last, on top."""
    marks = []
    for d in sorted(dots, key=lambda d: ("trial", "paper", "best").index(d.kind)):
        x_px, y_px, title_text = x(d.x), y(d.y), f"<title>{escape(d.title)}</title>"
        radius = 6.5 if d.kind == "best" else 4.5
        if d.kind == "paper":
            marks.append(f'<path class="paper" d="M{x_px} {y_px - 7}l7 7l-7 7l-7 -7Z">{title_text}</path>')
        else:
            marks.append(f'<circle class="{d.kind}" cx="{x_px}" cy="{y_px}" r="{radius}">{title_text}</circle>')
    return wrap_svg(draw_axes(x, y, *labels) + extra + "".join(marks), WIDTH, HEIGHT, title)


def draw_level(value: float, y: Axis, text: str) -> str:
    """Draw a dashed line across the frame, with its name."""
    top = y(value)
    return draw_line(LEFT, top, RIGHT, top, "guide") + draw_text(RIGHT, top - 4, text, "tick end")


def draw_steps(points: Sequence[tuple[float, float]], x: Axis, y: Axis) -> str:
    """Draw a line that keeps each value until the next point."""
    path = "".join(
        f"{'M' if i == 0 else 'H'}{x(a)}" + (f" {y(b)}" if i == 0 else f"V{y(b)}") for i, (a, b) in enumerate(points)
    )
    return f'<path class="line c3" d="{path}"/>' if points else ""


def draw_bars(shares: Sequence[tuple[str, float]], title: str) -> str:
    """Draw one horizontal bar for each name, as a share of 1."""
    height, x_px = 20 + 26 * len(shares), 130
    rows = []
    for i, (name, share) in enumerate(shares):
        top, width = 12 + 26 * i, share * (WIDTH - x_px - 60)
        rows.append(draw_text(x_px - 8, top + 13, name, "name end"))
        rows.append(f'<rect class="f1" x="{x_px}" y="{top}" width="{width:.1f}" height="17" rx="2"/>')
        rows.append(draw_text(x_px + width + 6, top + 13, f"{100 * share:.0f} %", "tick"))
    return wrap_svg("".join(rows), WIDTH, height, title)
