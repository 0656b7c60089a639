"""The report in MLflow: a run with its files, and a run for each row of its tables, above those of the row's seeds.

A row has the parameters that its runs share, and the numbers of the headline columns; all others are tables. They are
read from the report's own files: nothing is computed a second time.
"""

from __future__ import annotations

import contextlib
import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from compclip.base.files import fingerprint, read_mapping, read_text
from compclip.base.messages import format_count, format_share
from compclip.config.cell import PRETRAINED
from compclip.report.escape import to_code, to_markdown
from compclip.report.tables import Column
from compclip.runs.result_files import FinishedRun
from compclip.runs.run_folder import RunFolder
from compclip.track import entries, tracking_store
from compclip.track.entries import NOTE_LIMIT, EntryOptions, MetricPoint, MlflowEntry, RunSummary

REPORTS = Path("reports")
FILES = ("index.html", "report.md", "report.csv", "claims.csv", "reference.csv", "blind.csv", "tuning.csv")
TABLE = "tables/report.json"
SOURCE = {"mlflow.source.name": "python -m compclip.report"}
ROW = ("method", "backbone", "data")
# of the rows in MLflow's charts, where its own may be alike; those of Okabe and Ito for every kind of sight
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000", "#F0E442")
MARKS = {"tuned_on": "tuned_on", "shown_checkpoint": "checkpoint", "search": "search"}  # columns of report.csv, by tag
DIFFERENCE = ("difference", "low", "high")
RowName = tuple[str, str, str]  # method, backbone, data
CsvLine = Mapping[str, str]


def make_report_entries(root: Path, runs: Sequence[FinishedRun], options: EntryOptions) -> list[MlflowEntry]:
    """Make an entry for the report and one for each of its rows; none where there is no report."""
    folder = root / REPORTS
    files = {name: folder / name for name in FILES if (folder / name).is_file()}
    for path in sorted(folder.glob("plots/forest-*.svg")):  # that report.md shows
        files[str(path.relative_to(folder))] = path
    if "report.csv" not in files:
        return []
    time = max((run.end for run in runs), default=files["report.csv"].stat().st_mtime)
    notice = f"**{options.notice}** " if options.notice else ""
    note = f"{notice}The page of `compclip report`."
    page = MlflowEntry(
        "report", "report", options.experiment, options.project, {"kind": "report", **SOURCE}, note,
        files=files, content_of_files=fingerprint(*files.values()), start=time, end=time,
    )  # fmt: skip
    compared = _read_rows(files["reference.csv"]) if "reference.csv" in files else {}
    references = {(lines[0]["reference"], *name[1:]) for name, lines in compared.items()}
    rows: list[MlflowEntry] = []
    for name, lines in _read_rows(files["report.csv"]).items():
        row = _make_row(name, lines, compared.get(name, ()), runs, options)
        if name in references:
            row.tags.update(dict.fromkeys(map(tracking_store.name_difference, options.headline_of), "the reference"))
        row.tags["mlflow.runColor"] = COLOURS[len(rows) % len(COLOURS)]
        rows.append(row)
    # by the first headline number, where a row has one: MLflow folds seeds only where it sorts by time, latest first
    rows.sort(key=lambda row: (bool(row.numbers), row.numbers[0].value if row.numbers else 0.0))
    report = [page]
    for index, row in enumerate(rows):
        at = time + index / 1000
        tags = row.tags | {"mlflow.compclip.time": repr(at)}  # a row that got another place is logged again
        report.append(replace(row, tags=tags, start=at, end=at))
    return report


def _read_rows(file: Path) -> dict[RowName, list[CsvLine]]:
    """Read a table of the report: its lines by row."""
    rows: dict[RowName, list[CsvLine]] = {}
    for line in csv.DictReader(io.StringIO(read_text(file))):
        rows.setdefault((line["method"], line["backbone"], line["data"]), []).append(line)
    return rows


