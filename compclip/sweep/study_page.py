"""A study's page: one self-contained HTML file made from what trials.json holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from compclip.report.statistics import BOTH, NEITHER
from compclip.report.svg_figures import (
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
from compclip.sweep.confirmation import VERDICTS

TEMPLATE = Path(__file__).with_name("page.html.j2")
SIGNS = dict(zip(VERDICTS, "▲▼±·", strict=True))
WIDTH, HEIGHT = 410, 290
LEFT, RIGHT, TOP, BOTTOM = 62, WIDTH - 16, 16, HEIGHT - 44
ORDER = ("complete", "pruned", "failed", "running", "waiting")


@dataclass(frozen=True)
class Dot:
    """A trial in a figure; `kind`: trial, paper or best."""

    x: float
    y: float
    kind: str
    title: str


def study_page(study: Mapping[str, Any], confirmed: Mapping[str, Any] | None = None) -> str:
    """Return the HTML of a study; `study` as in trials.json, `confirmed` as in confirmation.json."""
    complete = [t for t in study["trials"] if t["state"] == "complete"]
    environment = Environment(autoescape=True, trim_blocks=True, undefined=StrictUndefined)
    template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    return template.render(
        study=study, facts=list_facts(study), rows=list_rows(study), dimensions=[d["name"] for d in study["space"]],
        best=next((t for t in complete if t["number"] == study["best"]), None), counts=format_counts(study),
        confirmed=confirmed, judged=list_judged_pairs(confirmed) if confirmed else [],
        verdicts=list_verdicts(confirmed) if confirmed else (), signs=SIGNS,
        pareto=Markup(draw_pareto(study, complete)) if len(study["objectives"]) == 2 and complete else "",
        history=[Markup(draw_history(study, complete, i)) for i in range(len(study["objectives"])) if complete],
        importance=[(k, Markup(draw_bars(list(v.items()), f"Importance for {k}")))
                    for k, v in study["importance"].items()],
        slices=[Markup(s) for i in range(len(study["objectives"])) for d in study["space"]
                if (s := draw_slice(study, complete, d, i))],
    )  # fmt: skip


def format_counts(study: Mapping[str, Any]) -> str:
    """Count the trials by state, as text."""
    states = [t["state"] for t in study["trials"]]
    return ", ".join(f"{states.count(s)} {s}" for s in ORDER if s in states) or "none yet"


def list_facts(study: Mapping[str, Any]) -> list[tuple[str, str]]:
    """List the lines at the top of the page."""
    fact_rows = [
        ("method", f"{study['method']} on {study['backbone']}, data {study['data']}, seed {study['seed']}"),
        ("objectives", ", ".join(f"{o['direction']} {o['metric']}" for o in study["objectives"])),
        ("space", "; ".join(map(_describe_dimension, study["space"]))),
        ("sampler", f"{study['sampler']}, the first {study['startup_trials']} at random"),
        ("pruner", _describe_pruner(study)),
        ("trials", f"{format_counts(study)}; budget {study['budget']}"),
    ]
    if study["overrides"]:
        fact_rows.append(("overrides", ", ".join(study["overrides"])))
    return fact_rows


def _describe_pruner(study: Mapping[str, Any]) -> str:
    if study["pruner"] == "none":
        return "none"
    where = ", ".join(f"{100 * rung:g} %" for rung in study["rungs"])
    beaten = f" by {100 * study['dominated_share']:g} % of the trials" if study["pruner"] == "dominated" else ""
    return f"{study['pruner']}{beaten}, at {where} of the steps"


def _describe_dimension(d: Mapping[str, Any]) -> str:
    values = " | ".join(map(str, d["choices"])) if d["choices"] else f"{d['low']:g} to {d['high']:g}"
    when = " and ".join(f"{k} in {'|'.join(map(str, v))}" for k, v in (d["when"] or {}).items())
    return f"{d['name']}: {values}{', log' * d['log']}{f' when {when}' if when else ''}"


def list_judged_pairs(confirmed: Mapping[str, Any]) -> list[dict[str, Any]]:
    """List the pairs of a confirmation: verdict, each objective's difference with its interval, what stands aside."""
    return [{**p, "shown": [_format_difference(o) for o in p["objectives"]],
             "others": ", ".join(f"{sum(o['better'] is way for o in p['aside'])} {word}"
                                 for way, word in ((True, "better"), (False, "worse"), (None, "undecided")))}
            for p in confirmed["pairs"]]  # fmt: skip


