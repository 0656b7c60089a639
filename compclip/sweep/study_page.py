"""A study's page: one self-contained HTML file with its figures, made from what trials.json holds."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from compclip.base.files import read_mapping, write_atomic
from compclip.report.escape import format_tick, hide_in_page
from compclip.report.statistics import BOTH, NEITHER
from compclip.report.svg_plots import COLOURS, PAPER, SvgPlot
from compclip.sweep import findings
from compclip.sweep.confirmation import VERDICTS
from compclip.sweep.study_results import CONFIRMED, format_counts, list_complete

TEMPLATE = Path(__file__).with_name("page.html.j2")
SIGNS = dict(zip(VERDICTS, "▲▼±·", strict=True))
SIZE = (410, 290)  # pixels
STYLES: dict[str, dict[str, Any]] = {  # of a trial's mark, those on top last
    "trial": {"color": COLOURS[1], "alpha": 0.75, "markersize": 7},
    "paper": {"color": COLOURS[2], "marker": "D", "markersize": 8},
    "best": {"color": COLOURS[3], "markersize": 10, "markeredgecolor": PAPER},
}


def write_page(study_json: Mapping[str, Any], folder: Path) -> None:
    """Write the page, with what the front's confirmation said where that is there."""
    confirmed = read_mapping(folder / CONFIRMED) if (folder / CONFIRMED).is_file() else None
    write_atomic(folder / "index.html", format_page(study_json, confirmed))


