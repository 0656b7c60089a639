"""The one writer of a store: it adds, replaces and removes the MLflow runs of one project.

Experiments and our runs are asked for once, whatever the number of entries. A checkpoint becomes a logged model of
the same files.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
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
from mlflow.models import Model
from mlflow.utils import chunk_list, get_results_from_paginated_fn

from compclip.base import links
from compclip.base.errors import UserError
from compclip.runs.result_files import FinishedRun
from compclip.runs.run_folder import VALIDATION
from compclip.track import entries, tracking_store
from compclip.track.entries import COMPLETE, CONTENT, KEY, NOTE, EntryOptions, LiveRun, MetricPoint, MlflowEntry
from compclip.track.tracking_store import PROJECT

if TYPE_CHECKING:
    from mlflow import MlflowClient

MLMODEL = "MLmodel"
UPLOAD_BYTES = 64 * 2**20
PARENT = "mlflow.parentRunId"
TABLES = "mlflow.loggedArtifacts"  # where the UI looks for tables
# of a run that is under way; how far it was logged
LIVE = "mlflow.compclip.live"
STEP = "mlflow.compclip.step"
MODEL_TAGS = ("method", "backbone", "data", "seed", "run_key", "checkpoint")


class LoggedRun(NamedTuple):
    """The ids of an MLflow run and of its logged model, empty where there is none; `is_new`: this writer logged it."""

    run: str = ""
    model: str = ""
    is_new: bool = False


class StoreWriter:
    """Adds, replaces and removes the MLflow runs of one project.

    `tracked_runs` are those there were, by their entries' keys. `artifacts` is where their files are; None: a server
    keeps them. What is removed or hidden has the project's tag.
    """

    def __init__(self, client: MlflowClient, project: str, artifacts: Path | None) -> None:
        self._client = client
        self._project = project
        self._artifacts = artifacts
        # the filter takes `_` for any character, and finds others' experiments as well
        experiments = _read_pages(client.search_experiments, filter_string=f"name LIKE '{project}: %'")
        self._experiments = {e.name: e for e in experiments if e.name.startswith(f"{project}: ")}
        self._moved_away = {e.experiment_id for e in experiments if self._set_aside(e)}
        self.tracked_runs = self._find_tracked()
        self._logged: dict[str, LoggedRun] = {}
        self.counts: Counter[str] = Counter()

    def update_entry(self, entry: MlflowEntry, anew: bool = False) -> None:
        """Bring one entry up to date; `anew` logs it in any case. What replaces is complete before the old run goes."""
        old = self.tracked_runs.pop(entry.key, [])  # more than one where writers did not share a lock
        parent = self._logged.get(entry.parent, LoggedRun())
        current = next((run for run in old if not anew and self._is_current(run, entry)), None)
        if current:
            self.counts["unchanged"] += 1
            outputs = current.outputs.model_outputs if current.outputs else []
            logged = LoggedRun(current.info.run_id, outputs[0].model_id if outputs else "")
            if parent.run and current.data.tags.get(PARENT) != parent.run:  # the row above it was logged anew
                self._client.set_tag(logged.run, PARENT, parent.run)
        else:
            self.counts["replaced" if old and not anew else "added"] += 1
            experiment = self._ensure_experiment(entry.experiment)
            logged = write_run(self._client, entry, experiment, parent.run, self._artifacts is not None)
        if logged.model and parent.is_new:  # a row names the models of its seeds
            self._client.log_outputs(parent.run, [LoggedModelOutput(logged.model, step=0)])
        for run in old:
            if run.info.run_id != logged.run:
                remove_run(self._client, run, self._artifacts)
        self._logged[entry.key] = logged

    def update_live(self, live_runs: Sequence[LiveRun], experiment_name: str, anew: bool) -> None:
        """Bring the runs that are not published yet up to date; those that are published, or gone, go.

        `anew`: all that are there go, and so do the runs that no entry was brought for.
        """
        shown = {run.key: run for run in live_runs}
        experiment = self._ensure_experiment(experiment_name) if shown else ""
        logged = {}
        for key, runs in self.tracked_runs.items():
            for run in runs if anew or key.startswith(entries.PREFIX) else ():
                if not anew and key in shown and key not in logged and run.info.experiment_id == experiment:
                    logged[key] = run
                else:  # also one of a writer that shared no lock, and one of a grid that had another name
                    remove_run(self._client, run, self._artifacts)
        for key, live_run in shown.items():
            update_live_run(self._client, experiment, live_run, logged.get(key), self._project)

    def describe_experiment(self, options: EntryOptions, methods: Sequence[str], runs: Sequence[FinishedRun]) -> None:
        """Update the experiment's description and its views."""
        experiment = self._experiments[options.experiment]
        number = experiment.experiment_id
        curves = tracking_store.address(number, tracking_store.CURVES)
        links = f"Open [the methods]({tracking_store.address(number)}) or [the curves]({curves})."
        tags = tracking_store.make_tags(list(options.headline_of))
        tags[NOTE] = entries.describe_grid(methods, runs, links, options.notice)
        for key, value in tags.items():
            if experiment.tags.get(key) != value:
                self._client.set_experiment_tag(number, key, value)

    def drop_empty(self) -> None:
        """Hide experiments of ours whose runs have all moved elsewhere."""
        for experiment in self._experiments.values():
            is_ours = experiment.tags.get(PROJECT) == self._project
            if is_ours and not self._client.search_runs([experiment.experiment_id], max_results=1):
                self._client.delete_experiment(experiment.experiment_id)

    def experiment(self, name: str) -> str:
        """Return the id of an experiment of ours; empty where there is none."""
        return self._experiments[name].experiment_id if name in self._experiments else ""

    def _is_current(self, run: Any, entry: MlflowEntry) -> bool:
        """Return whether a run was logged whole, from these files, and where it belongs.

        A run outside of the grid stays as its own grid had it logged.
        """
        tags = run.data.tags
        if tags.get(COMPLETE) != "true" or run.info.experiment_id in self._moved_away:
            return False
        is_there = run.info.experiment_id == self.experiment(entry.experiment)
        return not entry.at_home or (is_there and tags.get(CONTENT) == entry.content)

    def _find_tracked(self) -> dict[str, list[Any]]:
        """Find our runs in the store by key: those that carry the project's tag."""
        runs: dict[str, list[Any]] = {}
        ids = [experiment.experiment_id for experiment in self._experiments.values()]
        for run in _read_pages(self._client.search_runs, experiment_ids=ids) if ids else ():
            tags = run.data.tags
            if tags.get(PROJECT) == self._project and KEY in tags:
                runs.setdefault(tags[KEY], []).append(run)
        return runs

    def _lies_elsewhere(self, experiment: Any) -> bool:
        return self._artifacts is not None and not is_below(experiment.artifact_location, self._artifacts)

    def _set_aside(self, experiment: Any) -> bool:
        """Take the name from an experiment of ours whose files do not lie beside the SQLite file any more.

        The project was moved or copied: its runs are logged again, in one that is made anew. Of another database it may
        be another checkout's. Returns whether it was such a one.
        """
        is_sqlite = tracking_store.sqlite_file(self._client.tracking_uri) is not None
        is_ours = experiment.tags.get(PROJECT) == self._project
        if not (is_sqlite and is_ours and self._lies_elsewhere(experiment)):
            return False
        former_name = f"{experiment.name} ({experiment.experiment_id})"
        self._client.rename_experiment(experiment.experiment_id, former_name)
        self._experiments[former_name] = self._experiments.pop(experiment.name)
        return True

    def _ensure_experiment(self, name: str) -> str:
        """Return the id of an experiment, made or brought back where need be.

        Raises UserError for one whose files lie elsewhere than in our own folder.
        """
        experiment = self._experiments.get(name) or self._client.get_experiment_by_name(name)
        if experiment is None:
            folder = name.partition(": ")[2].replace(", ", "+").replace(" ", "-").replace("/", "_")
            tags = {"mlflow.experimentKind": "custom_model_development", PROJECT: self._project}
            artifact_uri = (self._artifacts / "0001" / folder).as_uri() if self._artifacts else None
            experiment = self._client.get_experiment(self._client.create_experiment(name, artifact_uri, tags))
        elif experiment.lifecycle_stage == "deleted":
            self._client.restore_experiment(experiment.experiment_id)
            experiment = self._client.get_experiment(experiment.experiment_id)
        if self._lies_elsewhere(experiment):
            raise UserError(
                f"experiment {name!r}: its files lie in {experiment.artifact_location}, outside of "
                f"{self._artifacts}; give another --project, or track where that is"
            )
        self._experiments[name] = experiment
        return str(experiment.experiment_id)


