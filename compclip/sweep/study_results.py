"""What a study found, as files in studies/<name>/: trials.json, best.yaml, index.html; and who may drive it.

The page is one self-contained HTML file made from what trials.json holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import accumulate
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from compclip.base import yaml_text
from compclip.base.errors import one_line
from compclip.base.files import hold_exclusively, read_mapping, write_atomic, write_json
from compclip.base.messages import format_share
from compclip.base.yaml_text import dump_yaml
from compclip.config import read
from compclip.config.sections import WHOLE
from compclip.report.statistics import BOTH, NEITHER
from compclip.report.svg_plots import COLOURS, PAPER, SvgPlot, format_tick
from compclip.report.tables import Column
from compclip.runs import run_store
from compclip.sweep.confirmation import VERDICTS
from compclip.sweep.study_declaration import Study, trial_overrides

CONFIRMED = "confirmation.json"
NOTED = "scores_at_rungs"  # of a trial: step -> the values of the objectives
TEMPLATE = Path(__file__).with_name("page.html.j2")
SIGNS = dict(zip(VERDICTS, "▲▼±·", strict=True))
ORDER = ("complete", "pruned", "failed", "running", "waiting")


def lock_study(name: str, root: Path) -> AbstractContextManager[None]:
    """Hold the study. Raises UserError where another process drives it."""
    busy = f"study {name}: process {{}} drives it already; wait for it, or stop it and start again"
    return hold_exclusively(root / ".work" / "studies" / f"{name}.lock", busy)


def shown_folder(key: str, root: Path) -> str:
    """Return where a run's files are: from the project's root, or absolute where a shared store has them."""
    path = run_store.find_folder(key, root).path
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def trial_to_json(trial: Any, state: str, study: Study, root: Path = Path(".")) -> dict:
    """Return a trial of the storage as trials.json has it.

    `values` only of a finished one, in the order of the objectives.
    """
    key = trial.user_attrs.get("run_key")
    params = trial.params or trial.system_attrs.get("fixed_params", {})
    rungs = trial.user_attrs.get(NOTED) or {step: [value] for step, value in trial.intermediate_values.items()}
    started, ended = (
        moment and moment.isoformat(timespec="seconds") for moment in (trial.datetime_start, trial.datetime_complete)
    )
    return {
        "number": trial.number, "state": state, "params": params,
        "values": list(trial.values) if state == "complete" else None,
        "run_key": key, "folder": shown_folder(key, root) if key else None,
        "started": started, "ended": ended,
        "reason": trial.user_attrs.get("reason", ""), "paper": params in map(dict, study.paper),
        "retry_of": trial.user_attrs.get("retry_of"),
        "intermediate": {str(step): list(values) for step, values in rungs.items()},
    }  # fmt: skip


def study_to_json(
    study: Study, trials: list[dict], reference: dict | None, importance: Mapping[str, Any],
    columns: Sequence[Column] = (), notice: str = "",
) -> dict:  # fmt: skip
    """Return the whole of trials.json; `columns`: the objectives, of which a cosine is marked `score`.

    `notice` is what a reader must know before any number.

    Values are shares, or cosines; what is made of the document for a reader is in percent.
    """
    cosines = {column.name for column in columns if column.score}
    best = best_trial(study, trials, reference["values"] if reference else None)
    declared = study.identity()
    return {
        "study": declared.pop("name"), "notice": notice, **declared, "budget": study.trials, "reference": reference,
        "objectives": [
            {"metric": o.column, "direction": o.direction} | ({"score": True} if o.column in cosines else {})
            for o in study.objectives
        ],
        "best": None if best is None else best["number"], "front": pareto_front(study, trials),
        "importance": dict(importance), "trials": trials,
    }  # fmt: skip


def write_files(study_json: dict, study: Study, params: Path, folder: Path) -> None:
    """Write the three files, each whole; best.yaml as soon as a trial has finished."""
    write_json(folder / "trials.json", study_json)
    if study_json["best"] is not None:
        best = next(t for t in study_json["trials"] if t["number"] == study_json["best"])
        write_atomic(folder / "best.yaml", best_yaml(study, params, best, format_values(study_json, best["values"])))
    write_page(study_json, folder)


def write_page(study_json: Mapping[str, Any], folder: Path) -> None:
    """Write the page, with what the front's confirmation said where that is there."""
    confirmed = read_mapping(folder / CONFIRMED) if (folder / CONFIRMED).is_file() else None
    write_atomic(folder / "index.html", format_page(study_json, confirmed))


def best_trial(study: Study, trials: list[dict], reference: list[float] | None) -> dict | None:
    """Return the best finished trial, by the sum of its objectives' gains over the pretrained model.

    `trials` as in trials.json; the earliest of equals.
    """
    start = reference or [0.0] * len(study.objectives)
    signs = [o.sign for o in study.objectives]

    def gain(trial: dict) -> float:
        return sum(s * (v - r) for s, v, r in zip(signs, trial["values"], start, strict=True))

    return max((t for t in trials if t["state"] == "complete"), key=gain, default=None)


