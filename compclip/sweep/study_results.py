"""What a study found, as files in studies/<name>/: trials.json, best.yaml, index.html; and who may drive it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from compclip.base import yaml_text
from compclip.base.errors import one_line
from compclip.base.files import hold_exclusively, read_mapping, write_atomic, write_json
from compclip.base.yaml_text import dump_yaml
from compclip.config import read
from compclip.runs import run_store
from compclip.sweep import study_page
from compclip.sweep.pruning import NOTED
from compclip.sweep.study_declaration import Study, trial_overrides

CONFIRMED = "confirmation.json"


def shown_folder(key: str, root: Path) -> str:
    """Return where a run's files are: from the project's root, or absolute where a shared store has them."""
    path = run_store.find_folder(key, root).path
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def trial_to_json(trial: Any, state: str, study: Study, root: Path = Path(".")) -> dict:
    """Return a trial of the storage as trials.json has it.

    `values` only of a finished one, in the order of the objectives.
    """
    key, params = trial.user_attrs.get("run_key"), trial.params or trial.system_attrs.get("fixed_params", {})
    return {
        "number": trial.number, "state": state, "params": params,
        "values": list(trial.values) if state == "complete" else None,
        "run_key": key, "folder": shown_folder(key, root) if key else None,
        "started": _time(trial.datetime_start), "ended": _time(trial.datetime_complete),
        "reason": trial.user_attrs.get("reason", ""), "paper": params in map(dict, study.paper),
        "retry_of": trial.user_attrs.get("retry_of"), "intermediate": rung_values(trial),
    }  # fmt: skip


def rung_values(trial: Any) -> dict[str, list[float]]:
    """Return the objectives' values at each rung that a trial was looked at, by step."""
    noted = trial.user_attrs.get(NOTED) or {step: [value] for step, value in trial.intermediate_values.items()}
    return {str(step): list(values) for step, values in noted.items()}


def _time(moment: Any) -> str | None:
    return moment and moment.isoformat(timespec="seconds")


def study_to_json(study: Study, trials: list[dict], reference: dict | None, importance: Mapping[str, Any]) -> dict:
    """Return the whole of trials.json."""
    best = best_trial(study, trials, reference["values"] if reference else None)
    declared = study.identity()
    return {
        "study": declared.pop("name"), **declared, "budget": study.trials, "reference": reference,
        "objectives": [{"metric": o.column, "direction": o.direction} for o in study.objectives],
        "best": None if best is None else best["number"], "front": pareto_front(study, trials),
        "importance": dict(importance), "trials": trials,
    }  # fmt: skip


def write_files(study_json: dict, study: Study, params: Path, folder: Path) -> None:
    """Write the three files, each whole; best.yaml as soon as a trial has finished."""
    write_json(folder / "trials.json", study_json)
    if study_json["best"] is not None:
        best = next(t for t in study_json["trials"] if t["number"] == study_json["best"])
        write_atomic(folder / "best.yaml", best_yaml(study, params, best))
    write_page(study_json, folder)


def write_page(study_json: Mapping[str, Any], folder: Path) -> None:
    """Write the page, with what the front's confirmation said where that is there."""
    confirmed = read_mapping(folder / CONFIRMED) if (folder / CONFIRMED).is_file() else None
    write_atomic(folder / "index.html", study_page.study_page(study_json, confirmed))


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


def best_yaml(study: Study, params_path: Path, trial: dict) -> str:
    """Return a whole params.yaml with the trial's values in the method's section and the method in the grid."""
    methods = yaml_text.read_yaml(params_path, read.NO_SECTIONS).methods
    merged = read.read_with_overrides(params_path, trial_overrides(study, trial["params"], methods))
    if study.method not in merged.grid.methods:
        merged.grid.methods.append(str(study.method))
    text = dump_yaml(yaml_text.to_unresolved(merged))
    objective_values = ", ".join(f"{o.column} {v:.4f}" for o, v in zip(study.objectives, trial["values"], strict=True))
    title = f"Study {study.name}, trial {trial['number']}: {one_line(objective_values)}"
    return (
        f"# {title}; selected on these very columns.\n"
        f"# `python -m compclip.config use FILE` makes it the current grid.\n\n{text}"
    )


def lock_study(name: str, root: Path) -> AbstractContextManager[None]:
    """Hold the study. Raises UserError where another process drives it."""
    busy = f"study {name}: process {{}} drives it already; wait for it, or stop it and start again"
    return hold_exclusively(root / ".work" / "studies" / f"{name}.lock", busy)
