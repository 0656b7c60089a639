"""A study's page: one self-contained HTML file made from what trials.json holds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from compclip.report.crossed import BOTH, NEITHER
from compclip.sweep import plots
from compclip.sweep.confirm import VERDICTS
from compclip.sweep.plots import BOTTOM, LEFT, RIGHT, TOP, Dot, Scale

TEMPLATE = Path(__file__).with_name("page.html.j2")
SIGNS = dict(zip(VERDICTS, "▲▼±·", strict=True))
ORDER = ("complete", "pruned", "failed", "running", "waiting")


def page(found: Mapping[str, Any], confirmed: Mapping[str, Any] | None = None) -> str:
    """The HTML of a study; `found` as in trials.json, `confirmed` as in confirmation.json."""
    done = [t for t in found["trials"] if t["state"] == "complete"]
    environment = Environment(autoescape=True, trim_blocks=True, undefined=StrictUndefined)
    template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    return template.render(
        study=found, facts=facts(found), rows=rows(found), dimensions=[d["name"] for d in found["space"]],
        best=next((t for t in done if t["number"] == found["best"]), None), counts=counts(found),
        confirmed=confirmed, judged=judged(confirmed) if confirmed else [],
        verdicts=verdicts(confirmed) if confirmed else (), signs=SIGNS,
        pareto=Markup(pareto(found, done)) if len(found["objectives"]) == 2 and done else "",
        history=[Markup(history(found, done, i)) for i in range(len(found["objectives"])) if done],
        importance=[(k, Markup(plots.bars(list(v.items()), f"Importance for {k}")))
                    for k, v in found["importance"].items()],
        slices=[Markup(s) for i in range(len(found["objectives"])) for d in found["space"]
                if (s := slice_(found, done, d, i))],
    )  # fmt: skip


def counts(found: Mapping[str, Any]) -> str:
    """How many trials are in which state."""
    states = [t["state"] for t in found["trials"]]
    return ", ".join(f"{states.count(s)} {s}" for s in ORDER if s in states) or "none yet"


def facts(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The lines at the top of the page."""
    listed = [
        ("method", f"{found['method']} on {found['backbone']}, data {found['data']}, seed {found['seed']}"),
        ("objectives", ", ".join(f"{o['direction']} {o['metric']}" for o in found["objectives"])),
        ("space", "; ".join(map(_space, found["space"]))),
        ("sampler", f"{found['sampler']}, the first {found['startup_trials']} at random"),
        ("pruner", _pruner(found)),
        ("trials", f"{counts(found)}; budget {found['budget']}"),
    ]
    if found["overrides"]:
        listed.append(("overrides", ", ".join(found["overrides"])))
    return listed


def _pruner(found: Mapping[str, Any]) -> str:
    if found["pruner"] == "none":
        return "none"
    where = ", ".join(f"{100 * rung:g} %" for rung in found["rungs"])
    beaten = f" by {100 * found['dominated_share']:g} % of the trials" if found["pruner"] == "dominated" else ""
    return f"{found['pruner']}{beaten}, at {where} of the steps"


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
    of: dict[str, list[str]] = {}
    for pair in confirmed["pairs"]:
        of.setdefault(pair["method"], []).append(pair["verdict"])
    return list(dict.fromkeys(pair["trial"] for pair in confirmed["pairs"])), list(of.items())


def _difference(told: Mapping[str, Any]) -> str:
    """In points: the difference ± its deviation over seeds, its interval, and what keeps that from the usual."""
    if told["difference"] is None:
        return told["why"]
    spread = "" if told["std"] is None else f" ± {100 * told['std']:.1f}"
    ends = told["interval"]
    span = f" [{100 * ends['low']:+.1f}, {100 * ends['high']:+.1f}]" if ends else ""
    alone = f"over {told['over']}" if told["over"] not in (BOTH, NEITHER) else ""
    notes = "; ".join(filter(None, (alone, told["why"])))
    return f"{100 * told['difference']:+.1f}{spread}{span}{f' ({notes})' if notes else ''}"


def rows(found: Mapping[str, Any]) -> list[dict]:
    """The table: each trial with its values as texts, its marks, and what went wrong."""
    return [{**t, "marks": _marks(found, t), "shown": [_cell(t["params"].get(d["name"])) for d in found["space"]],
             "scores": [f"{v:.4f}" for v in t["values"] or ()] or [""] * len(found["objectives"])}
            for t in found["trials"]]  # fmt: skip