def _read_pages(search: Callable[..., Any], **arguments: Any) -> list[Any]:
    """Return everything that a search of MLflow's finds, page by page."""

    def read_page(count: int, token: str | None) -> Any:
        return search(max_results=count, page_token=token, **arguments)

    return get_results_from_paginated_fn(read_page, 1000)


def append_live(client: MlflowClient, options: EntryOptions, live_runs: Iterable[LiveRun]) -> bool:
    """Log what runs that are not published yet have gained; nothing is asked of other runs.

    Return False where the experiment is not there (any more).
    """
    experiment = client.get_experiment_by_name(options.experiment)
    if experiment is None or experiment.lifecycle_stage == "deleted":
        return False
    ours = f"tags.`{LIVE}` = 'true' AND tags.`{PROJECT}` = '{options.project}'"
    number = experiment.experiment_id
    logged_runs = _read_pages(client.search_runs, experiment_ids=[number], filter_string=ours)
    logged = {run.data.tags[KEY]: run for run in logged_runs}
    for run in live_runs:
        update_live_run(client, number, run, logged.get(run.key), options.project)
    return True


def update_live_run(client: MlflowClient, experiment: str, live_run: LiveRun, logged: Any, project: str) -> None:
    """Bring a run that is not published yet up to date: what it is, what its curve gained, its status, in this order.

    The tag of the last step is written behind the points: a writer that is killed logs at most the same points again,
    which MLflow keeps once.
    """
    tags = live_run.tags | {KEY: live_run.key, PROJECT: project, LIVE: "true"}
    if logged is None:
        logged = client.create_run(experiment, round(1000 * live_run.start), tags, live_run.run.name)
    run_id = logged.info.run_id
    old_tags = logged.data.tags
    if STEP not in old_tags:
        log_params(client, run_id, entries.flatten_config(dict(live_run.run.resolved)))
    last = int(old_tags.get(STEP, 0))
    rows = live_run.read_rows(last)
    tags[STEP] = str(rows[-1]["step"] if rows else last)
    log_points(client, run_id, entries.curve_points(rows))
    changed = [RunTag(name, value) for name, value in tags.items() if old_tags.get(name) != value]
    if changed:
        client.log_batch(run_id, tags=changed)
    if logged.info.status != live_run.status:
        if live_run.status in entries.UNDER_WAY:
            client.update_run(run_id, live_run.status)
        else:
            client.set_terminated(run_id, live_run.status, round(1000 * live_run.end))


