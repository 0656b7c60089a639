"""The descriptions that MLflow shows, in Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from compclip.config.grid import PRETRAINED
from compclip.report import tables
from compclip.report.escape import to_code, to_markdown
from compclip.report.run_details import format_duration
from compclip.report.tables import Column
from compclip.runs.result_files import FinishedRun
from compclip.track.study_files import StudyFile, StudyTrial, best_trials

TAG = "mlflow.note.content"
LIMIT = 8000  # characters of a tag in MLflow
ROWS = 40


class ReferenceMeans:
    """The pretrained model's means over its runs, each computed once for all cells that it is compared with."""

    def __init__(self, runs: Sequence[FinishedRun]) -> None:
        self._runs = runs
        self._means: dict[Column, float | None] = {}

    def mean(self, column: Column) -> float | None:
        """Return the column's mean; None where no run has it."""
        if column not in self._means:
            values = [v for run in self._runs if (v := tables.column_value(run, column)) is not None]
            self._means[column] = float(np.mean(values)) if values else None
        return self._means[column]


def describe_cell(run: FinishedRun, reference: ReferenceMeans, columns: Sequence[Column]) -> str:
    """Describe what the cell is, and its numbers against the pretrained model's."""
    cell = run.cell
    origin = "evaluated as it is" if cell.method == PRETRAINED else f"fine-tuned on **{to_markdown(cell.data)}**"
    seconds = run.environment.get("seconds")
    duration_note = (
        f" Training took {format_duration(seconds)} on {to_markdown(str(run.environment.get('device')))}."
        if run.curve and seconds
        else ""
    )
    head = (
        f"**{to_markdown(cell.method)}**: backbone **{to_markdown(cell.backbone)}** {origin}, seed {cell.seed}."
        f"{duration_note} Files: {to_code(str(run.trained.path))}."
    )
    return f"{head}\n\n{_metric_table(run, reference, columns)}"[:LIMIT]


def _metric_table(run: FinishedRun, reference: ReferenceMeans, columns: Sequence[Column]) -> str:
    table_columns = (*tables.summary_columns(columns, [run]), *columns)
    column_values = [(c, v) for c in table_columns if (v := tables.column_value(run, c)) is not None]
    if not column_values:
        return "Not evaluated yet."
    lines = [_metric_line(column, value, reference.mean(column)) for column, value in column_values]
    return "\n".join(["| metric | this run | pretrained | difference |", "| --- | ---: | ---: | ---: |", *lines])


def _metric_line(column: Column, value: float, reference: float | None) -> str:
    name, digits = f"{to_markdown(column.name)} {column.arrow}".strip(), column.digits
    if reference is None:
        return f"| {name} | {value * column.scale:.{digits}f} | – | – |"
    scores = f"{value * column.scale:.{digits}f} | {reference * column.scale:.{digits}f}"
    return f"| {name} | {scores} | {(value - reference) * column.scale:+.{digits}f} |"


def describe_grid(
    methods: Sequence[str], runs: Sequence[FinishedRun], winners: Mapping[str, tuple[FinishedRun, float]], model: str
) -> str:
    """Describe how to read an experiment, what it cost, and its best checkpoints."""
    lines = [
        f"Methods: {to_markdown(', '.join(methods))}. One run a cell (method, backbone, data, seed); sweeps are runs "
        "of their own with their trials below them. Made from the run directories by `python -m compclip.track`.",
        "",
        "Metrics: `score/…` one number a benchmark, `comp`, `zs`, `i2t` and `t2i` as in the report; "
        "`benchmark/metric` everything that was measured; `train/…` loss curves; `system/…` time and memory.",
        *_describe_cost(runs),
    ]
    if winners:
        lines += ["", "| benchmark | best checkpoint | value | load it with `mlflow.pyfunc.load_model` |",
                  "| --- | --- | ---: | --- |", *_best_lines(winners, model)]  # fmt: skip
    return "\n".join(lines)[:LIMIT]


