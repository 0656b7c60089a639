"""One entry to one MLflow run, its checkpoint to a logged and registered model that loads back without a checkout.

Params, metrics, data sets, files and description; versions and aliases of models; and the removal of both. What all
models of a checkout share (code, environments, example) is made once and linked into each.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from importlib import metadata
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mlflow.entities import (
    Dataset,
    DatasetInput,
    InputTag,
    LoggedModel,
    LoggedModelOutput,
    LoggedModelStatus,
    Metric,
    Param,
    RunTag,
)
from mlflow.exceptions import MlflowException
from mlflow.models import Model, ModelSignature
from mlflow.types import ColSpec, Schema

from compclip.base import code_hash, links
from compclip.base.errors import UserError
from compclip.base.files import write_atomic
from compclip.base.number_text import format_share
from compclip.model import run_weights
from compclip.track import descriptions, item_tables, tracking_store
from compclip.track.entries import COMPLETE, CONTENT, FILES, KEY, MetricPoint, MlflowEntry
from compclip.track.item_tables import ItemTable
from compclip.track.tracking_store import PROJECT

if TYPE_CHECKING:
    from mlflow import MlflowClient

CHECKPOINT, MLMODEL = "checkpoint", "MLmodel"
PACKAGES = ("mlflow", "numpy", "open_clip_torch", "pandas", "pillow", "safetensors", "torch", "torchvision")
PARENT = "mlflow.parentRunId"
MODEL_EXPERIMENT = "experiment"  # the tag of a registered model
VERSION_TAGS = frozenset(("method", "backbone", "data", "seed"))  # of a version of one


class LoggedRun(NamedTuple):
    """The ids of an MLflow run and of its logged model, which is empty where there is none."""

    run: str
    model: str = ""


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
    model = create_model(client, entry, info.run_id, experiment) if entry.checkpoint else None
    logged = LoggedRun(info.run_id, model.model_id if model else "")
    if entry.datasets:
        inputs = []
        for d in entry.datasets:
            counts = json.dumps(json.loads(d.source).get("counts") or {})
            dataset = Dataset(d.name, d.digest, "code", d.source, profile=counts)
            inputs.append(DatasetInput(dataset, [InputTag("mlflow.data.context", d.context)]))
        client.log_inputs(logged.run, inputs)
    log_params(client, logged.run, entry.params)
    for metrics in _chunks(_metrics(entry, logged.model), 1000):
        client.log_batch(logged.run, metrics=metrics)
    for name, path in entry.files.items():
        if link:
            links.link_or_copy(path, tracking_store.path_of_uri(info.artifact_uri) / name)
        else:
            client.log_artifact(info.run_id, str(path), name.rpartition("/")[0] or None)
    if entry.tables and entry.results:
        log_tables(client, logged.run, entry.tables.make(entry.results, entry.pretrained_results))
    if model:
        fill_model(client, entry, model, template, link)
    client.set_terminated(logged.run, entry.status, round(1000 * entry.end))
    client.set_tag(logged.run, COMPLETE, "true")
    return logged


def log_params(client: MlflowClient, run: str, params: Mapping[str, str]) -> None:
    """Log parameters; the same ones may be logged again."""
    for chunk in _chunks([Param(k, v) for k, v in params.items()], 100):  # MLflow's limits for a call
        client.log_batch(run, params=chunk)


def log_tables(client: MlflowClient, run: str, tables: Sequence[ItemTable]) -> None:
    """Log tables as MLflow's `log_table` does, and the tags that speak of them."""
    for table in tables:
        client.log_text(run, table.text, table.path)
    client.log_batch(run, tags=[RunTag(name, value) for name, value in item_tables.format_tags(tables)])


def log_points(client: MlflowClient, run: str, points: Sequence[MetricPoint], tags: Mapping[str, str]) -> None:
    """Log points of curves, and behind them tags."""
    metrics = [Metric(v.name, float(v.value), round(1000 * v.time), v.step) for v in points if v.is_finite]
    for chunk in _chunks(metrics, 1000):
        client.log_batch(run, metrics=chunk)
    client.log_batch(run, tags=[RunTag(k, v) for k, v in tags.items()])


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


