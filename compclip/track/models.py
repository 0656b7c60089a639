"""A checkpoint as a logged and registered model that loads back with `mlflow.pyfunc` and needs no checkout."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from importlib import metadata
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlflow.entities import LoggedModelOutput, LoggedModelStatus
from mlflow.exceptions import MlflowException
from mlflow.models import Model, ModelSignature
from mlflow.types import ColSpec, Schema

from compclip.base import code
from compclip.track import notes
from compclip.track.entries import Entry

if TYPE_CHECKING:
    from mlflow import MlflowClient

PACKAGES = ("mlflow", "numpy", "open_clip_torch", "pandas", "pillow", "safetensors", "torch", "torchvision")


def registered_name(experiment: str) -> str:
    """The registered model of an experiment, a name that MLflow's addresses can hold."""
    return experiment.replace(": ", "-").replace(", ", "+").replace(" ", "-").replace("/", "_").replace(":", "_")


def create(client: MlflowClient, entry: Entry, run: str, experiment: str) -> str:
    """An empty logged model of the run; metrics can name it before its files are there. Gives its id."""
    name = "".join(c if c.isalnum() or c in "-_" else "_" for c in entry.name)
    tags = {k: entry.tags[k] for k in ("method", "backbone", "data", "seed", "run_key")}
    params = {k: v for k, v in entry.params.items() if k.startswith(("method", "train.lr"))}
    model = client.create_logged_model(experiment, name, run, tags, params, "checkpoint").model_id
    client.log_outputs(run, [LoggedModelOutput(model, step=0)])
    return model


def upload(client: MlflowClient, entry: Entry, run: str, model: str) -> None:
    """Fill the logged model with checkpoint, code, signature and example."""
    with tempfile.TemporaryDirectory() as folder:
        save(entry.checkpoint, Path(folder) / "model", Model(run_id=run, model_id=model, model_uuid=model))
        client.log_model_artifacts(model, str(Path(folder) / "model"))
    client.finalize_logged_model(model, LoggedModelStatus.READY)


def save(checkpoint: Path, target: Path, header: Model | None = None) -> None:
    """Write a checkpoint as an MLflow model to the folder `target`."""
    import mlflow.pyfunc

    from compclip.track import scorer  # what track depends on, and torch, which nothing else here needs

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


def signature() -> ModelSignature:
    """A picture (path or bytes; base64 over HTTP) and a text give one number."""
    return ModelSignature(Schema([ColSpec("binary", "image"), ColSpec("string", "text")]), Schema([ColSpec("double")]))


def _example() -> Any:
    import pandas as pd
    from PIL import Image

    file = BytesIO()
    Image.new("RGB", (32, 32), "red").save(file, "PNG")
    return pd.DataFrame({"image": [file.getvalue()] * 2, "text": ["a red square", "a blue square"]})


def register(client: MlflowClient, name: str, experiment: str, runs: Mapping[str, Any]) -> dict[str, str]:
    """A version of the registered model for each MLflow run with a model; gives the versions by key of `runs`."""
    _registered(client, name, experiment)
    known = {v.run_id: str(v.version) for v in client.search_model_versions(f"name = '{name}'", max_results=10_000)}
    found = {}
    for key, run in runs.items():
        if (model := _model_of(run)) is None:
            continue
        found[key] = known.get(run.info.run_id) or _version(client, name, run, model)
    return found


def _registered(client: MlflowClient, name: str, experiment: str) -> None:
    try:
        client.get_registered_model(name)
    except MlflowException as error:
        if error.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise
        client.create_registered_model(name, {"experiment": experiment}, notes.of_model(experiment))


def _version(client: MlflowClient, name: str, run: Any, model: str) -> str:
    tags = {k: run.data.tags[k] for k in ("method", "backbone", "data", "seed") if k in run.data.tags}
    shown = (f"{m.partition('/')[2]} {v:.4f}" for m, v in sorted(run.data.metrics.items()) if m.startswith("score/"))
    note = f"{run.info.run_name}: {', '.join(shown)}"
    source = client.get_logged_model(model).artifact_location
    version = client.create_model_version(name, source, run.info.run_id, tags, None, note, 0, model).version
    listed = json.dumps([{"name": name, "version": str(version)}])  # what the UI's list of models reads
    client.set_logged_model_tags(model, {"mlflow.modelVersions": listed})
    return str(version)


def _model_of(run: Any) -> str | None:
    outputs = run.outputs.model_outputs if run.outputs else []
    return outputs[0].model_id if outputs else None


def set_aliases(client: MlflowClient, name: str, versions: Mapping[str, str]) -> None:
    """Make the aliases of a registered model exactly these; one that already points right stays untouched."""
    old = dict(client.get_registered_model(name).aliases)
    for alias, version in versions.items():
        if str(old.get(alias)) != str(version):
            client.set_registered_model_alias(name, alias, str(version))
    for alias in old.keys() - versions.keys():
        if alias.startswith("best-"):
            client.delete_registered_model_alias(name, alias)


def remove(client: MlflowClient, run: Any, artifacts: Path | None) -> None:
    """Delete the run's versions of registered models, and its logged models with their files."""
    for version in client.search_model_versions(f"run_id = '{run.info.run_id}'"):
        client.delete_model_version(version.name, version.version)
    for model in _models(client, run):
        client.delete_logged_model(model.model_id)
        remove_files(model.artifact_location, artifacts)


def _models(client: MlflowClient, run: Any) -> Sequence[Any]:
    outputs = run.outputs.model_outputs if run.outputs else []
    return [client.get_logged_model(output.model_id) for output in outputs]


def remove_files(uri: str, artifacts: Path | None) -> None:
    """Delete the folder above `artifacts` of a run or model where it lies below our own artifact folder."""
    folder = Path(uri.removeprefix("file://")).parent
    if artifacts and folder.is_relative_to(artifacts) and folder != artifacts:
        shutil.rmtree(folder, ignore_errors=True)
