"""What a study found, as files in studies/<name>/: trials.json and best.yaml; and who may drive it."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import Any

from compclip.base import yaml_text
from compclip.base.errors import one_line
from compclip.base.files import hold_exclusively, write_atomic, write_json
from compclip.base.messages import format_share
from compclip.base.yaml_text import dump_yaml
from compclip.config import read
from compclip.config.sections import WHOLE
from compclip.report.tables import Column
from compclip.runs import run_store
from compclip.sweep.sampling_and_pruning import dominated_share
from compclip.sweep.study_declaration import Study, trial_overrides

CONFIRMED = "confirmation.json"
ORDER = ("complete", "pruned", "failed", "running", "waiting")
NOTED = "scores_at_rungs"  # of a trial: step -> the values of the objectives


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
    return {
        "number": trial.number, "state": state, "params": params,
        "values": list(trial.values) if state == "complete" else None,
        "run_key": key, "folder": shown_folder(key, root) if key else None,
        "started": _format_time(trial.datetime_start), "ended": _format_time(trial.datetime_complete),
        "reason": trial.user_attrs.get("reason", ""), "paper": params in map(dict, study.paper),
        "retry_of": trial.user_attrs.get("retry_of"),
        "intermediate": trial.user_attrs.get(NOTED, {}),
    }  # fmt: skip


def _format_time(moment: datetime | None) -> str | None:
    return moment.isoformat(timespec="seconds") if moment else None


def study_to_json(
    study: Study, trials: list[dict], reference: dict | None,
    columns: Sequence[Column] = (), notice: str = "", budget: int = 0, found: dict | None = None,
) -> dict:  # fmt: skip
    """Return the whole of trials.json; `columns`: the objectives, of which a cosine is marked `score`.

    `notice` is what a reader must know before any number; `budget` another number of trials than is declared; `found`
    what `findings.find` says at the end.

    Values are shares, or cosines; what is made of the document for a reader is in percent.
    """
    cosines = {column.name for column in columns if column.score}
    objectives: list[dict[str, Any]] = []
    for o in study.objectives:
        objectives.append({"metric": o.column, "direction": o.direction})
        if o.column in cosines:
            objectives[-1]["score"] = True
    best = best_trial(study, trials, reference["values"] if reference else None)
    declared = study.identity()
    return {
        "study": declared.pop("name"), "notice": notice, **declared, "budget": budget or study.trials,
        "reference": reference, "objectives": objectives,
        "best": None if best is None else best["number"], "front": pareto_front(study, trials),
        "found": found, "trials": trials,
    }  # fmt: skip


def write_files(study_json: dict, study: Study, params: Path, folder: Path) -> None:
    """Write trials.json, and best.yaml as soon as a trial has finished."""
    write_json(folder / "trials.json", study_json)
    if study_json["best"] is not None:
        best = next(t for t in study_json["trials"] if t["number"] == study_json["best"])
        write_atomic(folder / "best.yaml", best_yaml(study, params, best, format_values(study_json, best["values"])))


def best_trial(study: Study, trials: list[dict], reference: list[float] | None) -> dict | None:
    """Return the best finished trial, by the sum of its objectives' gains over the pretrained model.

    `trials` as in trials.json; the earliest of equals.
    """
    start = study.sign_values(reference or [0.0] * len(study.objectives))

    def gain(trial: dict) -> float:
        return sum(map(operator.sub, study.sign_values(trial["values"]), start))

    return max(list_complete(trials), key=gain, default=None)


def list_complete(trials: Sequence[dict]) -> list[dict]:
    """List the trials that were finished."""
    return [trial for trial in trials if trial["state"] == "complete"]


def pareto_front(study: Study, trials: list[dict]) -> list[int]:
    """Return numbers of the finished trials that no other one beats in one objective and equals in the rest."""
    points = []
    for trial in list_complete(trials):
        points.append((study.sign_values(trial["values"]), trial["number"]))
    front: dict[int, list[float]] = {}
    for point, number in sorted(points, reverse=True):  # what beats a point comes before it
        if not dominated_share(point, front.values()):
            front[number] = point
    return sorted(front)


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


def format_counts(study: Mapping[str, Any]) -> str:
    """Count the trials by state, as text."""
    counts = Counter(trial["state"] for trial in study["trials"])
    return ", ".join(f"{counts[state]} {state}" for state in ORDER if counts[state]) or "none yet"