def list_verdicts(confirmed: Mapping[str, Any]) -> tuple[list[str], list[tuple[str, list[str]]]]:
    """List the trials of the front, and a line for each method: what each trial is to it."""
    methods_by_verdict: dict[str, list[str]] = {}
    for pair in confirmed["pairs"]:
        methods_by_verdict.setdefault(pair["method"], []).append(pair["verdict"])
    return list(dict.fromkeys(pair["trial"] for pair in confirmed["pairs"])), list(methods_by_verdict.items())


def _format_difference(evidence: Mapping[str, Any]) -> str:
    """Format, in points, the difference ± its deviation over seeds, its interval, and notes on that."""
    if evidence["difference"] is None:
        return evidence["why"]
    spread = "" if evidence["std"] is None else f" ± {100 * evidence['std']:.1f}"
    ends = evidence["interval"]
    span = f" [{100 * ends['low']:+.1f}, {100 * ends['high']:+.1f}]" if ends else ""
    alone = f"over {evidence['over']}" if evidence["over"] not in (BOTH, NEITHER) else ""
    notes = "; ".join(filter(None, (alone, evidence["why"])))
    return f"{100 * evidence['difference']:+.1f}{spread}{span}{f' ({notes})' if notes else ''}"


def list_rows(study: Mapping[str, Any]) -> list[dict]:
    """List the rows of the table: each trial with its values as texts, its marks, and what went wrong."""
    names = [dimension["name"] for dimension in study["space"]]
    return [{**t, "marks": _list_marks(study, t), "shown": [_format_value(t["params"].get(name)) for name in names],
             "scores": [f"{v:.4f}" for v in t["values"] or ()] or [""] * len(study["objectives"])}
            for t in study["trials"]]  # fmt: skip


def _format_value(value: Any) -> str:
    if value is None:
        return "·"
    return format_tick(value) if isinstance(value, float) else str(value)


def _list_marks(study: Mapping[str, Any], t: Mapping[str, Any]) -> str:
    marks = ["best"] * (t["number"] == study["best"]) + ["the paper's values"] * t["paper"]
    several = len(study["objectives"]) > 1
    marks += ["front"] * (several and t["number"] in study["front"])
    return ", ".join(marks)


def _choose_kind(study: Mapping[str, Any], t: Mapping[str, Any]) -> str:
    is_best = t["number"] in study["front"] if len(study["objectives"]) > 1 else t["number"] == study["best"]
    return "paper" if t["paper"] else "best" if is_best else "trial"


def _describe_trial(t: Mapping[str, Any]) -> str:
    params = ", ".join(f"{k} {_format_value(v)}" for k, v in t["params"].items())
    return f"trial {t['number']}: {params}: {', '.join(f'{v:.4f}' for v in t['values'])}"


def _make_objective_axis(study: Mapping[str, Any], complete: list[dict], i: int, start: float, stop: float) -> Axis:
    """Make the axis of an objective, the pretrained model's value on it too."""
    values = [t["values"][i] for t in complete]
    return make_linear_axis([*values, *_reference_values(study, i)], start, stop)


def _reference_values(study: Mapping[str, Any], i: int) -> list[float]:
    return [study["reference"]["values"][i]] if study["reference"] else []


