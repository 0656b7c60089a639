"""Studies of sweeps: the entries of each study and of its trials, from its trials.json."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from compclip.base.files import fingerprint, read_mapping
from compclip.base.messages import format_count, format_share
from compclip.report.escape import to_code, to_markdown
from compclip.runs.result_files import FinishedRun
from compclip.runs.run_folder import RunFolder
from compclip.track import entries
from compclip.track.entries import NOTE_LIMIT, EntryOptions, MetricPoint, MlflowEntry, RunReader, RunSummary

STATUSES = {"complete": "FINISHED", "pruned": "KILLED", "failed": "FAILED"}  # MLflow's word of each


@dataclass(frozen=True)
class StudyFile:
    """studies/<name>/ of a sweep: `document` is its trials.json, `summaries` the finished runs by trial."""

    path: Path
    document: Mapping[str, Any]
    summaries: Mapping[int, RunSummary]

    @property
    def name(self) -> str:
        """Its name."""
        return self.document["study"]

    @property
    def trials(self) -> list[dict[str, Any]]:
        """Its trials."""
        return self.document["trials"]

    @property
    def runs(self) -> list[FinishedRun]:
        """The finished runs of its trials."""
        return [summary.run for summary in self.summaries.values()]

    def name_values(self, values: list[float] | None) -> Iterator[tuple[dict[str, Any], float]]:
        """Yield objectives with a trial's values."""
        return zip(self.document["objectives"], values or (), strict=False)

    def format_values(self, trial: Mapping[str, Any]) -> str:
        """Return a trial's values as text, shares in percent."""
        pairs = self.name_values(trial["values"])
        return ", ".join(f"{to_code(o['metric'])} {format_share(v, bool(o.get('score')))}" for o, v in pairs)


def read_study(path: Path, reader: RunReader) -> StudyFile:
    """Read a study with the finished runs of its trials."""
    document = read_mapping(path / "trials.json")
    summaries = {}
    for trial in document["trials"]:
        if trial.get("folder"):
            folder = RunFolder(path.parent.parent / trial["folder"])
            folder.check()
            if folder.finished:
                summaries[trial["number"]] = reader.read(folder.final, folder.results or folder.scores("none"))
    return StudyFile(path, document, summaries)


def best_trials(study: StudyFile) -> dict[str, dict[str, Any]]:
    """Return the best complete trial for each objective, the earlier one of equals."""
    complete = [trial for trial in study.trials if trial["state"] == "complete"]
    best = {}
    for i, objective in enumerate(study.document["objectives"]):
        sign = -1 if objective["direction"] == "minimize" else 1
        if complete:
            gains = [sign * trial["values"][i] for trial in complete]
            best[objective["metric"]] = complete[gains.index(max(gains))]
    return best


def make_study_entries(study: StudyFile, options: EntryOptions) -> list[MlflowEntry]:
    """Make a parent for the study, then an entry for each of its trials."""
    experiment = f"{options.project}: studies"
    if study.runs:
        experiment = entries.name_experiment(options.project, study.runs)
    now = (study.path / "trials.json").stat().st_mtime
    trials = [_make_trial_entry(study, trial, experiment, options, now) for trial in study.trials]
    numbers = {}
    for i, (name, trial) in enumerate(best_trials(study).items()):
        numbers[f"best/{name}"] = trial["values"][i]
    states = Counter(trial["state"] for trial in study.trials)
    for state in sorted(states):
        numbers[f"study/{state}_trials"] = states[state]
    method = study.document["method"]
    command = f"compclip sweep --study {study.name}"
    tags = {"kind": "study", "study": study.name, "method": method, "mlflow.source.name": command}
    files = {p.name: p for p in sorted(study.path.iterdir()) if p.suffix in (".json", ".yaml", ".html", ".csv")}
    parent = MlflowEntry(
        f"study/{study.name}", f"study {study.name}", experiment, options.project, tags, describe_study(study),
        params={"method": method},
        numbers=tuple(MetricPoint(name, value, now) for name, value in numbers.items()),
        files=files,
        content_of_files=fingerprint(*files.values()),
        start=min((trial.start for trial in trials), default=now),
        end=now,
        status="RUNNING" if any(trial.status == "RUNNING" for trial in trials) else "FINISHED",
    )  # fmt: skip
    return [parent, *trials]


def _make_trial_entry(
    study: StudyFile, trial: Mapping[str, Any], experiment: str, options: EntryOptions, now: float
) -> MlflowEntry:
    summary = study.summaries.get(trial["number"])
    end = summary.run.end if summary else _parse_time(trial.get("ended"), now)
    number = trial["number"]
    tags = {"kind": "trial", "study": study.name, "trial": str(number), "trial_state": trial["state"]}
    tags |= {name: trial[name] for name in ("run_key", "folder", "reason") if trial.get(name)}
    if trial.get("paper"):
        tags["paper"] = "true"
    if summary:
        tags |= entries.cell_tags(summary.run.cell, summary.run.environment)
    else:
        tags["method"] = study.document["method"]
    tags["mlflow.source.name"] = f"python -m compclip.sweep --study {study.name}"
    numbers = [MetricPoint(f"objective/{o['metric']}", v, end) for o, v in study.name_values(trial["values"])]
    for step, values in trial.get("intermediate", {}).items():
        for objective, value in study.name_values(values):
            numbers.append(MetricPoint(f"intermediate/{objective['metric']}", value, end, int(step)))
    entry = MlflowEntry(
        f"trial/{study.name}/{number}", f"{study.name} {number:03d}", experiment, options.project, tags,
        describe_trial(study, trial),
        params=entries.flatten_config(trial["params"]), numbers=tuple(numbers), parent=f"study/{study.name}",
        status=STATUSES.get(trial["state"], "RUNNING"), start=_parse_time(trial.get("started"), end), end=end,
    )  # fmt: skip
    return entries.add_run(entry, summary, options.columns) if summary else entry


def _parse_time(text: str | None, otherwise: float) -> float:
    return datetime.fromisoformat(text).timestamp() if text else otherwise


def describe_study(study: StudyFile) -> str:
    """Describe a study's objectives and best trials."""
    names = " and ".join(f"{o['direction']} {to_code(o['metric'])}" for o in study.document["objectives"])
    count = format_count(len(study.trials), "trial")
    lines = [f"Sweep **{to_markdown(study.name)}** of **{to_markdown(study.document['method'])}**: {count}: {names}."]
    for name, trial in best_trials(study).items():
        lines.append(f"Best by {to_markdown(name)}: trial {trial['number']} with {_join_params(trial['params'])}.")
    return "\n".join(lines)[:NOTE_LIMIT]


def _join_params(params: Mapping[str, object]) -> str:
    texts = {k: f"{v:.4g}" if isinstance(v, float) else v for k, v in params.items()}
    return to_markdown(", ".join(f"{k} = {v}" for k, v in texts.items())) or "defaults"


def describe_trial(study: StudyFile, trial: Mapping[str, Any]) -> str:
    """Describe one trial in a sentence or two."""
    why = f" {to_markdown(trial['reason'])}" if trial.get("reason") else ""
    head = f"Trial {trial['number']} of **{to_markdown(study.name)}**, {to_markdown(trial['state'])}"
    return f"{head}: {_join_params(trial['params'])}. {study.format_values(trial)}{why}"[:NOTE_LIMIT]