def _describe_cost(runs: Sequence[FinishedRun]) -> list[str]:
    """Describe the device-hours of different runs: cells that share a run paid for it once."""
    hours = {run.environment.get("run_key") or run.cell.name: device_hours(run) for run in runs}
    known_hours = [h for h in hours.values() if h is not None]
    if not known_hours:
        return []
    coverage = "" if len(known_hours) == len(hours) else f" that {len(known_hours)} of {len(hours)} runs know of"
    return ["", f"Training took {sum(known_hours):.2f} device-hours{coverage}, interrupted lives counted."]


def device_hours(run: FinishedRun) -> float | None:
    """Return hours of GPUs, or of a CPU process, over all lives of a run; None for runs that did not count them."""
    seconds = run.environment.get("device_seconds")
    return None if seconds is None else seconds / 3600


def _best_lines(winners: Mapping[str, tuple[FinishedRun, float]], model: str) -> list[str]:
    return [
        f"| {to_markdown(b)} | {to_markdown(run.cell.name)} | {100 * value:.1f} "
        f"| {to_code(f'models:/{model}@{best_alias(b)}')} |"
        for b, (run, value) in winners.items()
    ]


def best_alias(benchmark: str) -> str:
    """Return the alias of a benchmark's best checkpoint."""
    return f"best-{benchmark}"


def describe_model(experiment: str) -> str:
    """Describe what a registered model is and how to use it."""
    return (
        f"The checkpoints of the grid {to_code(experiment)}, a version for each cell. The alias `best-<benchmark>` "
        "marks the highest of one run's numbers on that benchmark, chosen on the benchmark itself: report means over "
        "seeds, not this. A model takes a DataFrame with the columns `image` (path or bytes) and `text` and gives the "
        "cosine of each pair."
    )


def describe_study(study: StudyFile) -> str:
    """Describe a study's objectives, best trials, and all trials."""
    trials = f"{len(study.trials)} trials for {_name_objectives(study)}"
    head = f"Sweep **{to_markdown(study.name)}** of **{to_markdown(study.method)}**: {trials}."
    best_lines = [
        f"Best by {to_markdown(name)}: trial {t.number} with {_join_params(t.params)}."
        for name, t in best_trials(study).items()
    ]
    rows = [_trial_line(t) for t in study.trials[:ROWS]]
    remainder = [f"\n{len(study.trials) - ROWS} more trials are not listed here."] if len(study.trials) > ROWS else []
    table = ["| trial | state | parameters | values |", "| ---: | --- | --- | --- |", *rows, *remainder]
    return "\n".join([head, *best_lines, "", *table])[:LIMIT]


def _name_objectives(study: StudyFile) -> str:
    return " and ".join(
        f"{'highest' if maximize else 'lowest'} {to_code(n)}" for n, maximize in study.objectives.items()
    )


def _trial_line(trial: StudyTrial) -> str:
    values = ", ".join(f"{v:.4f}" for v in trial.values) or "–"
    return f"| {trial.number} | {to_markdown(trial.state)} | {_join_params(trial.params)} | {values} |"


def _join_params(params: Mapping[str, object]) -> str:
    texts = {k: f"{v:.4g}" if isinstance(v, float) else v for k, v in params.items()}
    return to_markdown(", ".join(f"{k} = {v}" for k, v in texts.items())) or "defaults"


def describe_trial(study: StudyFile, trial: StudyTrial) -> str:
    """Describe one trial in a sentence or two."""
    values = ", ".join(f"{to_code(n)} {v:.4f}" for n, v in zip(study.objectives, trial.values, strict=False))
    why = f" {to_markdown(str(trial.facts['reason']))}" if trial.facts.get("reason") else ""
    head = f"Trial {trial.number} of **{to_markdown(study.name)}**, {to_markdown(trial.state)}"
    return f"{head}: {_join_params(trial.params)}. {values}{why}"[:LIMIT]