def _make_row(
    name: RowName, lines: Sequence[CsvLine], compared: Sequence[CsvLine], runs: Sequence[FinishedRun],
    options: EntryOptions,
) -> MlflowEntry:  # fmt: skip
    """Make the entry of a row without a time; `compared`: its lines beside the report's reference."""
    compared = compared or [line for line in lines if line["difference"]]  # to the pretrained model
    reference = compared[0].get("reference", PRETRAINED) if compared else PRETRAINED
    tags = {"kind": "row", **dict(zip(ROW, name, strict=True)), **SOURCE, "reference": reference, entries.GRID: "true"}
    for line in compared:
        headline = options.headline_of.get(_metric(line))
        if headline:
            tags[tracking_store.name_difference(_metric(line))] = _describe_difference(line, headline)
        if line.get("rests_on"):
            tags[f"rests_on/{_metric(line)}"] = line["rests_on"]
    note = (f"**{options.notice}** " if options.notice else "") + _describe_row(name, lines, reference)
    for tag, column in MARKS.items():
        mark = lines[0].get(column)
        if mark:
            tags[tag] = mark
            note += f"{' **Tuned on what is shown**: it' if tag == 'tuned_on' else ' It'} {to_markdown(mark)}."
    row_runs = [run for run in runs if (run.cell.method, run.cell.backbone, run.cell.data) == name]
    return MlflowEntry(
        entries.row_key(*name), "-".join(name), options.experiment, options.project, tags, note[:NOTE_LIMIT],
        params=_common_params(row_runs), numbers=tuple(_points(lines, options.headline_of)),
        tables={TABLE: _make_table(lines)},
        datasets=tuple(entries.list_datasets(row_runs[0])) if row_runs else (),
    )  # fmt: skip


def _describe_row(name: RowName, lines: Sequence[CsvLine], reference: str) -> str:
    method, backbone, data = map(to_markdown, name)
    seeds = max(int(line["seeds"]) for line in lines)
    backbones = max(int(line.get("backbones") or 1) for line in lines)
    count = f"{format_count(seeds, 'seed')}, whose runs are below it"
    if backbones > 1:
        count = f"{seeds} checkpoints of {backbones} backbones, whose own rows have their runs"
    return (
        f"**{method}** on {backbone}, {data}: {count}. A metric is the mean in percent, `std/…` the deviation, a tag "
        f"`… vs reference` the verdict on the difference to {to_code(reference)}, with its 95 % interval. "
        f"The other columns are in `{TABLE}`, as shares."
    )


def _describe_difference(line: CsvLine, column: Column) -> str:
    """Return the verdict, the difference and its interval as the page has them."""
    numbers = [f"{column.scale * float(line[field]):+.{column.digits}f}" for field in DIFFERENCE if line[field]]
    interval = f" [{', '.join(numbers[1:])}]" if numbers[1:] else ""
    return f"{line['verdict'] or 'undecided'} {numbers[0]}{interval}"


def _common_params(runs: Sequence[FinishedRun]) -> dict[str, str]:
    """Return the parameters that all of a row's runs share."""
    shared = set(entries.flatten_config(runs[0].config).items()) if runs else set()
    for run in runs[1:]:
        shared &= entries.flatten_config(run.config).items()
    return dict(sorted(shared))


def _make_table(lines: Sequence[CsvLine]) -> dict[str, Any]:
    """Make a table of a row's lines of one of the report's CSV files."""
    columns = [field for field in lines[0] if field not in (*ROW, "benchmark", "metric")]
    columns.sort(key=lambda column: column not in ("mean", "difference"))  # the UI compares the first one
    data = []
    for line in lines:
        data.append([_metric(line), *(_parse_number(line[column]) for column in columns)])
    return {"columns": ["metric", *columns], "data": data}


def _parse_number(text: str) -> float | str:
    with contextlib.suppress(ValueError):
        return float(text)
    return text


def _points(lines: Sequence[CsvLine], headlines: Mapping[str, Column]) -> Iterator[MetricPoint]:
    """Yield mean and deviation of the headline columns, in percent."""
    for line in lines:
        metric = _metric(line)
        if metric in headlines:
            scale = headlines[metric].scale
            digits = headlines[metric].digits + 1
            yield MetricPoint(metric, round(scale * float(line["mean"]), digits))
            if line["std"]:
                yield MetricPoint(f"std/{metric}", round(scale * float(line["std"]), digits))


