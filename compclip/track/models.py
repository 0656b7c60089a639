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

from compclip.base import code, links
from compclip.base.errors import UserError
from compclip.base.files import write_atomic
from compclip.track import notes, owned, store
from compclip.track.entries import PROJECT, Entry

if TYPE_CHECKING:
    from mlflow import MlflowClient

CHECKPOINT, MLMODEL = "checkpoint", "MLmodel"
PACKAGES = ("mlflow", "numpy", "open_clip_torch", "pandas", "pillow", "safetensors", "torch", "torchvision")


class Logged(NamedTuple):
    """The ids of an MLflow run and of its logged model, which is empty where there is none."""

    run: str
    model: str = ""


def registered_name(experiment: str) -> str:
    """The registered model of an experiment, a name that MLflow's addresses can hold."""
    return experiment.replace(": ", "-").replace(", ", "+").replace(" ", "-").replace("/", "_").replace(":", "_")


class Template:
    """A model without weights or ids, made in `folder` when it is first needed and gone when it is closed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def header(self) -> Model:
        """What MLflow needs to know of the model; reading it makes the files."""
        self.close()
        header = Model()
        save(_empty(self.folder / CHECKPOINT), self.files, header)
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
        """A whole model at `target`, of links to the template and to a checkpoint."""
        header = copy.deepcopy(self.header)
        links.place(self.files, target)
        links.place(checkpoint, target / "data" / CHECKPOINT)
        header.model_size_bytes = sum(p.stat().st_size for p in target.rglob("*") if p.is_file())
        for name, value in ids.items():
            setattr(header, name, value)
        write_atomic(target / MLMODEL, header.to_yaml())


def create(client: MlflowClient, entry: Entry, run: str, experiment: str) -> LoggedModel:
    """An empty logged model of the run; metrics can name it before its files are there."""
    name = "".join(c if c.isalnum() or c in "-_" else "_" for c in entry.name)
    tags = {k: entry.tags[k] for k in (*owned.CELL, "run_key")} | {PROJECT: entry.project}
    params = {k: v for k, v in entry.params.items() if k.startswith(("method", "train.lr"))}
    model = client.create_logged_model(experiment, name, run, tags, params, "checkpoint")
    client.log_outputs(run, [LoggedModelOutput(model.model_id, step=0)])
    return model


def fill(client: MlflowClient, entry: Entry, model: LoggedModel, template: Template, link: bool) -> None:
    """Give the logged model its files: checkpoint, code, signature and example."""
    ids = {"run_id": model.source_run_id, "model_id": model.model_id, "model_uuid": model.model_id}
    if link:
        template.make(entry.checkpoint, store.local(model.artifact_location), ids)
    else:
        whole = template.folder / "upload"
        template.make(entry.checkpoint, whole, ids)
        client.log_model_artifacts(model.model_id, str(whole))
    client.finalize_logged_model(model.model_id, LoggedModelStatus.READY)


def save(checkpoint: Path, target: Path, header: Model) -> None:
    """Write a checkpoint as an MLflow model to the folder `target`."""
    import mlflow.pyfunc

    from compclip.track import scorer  # what track depends on, and what a model does

    with tempfile.TemporaryDirectory() as folder:
        _copy_code(scorer.__name__, Path(folder))
        mlflow.pyfunc.save_model(
            target, loader_module=scorer.__name__, data_path=str(checkpoint),
            code_paths=[str(Path(folder) / code.OURS)], mlflow_model=header,
            signature=signature(), input_example=_example(),
            pip_requirements=[f"{name}=={metadata.version(name)}" for name in PACKAGES],
        )  # fmt: skip


def _copy_code(module: str, folder: Path) -> None:
    """A module and what it imports of our package, in the package's own folders."""
    for name, file in code.closure(module).items():
        target = folder.joinpath(*name.split(".")[: None if file.name == "__init__.py" else -1], file.name)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)


