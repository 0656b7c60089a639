"""One entry to one MLflow run: params, metrics, data sets, files, description; and its removal."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param

from compclip.base import links
from compclip.track import models, notes, store
from compclip.track.entries import COMPLETE, CONTENT, FILES, KEY, PROJECT, Entry
from compclip.track.models import Logged

if TYPE_CHECKING:
    from mlflow import MlflowClient

    from compclip.track.models import Template

PARENT = "mlflow.parentRunId"
CONTEXT = "mlflow.data.context"


def logged(run: Any) -> Logged:
    """The ids of a run that the store holds."""
    outputs = run.outputs.model_outputs if run.outputs else []
    return Logged(run.info.run_id, outputs[0].model_id if outputs else "")


def write(client: MlflowClient, entry: Entry, experiment: str, parent: str, template: Template, link: bool) -> Logged:
    """Log an entry; the tag `complete` comes last and marks it whole. `link`: files are linked, and not uploaded."""
    tags = {**entry.tags, KEY: entry.key, PROJECT: entry.project, CONTENT: entry.content, notes.TAG: entry.note}
    tags |= {FILES: entry.files_stamp} | ({PARENT: parent} if parent else {})
    info = client.create_run(experiment, round(1000 * entry.start), tags, entry.name).info
    model = models.create(client, entry, info.run_id, experiment) if entry.checkpoint else None
    found = Logged(info.run_id, model.model_id if model else "")
    if entry.datasets:
        client.log_inputs(found.run, _inputs(entry))
    _batches(client, entry, found)
    for name, path in entry.files.items():
        _file(client, info, name, path, link)
    if model:
        models.fill(client, entry, model, template, link)
    client.set_terminated(found.run, entry.status, round(1000 * entry.end))
    client.set_tag(found.run, COMPLETE, "true")
    return found


def _batches(client: MlflowClient, entry: Entry, found: Logged) -> None:
    """Parameters and values, in as few calls as MLflow's limits allow."""
    for part in _parts([Param(k, v) for k, v in entry.params.items()], 100):
        client.log_batch(found.run, params=part)
    for part in _parts(_metrics(entry, found.model), 1000):
        client.log_batch(found.run, metrics=part)


def _file(client: MlflowClient, info: Any, name: str, path: Path, link: bool) -> None:
    if link:
        links.place(path, store.local(info.artifact_uri) / name)
    else:
        client.log_artifact(info.run_id, str(path), name.rpartition("/")[0] or None)


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
    models.remove_files(run.info.artifact_uri, artifacts, run.info.run_id)
