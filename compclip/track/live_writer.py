"""Runs that are not published yet, in MLflow: one run each, with a curve that grows by what its file gained.

How far a curve was logged is a tag of the MLflow run, written behind the points. A writer that is killed logs at most
the same points again, which MLflow keeps once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from compclip.report.escape import to_markdown
from compclip.track import descriptions, mlflow_runs
from compclip.track.entries import KEY, cell_tags, curve_points, flatten_config
from compclip.track.live_runs import PREFIX, UNDER_WAY, LiveRun, Position
from compclip.track.tracking_store import PROJECT

if TYPE_CHECKING:
    from mlflow import MlflowClient

LIVE, POSITION = "mlflow.compclip.live", "mlflow.compclip.position"


def find_live(client: MlflowClient, experiment: str, project: str) -> dict[str, Any]:
    """Find the MLflow runs of a project's live runs in an experiment, by the keys of their entries."""
    runs = client.search_runs([experiment], f"tags.`{LIVE}` = 'true'", max_results=10_000)
    return {run.data.tags[KEY]: run for run in runs if run.data.tags.get(PROJECT) == project}


def select_live(tracked_runs: Mapping[str, Sequence[Any]]) -> list[tuple[str, Any]]:
    """Select the MLflow runs of live runs among all of a project, each with its key."""
    return [(key, run) for key, runs in tracked_runs.items() if key.startswith(PREFIX) for run in runs]


def update_live_runs(
    client: MlflowClient, experiment: str, live: Iterable[LiveRun], logged: Mapping[str, Any], project: str
) -> None:
    """Bring every live run up to date in the experiment with this id; `logged` are their MLflow runs, by key."""
    for run in live:
        update_live_run(client, experiment, run, logged.get(run.key), project)


def update_live_run(client: MlflowClient, experiment: str, live: LiveRun, logged: Any, project: str) -> None:
    """Bring one live run up to date: what it is, what its curve gained, and its status, in this order."""
    tags = _make_tags(live, project)
    if logged is None:
        logged = client.create_run(experiment, round(1000 * live.start), tags, live.name)
    old_tags, run_id = logged.data.tags, logged.info.run_id
    if POSITION not in old_tags:
        mlflow_runs.log_params(client, run_id, flatten_config(dict(live.run.resolved)))
    position = Position.parse(old_tags.get(POSITION, ""))
    rows, new_position = live.read_rows(position)
    tags[POSITION] = str(new_position)
    changed = {name: value for name, value in tags.items() if old_tags.get(name) != value}
    if changed:
        mlflow_runs.log_points(client, run_id, list(curve_points(rows)), changed)
    if logged.info.status != live.status:
        if live.status in UNDER_WAY:
            client.update_run(run_id, live.status)
        else:
            client.set_terminated(run_id, live.status, round(1000 * live.end))


def _make_tags(live: LiveRun, project: str) -> dict[str, str]:
    tags = {"kind": "cell", **cell_tags(live.run.cell, live.facts), "state": live.state}
    note = f"**{to_markdown(live.name)}** is {live.state} and not published yet. {to_markdown(live.error)}".rstrip()
    return tags | {KEY: live.key, PROJECT: project, LIVE: "true", descriptions.TAG: note[: descriptions.LIMIT]}