def _chunks(values: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    for i in range(0, len(values), size):
        yield values[i : i + size]


def create_model(client: MlflowClient, entry: MlflowEntry, run: str, experiment: str) -> LoggedModel:
    """Create an empty logged model of the run; metrics can name it before its files are there."""
    name = "".join(c if c.isalnum() or c in "-_" else "_" for c in entry.name)
    tags = {k: entry.tags[k] for k in (*VERSION_TAGS, "run_key")} | {PROJECT: entry.project}
    params = {k: v for k, v in entry.params.items() if k.startswith(("method", "train.lr"))}
    model = client.create_logged_model(experiment, name, run, tags, params, "checkpoint")
    client.log_outputs(run, [LoggedModelOutput(model.model_id, step=0)])
    return model


class ModelTemplate:
    """A model without weights or ids, made in `folder` when it is first needed and gone when it is closed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def header(self) -> Model:
        """What MLflow needs to know of the model; reading it makes the files."""
        self.close()
        header, empty = Model(), self.folder / CHECKPOINT
        empty.mkdir(parents=True)
        save_model(empty, self.files, header)
        (self.files / MLMODEL).unlink()
        return header

    @property
    def files(self) -> Path:
        """The files that all models share."""
        return self.folder / "model"

    def close(self) -> None:
        """Remove the files; links to them stay."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def make(self, checkpoint: Path, target: Path, ids: Mapping[str, str]) -> None:
        """Make a whole model at `target`, of links to the template and to a checkpoint."""
        header = copy.deepcopy(self.header)
        links.link_or_copy(self.files, target)
        links.link_or_copy(checkpoint, target / "data" / CHECKPOINT)
        header.model_size_bytes = sum(p.stat().st_size for p in target.rglob("*") if p.is_file())
        for name, value in ids.items():
            setattr(header, name, value)
        write_atomic(target / MLMODEL, header.to_yaml())


def fill_model(
    client: MlflowClient, entry: MlflowEntry, model: LoggedModel, template: ModelTemplate, link: bool
) -> None:
    """Give the logged model its files: checkpoint, code, signature and example."""
    assert entry.checkpoint is not None
    run_weights.check_recorded(entry.checkpoint)
    ids = {"run_id": model.source_run_id or "", "model_id": model.model_id, "model_uuid": model.model_id}
    if link:
        template.make(entry.checkpoint, tracking_store.path_of_uri(model.artifact_location), ids)
    else:
        upload_folder = template.folder / "upload"
        template.make(entry.checkpoint, upload_folder, ids)
        client.log_model_artifacts(model.model_id, str(upload_folder))
    client.finalize_logged_model(model.model_id, LoggedModelStatus.READY)


def save_model(checkpoint: Path, target: Path, header: Model) -> None:
    """Write a checkpoint as an MLflow model to the folder `target`, with the modules of ours that it needs."""
    import mlflow.pyfunc

    from compclip.track import scorer  # what track depends on, and what a model does

    with tempfile.TemporaryDirectory() as folder:
        for name, file in code_hash.find_modules(scorer.__name__).items():
            package = name.split(".")[: None if file.name == "__init__.py" else -1]
            copy_path = Path(folder).joinpath(*package, file.name)
            copy_path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy_path)
        mlflow.pyfunc.save_model(
            target, loader_module=scorer.__name__, data_path=str(checkpoint),
            code_paths=[str(Path(folder) / code_hash.OURS)], mlflow_model=header,
            signature=signature(), input_example=_example(),
            pip_requirements=[f"{name}=={metadata.version(name)}" for name in PACKAGES],
        )  # fmt: skip


def signature() -> ModelSignature:
    """Return the signature: a picture (path or bytes; base64 over HTTP) and a text give one number."""
    return ModelSignature(Schema([ColSpec("binary", "image"), ColSpec("string", "text")]), Schema([ColSpec("double")]))


def _example() -> Any:
    import pandas as pd
    from PIL import Image

    file = BytesIO()
    Image.new("RGB", (32, 32), "red").save(file, "PNG")
    return pd.DataFrame({"image": [file.getvalue()] * 2, "text": ["a red square", "a blue square"]})


def register_versions(
    client: MlflowClient, name: str, entries: Sequence[tuple[MlflowEntry, LoggedRun]]
) -> dict[str, str]:
    """Register a version of the model for each entry that is logged with a model; gives them by the entries' keys."""
    versions = {v.run_id: str(v.version) for v in client.search_model_versions(f"name = '{name}'", max_results=10_000)}
    modelled = [(entry, logged) for entry, logged in entries if logged.model]
    return {e.key: versions.get(logged.run) or _create_version(client, name, e, logged) for e, logged in modelled}


