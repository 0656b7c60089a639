"""Brings one store up to date: its experiments and our runs are asked for once, whatever the number of entries."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compclip.track import descriptions, headline_scores
from compclip.track import entries as track_entries
from compclip.track.entries import EntryOptions, MlflowEntry
from compclip.track.headline_scores import ScoredRun
from compclip.track.run_summaries import RunSummary

if TYPE_CHECKING:
    from mlflow import MlflowClient

    from compclip.track.mlflow_models import LoggedRun, ModelTemplate


# The ready-made comparison of an experiment: MLflow's shared view, which its UI opens by a key in the address.
VIEW = "comparison"
VIEW_TAG = f"mlflow.sharedViewState.{VIEW}"
UI_MODE = "workflowType=machine_learning"  # without it the UI opens on its pages for language-model applications


@dataclass(frozen=True)
class TrackedProject:
    """Everything that the store is made from; `whole`: the stamp of what it holds may be written."""

    entries: tuple[MlflowEntry, ...]
    cells: tuple[RunSummary, ...]
    options: EntryOptions
    methods: tuple[str, ...] = ()
    is_complete: bool = True
    grid: tuple[ScoredRun, ...] = ()


class StoreWriter:
    """Adds, replaces and removes the MLflow runs of one project; `known`: those there were, by their entries' keys.

    `artifacts` is where their files are; None: a server keeps them. What is removed or hidden has the project's tag.
    """

    def __init__(self, client: MlflowClient, project: str, artifacts: Path | None, template: ModelTemplate) -> None:
        self._client, self._artifacts, self._template = client, artifacts, template
        self._project = project
        experiments = _find_experiments(client, project)
        self._ids = {e.name: e.experiment_id for e in experiments}
        self.tracked_runs = self._find_tracked()
        self._project_experiments = {
            e.experiment_id for e in experiments if e.tags.get(track_entries.PROJECT) == project
        }
        self._adopt({e.experiment_id for e in experiments if track_entries.PROJECT not in e.tags})
        self._logged: dict[str, LoggedRun] = {}
        self.counts: Counter[str] = Counter()

    def remove_stale(self) -> None:
        """Remove the runs with the project's tag that no entry was brought for."""
        for run in (run for runs in self.tracked_runs.values() for run in runs):
            if run.data.tags.get(track_entries.PROJECT) == self._project:
                self._remove(run)
        self.tracked_runs = {}

    def update_entry(self, entry: MlflowEntry, anew: bool = False) -> None:
        """Bring one entry up to date; `anew` logs it in any case. What replaces is complete before the old run goes."""
        from compclip.track import mlflow_models, mlflow_runs

        old = self.tracked_runs.pop(entry.key, [])
        current = [] if anew else [run for run in old if self._is_current(run, entry)]
        self.counts["unchanged" if current else "replaced" if old and not anew else "added"] += 1
        logged = mlflow_runs.logged_ids(current[0]) if current else self._write(entry)
        if current:
            self._refresh(current[0], entry)
        for run in old:
            if run.info.run_id != logged.run:
                mlflow_models.hand_over(self._client, run, entry, logged)
                self._remove(run)
        self._logged[entry.key] = logged

    def finish(self, project: TrackedProject) -> None:
        """Update the versions and aliases of the grid's checkpoints, the experiment's description and its view."""
        from compclip.track import mlflow_models

        logged_entries = [
            (entry, self._logged[entry.key]) for entry in project.entries if entry.at_home and entry.checkpoint
        ]
        best, name = headline_scores.find_winners(project.grid), ""
        if logged_entries:
            name = mlflow_models.ensure_registered(self._client, project.options.experiment, self._project)
            versions = mlflow_models.register_versions(self._client, name, logged_entries)
            keys = {b: f"cell/{run.cell.name}" for b, (run, _) in best.items()}
            aliases = {descriptions.best_alias(b): versions.get(key) for b, key in keys.items()}
            mlflow_models.set_aliases(self._client, name, aliases)
            best = {b: winner for b, winner in best.items() if keys[b] in versions}
        note = descriptions.describe_grid(
            project.methods, [run for run, _ in project.grid], best if logged_entries else {}, name
        )
        self._describe(project.options.experiment, {descriptions.TAG: note, **view_tags(_score_names(project))})

    def drop_empty(self) -> None:
        """Hide experiments of ours whose runs have all moved elsewhere."""
        for experiment in self._project_experiments:
            if not self._client.search_runs([experiment], max_results=1):
                self._client.delete_experiment(experiment)

    def experiment(self, name: str) -> str:
        """Return the id of an experiment of ours; empty where there is none."""
        return self._ids.get(name, "")

    def _write(self, entry: MlflowEntry) -> LoggedRun:
        from compclip.track import mlflow_runs

        parent = self._logged[entry.parent].run if entry.parent in self._logged else ""
        self.counts["skipped"] += len(entry.values) - len(entry.finite)
        return mlflow_runs.write_run(
            self._client, entry, self._ensure_experiment(entry), parent, self._template, self._artifacts is not None
        )

    def _is_current(self, run: Any, entry: MlflowEntry) -> bool:
        """Return whether a run was logged whole, from these files, and where it belongs.

        A run outside of the grid stays as its own grid had it logged, with that one's columns and versions.
        """
        tags = run.data.tags
        if tags.get(track_entries.COMPLETE) != "true":
            return False
        if not entry.at_home and tags.get(track_entries.FILES) == entry.files_stamp:
            return True
        unchanged = tags.get(track_entries.CONTENT) == entry.content
        return unchanged and (not entry.at_home or run.info.experiment_id == self._ids.get(entry.experiment))

    def _refresh(self, run: Any, entry: MlflowEntry) -> None:
        """Update what can be changed in a logged run: its description, and the run above it."""
        from compclip.track import mlflow_runs

        tags = {descriptions.TAG: entry.note, track_entries.PROJECT: entry.project}
        if entry.parent in self._logged:
            tags[mlflow_runs.PARENT] = self._logged[entry.parent].run
        for key, value in tags.items():
            if run.data.tags.get(key) != value:
                self._client.set_tag(run.info.run_id, key, value)

    def _remove(self, run: Any) -> None:
        from compclip.track import mlflow_runs

        mlflow_runs.remove_run(self._client, run, self._artifacts.parent if self._artifacts else None)

    def _find_tracked(self) -> dict[str, list[Any]]:
        """Find our runs in the store by key; more than one of a key only where writers did not share a lock."""
        runs: dict[str, list[Any]] = {}
        token, ids = None, list(self._ids.values())
        while ids:
            page = self._client.search_runs(ids, max_results=1000, page_token=token)
            for run in page:
                if track_entries.owns_run(run.data.tags, self._project):
                    runs.setdefault(_entry_key(run), []).append(run)
            token = page.token
            if not token:
                break
        return runs

    def _adopt(self, untagged: set[str]) -> None:
        """Tag experiments of our name that hold our runs and were made before there were tags."""
        for experiment in untagged & {run.info.experiment_id for runs in self.tracked_runs.values() for run in runs}:
            self._client.set_experiment_tag(experiment, track_entries.PROJECT, self._project)
            self._project_experiments.add(experiment)

    def _ensure_experiment(self, entry: MlflowEntry) -> str:
        """Return the entry's experiment, made or brought back where need be."""
        name = entry.experiment
        if name not in self._ids:
            self._ids[name] = self._restore_experiment(name) or self._create_experiment(name)
        return self._ids[name]

    def _restore_experiment(self, name: str) -> str:
        experiment = self._client.get_experiment_by_name(name)
        if experiment is None:
            return ""
        if experiment.lifecycle_stage == "deleted":
            self._client.restore_experiment(experiment.experiment_id)
        if experiment.tags.get(track_entries.PROJECT) == self._project:
            self._project_experiments.add(experiment.experiment_id)
        return experiment.experiment_id

    def _create_experiment(self, name: str) -> str:
        folder = name.partition(": ")[2].replace(", ", "+").replace(" ", "-").replace("/", "_")
        tags = {"mlflow.experimentKind": "custom_model_development", track_entries.PROJECT: self._project}
        artifact_uri = (self._artifacts / folder).as_uri() if self._artifacts else None
        experiment_id = self._client.create_experiment(name, artifact_uri, tags)
        self._project_experiments.add(experiment_id)
        return experiment_id

    def _describe(self, name: str, tags: dict[str, str]) -> None:
        experiment = self._client.get_experiment(self._ids[name])
        for key, value in tags.items():
            if experiment.tags.get(key) != value:
                self._client.set_experiment_tag(experiment.experiment_id, key, value)


