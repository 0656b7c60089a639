"""What a study found: its best trial beside the paper's and the present values, and which parameters matter at all.

T trials, U units (pictures), C columns of a design, D draws.

A parameter's effect is the range of its part in an additive model of the trials' values: a line and a curve of a
number, a mean for each choice. `noise` is the range that it would have if it did nothing: what the model leaves over is
shuffled among the trials (ter Braak, 1992) and scaled to its degrees of freedom, which holds how trainings differ, and
each picture is given a random weight (the wild bootstrap), which holds how items do. Of such ranges 95 of 100 are below
`noise`; an effect below it was not seen. Trials that a sampler chose by earlier ones are no random sample, so that this
is a hint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any

import numpy as np

from compclip.config.sections import Params
from compclip.report import tables
from compclip.report.statistics import LEVEL, group_by_source, named_generator, unit_errors
from compclip.report.tables import Column
from compclip.runs.result_files import FinishedRun
from compclip.sweep import study_declaration
from compclip.sweep.study_declaration import Dimension, Study

DRAWS = 999
SPARE = 3  # trials more than the columns of the model
TOO_FEW = "too few trials to tell which parameter matters"


def find(study: Study, params: Params, columns: Sequence[Column], trials: Sequence[dict], best: int,
         runs: Mapping[int, FinishedRun], pretrained: FinishedRun) -> dict[str, Any]:  # fmt: skip
    """Return what trials.json keeps of it.

    `trials` are the finished ones, `runs` theirs by number, with the objectives' benchmarks; `best` is the chosen one.
    """
    rivals = _list_rivals(study, params, trials, best)
    comparisons = []
    effects = []
    for position, column in enumerate(columns):
        for rival in rivals:
            pair = [(runs[best], runs[rival["trial"]])] if rival["trial"] is not None else []
            gaps, interval, _ = tables.compare_pairs(pair, column) if pair else ([None], None, "")
            ends = [interval.low, interval.high] if interval else None
            comparisons.append({**rival, "objective": column.name, "difference": gaps[0], "interval": ends})
        pairs = [(runs[trial["number"]], pretrained) for trial in trials]
        differences = tables.collect_item_differences(column, pairs) or []
        error_TU = [unit_errors(group) for group in group_by_source(differences)]
        value_T = np.array([trial["values"][position] for trial in trials])
        sign = study.objectives[position].sign
        for effect in _measure_effects(study.space, trials, sign * value_T, error_TU, f"{study.name} {column.name}"):
            effects.append({"objective": column.name, **effect})
    return {"best": best, "comparisons": comparisons, "effects": effects}


def _list_rivals(study: Study, params: Params, trials: Sequence[dict], best: int) -> list[dict[str, Any]]:
    """Return the values that the best trial is compared with, each with its trial; None where it was not tried."""
    run = study_declaration.trial_run(study, params)
    present: dict[str, Any] = {}
    for d in study.space:
        section, _, key = d.name.rpartition(".")
        if d.active(present):
            present[d.name] = getattr(run.train if section else run.method, key)
    candidates = [("the paper's", dict(values)) for values in study.paper] + [("the grid's", present)]
    rivals: list[dict[str, Any]] = []
    for name, values in candidates:
        same = next((rival for rival in rivals if rival["values"] == values), None)
        if same:
            same["name"] = f"{same['name']} and {name}" if name not in same["name"] else same["name"]
            continue
        number = next((trial["number"] for trial in trials if trial["params"] == values), None)
        rivals.append({"name": name, "values": values, "trial": number, "is_best": number == best})
    return rivals


def _measure_effects(
    space: Sequence[Dimension], trials: Sequence[dict], value_T: np.ndarray, error_TU: Sequence[np.ndarray], names: str
) -> list[dict[str, Any]]:
    """Return range and noise of each parameter that was drawn twice or more, and where the values are highest.

    Empty where the trials are too few.
    """
    for degree in (2, 1):
        designs = {d.name: design for d in space if (design := _design(d, trials, degree)) is not None}
        if designs and sum(design.shape[1] for design in designs.values()) + SPARE <= len(trials):
            break
    else:
        return []
    effects = []
    for name, design_TC in designs.items():
        rng = named_generator(names, name)
        rest_TC = np.hstack(
            [np.ones((len(trials), 1)), *(design for another, design in designs.items() if another != name)]
        )
        model_TC = np.hstack([rest_TC, design_TC])
        left_T = value_T - model_TC @ np.linalg.lstsq(model_TC, value_T, rcond=None)[0]
        left_T *= sqrt(len(trials) / (len(trials) - model_TC.shape[1]))
        null_TD = rng.permuted(np.repeat(left_T[:, None], DRAWS, axis=1), axis=0)
        for error in error_TU:
            null_TD += error @ rng.standard_normal((error.shape[1], DRAWS))
        weight_CD = np.linalg.lstsq(model_TC, np.column_stack([value_T, null_TD]), rcond=None)[0]
        component_TD = design_TC @ weight_CD[rest_TC.shape[1] :]
        drawn = [i for i, trial in enumerate(trials) if name in trial["params"]]
        ranges = np.ptp(component_TD[drawn], axis=0)
        top = drawn[int(component_TD[drawn, 0].argmax())]
        noise = float(np.quantile(ranges[1:], 1 - LEVEL))
        best = trials[top]["params"][name]
        effects.append({"parameter": name, "range": float(ranges[0]), "noise": noise, "best": best})
    return effects


def _design(d: Dimension, trials: Sequence[dict], degree: int) -> np.ndarray | None:
    """Return a parameter's columns of the model, shape T x C, 0 where it was not drawn; None for one value alone."""
    values = [trial["params"].get(d.name) for trial in trials]
    drawn = [value for value in values if value is not None]
    tried = list(dict.fromkeys(map(repr, drawn)))
    if len(tried) < 2:
        return None
    if d.choices:
        return np.array([[float(repr(value) == choice) for choice in tried[1:]] for value in values])
    low, high = (np.log(d.low), np.log(d.high)) if d.log else (d.low, d.high)
    x_T = np.array([0.0 if v is None else 2 * ((np.log(v) if d.log else v) - low) / (high - low) - 1 for v in values])
    is_drawn_T = np.array([value is not None for value in values])
    powers = min(degree, len(tried) - 1)
    return np.column_stack([is_drawn_T * x_T**power for power in range(1, powers + 1)])