def write_run(client: MlflowClient, entry: MlflowEntry, experiment: str, parent: str, link: bool) -> LoggedRun:
    """Log an entry; the tag `complete` comes last and marks it whole. `link`: files are linked, and not uploaded."""
    tags = {**entry.tags, KEY: entry.key, PROJECT: entry.project, CONTENT: entry.content, NOTE: entry.note}
    if parent:
        tags[PARENT] = parent
    info = client.create_run(experiment, round(1000 * entry.start), tags, entry.name).info
    checkpoint = entry.checkpoint
    if checkpoint and not link:  # of a large one a server has the name alone, in a tag
        size = sum(path.stat().st_size for path in checkpoint.rglob("*") if path.is_file())
        checkpoint = checkpoint if size <= UPLOAD_BYTES else None
    model = create_model(client, entry, info.run_id, experiment) if checkpoint else None
    logged = LoggedRun(info.run_id, model.model_id if model else "", is_new=True)
    inputs = []
    for use in entry.datasets:
        counts = json.dumps(json.loads(use.source).get("counts") or {})
        dataset = Dataset(use.name, use.digest, "code", use.source, profile=counts)
        inputs.append(DatasetInput(dataset, [InputTag("mlflow.data.context", use.context)]))
    if inputs:
        client.log_inputs(logged.run, inputs)
    log_params(client, logged.run, entry.params)
    log_points(client, logged.run, entry.values, entry, logged.model)
    for name, path in entry.files.items():
        if link:
            links.link_or_copy(path, tracking_store.path_of_uri(info.artifact_uri) / name)
        else:
            client.log_artifact(info.run_id, str(path), name.rpartition("/")[0] or None)
    for table_path, table in entry.tables.items():
        client.log_text(logged.run, json.dumps(table, ensure_ascii=False), table_path)
    if entry.tables:
        client.set_tag(logged.run, TABLES, json.dumps([{"path": path, "type": "table"} for path in entry.tables]))
    if model and checkpoint:
        fill_model(client, checkpoint, model, link)
    client.set_terminated(logged.run, entry.status, round(1000 * entry.end))
    client.set_tag(logged.run, COMPLETE, "true")
    return logged