def _metric(line: CsvLine) -> str:
    return entries.metric_name(line["benchmark"], line["metric"])


# --- studies and their trials ---------------------------------------------------------------------------------------
# Studies of sweeps: the entries of each study and of its trials, from its trials.json.


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
    for i, objective in enumerate(study.document["objectives"] if complete else ()):
        values = [trial["values"][i] for trial in complete]
        best_value = min(values) if objective["direction"] == "minimize" else max(values)
        best[objective["metric"]] = complete[values.index(best_value)]
    return best


def make_study_entries(study: StudyFile, options: EntryOptions) -> list[MlflowEntry]:
    """Make a parent for the study, then an entry for each of its trials."""
    experiment = f"{options.project}: studies"
    if study.runs:
        experiment = entries.name_experiment(options.project, [run.cell for run in study.runs])
    now = (study.path / "trials.json").stat().st_mtime
    name = study.document["study"]
    trials = []
    states: Counter[str] = Counter()
    for trial in study.document["trials"]:
        trials.append(_make_trial_entry(study, trial, experiment, options, now))
        states[trial["state"]] += 1
    numbers = []
    for i, (objective, trial) in enumerate(best_trials(study).items()):
        scale = _scale_objective(study.document["objectives"][i])
        numbers.append(MetricPoint(f"best/{objective}", scale * trial["values"][i]))
    for state, count in sorted(states.items()):
        numbers.append(MetricPoint(f"study/{state}_trials", count))
    method = study.document["method"]
    tags = {"kind": "study", "study": name, "method": method, "mlflow.source.name": f"compclip sweep --study {name}"}
    files = {p.name: p for p in sorted(study.path.iterdir()) if p.suffix in (".json", ".yaml", ".html", ".csv")}
    parent = MlflowEntry(
        f"study/{name}", f"study {name}", experiment, options.project, tags, describe_study(study),
        params={"method": method}, numbers=tuple(numbers), files=files, content_of_files=fingerprint(*files.values()),
        start=min((trial.start for trial in trials), default=now), end=now,
        status="FINISHED" if states.keys() <= STATUSES.keys() else "RUNNING",
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
    numbers = []
    for objective, value in name_values(study, trial["values"]):
        numbers.append(MetricPoint(f"objective/{objective['metric']}", _scale_objective(objective) * value))
    for step, values in trial.get("intermediate", {}).items():
        for objective, value in name_values(study, values):
            point = MetricPoint(f"intermediate/{objective['metric']}", _scale_objective(objective) * value)
            numbers.append(point._replace(step=int(step)))
    entry = MlflowEntry(
        f"trial/{name}/{number}", f"{name} {number:03d}", experiment, options.project, tags,
        describe_trial(study, trial),
        params=entries.flatten_config(trial["params"]), numbers=tuple(numbers), parent=f"study/{name}",
        status=STATUSES.get(trial["state"], "RUNNING"), start=_parse_time(trial.get("started"), end), end=end,
    )  # fmt: skip
    return entries.add_run(entry, summary, options.columns) if summary else entry


def _scale_objective(objective: Mapping[str, Any]) -> float:
    """Return what an objective is multiplied by: shares are shown in percent, scores as they are."""
    return 1.0 if objective.get("score") else 100.0


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
    texts = []
    for name, value in params.items():
        texts.append(f"{name} = {value:.4g}" if isinstance(value, float) else f"{name} = {value}")
    return to_markdown(", ".join(texts)) or "defaults"


def describe_trial(study: StudyFile, trial: Mapping[str, Any]) -> str:
    """Describe one trial in a sentence or two."""
    why = f" {to_markdown(trial['reason'])}" if trial.get("reason") else ""
    head = f"Trial {trial['number']} of **{to_markdown(study.document['study'])}**, {to_markdown(trial['state'])}"
    values = []
    for objective, value in name_values(study, trial["values"]):
        values.append(f"{to_code(objective['metric'])} {format_share(value, bool(objective.get('score')))}")
    return f"{head}: {_join_params(trial['params'])}. {', '.join(values)}{why}"[:NOTE_LIMIT]
