"""Studies of sweeps: what their files hold, and the entries of each study and its trials."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from compclip.base.errors import UserError
from compclip.base.files import fingerprint, read_json
from compclip.base.messages import format_count, format_share
from compclip.report.escape import to_code, to_markdown
from compclip.runs.result_files import FinishedRun
from compclip.runs.run_folder import RunFolder
from compclip.track import entries
from compclip.track.entries import NOTE_LIMIT, EntryOptions, MetricPoint, MlflowEntry, RunReader, RunSummary

ROWS = 40  # trials in a study's description
STATUSES = {"complete": "FINISHED", "pruned": "KILLED", "fail": "FAILED", "failed": "FAILED"}  # MLflow's word of each


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
    """studies/<name>/ of a sweep; `objectives` maps each metric to whether more of it is better.

    `cosines`: those whose values are no shares.
    """

    path: Path
    name: str
    method: str
    objectives: dict[str, bool]
    trials: tuple[StudyTrial, ...]
    cosines: frozenset[str] = frozenset()

    @property
    def runs(self) -> list[FinishedRun]:
        """The finished runs of its trials."""
        return [trial.run.run for trial in self.trials if trial.run]

    def name_values(self, trial: StudyTrial) -> list[tuple[str, float]]:
        """Return a trial's values by their objectives."""
        return list(zip(self.objectives, trial.values, strict=False))


def read_study(path: Path, reader: RunReader) -> StudyFile:
    """Read a study from its trials.json. Raises UserError where a field is missing."""
    file = path / "trials.json"
    raw = read_json(file)
    try:
        objectives = [{"metric": o} if isinstance(o, str) else o for o in raw["objectives"]]
        directions = {o["metric"]: o.get("direction", "maximize") != "minimize" for o in objectives}
        trials = tuple(_parse_trial(trial, path.parent.parent, reader) for trial in raw["trials"])
        cosines = frozenset(o["metric"] for o in objectives if o.get("score"))
        return StudyFile(path, str(raw["study"]), str(raw["method"]), directions, trials, cosines)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(f"{file}: not a study's trials ({error!r}); run the sweep again") from error


def _parse_trial(raw: dict[str, Any], root: Path, reader: RunReader) -> StudyTrial:
    """Return a trial, with its run in the store where that is finished."""
    run = None
    if raw.get("folder"):
        folder = RunFolder(root / raw["folder"])
        folder.check()
        if folder.finished:
            run = reader.read(folder.final, folder.results or folder.scores("none"))
    facts = {k: raw[k] for k in ("run_key", "folder", "reason") if raw.get(k)}
    steps = {}
    for step, values in (raw.get("intermediate") or {}).items():
        # a study of an earlier version has the first objective's value alone
        steps[int(step)] = tuple(map(float, values if isinstance(values, list) else [values]))
    started, ended = (raw.get(key) and datetime.fromisoformat(raw[key]).timestamp() for key in ("started", "ended"))
    return StudyTrial(
        number=int(raw["number"]),
        state=str(raw["state"]).lower(),
        params=dict(raw["params"]),
        values=tuple(map(float, raw.get("values") or ())),
        run=run,
        facts=facts | ({"paper": "true"} if raw.get("paper") else {}),
        intermediate=steps,
        started=started,
        ended=ended,
    )


def best_trials(study: StudyFile) -> dict[str, StudyTrial]:
    """Return the best complete trial for each objective, the earlier one of equals."""
    complete = [t for t in study.trials if t.state == "complete" and len(t.values) == len(study.objectives)]
    best = {}
    for i, (name, maximize) in enumerate(study.objectives.items()):
        if complete:
            best[name] = max(complete, key=lambda t: ((t.values[i] if maximize else -t.values[i]), -t.number))  # noqa: B023
    return best