def _entry_key(run: Any) -> str:
    """Return the entry that a run of ours was made from. Stores of old have the name alone."""
    return run.data.tags.get(track_entries.KEY) or f"cell/{run.info.run_name}"


def _find_experiments(client: MlflowClient, project: str) -> list[Any]:
    """Find the experiments of the project's name. The filter takes `_` for any character, and finds others' as well."""
    experiments: list[Any] = []
    token = None
    while token != "":
        page = client.search_experiments(filter_string=f"name LIKE '{project}: %'", max_results=1000, page_token=token)
        experiments += [e for e in page if track_entries.has_project_name(e.name, project)]
        token = page.token or ""
    return experiments


def _score_names(project: TrackedProject) -> list[str]:
    """Return the names of the grid's whole-benchmark numbers, the summary's first."""
    return list(dict.fromkeys(name for _, scores in project.grid for name in scores))


def view_tags(scores: Sequence[str]) -> dict[str, str]:
    """Return the experiment tag that holds the view: a row a cell, the best `comp` first, every score, method and seed.

    Sweeps are left out: sorted by a score, the UI would show their trials among the cells.
    """
    columns = [f"metrics.`score/{name}`" for name in scores] + ["params.`method`", "params.`seed`"]
    state = {"orderByKey": columns[0] if scores else "", "orderByAsc": False, "selectedColumns": columns,
             "searchFilter": "tags.kind = 'cell'", "startTime": "ALL", "lifecycleFilter": "Active"}  # fmt: skip
    return {VIEW_TAG: json.dumps(state)}


def view_address(server: str, experiment: str) -> str:
    """Return where a server's UI shows the view; without an experiment, the list of them."""
    if not experiment:
        return f"{server}/#/experiments?{UI_MODE}"
    return f"{server}/#/experiments/{experiment}/runs?viewStateShareKey={VIEW}&{UI_MODE}"