def _empty(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


def signature() -> ModelSignature:
    """A picture (path or bytes; base64 over HTTP) and a text give one number."""
    return ModelSignature(Schema([ColSpec("binary", "image"), ColSpec("string", "text")]), Schema([ColSpec("double")]))


def _example() -> Any:
    import pandas as pd
    from PIL import Image

    file = BytesIO()
    Image.new("RGB", (32, 32), "red").save(file, "PNG")
    return pd.DataFrame({"image": [file.getvalue()] * 2, "text": ["a red square", "a blue square"]})


def register(client: MlflowClient, name: str, kept: Sequence[tuple[Entry, Logged]]) -> dict[str, str]:
    """A version of the registered model for each entry that is logged with a model; gives them by the entries' keys."""
    known = {v.run_id: str(v.version) for v in client.search_model_versions(f"name = '{name}'", max_results=10_000)}
    return {e.key: known.get(found.run) or _version(client, name, e, found) for e, found in kept if found.model}


def registered(client: MlflowClient, experiment: str, project: str) -> str:
    """The name of an experiment's registered model, made if need be; another one's of that name is left alone.

    Raises UserError where the second name is taken, too.
    """
    plain = registered_name(experiment)
    for name in (plain, f"{plain}-{hashlib.sha256(experiment.encode()).hexdigest()[:8]}"):
        found = _found(client, name)
        if found is None:
            tags = {owned.EXPERIMENT: experiment, PROJECT: project}
            client.create_registered_model(name, tags, notes.of_model(experiment))
            return name
        if owned.model(found.tags, experiment):
            if PROJECT not in found.tags:
                client.set_registered_model_tag(name, PROJECT, project)
            return name
    raise UserError(f"registered model {plain}: is not of the experiment {experiment!r}; give another --project")


def _found(client: MlflowClient, name: str) -> Any:
    try:
        return client.get_registered_model(name)
    except MlflowException as error:
        if error.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise
        return None


def _version(client: MlflowClient, name: str, entry: Entry, found: Logged) -> str:
    tags = {k: entry.tags[k] for k in owned.CELL} | {PROJECT: entry.project}
    note = f"{entry.name}: " + ", ".join(f"{name} {value:.4f}" for name, value in sorted(entry.scores.items()))
    source = client.get_logged_model(found.model).artifact_location
    version = client.create_model_version(name, source, found.run, tags, None, note, 0, found.model).version
    versions = [{"name": v.name, "version": str(v.version)} for v in _versions(client, found.run)]
    listed = json.dumps(versions)  # what the UI's list of models reads
    client.set_logged_model_tags(found.model, {"mlflow.modelVersions": listed})
    return str(version)


def _versions(client: MlflowClient, run: str) -> Sequence[Any]:
    return client.search_model_versions(f"run_id = '{run}'")


def hand_over(client: MlflowClient, old: Any, entry: Entry, new: Logged) -> None:
    """Give the run `new` the versions and aliases of `old`, which it replaces: other grids' models may hold them."""
    if not new.model:
        return
    names = {v.name: str(v.version) for v in _versions(client, new.run)}
    for version in _project_versions(client, old):
        number = names.get(version.name) or _version(client, version.name, entry, new)
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


def remove(client: MlflowClient, run: Any, artifacts: Path | None) -> None:
    """Delete the run's versions of registered models, and its logged models with their files.

    A version that somebody registered by hand stays, and with it the model that it names.
    """
    for version in _project_versions(client, run):
        client.delete_model_version(version.name, version.version)
    for model in () if _versions(client, run.info.run_id) else _models(client, run):
        client.delete_logged_model(model.model_id)
        remove_files(model.artifact_location, artifacts, model.model_id)


def _project_versions(client: MlflowClient, run: Any) -> list[Any]:
    versions = _versions(client, run.info.run_id)
    return [v for v in versions if owned.version(v.tags, run.data.tags.get(PROJECT, ""))]


def _models(client: MlflowClient, run: Any) -> Sequence[Any]:
    outputs = run.outputs.model_outputs if run.outputs else []
    return [client.get_logged_model(output.model_id) for output in outputs]


def remove_files(uri: str, artifacts: Path | None, of: str) -> None:
    """Delete the folder of a run or model, which has its id for a name, where it really lies below our own artifacts.

    Folders that are empty then go as well.
    """
    if artifacts is None or not uri.startswith("file:"):
        return
    folder, own = store.local(uri).parent.resolve(), artifacts.resolve()
    if folder.name == of and own in folder.parents:
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            for above in folder.parents[: folder.parents.index(own)]:
                above.rmdir()
