"""Studies as their sweeps left them in studies/<name>/trials.json, parsed; nothing here knows MLflow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from compclip.base.errors import UserError
from compclip.base.files import read_json
from compclip.runs.folder import Folder
from compclip.track import reading
from compclip.track.reading import Brief, Memory


@dataclass(frozen=True)
class StudyTrial:
    """One trial of a study: what was tried, what came of it, and its run where that was finished."""

    number: int
    state: str
    params: dict[str, Any]
    values: tuple[float, ...]
    run: Brief | None
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


def read_all(where: Path, memory: Memory) -> list[StudyFile]:
    """Every study below `where`, sorted by name."""
    return [read(p.parent, memory) for p in sorted(where.glob("*/trials.json"))]


def read(path: Path, memory: Memory) -> StudyFile:
    """A study from its trials.json. Raises UserError where a field is missing or a trial stands twice."""
    file = path / "trials.json"
    raw = read_json(file)
    try:
        trials = tuple(_trial(t, path.parent.parent, memory) for t in raw["trials"])
        found = StudyFile(path, str(raw["study"]), str(raw["method"]), _objectives(raw["objectives"]), trials)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise UserError(f"{file}: not a study's trials ({error!r}); run the sweep again") from error
    numbers = [t.number for t in trials]
    if twice := sorted({n for n in numbers if numbers.count(n) > 1}):
        raise UserError(f"{file}: trial {twice[0]} stands twice; run the sweep again")
    return found


def _objectives(raw: Sequence[Any]) -> dict[str, bool]:
    """Objectives by name; each is a metric, or a mapping with `metric` and `direction` (default: maximize)."""
    given = [{"metric": o} if isinstance(o, str) else o for o in raw]
    return {o["metric"]: o.get("direction", "maximize") != "minimize" for o in given}


def _trial(raw: dict[str, Any], root: Path, memory: Memory) -> StudyTrial:
    values = tuple(float(v) for v in raw.get("values") or ())
    facts = {k: raw[k] for k in ("run_key", "folder", "reason") if raw.get(k)}
    facts |= {"paper": "true"} if raw.get("paper") else {}
    steps = {int(step): _floats(v) for step, v in (raw.get("intermediate") or {}).items()}
    times = _seconds(raw.get("started")), _seconds(raw.get("ended"))
    run = _run_of(raw, root, memory)
    return StudyTrial(int(raw["number"]), str(raw["state"]).lower(), dict(raw["params"]), values, run, facts, steps,
                      *times)  # fmt: skip


def _floats(values: Any) -> tuple[float, ...]:
    """Numbers at a rung; a study of before has the first objective's alone."""
    return tuple(map(float, values if isinstance(values, list) else [values]))


def _seconds(moment: str | None) -> float | None:
    return datetime.fromisoformat(moment).timestamp() if moment else None


def _run_of(raw: dict[str, Any], root: Path, memory: Memory) -> Brief | None:
    """The trial's run in the store; None before it is finished."""
    found = reading.in_store(Folder(root / raw["folder"])) if raw.get("folder") else None
    return memory.brief(*found) if found else None


def best(study: StudyFile) -> dict[str, StudyTrial]:
    """The best complete trial for each objective, the earlier one of equals."""
    done = [t for t in study.trials if t.state == "complete" and len(t.values) == len(study.objectives)]
    found = {}
    for i, (name, more) in enumerate(study.objectives.items()):
        if done:
            found[name] = max(done, key=lambda t: ((t.values[i] if more else -t.values[i]), -t.number))  # noqa: B023
    return found