def pareto_front(study: Study, trials: list[dict]) -> list[int]:
    """Return numbers of the finished trials that no other one beats in one objective and equals in the rest."""
    points = {
        t["number"]: [o.sign * v for o, v in zip(study.objectives, t["values"], strict=True)]
        for t in trials
        if t["state"] == "complete"
    }

    def beaten(p: list[float]) -> bool:
        return any(q != p and all(a >= b for a, b in zip(q, p, strict=True)) for q in points.values())

    return [number for number, p in points.items() if not beaten(p)]


def best_yaml(study: Study, params_path: Path, trial: dict, scores: str) -> str:
    """Return a whole params.yaml with the trial's values in the method's section and the method in the grid.

    `scores`: what it reached, as text.
    """
    methods = read.read_with_overrides(params_path, ()).methods
    merged = read.read_with_overrides(params_path, trial_overrides(study, trial["params"], methods))
    if study.method not in merged.grid.methods:
        merged.grid.methods.append(str(study.method))
    text = dump_yaml(yaml_text.to_unresolved(merged))
    title = f"Study {study.name}, trial {trial['number']}: {one_line(scores)}"
    items = "these very columns" if study.split == WHOLE else f"{study.split} items of these columns"
    return f"# {title}; selected on {items}.\n# `compclip config use FILE` makes it the current grid.\n\n{text}"


def format_values(study_json: Mapping[str, Any], values: Sequence[float]) -> str:
    """Name a trial's values, shares in percent, as `sugarcrepe/swap 75.00 %`; `study_json` as in trials.json."""
    objectives = study_json["objectives"]
    return ", ".join(f"{o['metric']} {_format_number(o, v)}" for o, v in zip(objectives, values, strict=True))


def _format_number(objective: Mapping[str, Any], value: float) -> str:
    if objective.get("score"):
        return format_share(value, is_cosine=True)
    return f"{format_share(value)} %"


