"""Brings one store up to date: its experiments and our runs are asked for once, whatever the number of entries."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compclip.track import entries as track_entries
from compclip.track import notes, overall, owned, view
from compclip.track.entries import Entry, Presentation
from compclip.track.overall import Scored
from compclip.track.reading import Brief

if TYPE_CHECKING:
    from compclip.track.models import Logged, Template
    from compclip.track.store import MlflowClient


@dataclass(frozen=True)
class Source:
    """Everything that the store is made from; `whole`: the stamp of what it holds may be written."""

    entries: tuple[Entry, ...]
    cells: tuple[Brief, ...]
    how: Presentation
    methods: tuple[str, ...] = ()
    whole: bool = True
    grid: tuple[Scored, ...] = ()


class Writer:
    """Adds, replaces and removes the MLflow runs of one project; `known`: those there were, by their entries' keys.

    `artifacts` is where their files are; None: a server keeps them. What is removed or hidden has the project's tag.
    """

    def __init__(self, client: MlflowClient, project: str, artifacts: Path | None, template: Template) -> None:
        self._client, self._artifacts, self._template = client, artifacts, template
        self._project = project
        found = _experiments(client, project)
        self._ids = {e.name: e.experiment_id for e in found}
        self.known = self._tracked()
        self._own = {e.experiment_id for e in found if e.tags.get(track_entries.PROJECT) == project}
        self._adopt({e.experiment_id for e in found if track_entries.PROJECT not in e.tags})
        self._logged: dict[str, Logged] = {}
        self.done: Counter[str] = Counter()

    def clear(self) -> None:
        """Remove the runs with the project's tag that no entry was brought for."""
        for run in (run for runs in self.known.values() for run in runs):
            if run.data.tags.get(track_entries.PROJECT) == self._project:
                self._remove(run)
        self.known = {}

    def bring(self, entry: Entry, anew: bool = False) -> None:
        """Bring one entry up to date; `anew` logs it in any case. What replaces is complete before the old run goes."""
        from compclip.track import log, models

        old = self.known.pop(entry.key, [])
        same = [] if anew else [run for run in old if self._current(run, entry)]
        self.done["unchanged" if same else "replaced" if old and not anew else "added"] += 1
        found = log.logged(same[0]) if same else self._write(entry)
        if same:
            self._refresh(same[0], entry)
        for run in old:
            if run.info.run_id != found.run:
                models.hand_over(self._client, run, entry, found)
                self._remove(run)
        self._logged[entry.key] = found

    def finish(self, made: Source) -> None:
        """Versions and aliases of the grid's checkpoints, the experiment's description and its ready-made view."""
        from compclip.track import models

        kept = [(entry, self._logged[entry.key]) for entry in made.entries if entry.at_home and entry.checkpoint]
        best, name = overall.winners(made.grid), ""
        if kept:
            name = models.registered(self._client, made.how.experiment, self._project)
            versions = models.register(self._client, name, kept)
            keys = {b: f"cell/{run.cell.name}" for b, (run, _) in best.items()}
            aliases = {notes.alias(b): versions.get(key) for b, key in keys.items()}
            models.set_aliases(self._client, name, aliases)
            best = {b: found for b, found in best.items() if keys[b] in versions}
        note = notes.of_grid(made.methods, [run for run, _ in made.grid], best if kept else {}, name)
        self._describe(made.how.experiment, {notes.TAG: note, **view.tags(_scores(made))})

    def drop_empty(self) -> None:
        """Hide experiments of ours whose runs have all moved elsewhere."""
        for experiment in self._own:
            if not self._client.search_runs([experiment], max_results=1):
                self._client.delete_experiment(experiment)

    def experiment(self, name: str) -> str:
        """The id of an experiment of ours; empty where there is none."""
        return self._ids.get(name, "")

    def _write(self, entry: Entry) -> Logged:
        from compclip.track import log

        parent = self._logged[entry.parent].run if entry.parent in self._logged else ""
        self.done["skipped"] += len(entry.values) - len(entry.finite)
        return log.write(self._client, entry, self._home(entry), parent, self._template, self._artifacts is not None)

    def _current(self, run: Any, entry: Entry) -> bool:
        """Whether a run was logged whole, from these files, and where it belongs.

        A run outside of the grid stays as its own grid had it logged, with that one's columns and versions.
        """
        tags = run.data.tags
        if tags.get(track_entries.COMPLETE) != "true":
            return False
        if not entry.at_home and tags.get(track_entries.FILES) == entry.files_stamp:
            return True
        same = tags.get(track_entries.CONTENT) == entry.content
        return same and (not entry.at_home or run.info.experiment_id == self._ids.get(entry.experiment))

    def _refresh(self, run: Any, entry: Entry) -> None:
        """What can be changed in a run that is logged: its description, and the run above it."""
        from compclip.track import log

        tags = {notes.TAG: entry.note, track_entries.PROJECT: entry.project}
        if entry.parent in self._logged:
            tags[log.PARENT] = self._logged[entry.parent].run
        for key, value in tags.items():
            if run.data.tags.get(key) != value:
                self._client.set_tag(run.info.run_id, key, value)

    def _remove(self, run: Any) -> None:
        from compclip.track import log

        log.remove(self._client, run, self._artifacts.parent if self._artifacts else None)

    def _tracked(self) -> dict[str, list[Any]]:
        """Our runs in the store by key; more than one of a key only where writers did not share a lock."""
        found: dict[str, list[Any]] = {}
        token, ids = None, list(self._ids.values())
        while ids:
            page = self._client.search_runs(ids, max_results=1000, page_token=token)
            for run in page:
                if owned.run(run.data.tags, self._project):
                    found.setdefault(_key(run), []).append(run)
            token = page.token
            if not token:
                break
        return found

    def _adopt(self, untagged: set[str]) -> None:
        """Experiments of our very name that hold runs of ours, made before there were tags, get one."""
        for experiment in untagged & {run.info.experiment_id for runs in self.known.values() for run in runs}:
            self._client.set_experiment_tag(experiment, track_entries.PROJECT, self._project)
            self._own.add(experiment)

    def _home(self, entry: Entry) -> str:
        """The entry's experiment, made or brought back where need be."""
        name = entry.experiment
        if name not in self._ids:
            self._ids[name] = self._hidden(name) or self._created(name)
        return self._ids[name]

    def _hidden(self, name: str) -> str:
        found = self._client.get_experiment_by_name(name)
        if found is None:
            return ""
        if found.lifecycle_stage == "deleted":
            self._client.restore_experiment(found.experiment_id)
        if found.tags.get(track_entries.PROJECT) == self._project:
            self._own.add(found.experiment_id)
        return found.experiment_id

    def _created(self, name: str) -> str:
        folder = name.partition(": ")[2].replace(", ", "+").replace(" ", "-").replace("/", "_")
        tags = {"mlflow.experimentKind": "custom_model_development", track_entries.PROJECT: self._project}
        place = (self._artifacts / folder).as_uri() if self._artifacts else None
        made = self._client.create_experiment(name, place, tags)
        self._own.add(made)
        return made

    def _describe(self, name: str, tags: dict[str, str]) -> None:
        experiment = self._client.get_experiment_by_name(name)
        for key, value in tags.items():
            if experiment.tags.get(key) != value:
                self._client.set_experiment_tag(experiment.experiment_id, key, value)


def _key(run: Any) -> str:
    """The entry that a run of ours was made from. Stores of old have the name alone."""
    return run.data.tags.get(track_entries.KEY) or f"cell/{run.info.run_name}"


def _experiments(client: MlflowClient, project: str) -> list[Any]:
    """Those of the project's name. The filter takes `_` for any character, and finds others' as well."""
    found: list[Any] = []
    token = None
    while token != "":
        page = client.search_experiments(filter_string=f"name LIKE '{project}: %'", max_results=1000, page_token=token)
        found += [e for e in page if owned.named(e.name, project)]
        token = page.token or ""
    return found


def _scores(made: Source) -> list[str]:
    """The names of the grid's whole-benchmark numbers, the summary's first."""
    return list(dict.fromkeys(name for _, scores in made.grid for name in scores))
