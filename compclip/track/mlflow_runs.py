"""One entry to one MLflow run: params, metrics, data sets, files, description; and its removal."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param

from compclip.base import links
from compclip.track import descriptions, mlflow_models, tracking_store
from compclip.track.entries import COMPLETE, CONTENT, FILES, KEY, PROJECT, MlflowEntry
from compclip.track.mlflow_models import LoggedRun

if TYPE_CHECKING:
    from mlflow import MlflowClient

    from compclip.track.mlflow_models import ModelTemplate

PARENT = "mlflow.parentRunId"
CONTEXT = "mlflow.data.context"


def logged_ids(run: Any) -> LoggedRun:
    """Return the ids of a run that the store holds."""
    outputs = run.outputs.model_outputs if run.outputs else []
    return LoggedRun(run.info.run_id, outputs[0].model_id if outputs else "")


def write_run(
    client: MlflowClient, entry: MlflowEntry, experiment: str, parent: str, template: ModelTemplate, link: bool
) -> LoggedRun:
    """Log an entry; the tag `complete` comes last and marks it whole. `link`: files are linked, and not uploaded."""
    tags = {**entry.tags, KEY: entry.key, PROJECT: entry.project, CONTENT: entry.content, descriptions.TAG: entry.note}
    tags |= {FILES: entry.files_stamp} | ({PARENT: parent} if parent else {})
    info = client.create_run(experiment, round(1000 * entry.start), tags, entry.name).info
    model = mlflow_models.create_model(client, entry, info.run_id, experiment) if entry.checkpoint else None
    logged = LoggedRun(info.run_id, model.model_id if model else "")
    if entry.datasets:
        client.log_inputs(logged.run, _inputs(entry))
    for params in _chunks([Param(k, v) for k, v in entry.params.items()], 100):  # MLflow's limits for a call
        client.log_batch(logged.run, params=params)
    for metrics in _chunks(_metrics(entry, logged.model), 1000):
        client.log_batch(logged.run, metrics=metrics)
    for name, path in entry.files.items():
        if link:
            links.link_or_copy(path, tracking_store.path_of_uri(info.artifact_uri) / name)
        else:
            client.log_artifact(info.run_id, str(path), name.rpartition("/")[0] or None)
    if model:
        mlflow_models.fill_model(client, entry, model, template, link)
    client.set_terminated(logged.run, entry.status, round(1000 * entry.end))
    client.set_tag(logged.run, COMPLETE, "true")
    return logged


def _metrics(entry: MlflowEntry, model: str) -> list[Metric]:
    """Return the metrics; those of the checkpoint also belong to the logged model, with their data."""
    digests = {d.name: d.digest for d in entry.datasets if d.context == "evaluation"}
    metrics = []
    for v in entry.finite:
        of_model = {"model_id": model} if model and not v.name.startswith(("train/", "system/")) else {}
        if of_model and v.dataset:
            of_model |= {"dataset_name": v.dataset, "dataset_digest": digests[v.dataset]}
        metrics.append(Metric(v.name, float(v.value), round(1000 * v.time), v.step, **of_model))
    return metrics


def _inputs(entry: MlflowEntry) -> list[DatasetInput]:
    inputs = []
    for d in entry.datasets:
        counts = json.dumps(json.loads(d.source).get("counts") or {})
        dataset = Dataset(d.name, d.digest, "code", d.source, profile=counts)
        inputs.append(DatasetInput(dataset, [InputTag(CONTEXT, d.context)]))
    return inputs


def _chunks(values: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    for i in range(0, len(values), size):
        yield values[i : i + size]


def remove_run(client: MlflowClient, run: Any, artifacts: Path | None) -> None:
    """Delete a run with its model and their files in our own artifact folder; a server's files are its own matter."""
    mlflow_models.remove_models(client, run, artifacts)
    client.delete_run(run.info.run_id)
    mlflow_models.remove_files(run.info.artifact_uri, artifacts, run.info.run_id)
