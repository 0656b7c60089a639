"""Runs of the fake grid while they are trained: what their files look like then, and what MLflow holds in the end."""

import json
import os
import socket

from compclip.base.files import write_json
from compclip.runs import jobs, run_store
from compclip.track import tracking_store
from tests import fake_runs

DEAD = 4_194_303  # no process has this number


def plan(root, cells):
    """What the stages `plan` and `keys` write."""
    by_method = {}
    for cell in cells:
        run = {"cell": cell.plain, "train": {"max_steps": 100, "batch_size": 8, "lr": 1e-6}, "method": {"weight": 0.5}}
        by_method.setdefault(cell.method, {})[cell.name] = run
    for method, runs in by_method.items():
        write_json(root / run_store.PLAN / f"{method}.json", {"cells": runs})
        keys = {name: {"key": f"key-{name}", "data": ""} for name in runs}
        write_json(root / run_store.KEYS / f"{method}.json", keys)


def folder(root, cell):
    return run_store.find_folder(f"key-{cell.name}", root)


def begin(root, cell, pid=None, module=jobs.SCORES):
    """A process works on the run: this one, or one that is dead."""
    run = folder(root, cell)
    pid = pid or os.getpid()
    number = len(list(run.lives.glob("*.json")))
    life = {"started": 1_700_000_000.0 + number, "devices": 1, "seconds": 5.0, "project": str(root)}
    write_json(run.lives / f"{number}.json", life)
    record = {"kind": "local", "module": module, "host": socket.gethostname(), "pid": pid}
    write_json(run.job, record | {"started": jobs.read_start_time(pid) or "gone"})


def log(root, cell, *steps, late=0.0):
    """Logged steps of the run, as the trainer appends them; the values of a step are always the same."""
    run = folder(root, cell)
    run.path.mkdir(parents=True, exist_ok=True)
    with open(run.metrics, "a") as file:
        for step in steps:
            file.write(json.dumps(fake_runs._line(step, cell.seed) | {"time": 1_700_000_000.0 + step + late}) + "\n")


def set_back(root, cell, step):
    """What a trainer does that goes on from the checkpoint of a step."""
    run = folder(root, cell)
    lines = [line for line in run.metrics.read_text().split("\n")[:-1] if json.loads(line)["step"] <= step]
    temporary = run.metrics.with_name("new")
    temporary.write_text("".join(line + "\n" for line in lines))
    temporary.replace(run.metrics)


def contents(uri):
    """All that MLflow shows of each run but ids and places, by experiment and name; fails where a name stands twice."""
    with tracking_store.open_client(uri) as client:
        experiments = {e.experiment_id: e.name for e in client.search_experiments()}
        rows = {}
        for run in client.search_runs(list(experiments), max_results=1000):
            info = run.info
            metrics = {
                name: sorted((m.step, m.value, m.timestamp) for m in client.get_metric_history(info.run_id, name))
                for name in run.data.metrics
            }
            ids = ("mlflow.parentRunId",)
            tags = {k: v for k, v in run.data.tags.items() if k not in ids}
            files = sorted(file.path for file in client.list_artifacts(info.run_id))
            name = (experiments[info.experiment_id], info.run_name)
            assert name not in rows
            rows[name] = (info.status, info.start_time, info.end_time, run.data.params, tags, metrics, files)
        return rows
