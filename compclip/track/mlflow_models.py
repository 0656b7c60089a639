"""A checkpoint as a logged and registered model that loads back with `mlflow.pyfunc` and needs no checkout.

What all models of a checkout share (code, environments, example) is made once and linked into each.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from functools import cached_property
from importlib import metadata
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mlflow.entities import LoggedModel, LoggedModelOutput, LoggedModelStatus
from mlflow.exceptions import MlflowException
from mlflow.models import Model, ModelSignature
from mlflow.types import ColSpec, Schema

from compclip.base import code_hash, links
from compclip.base.errors import UserError
from compclip.base.files import write_atomic
from compclip.track import descriptions, entries, tracking_store
from compclip.track.entries import PROJECT, MlflowEntry

if TYPE_CHECKING:
    from mlflow import MlflowClient

CHECKPOINT, MLMODEL = "checkpoint", "MLmodel"
PACKAGES = ("mlflow", "numpy", "open_clip_torch", "pandas", "pillow", "safetensors", "torch", "torchvision")


class LoggedRun(NamedTuple):
    """The ids of an MLflow run and of its logged model, which is empty where there is none."""

    run: str
    model: str = ""


def registered_name(experiment: str) -> str:
    """Return the registered model of an experiment, a name that MLflow's addresses can hold."""
    return experiment.replace(": ", "-").replace(", ", "+").replace(" ", "-").replace("/", "_").replace(":", "_")


class ModelTemplate:
    """A model without weights or ids, made in `folder` when it is first needed and gone when it is closed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def header(self) -> Model:
        """What MLflow needs to know of the model; reading it makes the files."""
        self.close()
        header = Model()
        save_model(_empty(self.folder / CHECKPOINT), self.files, header)
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


def create_model(client: MlflowClient, entry: MlflowEntry, run: str, experiment: str) -> LoggedModel:
    """Create an empty logged model of the run; metrics can name it before its files are there."""
    name = "".join(c if c.isalnum() or c in "-_" else "_" for c in entry.name)
    tags = {k: entry.tags[k] for k in (*entries.VERSION_TAGS, "run_key")} | {PROJECT: entry.project}
    params = {k: v for k, v in entry.params.items() if k.startswith(("method", "train.lr"))}
    model = client.create_logged_model(experiment, name, run, tags, params, "checkpoint")
    client.log_outputs(run, [LoggedModelOutput(model.model_id, step=0)])
    return model


def fill_model(
    client: MlflowClient, entry: MlflowEntry, model: LoggedModel, template: ModelTemplate, link: bool
) -> None:
    """Give the logged model its files: checkpoint, code, signature and example."""
    assert entry.checkpoint is not None
    ids = {"run_id": model.source_run_id or "", "model_id": model.model_id, "model_uuid": model.model_id}
    if link:
        template.make(entry.checkpoint, tracking_store.path_of_uri(model.artifact_location), ids)
    else:
        upload_folder = template.folder / "upload"
        template.make(entry.checkpoint, upload_folder, ids)
        client.log_model_artifacts(model.model_id, str(upload_folder))
    client.finalize_logged_model(model.model_id, LoggedModelStatus.READY)


def save_model(checkpoint: Path, target: Path, header: Model) -> None:
    """Write a checkpoint as an MLflow model to the folder `target`."""
    import mlflow.pyfunc

    from compclip.track import scorer  # what track depends on, and what a model does

    with tempfile.TemporaryDirectory() as folder:
        _copy_code(scorer.__name__, Path(folder))
        mlflow.pyfunc.save_model(
            target, loader_module=scorer.__name__, data_path=str(checkpoint),
            code_paths=[str(Path(folder) / code_hash.OURS)], mlflow_model=header,
            signature=signature(), input_example=_example(),
            pip_requirements=[f"{name}=={metadata.version(name)}" for name in PACKAGES],
        )  # fmt: skip


def _copy_code(module: str, folder: Path) -> None:
    """Copy a module and what it imports of our package into the package's own folders."""
    for name, file in code_hash.find_modules(module).items():
        target = folder.joinpath(*name.split(".")[: None if file.name == "__init__.py" else -1], file.name)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)


def _empty(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


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
    return {
        e.key: versions.get(logged.run) or _create_version(client, name, e, logged)
        for e, logged in entries
        if logged.model
    }


def ensure_registered(client: MlflowClient, experiment: str, project: str) -> str:
    """Return the name of an experiment's registered model, made if need be; another one's of that name is left alone.

    Raises UserError where the second name is taken, too.
    """
    plain = registered_name(experiment)
    for name in (plain, f"{plain}-{hashlib.sha256(experiment.encode()).hexdigest()[:8]}"):
        registered = _get_registered(client, name)
        if registered is None:
            tags = {entries.MODEL_EXPERIMENT: experiment, PROJECT: project}
            client.create_registered_model(name, tags, descriptions.describe_model(experiment))
            return name
        if entries.owns_model(registered.tags, experiment):
            if PROJECT not in registered.tags:
                client.set_registered_model_tag(name, PROJECT, project)
            return name
    raise UserError(f"registered model {plain}: is not of the experiment {experiment!r}; give another --project")


def _get_registered(client: MlflowClient, name: str) -> Any:
    try:
        return client.get_registered_model(name)
    except MlflowException as error:
        if error.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise
        return None


def _create_version(client: MlflowClient, name: str, entry: MlflowEntry, logged: LoggedRun) -> str:
    tags = {k: entry.tags[k] for k in entries.VERSION_TAGS} | {PROJECT: entry.project}
    note = f"{entry.name}: " + ", ".join(f"{name} {value:.4f}" for name, value in sorted(entry.scores.items()))
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


def remove_models(client: MlflowClient, run: Any, artifacts: Path | None) -> None:
    """Delete the run's versions of registered models, and its logged models with their files.

    A version that somebody registered by hand stays, and with it the model that it names.
    """
    for version in _project_versions(client, run):
        client.delete_model_version(version.name, version.version)
    for model in () if _list_versions(client, run.info.run_id) else _list_models(client, run):
        client.delete_logged_model(model.model_id)
        remove_files(model.artifact_location, artifacts, model.model_id)


def _project_versions(client: MlflowClient, run: Any) -> list[Any]:
    versions = _list_versions(client, run.info.run_id)
    return [v for v in versions if entries.owns_version(v.tags, run.data.tags.get(PROJECT, ""))]


def _list_models(client: MlflowClient, run: Any) -> Sequence[Any]:
    outputs = run.outputs.model_outputs if run.outputs else []
    return [client.get_logged_model(output.model_id) for output in outputs]


def remove_files(uri: str, artifacts: Path | None, folder_id: str) -> None:
    """Delete the folder of a run or model, which has its id for a name, where it really lies below our own artifacts.

    Folders that are empty then go as well.
    """
    if artifacts is None or not uri.startswith("file:"):
        return
    folder, artifact_root = tracking_store.path_of_uri(uri).parent.resolve(), artifacts.resolve()
    if folder.name == folder_id and artifact_root in folder.parents:
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            for above in folder.parents[: folder.parents.index(artifact_root)]:
                above.rmdir()