def make_study_entries(study: StudyFile, options: EntryOptions) -> list[MlflowEntry]:
    """Make a parent for the study, then an entry for each of its trials."""
    experiment = f"{options.project}: studies"
    if study.runs:
        experiment = entries.name_experiment(options.project, study.runs)
    now = (study.path / "trials.json").stat().st_mtime
    trials = [_make_trial_entry(study, trial, experiment, options, now) for trial in study.trials]
    numbers = {}
    for name, trial in best_trials(study).items():
        numbers[f"best/{name}"] = dict(study.name_values(trial))[name]
    states = Counter(trial.state for trial in study.trials)
    for state in sorted(states):
        numbers[f"study/{state}_trials"] = states[state]
    command = f"compclip sweep --study {study.name}"
    tags = {"kind": "study", "study": study.name, "method": study.method, "mlflow.source.name": command}
    files = {p.name: p for p in sorted(study.path.iterdir()) if p.suffix in (".json", ".yaml", ".html", ".csv")}
    parent = MlflowEntry(
        f"study/{study.name}", f"study {study.name}", experiment, options.project, tags, describe_study(study),
        params={"method": study.method},
        numbers=tuple(MetricPoint(name, value, now) for name, value in numbers.items()),
        files=files,
        content_of_files=fingerprint(*files.values()),
        start=min((trial.start for trial in trials), default=now),
        end=now,
        status="RUNNING" if any(trial.status == "RUNNING" for trial in trials) else "FINISHED",
    )  # fmt: skip
    return [parent, *trials]


def _make_trial_entry(
    study: StudyFile, trial: StudyTrial, experiment: str, options: EntryOptions, now: float
) -> MlflowEntry:
    run = trial.run.run if trial.run else None
    end = run.end if run else trial.ended or now
    tags = {"kind": "trial", "study": study.name, "trial": str(trial.number), "trial_state": trial.state}
    tags |= {name: str(value) for name, value in trial.facts.items()}
    tags |= entries.cell_tags(run.cell, run.environment) if run else {"method": study.method}
    tags["mlflow.source.name"] = f"python -m compclip.sweep --study {study.name}"
    numbers = [MetricPoint(f"objective/{name}", value, end) for name, value in study.name_values(trial)]
    for step, values in trial.intermediate.items():
        for name, value in zip(study.objectives, values, strict=False):
            numbers.append(MetricPoint(f"intermediate/{name}", value, end, step))
    entry = MlflowEntry(
        f"trial/{study.name}/{trial.number}", f"{study.name} {trial.number:03d}", experiment, options.project, tags,
        describe_trial(study, trial),
        params=entries.flatten_config(trial.params), numbers=tuple(numbers), parent=f"study/{study.name}",
        status=STATUSES.get(trial.state, "RUNNING"), start=trial.started or end, end=end,
    )  # fmt: skip
    return entries.add_run(entry, trial.run, options.columns) if trial.run else entry


def describe_study(study: StudyFile) -> str:
    """Describe a study's objectives, best trials, and all trials."""
    objectives = " and ".join(f"{'highest' if more else 'lowest'} {to_code(n)}" for n, more in study.objectives.items())
    count = format_count(len(study.trials), "trial")
    head = f"Sweep **{to_markdown(study.name)}** of **{to_markdown(study.method)}**: {count}"
    lines = [f"{head} for {objectives}."]
    for name, trial in best_trials(study).items():
        lines.append(f"Best by {to_markdown(name)}: trial {trial.number} with {_join_params(trial.params)}.")
    lines += ["", "| trial | state | parameters | values, in percent |", "| ---: | --- | --- | --- |"]
    for trial in study.trials[:ROWS]:
        values = ", ".join(f"{format_share(v, n in study.cosines)}" for n, v in study.name_values(trial)) or "–"
        lines.append(f"| {trial.number} | {to_markdown(trial.state)} | {_join_params(trial.params)} | {values} |")
    if len(study.trials) > ROWS:
        lines.append(f"\nNot listed here: {format_count(len(study.trials) - ROWS, 'more trial')}.")
    return "\n".join(lines)[:NOTE_LIMIT]


def _join_params(params: Mapping[str, object]) -> str:
    texts = {k: f"{v:.4g}" if isinstance(v, float) else v for k, v in params.items()}
    return to_markdown(", ".join(f"{k} = {v}" for k, v in texts.items())) or "defaults"


def describe_trial(study: StudyFile, trial: StudyTrial) -> str:
    """Describe one trial in a sentence or two."""
    values = ", ".join(f"{to_code(n)} {format_share(v, n in study.cosines)}" for n, v in study.name_values(trial))
    why = f" {to_markdown(str(trial.facts['reason']))}" if trial.facts.get("reason") else ""
    head = f"Trial {trial.number} of **{to_markdown(study.name)}**, {to_markdown(trial.state)}"
    return f"{head}: {_join_params(trial.params)}. {values}{why}"[:NOTE_LIMIT]