# --- in words


def describe(study_json: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each objective: the best trial beside other values, then each parameter."""
    found = study_json.get("found")
    if not found:
        return []
    complete = [trial for trial in study_json["trials"] if trial["state"] == "complete"]
    best = next(trial for trial in complete if trial["number"] == found["best"])
    lines = []
    for objective in study_json["objectives"]:
        name = objective["metric"]
        scale, digits = (1.0, 3) if objective.get("score") else (100.0, 1)
        head = f"{name}: trial {best['number']} of {len(complete)}, {_format_params(best['params'])}"
        clauses = [head, *(_describe_rival(c, scale, digits) for c in found["comparisons"] if c["objective"] == name)]
        effects = [_describe_effect(e, scale, digits) for e in found["effects"] if e["objective"] == name]
        lines.append("; ".join([*clauses, *(effects or [TOO_FEW])]))
    return lines


def _describe_rival(comparison: Mapping[str, Any], scale: float, digits: int) -> str:
    where = f"{comparison['name']} {_format_params(comparison['values'])}"
    if comparison["trial"] is None:
        return f"{where}, was not tried"
    if comparison["is_best"]:
        return f"that is {where}"
    text = f"{scale * comparison['difference']:+.{digits}f}"
    if not comparison["interval"]:
        return f"{text} to {where}, without an interval, since no items were kept"
    low, high = (scale * end for end in comparison["interval"])
    verdict = "no difference seen" if low <= 0 <= high else "a difference on the items that it was chosen by"
    return f"{text} [{low:+.{digits}f}, {high:+.{digits}f}] to {where}, {verdict}"


def _describe_effect(effect: Mapping[str, Any], scale: float, digits: int) -> str:
    ranges = f"{scale * effect['range']:.{digits}f}", f"{scale * effect['noise']:.{digits}f}"
    verdict = "no effect seen"
    if effect["range"] > effect["noise"]:
        verdict = f"an effect, best about {_format_value(effect['best'])}"
    return f"{effect['parameter']}: {ranges[0]} points over its space, noise {ranges[1]}: {verdict}"


def _format_params(params: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={_format_value(value)}" for name, value in params.items())


def _format_value(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