def draw_history(study: Mapping[str, Any], complete: list[dict], i: int) -> str:
    """Draw an objective against the trial's number, with the best so far."""
    objective = study["objectives"][i]
    x = make_linear_axis([0, max(t["number"] for t in complete) or 1], LEFT, RIGHT, integers=True)
    y = _make_objective_axis(study, complete, i, BOTTOM, TOP)
    pick = max if objective["direction"] == "maximize" else min
    best: list[tuple[int, float]] = []
    for t in sorted(complete, key=lambda t: t["number"]):
        best.append((t["number"], pick([t["values"][i], *(b for _, b in best[-1:])])))
    extra = draw_steps(best, x, y) + "".join(draw_level(v, y, "pretrained") for v in _reference_values(study, i))
    dots = [Dot(t["number"], t["values"][i], _choose_kind(study, t), _describe_trial(t)) for t in complete]
    return draw_scatter(dots, x, y, ("trial", objective["metric"]), extra, f"History of {objective['metric']}")


def draw_slice(study: Mapping[str, Any], complete: list[dict], d: Mapping[str, Any], i: int) -> str:
    """Draw an objective against one parameter, over the trials that drew it."""
    name, trials = d["name"], [t for t in complete if d["name"] in t["params"]]
    if not trials:
        return ""
    position: Any = (lambda v: float([repr(c) for c in d["choices"]].index(repr(v)))) if d["choices"] else float
    if d["choices"]:
        x = category_axis([str(c) for c in d["choices"]], LEFT, RIGHT)
    else:
        x = (logarithmic_axis if d["log"] else make_linear_axis)([d["low"], d["high"]], LEFT, RIGHT)
    y, metric = _make_objective_axis(study, complete, i, BOTTOM, TOP), study["objectives"][i]["metric"]
    extra = "".join(draw_level(v, y, "pretrained") for v in _reference_values(study, i))
    dots = [
        Dot(position(t["params"][name]), t["values"][i], _choose_kind(study, t), _describe_trial(t)) for t in trials
    ]
    return draw_scatter(dots, x, y, (name, metric), extra, f"{metric} against {name}")


def draw_pareto(study: Mapping[str, Any], complete: list[dict]) -> str:
    """Draw the second objective (x) against the first (y): what no trial beats in both is marked."""
    x, y = _make_objective_axis(study, complete, 1, LEFT, RIGHT), _make_objective_axis(study, complete, 0, BOTTOM, TOP)
    dots = [Dot(t["values"][1], t["values"][0], _choose_kind(study, t), _describe_trial(t)) for t in complete]
    extra = ""
    if study["reference"]:
        first, second = study["reference"]["values"]
        extra = draw_line(x(second), TOP, x(second), BOTTOM, "guide") + draw_level(first, y, "pretrained")
    corners = sorted((t["values"][1], t["values"][0]) for t in complete if t["number"] in study["front"])
    extra += '<path class="line c3" d="M' + "L".join(f"{x(a)} {y(b)}" for a, b in corners) + '"/>'
    labels = study["objectives"][1]["metric"], study["objectives"][0]["metric"]
    return draw_scatter(dots, x, y, labels, extra, "Pareto front")


def make_linear_axis(values: Sequence[float], start: float, stop: float, integers: bool = False) -> Axis:
    """Return an axis with round ticks over `values`; `integers` leaves out ticks that are no whole numbers."""
    axis = linear_axis(values, start, stop)
    return replace(axis, ticks=tuple(t for t in axis.ticks if t == int(t))) if integers else axis


def draw_scatter(
    dots: Sequence[Dot], x: Axis, y: Axis, labels: tuple[str, str], extra: str = "", title: str = ""
) -> str:
    """Draw dots over a frame; `extra` is drawn below them. Paper and best come last, on top."""
    order = sorted(dots, key=lambda d: ("trial", "paper", "best").index(d.kind))
    return wrap_svg(draw_axes(x, y, *labels) + extra + "".join(_draw_dot(d, x, y) for d in order), WIDTH, HEIGHT, title)


def _draw_dot(d: Dot, x: Axis, y: Axis) -> str:
    x_px, y_px, title = x(d.x), y(d.y), f"<title>{escape(d.title)}</title>"
    if d.kind == "paper":
        return f'<path class="paper" d="M{x_px} {y_px - 7}l7 7l-7 7l-7 -7Z">{title}</path>'
    return f'<circle class="{d.kind}" cx="{x_px}" cy="{y_px}" r="{6.5 if d.kind == "best" else 4.5}">{title}</circle>'


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