def scale_values(study: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document with values in percent where they are shares; pictures and tables are made of that."""
    scales = [1.0 if o.get("score") else 100.0 for o in study["objectives"]]

    def scale(owner: Mapping[str, Any]) -> dict[str, Any]:
        values = owner["values"]
        return {**owner, "values": values and np.multiply(scales, values).tolist()}

    reference = study["reference"] and scale(study["reference"])
    return {**study, "reference": reference, "trials": [scale(trial) for trial in study["trials"]]}


def format_page(study_json: Mapping[str, Any], confirmed: Mapping[str, Any] | None = None) -> str:
    """Return the HTML of a study; `study_json` as in trials.json, `confirmed` as in confirmation.json."""
    study = scale_values(study_json)
    complete = list_complete(study["trials"])
    environment = Environment(autoescape=True, finalize=hide_in_page, trim_blocks=True, undefined=StrictUndefined)
    slices = []
    for i, dimension in itertools.product(range(len(study["objectives"])), study["space"]):
        slices.append(draw_slice(study, complete, dimension, i))
    template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    return template.render(
        study=study, facts=list_facts(study), found=findings.describe(study_json),
        numbers=format_numbers, value=format_value, difference=format_difference, marks=list_marks,
        best=next((t for t in complete if t["number"] == study["best"]), None), counts=format_counts(study),
        confirmed=confirmed, verdicts=list_verdicts(confirmed) if confirmed else (), signs=SIGNS,
        pareto=draw_pareto(study, complete) if len(study["objectives"]) == 2 and complete else "",
        slices=list(filter(None, slices)),
    )  # fmt: skip


def list_facts(study: Mapping[str, Any]) -> list[tuple[str, str]]:
    """List the lines at the top of the page."""
    fact_rows = [
        ("method", f"{study['method']} on {study['backbone']}, data {study['data']}, seed {study['seed']}"),
        ("objectives", ", ".join(f"{o['direction']} {label_objective(o)}" for o in study["objectives"])),
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
    return f"dominated by {100 * study['dominated_share']:g} % of the trials, at {where} of the steps"


def _describe_dimension(d: Mapping[str, Any]) -> str:
    values = " | ".join(map(str, d["choices"])) if d["choices"] else f"{d['low']:g} to {d['high']:g}"
    when = " and ".join(f"{k} in {'|'.join(map(str, v))}" for k, v in (d["when"] or {}).items())
    scale = ", log" if d["log"] else ""
    condition = f" when {when}" if when else ""
    return f"{d['name']}: {values}{scale}{condition}"


def list_verdicts(confirmed: Mapping[str, Any]) -> tuple[list[str], list[tuple[str, list[str]]]]:
    """List the trials of the front, and a line for each method: what each trial is to it."""
    methods_by_verdict: dict[str, list[str]] = {}
    for pair in confirmed["pairs"]:
        methods_by_verdict.setdefault(pair["method"], []).append(pair["verdict"])
    return list(dict.fromkeys(pair["trial"] for pair in confirmed["pairs"])), list(methods_by_verdict.items())


def format_difference(evidence: Mapping[str, Any]) -> str:
    """Format, in points, the difference ± its deviation over seeds, its interval, and notes on that."""
    if evidence["difference"] is None:
        return evidence["why"]
    spread = "" if evidence["std"] is None else f" ± {100 * evidence['std']:.1f}"
    ends = evidence["interval"]
    span = f" [{100 * ends['low']:+.1f}, {100 * ends['high']:+.1f}]" if ends else ""
    alone = f"over {evidence['over']}" if evidence["over"] not in (BOTH, NEITHER) else ""
    notes = "; ".join(filter(None, (alone, evidence["why"])))
    return f"{100 * evidence['difference']:+.1f}{spread}{span}{f' ({notes})' if notes else ''}"


def list_marks(study: Mapping[str, Any], t: Mapping[str, Any]) -> Iterator[str]:
    """List what a trial is besides its values."""
    is_front = len(study["objectives"]) > 1 and t["number"] in study["front"]
    marks = {"best": t["number"] == study["best"], "the paper's values": t["paper"], "front": is_front}
    return itertools.compress(marks, marks.values())


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


def choose_kind(study: Mapping[str, Any], t: Mapping[str, Any]) -> str:
    """Return the kind of a trial's mark: paper, best or trial."""
    is_best = t["number"] in study["front"] if len(study["objectives"]) > 1 else t["number"] == study["best"]
    return "paper" if t["paper"] else "best" if is_best else "trial"


def describe_trial(study: Mapping[str, Any], t: Mapping[str, Any]) -> str:
    """Return what a trial's mark shows: its parameters and values."""
    params = ", ".join(f"{k} {format_value(v)}" for k, v in t["params"].items())
    return f"trial {t['number']}: {params}: {', '.join(format_numbers(study, t['values']))}"


# --- figures, of a document whose values are scaled


def draw_slice(study: Mapping[str, Any], complete: list[dict], d: Mapping[str, Any], i: int) -> Markup:
    """Draw an objective against one parameter, over the trials that drew it; empty without any."""
    name = d["name"]
    trials = [t for t in complete if name in t["params"]]
    if not trials:
        return Markup()
    objective = study["objectives"][i]
    plot = SvgPlot(f"{objective['metric']} against {name}", name, label_objective(objective), SIZE)
    if d["choices"]:
        choices = list(map(repr, d["choices"]))
        plot.axes.set_xticks(range(len(choices)), list(map(str, d["choices"])))
        return _draw_trials(plot, study, trials, lambda t: choices.index(repr(t["params"][name])), i)
    if d["log"]:
        plot.axes.set_xscale("log")
    plot.axes.set_xlim(d["low"], d["high"])
    return _draw_trials(plot, study, trials, lambda t: float(t["params"][name]), i)


def draw_pareto(study: Mapping[str, Any], complete: list[dict]) -> Markup:
    """Draw the second objective (x) against the first (y): what no trial beats in both is marked."""
    first, second = study["objectives"]
    plot = SvgPlot("Pareto front", label_objective(second), label_objective(first), SIZE)
    if study["reference"]:
        plot.guide(x=study["reference"]["values"][1])
    front = sorted((t["values"][1], t["values"][0]) for t in complete if t["number"] in study["front"])
    if front:
        plot.line(front, color=COLOURS[3])
    return _draw_trials(plot, study, complete, lambda t: t["values"][1], 0)


def _draw_trials(
    plot: SvgPlot, study: Mapping[str, Any], trials: Sequence[dict], position: Callable[[dict], float], i: int
) -> Markup:
    """Draw trials at their positions and values of objective i, and a dashed line at the pretrained model's value."""
    if study["reference"]:
        plot.guide(y=study["reference"]["values"][i], name="pretrained")
    for kind, style in STYLES.items():
        for t in trials:
            if choose_kind(study, t) == kind:
                plot.mark(position(t), t["values"][i], describe_trial(study, t), **style)
    return plot.to_svg()
