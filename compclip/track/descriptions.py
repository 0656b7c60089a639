"""What MLflow shows besides runs: descriptions in Markdown, and the comparison of an experiment's cells."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np

from compclip.base.number_text import format_count, format_share
from compclip.config.cell import PRETRAINED
from compclip.report import tables
from compclip.report.escape import to_code, to_markdown
from compclip.report.run_details import format_duration
from compclip.report.tables import Column
from compclip.runs.result_files import FinishedRun
from compclip.track.tracked_files import StudyFile, StudyTrial, best_trials

TAG = "mlflow.note.content"
LIMIT = 8000  # characters of a tag in MLflow
ROWS = 40
# The ready-made comparison of an experiment: MLflow's shared view, which its UI opens by a key in the address.
VIEW = "comparison"
VIEW_TAG = f"mlflow.sharedViewState.{VIEW}"
UI_MODE = "workflowType=machine_learning"  # without it the UI opens on its pages for language-model applications


def describe_cell(run: FinishedRun, pretrained: Sequence[FinishedRun], columns: Sequence[Column]) -> str:
    """Describe what the cell is, and its numbers against the pretrained model's means over its runs."""
    cell = run.cell
    origin = "evaluated as it is" if cell.method == PRETRAINED else f"fine-tuned on **{to_markdown(cell.data)}**"
    head = f"**{to_markdown(cell.method)}**: backbone **{to_markdown(cell.backbone)}** {origin}, seed {cell.seed}."
    if run.curve and (seconds := run.environment.get("seconds")):
        device = to_markdown(str(run.environment.get("device")))
        head += f" Training took {format_duration(seconds)} on {device}."
    head += f" Files: {to_code(str(run.trained.path))}."
    lines = []
    for column in (*tables.summary_columns(columns, [run]), *columns):
        value = tables.column_value(run, column)
        if value is None:
            continue
        name, scale, digits = f"{to_markdown(column.name)} {column.arrow}".strip(), column.scale, column.digits
        values = [v for base in pretrained if (v := tables.column_value(base, column)) is not None]
        theirs = difference = "–"
        if values:
            mean = float(np.mean(values))
            theirs, difference = f"{mean * scale:.{digits}f}", f"{(value - mean) * scale:+.{digits}f}"
        lines.append(f"| {name} | {value * scale:.{digits}f} | {theirs} | {difference} |")
    table = ["| metric | this run | pretrained | difference |", "| --- | ---: | ---: | ---: |", *lines]
    return "\n".join([head, "", *(table if lines else ["Not evaluated yet."])])[:LIMIT]


def describe_grid(
    methods: Sequence[str], runs: Sequence[FinishedRun], winners: Mapping[str, tuple[FinishedRun, float]], model: str
) -> str:
    """Describe how to read an experiment, what it cost, and its best checkpoints."""
    lines = [
        f"Methods: {to_markdown(', '.join(methods))}. One run a cell (method, backbone, data, seed); sweeps are runs "
        "of their own with their trials below them. Made from the run directories by `compclip track`.",
        "",
        "Metrics: `score/…` one number a benchmark, `comp`, `zs`, `i2t` and `t2i` as in the report; "
        "`benchmark/metric` everything that was measured; `train/…` loss curves; `system/…` time and memory.",
    ]
    # cells that share a run paid for it once
    hours = {run.environment.get("run_key") or run.cell.name: device_hours(run) for run in runs}
    if counted := [h for h in hours.values() if h is not None]:
        coverage = "" if len(counted) == len(hours) else f" that {len(counted)} of {len(hours)} runs know of"
        lines += ["", f"Training took {sum(counted):.2f} device-hours{coverage}, interrupted lives counted."]
    if winners:
        lines += ["", "| benchmark | best checkpoint | value | load it with `mlflow.pyfunc.load_model` |",
                  "| --- | --- | ---: | --- |"]  # fmt: skip
    for benchmark, (run, value) in winners.items():
        address = to_code(f"models:/{model}@{best_alias(benchmark)}")
        lines.append(f"| {to_markdown(benchmark)} | {to_markdown(run.cell.name)} | {100 * value:.1f} | {address} |")
    return "\n".join(lines)[:LIMIT]


def device_hours(run: FinishedRun) -> float | None:
    """Return hours of GPUs, or of a CPU process, over all lives of a run; None for runs that did not count them."""
    seconds = run.environment.get("device_seconds")
    return None if seconds is None else seconds / 3600


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
    return "\n".join(lines)[:LIMIT]


def _join_params(params: Mapping[str, object]) -> str:
    texts = {k: f"{v:.4g}" if isinstance(v, float) else v for k, v in params.items()}
    return to_markdown(", ".join(f"{k} = {v}" for k, v in texts.items())) or "defaults"


def describe_trial(study: StudyFile, trial: StudyTrial) -> str:
    """Describe one trial in a sentence or two."""
    values = ", ".join(f"{to_code(n)} {format_share(v, n in study.cosines)}" for n, v in study.name_values(trial))
    why = f" {to_markdown(str(trial.facts['reason']))}" if trial.facts.get("reason") else ""
    head = f"Trial {trial.number} of **{to_markdown(study.name)}**, {to_markdown(trial.state)}"
    return f"{head}: {_join_params(trial.params)}. {values}{why}"[:LIMIT]


def view_tags(scores: Sequence[str]) -> dict[str, str]:
    """Return the experiment tag that holds the view: a row a cell, the best `comp` first, every score, method and seed.

    Without scores: the newest first, with losses and speed. Sweeps are left out: sorted by a score, the UI would show
    their trials among the cells.
    """
    metrics = [f"score/{name}" for name in scores] or ["train/loss", "system/samples_per_second"]
    columns = [f"metrics.`{name}`" for name in metrics] + ["params.`method`", "params.`seed`"]
    order = columns[0] if scores else "attributes.start_time"
    state = {"orderByKey": order, "orderByAsc": False, "selectedColumns": columns,
             "searchFilter": "tags.kind = 'cell'", "startTime": "ALL", "lifecycleFilter": "Active"}  # fmt: skip
    return {VIEW_TAG: json.dumps(state)}


def view_address(server: str, experiment: str) -> str:
    """Return where a server's UI shows the view; without an experiment, the list of them."""
    if not experiment:
        return f"{server}/#/experiments?{UI_MODE}"
    return f"{server}/#/experiments/{experiment}/runs?viewStateShareKey={VIEW}&{UI_MODE}"
