"""A study's page: one self-contained HTML file made from what trials.json holds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from compclip.report.crossed_intervals import BOTH, NEITHER
from compclip.report.svg_figures import Axis, category_axis, draw_line, format_tick, logarithmic_axis
from compclip.sweep import plots
from compclip.sweep.confirmation import VERDICTS
from compclip.sweep.plots import BOTTOM, LEFT, RIGHT, TOP, Dot

TEMPLATE = Path(__file__).with_name("page.html.j2")
SIGNS = dict(zip(VERDICTS, "▲▼±·", strict=True))
ORDER = ("complete", "pruned", "failed", "running", "waiting")


def study_page(study: Mapping[str, Any], confirmed: Mapping[str, Any] | None = None) -> str:
    """The HTML of a study; `found` as in trials.json, `confirmed` as in confirmation.json."""
    complete = [t for t in study["trials"] if t["state"] == "complete"]
    environment = Environment(autoescape=True, trim_blocks=True, undefined=StrictUndefined)
    template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    return template.render(
        study=study, facts=facts(study), rows=rows(study), dimensions=[d["name"] for d in study["space"]],
        best=next((t for t in complete if t["number"] == study["best"]), None), counts=counts(study),
        confirmed=confirmed, judged=judged(confirmed) if confirmed else [],
        verdicts=verdicts(confirmed) if confirmed else (), signs=SIGNS,
        pareto=Markup(pareto(study, complete)) if len(study["objectives"]) == 2 and complete else "",
        history=[Markup(history(study, complete, i)) for i in range(len(study["objectives"])) if complete],
        importance=[(k, Markup(plots.bars(list(v.items()), f"Importance for {k}")))
                    for k, v in study["importance"].items()],
        slices=[Markup(s) for i in range(len(study["objectives"])) for d in study["space"]
                if (s := slice_(study, complete, d, i))],
    )  # fmt: skip


def counts(study: Mapping[str, Any]) -> str:
    """How many trials are in which state."""
    states = [t["state"] for t in study["trials"]]
    return ", ".join(f"{states.count(s)} {s}" for s in ORDER if s in states) or "none yet"


def facts(study: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The lines at the top of the page."""
    fact_rows = [
        ("method", f"{study['method']} on {study['backbone']}, data {study['data']}, seed {study['seed']}"),
        ("objectives", ", ".join(f"{o['direction']} {o['metric']}" for o in study["objectives"])),
        ("space", "; ".join(map(_space, study["space"]))),
        ("sampler", f"{study['sampler']}, the first {study['startup_trials']} at random"),
        ("pruner", _pruner(study)),
        ("trials", f"{counts(study)}; budget {study['budget']}"),
    ]
    if study["overrides"]:
        fact_rows.append(("overrides", ", ".join(study["overrides"])))
    return fact_rows


def _pruner(study: Mapping[str, Any]) -> str:
    if study["pruner"] == "none":
        return "none"
    where = ", ".join(f"{100 * rung:g} %" for rung in study["rungs"])
    beaten = f" by {100 * study['dominated_share']:g} % of the trials" if study["pruner"] == "dominated" else ""
    return f"{study['pruner']}{beaten}, at {where} of the steps"


def _space(d: Mapping[str, Any]) -> str:
    values = " | ".join(map(str, d["choices"])) if d["choices"] else f"{d['low']:g} to {d['high']:g}"
    when = " and ".join(f"{k} in {'|'.join(map(str, v))}" for k, v in (d["when"] or {}).items())
    return f"{d['name']}: {values}{', log' * d['log']}{f' when {when}' if when else ''}"


