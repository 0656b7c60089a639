"""Studies of sweeps: the entries of each study and of its trials, from its trials.json."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
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
from compclip.track.entries import NOTE_LIMIT, EntryOptions, MetricPoint, MlflowEntry, RunSummary

STATUSES = {"complete": "FINISHED", "pruned": "KILLED", "failed": "FAILED"}  # MLflow's word of each


@dataclass(frozen=True)
class StudyFile:
    """studies/<name>/ of a sweep: `document` is its trials.json, `summaries` the finished runs by trial."""

    path: Path
    document: Mapping[str, Any]
    summaries: Mapping[int, RunSummary]

    @property
    def runs(self) -> list[FinishedRun]:
        """The finished runs of its trials."""
        return [summary.run for summary in self.summaries.values()]


def read_study(path: Path) -> StudyFile:
    """Read a study with the finished runs of its trials."""
    document = read_mapping(path / "trials.json")
    summaries = {}
    for trial in document["trials"]:
        if trial.get("folder"):
            folder = RunFolder(path.parent.parent / trial["folder"])
            folder.check()
            if folder.finished:
                summaries[trial["number"]] = entries.read_run(folder.final, folder.results or folder.scores("none"))
    return StudyFile(path, document, summaries)


def name_values(study: StudyFile, values: Sequence[float] | None) -> Iterator[tuple[dict[str, Any], float]]:
    """Yield objectives with a trial's values."""
    return zip(study.document["objectives"], values or (), strict=False)


def best_trials(study: StudyFile) -> dict[str, dict[str, Any]]:
    """Return the best complete trial for each objective, the earlier one of equals."""
    complete = [trial for trial in study.document["trials"] if trial["state"] == "complete"]
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
    name = study.document["study"]
    trials = [_make_trial_entry(study, trial, experiment, options, now) for trial in study.document["trials"]]
    numbers = []
    for i, (objective, trial) in enumerate(best_trials(study).items()):
        numbers.append(MetricPoint(f"best/{objective}", trial["values"][i]))
    states = Counter(trial["state"] for trial in study.document["trials"])
    for state in sorted(states):
        numbers.append(MetricPoint(f"study/{state}_trials", states[state]))
    method = study.document["method"]
    tags = {"kind": "study", "study": name, "method": method, "mlflow.source.name": f"compclip sweep --study {name}"}
    files = {p.name: p for p in sorted(study.path.iterdir()) if p.suffix in (".json", ".yaml", ".html", ".csv")}
    parent = MlflowEntry(
        f"study/{name}", f"study {name}", experiment, options.project, tags, describe_study(study),
        params={"method": method},
        numbers=tuple(numbers),
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
    name = study.document["study"]
    tags = {"kind": "trial", "study": name, "trial": str(number), "trial_state": trial["state"]}
    for tag in ("run_key", "folder", "reason", "paper"):
        if trial.get(tag):
            tags[tag] = str(trial[tag]).lower() if tag == "paper" else trial[tag]
    if summary:
        tags |= entries.cell_tags(summary.run.cell, summary.run.environment)
    else:
        tags["method"] = study.document["method"]
    tags["mlflow.source.name"] = f"python -m compclip.sweep --study {name}"
    numbers = [MetricPoint(f"objective/{o['metric']}", v) for o, v in name_values(study, trial["values"])]
    for step, values in trial.get("intermediate", {}).items():
        for objective, value in name_values(study, values):
            numbers.append(MetricPoint(f"intermediate/{objective['metric']}", value, step=int(step)))
    entry = MlflowEntry(
        f"trial/{name}/{number}", f"{name} {number:03d}", experiment, options.project, tags,
        describe_trial(study, trial),
        params=entries.flatten_config(trial["params"]), numbers=tuple(numbers), parent=f"study/{name}",
        status=STATUSES.get(trial["state"], "RUNNING"), start=_parse_time(trial.get("started"), end), end=end,
    )  # fmt: skip
    return entries.add_run(entry, summary, options.columns) if summary else entry


def _parse_time(text: str | None, otherwise: float) -> float:
    return datetime.fromisoformat(text).timestamp() if text else otherwise


def describe_study(study: StudyFile) -> str:
    """Describe a study's objectives and best trials."""
    names = " and ".join(f"{o['direction']} {to_code(o['metric'])}" for o in study.document["objectives"])
    count = format_count(len(study.document["trials"]), "trial")
    head = f"Sweep **{to_markdown(study.document['study'])}** of **{to_markdown(study.document['method'])}**"
    lines = [f"{head}: {count}: {names}."]
    for name, trial in best_trials(study).items():
        lines.append(f"Best by {to_markdown(name)}: trial {trial['number']} with {_join_params(trial['params'])}.")
    return "\n".join(lines)[:NOTE_LIMIT]


def _join_params(params: Mapping[str, object]) -> str:
    texts = {k: f"{v:.4g}" if isinstance(v, float) else v for k, v in params.items()}
    return to_markdown(", ".join(f"{k} = {v}" for k, v in texts.items())) or "defaults"


def describe_trial(study: StudyFile, trial: Mapping[str, Any]) -> str:
    """Describe one trial in a sentence or two."""
    why = f" {to_markdown(trial['reason'])}" if trial.get("reason") else ""
    head = f"Trial {trial['number']} of **{to_markdown(study.document['study'])}**, {to_markdown(trial['state'])}"
    values = []
    for objective, value in name_values(study, trial["values"]):
        values.append(f"{to_code(objective['metric'])} {format_share(value, bool(objective.get('score')))}")
    return f"{head}: {_join_params(trial['params'])}. {', '.join(values)}{why}"[:NOTE_LIMIT]