def log_params(client: MlflowClient, run: str, params: Mapping[str, str]) -> None:
    """Log parameters; the same ones may be logged again."""
    for chunk in chunk_list([Param(name, text) for name, text in params.items()], 100):  # MLflow's limits for a call
        client.log_batch(run, params=chunk)


def log_points(
    client: MlflowClient, run: str, points: Iterable[MetricPoint], entry: MlflowEntry | None = None, model: str = ""
) -> None:
    """Log the finite points; those of a checkpoint also belong to the entry's logged `model`, with their data."""
    uses = entry.datasets if entry else ()
    digests = {use.name: use.digest for use in uses if use.context == "evaluation"}
    metrics = []
    for point in points:
        of_model = {}
        if model and not point.name.startswith(("train/", "system/", VALIDATION)):
            of_model["model_id"] = model
            if point.dataset:
                of_model |= {"dataset_name": point.dataset, "dataset_digest": digests[point.dataset]}
        if isinstance(point.value, (int, float)) and math.isfinite(point.value):
            metrics.append(Metric(point.name, float(point.value), round(1000 * point.time), point.step, **of_model))
    for chunk in chunk_list(metrics, 1000):
        client.log_batch(run, metrics=chunk)


def create_model(client: MlflowClient, entry: MlflowEntry, run: str, experiment: str) -> LoggedModel:
    """Create an empty logged model of the run; metrics can name it before its files are there."""
    name = re.sub(r"[^\w-]", "_", entry.name)
    tags = {k: entry.tags[k] for k in MODEL_TAGS} | {PROJECT: entry.project}
    params = {k: v for k, v in entry.params.items() if k.startswith(("method", "train.lr"))}
    model = client.create_logged_model(experiment, name, run, tags, params, "checkpoint")
    client.log_outputs(run, [LoggedModelOutput(model.model_id, step=0)])
    return model


def fill_model(client: MlflowClient, checkpoint: Path, model: LoggedModel, link: bool) -> None:
    """Give the logged model its files: those of the checkpoint, as open_clip's `local-dir:` reads them."""
    if link:
        links.link_or_copy(checkpoint, tracking_store.path_of_uri(model.artifact_location))
    else:
        client.log_model_artifacts(model.model_id, str(checkpoint))
    header = Model(
        run_id=model.source_run_id, model_id=model.model_id, model_uuid=model.model_id, flavors={"open_clip": {}}
    )
    with tempfile.TemporaryDirectory() as folder:
        header.save(f"{folder}/{MLMODEL}")
        client.log_model_artifact(model.model_id, f"{folder}/{MLMODEL}")
    client.finalize_logged_model(model.model_id, LoggedModelStatus.READY)


def remove_run(client: MlflowClient, run: Any, artifacts: Path | None) -> None:
    """Delete a run with its models and their files in our own artifact folder; a server's files are its own matter.

    A version that somebody registered by hand stays, and with it the model that it names.
    """
    run_id = run.info.run_id
    if run.outputs and not client.search_model_versions(f"run_id = '{run_id}'"):
        for output in run.outputs.model_outputs:
            model = client.get_logged_model(output.model_id)
            if model.source_run_id == run_id:  # a row names the models of its seeds
                client.delete_logged_model(model.model_id)
                remove_files(model.artifact_location, artifacts, model.model_id)
    client.delete_run(run_id)
    remove_files(run.info.artifact_uri, artifacts, run_id)


def is_below(uri: str, folder: Path) -> bool:
    """Return whether a `file://` address really lies below a folder."""
    return uri.startswith("file:") and folder.resolve() in tracking_store.path_of_uri(uri).resolve().parents


def remove_files(uri: str, artifacts: Path | None, folder_id: str) -> None:
    """Delete the folder of a run or model, which has its id for a name, where it really lies below our own artifacts.

    Folders that are empty then go as well.
    """
    if artifacts is None or not is_below(uri, artifacts):
        return
    folder = tracking_store.path_of_uri(uri).parent.resolve()
    if folder.name == folder_id:
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            for above in folder.parents[: folder.parents.index(artifacts.resolve())]:
                above.rmdir()