def scale_values(study: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document with values in percent where they are shares; pictures and tables are made of that."""
    scales = [1.0 if o.get("score") else 100.0 for o in study["objectives"]]

    def scale(owner: Mapping[str, Any]) -> dict[str, Any]:
        values = owner["values"]
        return {**owner, "values": values and [s * v for s, v in zip(scales, values, strict=True)]}

    reference = study["reference"] and scale(study["reference"])
    return {**study, "reference": reference, "trials": [scale(trial) for trial in study["trials"]]}


def format_page(study_json: Mapping[str, Any], confirmed: Mapping[str, Any] | None = None) -> str:
    """Return the HTML of a study; `study_json` as in trials.json, `confirmed` as in confirmation.json."""
    study = scale_values(study_json)
    complete = [t for t in study["trials"] if t["state"] == "complete"]
    environment = Environment(autoescape=True, trim_blocks=True, undefined=StrictUndefined)
    slices = [draw_slice(study, complete, d, i) for i in range(len(study["objectives"])) for d in study["space"]]
    template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    return template.render(
        study=study, numbers=format_numbers, facts=list_facts(study),
        rows=list_rows(study), dimensions=[d["name"] for d in study["space"]],
        best=next((t for t in complete if t["number"] == study["best"]), None), counts=format_counts(study),
        confirmed=confirmed, judged=list_judged_pairs(confirmed) if confirmed else [],
        verdicts=list_verdicts(confirmed) if confirmed else (), signs=SIGNS,
        pareto=draw_pareto(study, complete) if len(study["objectives"]) == 2 and complete else "",
        history=[draw_history(study, complete, i) for i in range(len(study["objectives"])) if complete],
        importance=[(k, draw_bars(v, f"Importance for {k}")) for k, v in study["importance"].items()],
        slices=list(filter(None, slices)),
    )  # fmt: skip


def format_counts(study: Mapping[str, Any]) -> str:
    """Count the trials by state, as text."""
    states = [t["state"] for t in study["trials"]]
    return ", ".join(f"{states.count(s)} {s}" for s in ORDER if s in states) or "none yet"


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
    beaten = f" by {100 * study['dominated_share']:g} % of the trials" if study["pruner"] == "dominated" else ""
    return f"{study['pruner']}{beaten}, at {where} of the steps"


def _describe_dimension(d: Mapping[str, Any]) -> str:
    values = " | ".join(map(str, d["choices"])) if d["choices"] else f"{d['low']:g} to {d['high']:g}"
    when = " and ".join(f"{k} in {'|'.join(map(str, v))}" for k, v in (d["when"] or {}).items())
    scale = ", log" if d["log"] else ""
    condition = f" when {when}" if when else ""
    return f"{d['name']}: {values}{scale}{condition}"


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
    return [{**t, "marks": _list_marks(study, t), "shown": [format_value(t["params"].get(name)) for name in names],
             "scores": format_numbers(study, t["values"])}
            for t in study["trials"]]  # fmt: skip


def _list_marks(study: Mapping[str, Any], t: Mapping[str, Any]) -> str:
    is_front = len(study["objectives"]) > 1 and t["number"] in study["front"]
    marks = {"best": t["number"] == study["best"], "the paper's values": t["paper"], "front": is_front}
    return ", ".join(mark for mark, is_borne in marks.items() if is_borne)


# Figures of a study's page: its history, slices, front and importance, from a document whose values are scaled.

SIZE = (410, 290)  # pixels
STYLES: dict[str, dict[str, Any]] = {  # of a trial's mark, those on top last
    "trial": {"color": COLOURS[1], "alpha": 0.75, "markersize": 7},
    "paper": {"color": COLOURS[2], "marker": "D", "markersize": 8},
    "best": {"color": COLOURS[3], "markersize": 10, "markeredgecolor": PAPER},
}


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


def _reference_values(study: Mapping[str, Any], i: int) -> list[float]:
    return [study["reference"]["values"][i]] if study["reference"] else []


def draw_history(study: Mapping[str, Any], complete: list[dict], i: int) -> Markup:
    """Draw an objective against the trial's number, with the best so far."""
    objective = study["objectives"][i]
    plot = SvgPlot(f"History of {objective['metric']}", "trial", label_objective(objective), SIZE)
    plot.axes.locator_params(axis="x", integer=True)
    pick = max if objective["direction"] == "maximize" else min
    trials = sorted(complete, key=lambda t: t["number"])
    best = list(accumulate((t["values"][i] for t in trials), pick))
    plot.axes.step([t["number"] for t in trials], best, where="post", color=COLOURS[3], linewidth=1.5)
    return _draw_trials(plot, study, trials, lambda t: t["number"], i)


def draw_slice(study: Mapping[str, Any], complete: list[dict], d: Mapping[str, Any], i: int) -> Markup:
    """Draw an objective against one parameter, over the trials that drew it; empty without any."""
    name = d["name"]
    trials = [t for t in complete if name in t["params"]]
    if not trials:
        return Markup()
    objective = study["objectives"][i]
    plot = SvgPlot(f"{objective['metric']} against {name}", name, label_objective(objective), SIZE)
    if d["choices"]:
        choices = [repr(choice) for choice in d["choices"]]
        plot.axes.set_xticks(range(len(choices)), [str(choice) for choice in d["choices"]])
        return _draw_trials(plot, study, trials, lambda t: choices.index(repr(t["params"][name])), i)
    if d["log"]:
        plot.axes.set_xscale("log")
    plot.axes.set_xlim(d["low"], d["high"])
    return _draw_trials(plot, study, trials, lambda t: float(t["params"][name]), i)


def draw_pareto(study: Mapping[str, Any], complete: list[dict]) -> Markup:
    """Draw the second objective (x) against the first (y): what no trial beats in both is marked."""
    first, second = study["objectives"]
    plot = SvgPlot("Pareto front", label_objective(second), label_objective(first), SIZE)
    for value in _reference_values(study, 1):
        plot.guide(x=value)
    front = sorted((t["values"][1], t["values"][0]) for t in complete if t["number"] in study["front"])
    if front:
        plot.line(front, color=COLOURS[3])
    return _draw_trials(plot, study, complete, lambda t: t["values"][1], 0)


def _draw_trials(
    plot: SvgPlot, study: Mapping[str, Any], trials: Sequence[dict], position: Callable[[dict], float], i: int
) -> Markup:
    """Draw trials at their positions and values of objective i, and a dashed line at the pretrained model's value."""
    for value in _reference_values(study, i):
        plot.guide(y=value, name="pretrained")
    for kind, style in STYLES.items():
        for t in trials:
            if _choose_kind(study, t) == kind:
                plot.mark(position(t), t["values"][i], _describe_trial(study, t), **style)
    return plot.to_svg()


def draw_bars(shares: Mapping[str, float], title: str) -> Markup:
    """Draw one horizontal bar for each name, as a share of 1."""
    plot = SvgPlot(title, "", "", (SIZE[0], 50 + 26 * len(shares)))
    bars = plot.axes.barh(list(shares), list(shares.values()), color=COLOURS[1])
    plot.axes.bar_label(bars, [f"{100 * share:.0f} %" for share in shares.values()], padding=4)
    plot.axes.set(xlim=(0, 1.15 * max(shares.values(), default=1.0) or 1.0), xticks=[])
    plot.axes.invert_yaxis()
    return plot.to_svg()