def ensure_registered(client: MlflowClient, experiment: str, project: str) -> str:
    """Return the name of an experiment's registered model, made if need be; another one's of that name is left alone.

    Raises UserError where the second name is taken, too.
    """
    plain = experiment.replace(": ", "-").replace(", ", "+").replace(" ", "-").replace("/", "_").replace(":", "_")
    for name in (plain, f"{plain}-{hashlib.sha256(experiment.encode()).hexdigest()[:8]}"):
        try:
            registered = client.get_registered_model(name)
        except MlflowException as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                raise
            tags = {MODEL_EXPERIMENT: experiment, PROJECT: project}
            client.create_registered_model(name, tags, descriptions.describe_model(experiment))
            return name
        if registered.tags.get(MODEL_EXPERIMENT) == experiment:
            if PROJECT not in registered.tags:
                client.set_registered_model_tag(name, PROJECT, project)
            return name
    raise UserError(f"registered model {plain}: is not of the experiment {experiment!r}; give another --project")


def _create_version(client: MlflowClient, name: str, entry: MlflowEntry, logged: LoggedRun) -> str:
    tags = {k: entry.tags[k] for k in VERSION_TAGS} | {PROJECT: entry.project}
    note = f"{entry.name}: " + ", ".join(
        f"{name} {format_share(value)} %" for name, value in sorted(entry.scores.items())
    )
    source = client.get_logged_model(logged.model).artifact_location
    version = client.create_model_version(name, source, logged.run, tags, None, note, 0, logged.model).version
    versions = [{"name": v.name, "version": str(v.version)} for v in _list_versions(client, logged.run)]
    versions_json = json.dumps(versions)  # what the UI's list of models reads
    client.set_logged_model_tags(logged.model, {"mlflow.modelVersions": versions_json})
    return str(version)


def _list_versions(client: MlflowClient, run: str) -> Sequence[Any]:
    return client.search_model_versions(f"run_id = '{run}'")


def hand_over(client: MlflowClient, old: Any, entry: MlflowEntry, new: LoggedRun) -> None:
    """Give the run `new` the versions and aliases of `old`, which it replaces: other grids' models may hold them."""
    if not new.model:
        return
    names = {v.name: str(v.version) for v in _list_versions(client, new.run)}
    for version in _project_versions(client, old):
        number = names.get(version.name) or _create_version(client, version.name, entry, new)
        for alias, target in client.get_registered_model(version.name).aliases.items():
            if str(target) == str(version.version):
                client.set_registered_model_alias(version.name, alias, number)


def set_aliases(client: MlflowClient, name: str, versions: Mapping[str, str | None]) -> None:
    """Point aliases of a registered model at versions; None removes one. Aliases of other grids' benchmarks stay."""
    old = dict(client.get_registered_model(name).aliases)
    for alias, version in versions.items():
        if version is None and alias in old:
            client.delete_registered_model_alias(name, alias)
        elif version is not None and str(old.get(alias)) != version:
            client.set_registered_model_alias(name, alias, version)


def remove_run(client: MlflowClient, run: Any, artifacts: Path | None) -> None:
    """Delete a run with its models and their files in our own artifact folder; a server's files are its own matter.

    A version that somebody registered by hand stays, and with it the model that it names.
    """
    for version in _project_versions(client, run):
        client.delete_model_version(version.name, version.version)
    if run.outputs and not _list_versions(client, run.info.run_id):
        for output in run.outputs.model_outputs:
            model = client.get_logged_model(output.model_id)
            client.delete_logged_model(model.model_id)
            remove_files(model.artifact_location, artifacts, model.model_id)
    client.delete_run(run.info.run_id)
    remove_files(run.info.artifact_uri, artifacts, run.info.run_id)


def _project_versions(client: MlflowClient, run: Any) -> list[Any]:
    """List the versions of a run of ours that its project registered; those of old stores have no tag of it."""
    project = run.data.tags.get(PROJECT, "")
    versions = _list_versions(client, run.info.run_id)
    return [v for v in versions if (v.tags[PROJECT] == project if PROJECT in v.tags else v.tags.keys() >= VERSION_TAGS)]


def is_below(uri: str, folder: Path) -> bool:
    """Return whether a `file://` address really lies below a folder."""
    return uri.startswith("file:") and folder.resolve() in tracking_store.path_of_uri(uri).resolve().parents


def remove_files(uri: str, artifacts: Path | None, folder_id: str) -> None:
    """Delete the folder of a run or model, which has its id for a name, where it really lies below our own artifacts.

    Folders that are empty then go as well.
    """
    if artifacts is None or not is_below(uri, artifacts):
        return
    folder, artifact_root = tracking_store.path_of_uri(uri).parent.resolve(), artifacts.resolve()
    if folder.name == folder_id:
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            for above in folder.parents[: folder.parents.index(artifact_root)]:
                above.rmdir()