def judged(confirmed: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The pairs of a confirmation: verdict, each objective's difference with its interval, what stands aside."""
    return [{**p, "shown": [_difference(o) for o in p["objectives"]],
             "others": ", ".join(f"{sum(o['better'] is way for o in p['aside'])} {word}"
                                 for way, word in ((True, "better"), (False, "worse"), (None, "undecided")))}
            for p in confirmed["pairs"]]  # fmt: skip


def verdicts(confirmed: Mapping[str, Any]) -> tuple[list[str], list[tuple[str, list[str]]]]:
    """The trials of the front, and a line for each method: what each trial is to it."""
    methods_by_verdict: dict[str, list[str]] = {}
    for pair in confirmed["pairs"]:
        methods_by_verdict.setdefault(pair["method"], []).append(pair["verdict"])
    return list(dict.fromkeys(pair["trial"] for pair in confirmed["pairs"])), list(methods_by_verdict.items())


def _difference(evidence: Mapping[str, Any]) -> str:
    """In points: the difference ± its deviation over seeds, its interval, and what keeps that from the usual."""
    if evidence["difference"] is None:
        return evidence["why"]
    spread = "" if evidence["std"] is None else f" ± {100 * evidence['std']:.1f}"
    ends = evidence["interval"]
    span = f" [{100 * ends['low']:+.1f}, {100 * ends['high']:+.1f}]" if ends else ""
    alone = f"over {evidence['over']}" if evidence["over"] not in (BOTH, NEITHER) else ""
    notes = "; ".join(filter(None, (alone, evidence["why"])))
    return f"{100 * evidence['difference']:+.1f}{spread}{span}{f' ({notes})' if notes else ''}"


def rows(study: Mapping[str, Any]) -> list[dict]:
    """The table: each trial with its values as texts, its marks, and what went wrong."""
    return [{**t, "marks": _marks(study, t), "shown": [_cell(t["params"].get(d["name"])) for d in study["space"]],
             "scores": [f"{v:.4f}" for v in t["values"] or ()] or [""] * len(study["objectives"])}
            for t in study["trials"]]  # fmt: skip


def _cell(value: Any) -> str:
    if value is None:
        return "·"
    return format_tick(value) if isinstance(value, float) else str(value)


def _marks(study: Mapping[str, Any], t: Mapping[str, Any]) -> str:
    marks = ["best"] * (t["number"] == study["best"]) + ["the paper's values"] * t["paper"]
    several = len(study["objectives"]) > 1
    marks += ["front"] * (several and t["number"] in study["front"])
    return ", ".join(marks)


def _kind(study: Mapping[str, Any], t: Mapping[str, Any]) -> str:
    is_best = t["number"] in study["front"] if len(study["objectives"]) > 1 else t["number"] == study["best"]
    return "paper" if t["paper"] else "best" if is_best else "trial"


def _title(t: Mapping[str, Any]) -> str:
    params = ", ".join(f"{k} {_cell(v)}" for k, v in t["params"].items())
    return f"trial {t['number']}: {params}: {', '.join(f'{v:.4f}' for v in t['values'])}"


def _scale(study: Mapping[str, Any], complete: list[dict], i: int, start: float, stop: float) -> Axis:
    """The axis of an objective, the pretrained model's value on it too."""
    values = [t["values"][i] for t in complete]
    return plots.linear([*values, *_reference(study, i)], start, stop)


def _reference(study: Mapping[str, Any], i: int) -> list[float]:
    return [study["reference"]["values"][i]] if study["reference"] else []


def history(study: Mapping[str, Any], complete: list[dict], i: int) -> str:
    """An objective against the trial's number, with the best so far."""
    objective = study["objectives"][i]
    x = plots.linear([0, max(t["number"] for t in complete) or 1], LEFT, RIGHT, whole=True)
    y = _scale(study, complete, i, BOTTOM, TOP)
    pick = max if objective["direction"] == "maximize" else min
    best: list[tuple[int, float]] = []
    for t in sorted(complete, key=lambda t: t["number"]):
        best.append((t["number"], pick([t["values"][i], *(b for _, b in best[-1:])])))
    extra = plots.steps(best, x, y) + "".join(plots.level(v, y, "pretrained") for v in _reference(study, i))
    dots = [Dot(t["number"], t["values"][i], _kind(study, t), _title(t)) for t in complete]
    return plots.scatter(dots, x, y, ("trial", objective["metric"]), extra, f"History of {objective['metric']}")


def slice_(study: Mapping[str, Any], complete: list[dict], d: Mapping[str, Any], i: int) -> str:
    """An objective against one parameter, over the trials that drew it."""
    name, trials = d["name"], [t for t in complete if d["name"] in t["params"]]
    if not trials:
        return ""
    position: Any = (lambda v: float([repr(c) for c in d["choices"]].index(repr(v)))) if d["choices"] else float
    if d["choices"]:
        x = category_axis([str(c) for c in d["choices"]], LEFT, RIGHT)
    else:
        x = (logarithmic_axis if d["log"] else plots.linear)([d["low"], d["high"]], LEFT, RIGHT)
    y, metric = _scale(study, complete, i, BOTTOM, TOP), study["objectives"][i]["metric"]
    extra = "".join(plots.level(v, y, "pretrained") for v in _reference(study, i))
    dots = [Dot(position(t["params"][name]), t["values"][i], _kind(study, t), _title(t)) for t in trials]
    return plots.scatter(dots, x, y, (name, metric), extra, f"{metric} against {name}")


def pareto(study: Mapping[str, Any], complete: list[dict]) -> str:
    """The second objective (x) against the first (y): what no trial beats in both is marked."""
    x, y = _scale(study, complete, 1, LEFT, RIGHT), _scale(study, complete, 0, BOTTOM, TOP)
    dots = [Dot(t["values"][1], t["values"][0], _kind(study, t), _title(t)) for t in complete]
    extra = ""
    if study["reference"]:
        first, second = study["reference"]["values"]
        extra = draw_line(x(second), TOP, x(second), BOTTOM, "guide") + plots.level(first, y, "pretrained")
    corners = sorted((t["values"][1], t["values"][0]) for t in complete if t["number"] in study["front"])
    extra += '<path class="line c3" d="M' + "L".join(f"{x(a)} {y(b)}" for a, b in corners) + '"/>'
    labels = study["objectives"][1]["metric"], study["objectives"][0]["metric"]
    return plots.scatter(dots, x, y, labels, extra, "Pareto front")