def _cell(value: Any) -> str:
    if value is None:
        return "·"
    return plots.short(value) if isinstance(value, float) else str(value)


def _marks(found: Mapping[str, Any], t: Mapping[str, Any]) -> str:
    marks = ["best"] * (t["number"] == found["best"]) + ["the paper's values"] * t["paper"]
    several = len(found["objectives"]) > 1
    marks += ["front"] * (several and t["number"] in found["front"])
    return ", ".join(marks)


def _kind(found: Mapping[str, Any], t: Mapping[str, Any]) -> str:
    chosen = t["number"] in found["front"] if len(found["objectives"]) > 1 else t["number"] == found["best"]
    return "paper" if t["paper"] else "best" if chosen else "trial"


def _title(t: Mapping[str, Any]) -> str:
    drawn = ", ".join(f"{k} {_cell(v)}" for k, v in t["params"].items())
    return f"trial {t['number']}: {drawn}: {', '.join(f'{v:.4f}' for v in t['values'])}"


def _scale(found: Mapping[str, Any], done: list[dict], i: int, start: float, stop: float) -> Scale:
    """The axis of an objective, the pretrained model's value on it too."""
    values = [t["values"][i] for t in done]
    return plots.linear([*values, *_reference(found, i)], start, stop)


def _reference(found: Mapping[str, Any], i: int) -> list[float]:
    return [found["reference"]["values"][i]] if found["reference"] else []


def history(found: Mapping[str, Any], done: list[dict], i: int) -> str:
    """An objective against the trial's number, with the best so far."""
    objective = found["objectives"][i]
    x = plots.linear([0, max(t["number"] for t in done) or 1], LEFT, RIGHT, whole=True)
    y = _scale(found, done, i, BOTTOM, TOP)
    pick, best = (max if objective["direction"] == "maximize" else min), []
    for t in sorted(done, key=lambda t: t["number"]):
        best.append((t["number"], pick([t["values"][i], *(b for _, b in best[-1:])])))
    extra = plots.steps(best, x, y) + "".join(plots.level(v, y, "pretrained") for v in _reference(found, i))
    dots = [Dot(t["number"], t["values"][i], _kind(found, t), _title(t)) for t in done]
    return plots.scatter(dots, x, y, ("trial", objective["metric"]), extra, f"History of {objective['metric']}")


def slice_(found: Mapping[str, Any], done: list[dict], d: Mapping[str, Any], i: int) -> str:
    """An objective against one parameter, over the trials that drew it."""
    name, drawn = d["name"], [t for t in done if d["name"] in t["params"]]
    if not drawn:
        return ""
    place: Any = (lambda v: float([repr(c) for c in d["choices"]].index(repr(v)))) if d["choices"] else float
    if d["choices"]:
        x = plots.names([str(c) for c in d["choices"]], LEFT, RIGHT)
    else:
        x = (plots.logarithmic if d["log"] else plots.linear)([d["low"], d["high"]], LEFT, RIGHT)
    y, metric = _scale(found, done, i, BOTTOM, TOP), found["objectives"][i]["metric"]
    extra = "".join(plots.level(v, y, "pretrained") for v in _reference(found, i))
    dots = [Dot(place(t["params"][name]), t["values"][i], _kind(found, t), _title(t)) for t in drawn]
    return plots.scatter(dots, x, y, (name, metric), extra, f"{metric} against {name}")


def pareto(found: Mapping[str, Any], done: list[dict]) -> str:
    """The second objective (x) against the first (y): what no trial beats in both is marked."""
    x, y = _scale(found, done, 1, LEFT, RIGHT), _scale(found, done, 0, BOTTOM, TOP)
    dots = [Dot(t["values"][1], t["values"][0], _kind(found, t), _title(t)) for t in done]
    extra = ""
    if found["reference"]:
        first, second = found["reference"]["values"]
        extra = plots.line(x(second), TOP, x(second), BOTTOM, "guide") + plots.level(first, y, "pretrained")
    corners = sorted((t["values"][1], t["values"][0]) for t in done if t["number"] in found["front"])
    extra += '<path class="line c3" d="M' + "L".join(f"{x(a)} {y(b)}" for a, b in corners) + '"/>'
    labels = found["objectives"][1]["metric"], found["objectives"][0]["metric"]
    return plots.scatter(dots, x, y, labels, extra, "Pareto front")
