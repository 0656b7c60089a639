"""What a study found, as files in studies/<name>/: trials.json, best.yaml, index.html; and who may drive it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from compclip.base import yaml_text
from compclip.base.errors import one_line
from compclip.base.files import read_mapping, sole, write_atomic, write_json
from compclip.config import read
from compclip.config.written import grid_yaml
from compclip.runs import store
from compclip.sweep import page
from compclip.sweep.declared import Study, overrides
from compclip.sweep.pruning import NOTED

CONFIRMED = "confirmation.json"


def shown_folder(key: str, root: Path) -> str:
    """Where a run's files are: from the project's root, or absolute where a shared store has them."""
    path = store.folder(key, root).path
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def plain(trial: Any, state: str, study: Study, root: Path = Path(".")) -> dict:
    """A trial of the storage as trials.json has it; `values` only of a finished one, in the order of the objectives."""
    key, params = trial.user_attrs.get("run_key"), trial.params or trial.system_attrs.get("fixed_params", {})
    return {
        "number": trial.number, "state": state, "params": params,
        "values": list(trial.values) if state == "complete" else None,
        "run_key": key, "folder": shown_folder(key, root) if key else None,
        "started": _time(trial.datetime_start), "ended": _time(trial.datetime_complete),
        "reason": trial.user_attrs.get("reason", ""), "paper": params in map(dict, study.paper),
        "retry_of": trial.user_attrs.get("retry_of"), "intermediate": intermediate(trial),
    }  # fmt: skip


def intermediate(trial: Any) -> dict[str, list[float]]:
    """The objectives' values at each rung that a trial was looked at, by step."""
    noted = trial.user_attrs.get(NOTED) or {step: [value] for step, value in trial.intermediate_values.items()}
    return {str(step): list(values) for step, values in noted.items()}


def _time(moment: Any) -> str | None:
    return moment and moment.isoformat(timespec="seconds")


def document(study: Study, trials: list[dict], reference: dict | None, importance: Mapping[str, Any]) -> dict:
    """The whole of trials.json."""
    chosen = best(study, trials, reference["values"] if reference else None)
    declared = study.identity()
    return {
        "study": declared.pop("name"), **declared, "budget": study.trials, "reference": reference,
        "objectives": [{"metric": o.column, "direction": o.direction} for o in study.objectives],
        "best": None if chosen is None else chosen["number"], "front": front(study, trials),
        "importance": dict(importance), "trials": trials,
    }  # fmt: skip


def write(found: dict, study: Study, params: Path, folder: Path) -> None:
    """The three files, each whole; best.yaml as soon as a trial has finished."""
    write_json(folder / "trials.json", found)
    if found["best"] is not None:
        chosen = next(t for t in found["trials"] if t["number"] == found["best"])
        write_atomic(folder / "best.yaml", best_yaml(study, params, chosen))
    write_page(found, folder)


def write_page(found: Mapping[str, Any], folder: Path) -> None:
    """The page, with what the front's confirmation said where that is there."""
    confirmed = read_mapping(folder / CONFIRMED) if (folder / CONFIRMED).is_file() else None
    write_atomic(folder / "index.html", page.page(found, confirmed))


def best(study: Study, trials: list[dict], reference: list[float] | None) -> dict | None:
    """The best finished trial; of several objectives the one with the largest sum of gains over the pretrained model.

    `trials` as in trials.json; the earliest of equals.
    """
    start = reference or [0.0] * len(study.objectives)
    signs = [o.sign for o in study.objectives]

    def gain(trial: dict) -> float:
        return sum(s * (v - r) for s, v, r in zip(signs, trial["values"], start, strict=True))

    return max((t for t in trials if t["state"] == "complete"), key=gain, default=None)


def front(study: Study, trials: list[dict]) -> list[int]:
    """Numbers of the finished trials that no other one beats in one objective and equals in the rest."""
    points = {
        t["number"]: [o.sign * v for o, v in zip(study.objectives, t["values"], strict=True)]
        for t in trials
        if t["state"] == "complete"
    }

    def beaten(p: list[float]) -> bool:
        return any(q != p and all(a >= b for a, b in zip(q, p, strict=True)) for q in points.values())

    return [number for number, p in points.items() if not beaten(p)]


def best_yaml(study: Study, params_path: Path, trial: dict) -> str:
    """A whole params.yaml with the trial's values in the method's section and the method in the grid."""
    methods = yaml_text.read(params_path, read.NO_SECTIONS).methods
    merged = read.overridden(params_path, overrides(study, trial["params"], methods))
    if study.method not in merged.grid.methods:
        merged.grid.methods.append(str(study.method))
    text = grid_yaml(yaml_text.unresolved(merged))
    listed = ", ".join(f"{o.column} {v:.4f}" for o, v in zip(study.objectives, trial["values"], strict=True))
    return (
        f"# Study {study.name}, trial {trial['number']}: {one_line(listed)}; selected on these very columns.\n"
        f"# `python -m compclip.config use FILE` makes it the current grid.\n\n{text}"
    )


def sole_driver(name: str, root: Path) -> AbstractContextManager[None]:
    """Hold the study. Raises UserError where another process drives it."""
    busy = f"study {name}: process {{}} drives it already; wait for it, or stop it and start again"
    return sole(root / ".work" / "studies" / f"{name}.lock", busy)
