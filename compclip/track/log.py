"""One entry to one MLflow run: params, metrics, data sets, files, description; and its removal."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param

from compclip.track import models
from compclip.track.entries import COMPLETE, CONTENT, KEY, Entry

if TYPE_CHECKING:
    from mlflow import MlflowClient

NOTE, PARENT = "mlflow.note.content", "mlflow.parentRunId"
CONTEXT = "mlflow.data.context"


def write(client: MlflowClient, entry: Entry, experiment: str, parent: str = "") -> str:
    """Log an entry; the tag `complete` comes last and marks it whole. Gives the MLflow run's id."""
    tags = {**entry.tags, KEY: entry.key, CONTENT: entry.content, NOTE: entry.note}
    tags |= {PARENT: parent} if parent else {}
    run = client.create_run(experiment, round(1000 * entry.start), tags, entry.name).info.run_id
    model = models.create(client, entry, run, experiment) if entry.checkpoint else ""
    if entry.datasets:
        client.log_inputs(run, _inputs(entry))
    for part in _parts([Param(k, v) for k, v in entry.params.items()], 100):
        client.log_batch(run, params=part)
    for part in _parts(_metrics(entry, model), 1000):
        client.log_batch(run, metrics=part)
    for path in entry.files:
        client.log_artifact(run, str(path), "results" if path.parent.name == "results" else None)
    if model:
        models.upload(client, entry, run, model)
    client.set_terminated(run, entry.status, round(1000 * entry.end))
    client.set_tag(run, COMPLETE, "true")
    return run


def _metrics(entry: Entry, model: str) -> list[Metric]:
    """What was measured of the checkpoint also belongs to the logged model, with the data it was measured on."""
    digests = {d.name: d.digest for d in entry.datasets if d.context == "evaluation"}
    found = []
    for v in entry.finite:
        of_model = {"model_id": model} if model and not v.name.startswith(("train/", "system/")) else {}
        if of_model and v.dataset:
            of_model |= {"dataset_name": v.dataset, "dataset_digest": digests[v.dataset]}
        found.append(Metric(v.name, float(v.value), round(1000 * v.time), v.step, **of_model))
    return found


def _inputs(entry: Entry) -> list[DatasetInput]:
    return [DatasetInput(Dataset(d.name, d.digest, "code", d.source, profile=_profile(d.source)),
                         [InputTag(CONTEXT, d.context)]) for d in entry.datasets]  # fmt: skip


def _profile(source: str) -> str:
    return json.dumps(json.loads(source).get("counts") or {})


def _parts(values: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    for i in range(0, len(values), size):
        yield values[i : i + size]


def remove(client: MlflowClient, run: Any, artifacts: Path | None) -> None:
    """Delete a run with its model and their files in our own artifact folder; a server's files are its own matter."""
    models.remove(client, run, artifacts)
    client.delete_run(run.info.run_id)
    models.remove_files(run.info.artifact_uri, artifacts)
