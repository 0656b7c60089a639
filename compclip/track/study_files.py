"""Studies as their sweeps left them in studies/<name>/trials.json, parsed; nothing here knows MLflow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from compclip.base.errors import UserError
from compclip.base.files import read_json
from compclip.runs.run_folder import RunFolder
from compclip.track import run_summaries
from compclip.track.run_summaries import RunSummary, SummaryCache


@dataclass(frozen=True)
class StudyTrial:
    """One trial of a study: what was tried, what came of it, and its run where that was finished."""

    number: int
    state: str
    params: dict[str, Any]
    values: tuple[float, ...]
    run: RunSummary | None
    facts: dict[str, Any]
    intermediate: dict[int, tuple[float, ...]] = field(default_factory=dict)  # of the objectives, by step
    started: float | None = None  # seconds since the epoch
    ended: float | None = None


@dataclass(frozen=True)
class StudyFile:
    """studies/<name>/ of a sweep; `objectives` maps each metric to whether more of it is better."""

    path: Path
    name: str
    method: str
    objectives: dict[str, bool]
    trials: tuple[StudyTrial, ...]


def read_studies(studies_folder: Path, summaries: SummaryCache) -> list[StudyFile]:
    """Read every study of the folder, sorted by name."""
    return [read_study(p.parent, summaries) for p in sorted(studies_folder.glob("*/trials.json"))]


def read_study(path: Path, summaries: SummaryCache) -> StudyFile:
    """Read a study from its trials.json. Raises UserError where a field is missing or a trial stands twice."""
    file = path / "trials.json"
    raw = read_json(file)
    try:
        trials = tuple(_parse_trial(t, path.parent.parent, summaries) for t in raw["trials"])
        study = StudyFile(path, str(raw["study"]), str(raw["method"]), _parse_objectives(raw["objectives"]), trials)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise UserError(f"{file}: not a study's trials ({error!r}); run the sweep again") from error
    numbers = [t.number for t in trials]
    if twice := sorted({n for n in numbers if numbers.count(n) > 1}):
        raise UserError(f"{file}: trial {twice[0]} stands twice; run the sweep again")
    return study


def _parse_objectives(raw: Sequence[Any]) -> dict[str, bool]:
    """Parse objectives by name; each is a metric, or a mapping with `metric` and `direction` (default: maximize)."""
    objectives = [{"metric": o} if isinstance(o, str) else o for o in raw]
    return {o["metric"]: o.get("direction", "maximize") != "minimize" for o in objectives}


def _parse_trial(raw: dict[str, Any], root: Path, summaries: SummaryCache) -> StudyTrial:
    values = tuple(float(v) for v in raw.get("values") or ())
    facts = {k: raw[k] for k in ("run_key", "folder", "reason") if raw.get(k)}
    facts |= {"paper": "true"} if raw.get("paper") else {}
    steps = {int(step): _parse_values(v) for step, v in (raw.get("intermediate") or {}).items()}
    times = _parse_time(raw.get("started")), _parse_time(raw.get("ended"))
    run = _read_run(raw, root, summaries)
    return StudyTrial(int(raw["number"]), str(raw["state"]).lower(), dict(raw["params"]), values, run, facts, steps,
                      *times)  # fmt: skip


def _parse_values(values: Any) -> tuple[float, ...]:
    """Parse the values at a rung; a study of an earlier version has the first objective's alone."""
    return tuple(map(float, values if isinstance(values, list) else [values]))


def _parse_time(moment: str | None) -> float | None:
    return datetime.fromisoformat(moment).timestamp() if moment else None


def _read_run(raw: dict[str, Any], root: Path, summaries: SummaryCache) -> RunSummary | None:
    """Read the trial's run in the store; None before it is finished."""
    location = run_summaries.find_in_store(RunFolder(root / raw["folder"])) if raw.get("folder") else None
    return summaries.summary(*location) if location else None


def best_trials(study: StudyFile) -> dict[str, StudyTrial]:
    """Return the best complete trial for each objective, the earlier one of equals."""
    complete = [t for t in study.trials if t.state == "complete" and len(t.values) == len(study.objectives)]
    best = {}
    for i, (name, maximize) in enumerate(study.objectives.items()):
        if complete:
            best[name] = max(complete, key=lambda t: ((t.values[i] if maximize else -t.values[i]), -t.number))  # noqa: B023
    return best
