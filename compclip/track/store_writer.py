"""Bring one store up to date: its experiments and our runs are asked for once, whatever the number of entries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compclip.base.errors import UserError
from compclip.track import descriptions, live_writer, mlflow_runs, tracking_store
from compclip.track.entries import COMPLETE, CONTENT, FILES, KEY, MlflowEntry, TrackedProject, find_winners
from compclip.track.mlflow_runs import LoggedRun, ModelTemplate
from compclip.track.tracking_store import PROJECT

if TYPE_CHECKING:
    from mlflow import MlflowClient


class StoreWriter:
    """Adds, replaces and removes the MLflow runs of one project.

    `tracked_runs` are those there were, by their entries' keys. `artifacts` is where their files are; None: a server
    keeps them. What is removed or hidden has the project's tag.
    """

    def __init__(self, client: MlflowClient, project: str, artifacts: Path | None, template: ModelTemplate) -> None:
        self._client, self._artifacts, self._template = client, artifacts, template
        self._project = project
        # the filter takes `_` for any character, and finds others' experiments as well
        experiments = _read_pages(client.search_experiments, filter_string=f"name LIKE '{project}: %'")
        experiments = [e for e in experiments if e.name.startswith(f"{project}: ")]
        self._experiments = {e.name: e for e in experiments}
        self.tracked_runs = self._find_tracked()
        self._project_experiments = {e.experiment_id for e in experiments if e.tags.get(PROJECT) == project}
        # an experiment of our name that holds our runs and was made before there were tags gets one
        used = {run.info.experiment_id for runs in self.tracked_runs.values() for run in runs}
        for experiment in used & {e.experiment_id for e in experiments if PROJECT not in e.tags}:
            client.set_experiment_tag(experiment, PROJECT, project)
            self._project_experiments.add(experiment)
        self._logged: dict[str, LoggedRun] = {}
        self.counts: Counter[str] = Counter()

    def remove_stale(self) -> None:
        """Remove the runs with the project's tag that no entry was brought for."""
        for run in (run for runs in self.tracked_runs.values() for run in runs):
            if run.data.tags.get(PROJECT) == self._project:
                self._remove(run)
        self.tracked_runs = {}

    def update_live(self, project: TrackedProject) -> None:
        """Bring the runs that are not published yet up to date; those that are published, or gone, go."""
        live = {run.key: run for run in project.live if run.has_begun}
        home = self._ensure_experiment(project.options.experiment) if live else ""
        logged: dict[str, Any] = {}
        for key, run in live_writer.select_live(self.tracked_runs):
            if key in live and key not in logged and run.info.experiment_id == home:
                logged[key] = run
            else:  # also one of a writer that shared no lock, and one of a grid that had another name
                self._remove(run)
        live_writer.update_live_runs(self._client, home, live.values(), logged, self._project)

    def update_entry(self, entry: MlflowEntry, anew: bool = False) -> None:
        """Bring one entry up to date; `anew` logs it in any case. What replaces is complete before the old run goes."""
        old = self.tracked_runs.pop(entry.key, [])
        current = [] if anew else [run for run in old if self._is_current(run, entry)]
        self.counts["unchanged" if current else "replaced" if old and not anew else "added"] += 1
        logged = mlflow_runs.logged_ids(current[0]) if current else self._write(entry)
        if current:
            self._refresh(current[0], entry)
        for run in old:
            if run.info.run_id != logged.run:
                mlflow_runs.hand_over(self._client, run, entry, logged)
                self._remove(run)
        self._logged[entry.key] = logged

    def finish(self, project: TrackedProject) -> None:
        """Update the versions and aliases of the grid's checkpoints, the experiment's description and its view."""
        logged_entries = [
            (entry, self._logged[entry.key]) for entry in project.entries if entry.at_home and entry.checkpoint
        ]
        best, name = find_winners(project.grid), ""
        if logged_entries:
            name = mlflow_runs.ensure_registered(self._client, project.options.experiment, self._project)
            versions = mlflow_runs.register_versions(self._client, name, logged_entries)
            keys = {b: f"cell/{run.cell.name}" for b, (run, _) in best.items()}
            aliases = {descriptions.best_alias(b): versions.get(key) for b, key in keys.items()}
            mlflow_runs.set_aliases(self._client, name, aliases)
            best = {b: winner for b, winner in best.items() if keys[b] in versions}
        note = descriptions.describe_grid(
            project.methods, [run for run, _ in project.grid], best if logged_entries else {}, name
        )
        scores = list(dict.fromkeys(name for _, scores in project.grid for name in scores))  # the summary's first
        experiment = self._experiments[project.options.experiment]
        for key, value in {descriptions.TAG: note, **descriptions.view_tags(scores)}.items():
            if experiment.tags.get(key) != value:
                self._client.set_experiment_tag(experiment.experiment_id, key, value)

    def drop_empty(self) -> None:
        """Hide experiments of ours whose runs have all moved elsewhere."""
        for experiment in self._project_experiments:
            if not self._client.search_runs([experiment], max_results=1):
                self._client.delete_experiment(experiment)

    def experiment(self, name: str) -> str:
        """Return the id of an experiment of ours; empty where there is none."""
        return self._experiments[name].experiment_id if name in self._experiments else ""

    def _write(self, entry: MlflowEntry) -> LoggedRun:
        parent = self._logged[entry.parent].run if entry.parent in self._logged else ""
        self.counts["skipped"] += len(entry.values) - len(entry.finite)
        experiment, link = self._ensure_experiment(entry.experiment), self._artifacts is not None
        return mlflow_runs.write_run(self._client, entry, experiment, parent, self._template, link)

    def _is_current(self, run: Any, entry: MlflowEntry) -> bool:
        """Return whether a run was logged whole, from these files, and where it belongs.

        A run outside of the grid stays as its own grid had it logged, with that one's columns and versions.
        """
        tags = run.data.tags
        if tags.get(COMPLETE) != "true" or not self._has_files(run, entry):
            return False
        if not entry.at_home and tags.get(FILES) == entry.files_stamp:
            return True
        unchanged = tags.get(CONTENT) == entry.content
        return unchanged and (not entry.at_home or run.info.experiment_id == self.experiment(entry.experiment))

    def _has_files(self, run: Any, entry: MlflowEntry) -> bool:
        """Return whether our own folder has the files of a run and of its model; a server's are its own matter."""
        if self._artifacts is None:
            return True
        folder, model = tracking_store.path_of_uri(run.info.artifact_uri), mlflow_runs.logged_ids(run).model
        paths = [folder / name for name in entry.files]
        if model:
            location = self._client.get_logged_model(model).artifact_location
            paths.append(tracking_store.path_of_uri(location) / mlflow_runs.MLMODEL)
        return all(path.is_file() for path in paths)

    def _refresh(self, run: Any, entry: MlflowEntry) -> None:
        """Update what can be changed in a logged run: its description, and the run above it."""
        tags = {descriptions.TAG: entry.note, PROJECT: entry.project}
        if entry.parent in self._logged:
            tags[mlflow_runs.PARENT] = self._logged[entry.parent].run
        for key, value in tags.items():
            if run.data.tags.get(key) != value:
                self._client.set_tag(run.info.run_id, key, value)

    def _remove(self, run: Any) -> None:
        mlflow_runs.remove_run(self._client, run, self._artifacts.parent if self._artifacts else None)

    def _find_tracked(self) -> dict[str, list[Any]]:
        """Find our runs in the store by key; more than one of a key only where writers did not share a lock."""
        runs: dict[str, list[Any]] = {}
        experiment_ids = [e.experiment_id for e in self._experiments.values()]
        for run in _read_pages(self._client.search_runs, experiment_ids=experiment_ids) if experiment_ids else ():
            tags = run.data.tags
            is_marked = KEY in tags or "content" in tags  # by us: not so what somebody logged by hand
            if is_marked and tags.get(PROJECT, self._project) == self._project:
                runs.setdefault(tags.get(KEY) or f"cell/{run.info.run_name}", []).append(run)
        return runs

    def _ensure_experiment(self, name: str) -> str:
        """Return the id of an experiment, made or brought back where need be.

        Raises UserError for one whose files lie elsewhere than in our own folder.
        """
        experiment = self._experiments.get(name) or self._client.get_experiment_by_name(name)
        if experiment is None:
            folder = name.partition(": ")[2].replace(", ", "+").replace(" ", "-").replace("/", "_")
            tags = {"mlflow.experimentKind": "custom_model_development", PROJECT: self._project}
            artifact_uri = (self._artifacts / folder).as_uri() if self._artifacts else None
            experiment = self._client.get_experiment(self._client.create_experiment(name, artifact_uri, tags))
        elif experiment.lifecycle_stage == "deleted":
            self._client.restore_experiment(experiment.experiment_id)
            experiment = self._client.get_experiment(experiment.experiment_id)
        if experiment.tags.get(PROJECT) == self._project:
            self._project_experiments.add(experiment.experiment_id)
        if self._artifacts and not mlflow_runs.is_below(experiment.artifact_location, self._artifacts.parent):
            raise UserError(
                f"experiment {name!r}: its files lie in {experiment.artifact_location}, outside of "
                f"{self._artifacts.parent}; give another --project, or track where that is"
            )
        self._experiments[name] = experiment
        return str(experiment.experiment_id)


def _read_pages(search: Callable[..., Any], **arguments: Any) -> list[Any]:
    """Return everything that a search of MLflow's finds, page by page."""
    results: list[Any] = []
    token = None
    while token != "":
        page = search(max_results=1000, page_token=token, **arguments)
        results += page
        token = page.token or ""
    return results
