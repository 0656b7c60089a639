"""The descriptions that MLflow shows, in Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from compclip.config.cell import PRETRAINED
from compclip.report import tables
from compclip.report.details import duration
from compclip.report.escape import md, md_code
from compclip.report.tables import Column
from compclip.runs.results import FinishedRun
from compclip.track.studies import StudyFile, StudyTrial, best

TAG = "mlflow.note.content"
LIMIT = 8000  # characters of a tag in MLflow
ROWS = 40


class Reference:
    """The pretrained model's means over its runs, each computed once for all cells that it is compared with."""

    def __init__(self, runs: Sequence[FinishedRun]) -> None:
        self._runs = runs
        self._means: dict[Column, float | None] = {}

    def mean(self, column: Column) -> float | None:
        """The column's mean; None where no run has it."""
        if column not in self._means:
            found = [v for run in self._runs if (v := tables.value(run, column)) is not None]
            self._means[column] = float(np.mean(found)) if found else None
        return self._means[column]


def of_cell(run: FinishedRun, reference: Reference, columns: Sequence[Column]) -> str:
    """What the cell is, and its numbers against the pretrained model's."""
    cell = run.cell
    how = "evaluated as it is" if cell.method == PRETRAINED else f"fine-tuned on **{md(cell.data)}**"
    seconds = run.environment.get("seconds")
    took = (
        f" Training took {duration(seconds)} on {md(str(run.environment.get('device')))}."
        if run.curve and seconds
        else ""
    )
    head = (
        f"**{md(cell.method)}**: backbone **{md(cell.backbone)}** {how}, seed {cell.seed}.{took} "
        f"Files: {md_code(str(run.trained.path))}."
    )
    return f"{head}\n\n{_table(run, reference, columns)}"[:LIMIT]


def _table(run: FinishedRun, reference: Reference, columns: Sequence[Column]) -> str:
    shown = (*tables.summary_columns(columns, [run]), *columns)
    mine = [(c, v) for c in shown if (v := tables.value(run, c)) is not None]
    if not mine:
        return "Not evaluated yet."
    lines = [_line(column, value, reference.mean(column)) for column, value in mine]
    return "\n".join(["| metric | this run | pretrained | difference |", "| --- | ---: | ---: | ---: |", *lines])


def _line(column: Column, value: float, reference: float | None) -> str:
    name, digits = f"{md(column.name)} {column.arrow}".strip(), column.digits
    if reference is None:
        return f"| {name} | {value * column.scale:.{digits}f} | – | – |"
    shown = f"{value * column.scale:.{digits}f} | {reference * column.scale:.{digits}f}"
    return f"| {name} | {shown} | {(value - reference) * column.scale:+.{digits}f} |"


def of_grid(
    methods: Sequence[str], runs: Sequence[FinishedRun], winners: Mapping[str, tuple[FinishedRun, float]], model: str
) -> str:
    """How to read an experiment, what it cost, and its best checkpoints."""
    lines = [
        f"Methods: {md(', '.join(methods))}. One run a cell (method, backbone, data, seed); sweeps are runs of their "
        "own with their trials below them. Made from the run directories by `python -m compclip.track`.",
        "",
        "Metrics: `score/…` one number a benchmark, `comp`, `zs`, `i2t` and `t2i` as in the report; "
        "`benchmark/metric` everything that was measured; `train/…` loss curves; `system/…` time and memory.",
        *_cost(runs),
    ]
    if winners:
        lines += ["", "| benchmark | best checkpoint | value | load it with `mlflow.pyfunc.load_model` |",
                  "| --- | --- | ---: | --- |", *_best(winners, model)]  # fmt: skip
    return "\n".join(lines)[:LIMIT]


def _cost(runs: Sequence[FinishedRun]) -> list[str]:
    """The device-hours of different runs: cells that share a run paid for it once."""
    hours = {run.environment.get("run_key") or run.cell.name: device_hours(run) for run in runs}
    known = [h for h in hours.values() if h is not None]
    if not known:
        return []
    of = "" if len(known) == len(hours) else f" that {len(known)} of {len(hours)} runs know of"
    return ["", f"Training took {sum(known):.2f} device-hours{of}, interrupted lives counted."]


def device_hours(run: FinishedRun) -> float | None:
    """Hours of GPUs, or of a CPU process, over all lives of a run; None for runs that did not count them."""
    seconds = run.environment.get("device_seconds")
    return None if seconds is None else seconds / 3600


def _best(winners: Mapping[str, tuple[FinishedRun, float]], model: str) -> list[str]:
    return [f"| {md(b)} | {md(run.cell.name)} | {100 * value:.1f} | {md_code(f'models:/{model}@{alias(b)}')} |"
            for b, (run, value) in winners.items()]  # fmt: skip


def alias(benchmark: str) -> str:
    """The alias of a benchmark's best checkpoint."""
    return f"best-{benchmark}"


def of_model(experiment: str) -> str:
    """What a registered model is and how to use it."""
    return (
        f"The checkpoints of the grid {md_code(experiment)}, a version for each cell. The alias `best-<benchmark>` "
        "marks the highest of one run's numbers on that benchmark, chosen on the benchmark itself: report means over "
        "seeds, not this. A model takes a DataFrame with the columns `image` (path or bytes) and `text` and gives the "
        "cosine of each pair."
    )


def of_study(study: StudyFile) -> str:
    """A study's objectives, best trials, and all trials."""
    head = f"Sweep **{md(study.name)}** of **{md(study.method)}**: {len(study.trials)} trials for {_listed(study)}."
    found = [f"Best by {md(name)}: trial {t.number} with {_pairs(t.params)}." for name, t in best(study).items()]
    rows = [_trial_line(t) for t in study.trials[:ROWS]]
    more = [f"\n{len(study.trials) - ROWS} more trials are not listed here."] if len(study.trials) > ROWS else []
    table = ["| trial | state | parameters | values |", "| ---: | --- | --- | --- |", *rows, *more]
    return "\n".join([head, *found, "", *table])[:LIMIT]


def _listed(study: StudyFile) -> str:
    return " and ".join(f"{'highest' if more else 'lowest'} {md_code(n)}" for n, more in study.objectives.items())


def _trial_line(trial: StudyTrial) -> str:
    values = ", ".join(f"{v:.4f}" for v in trial.values) or "–"
    return f"| {trial.number} | {md(trial.state)} | {_pairs(trial.params)} | {values} |"


def _pairs(params: Mapping[str, object]) -> str:
    shown = {k: f"{v:.4g}" if isinstance(v, float) else v for k, v in params.items()}
    return md(", ".join(f"{k} = {v}" for k, v in shown.items())) or "defaults"


def of_trial(study: StudyFile, trial: StudyTrial) -> str:
    """One trial in a sentence or two."""
    values = ", ".join(f"{md_code(n)} {v:.4f}" for n, v in zip(study.objectives, trial.values, strict=False))
    why = f" {md(str(trial.facts['reason']))}" if trial.facts.get("reason") else ""
    return f"Trial {trial.number} of **{md(study.name)}**, {md(trial.state)}: {_pairs(trial.params)}. {values}{why}"[
        :LIMIT
    ]
