"""The ready-made comparison of an experiment: MLflow's shared view, which its UI opens by a key in the address."""

from __future__ import annotations

import json
from collections.abc import Sequence

KEY = "comparison"
TAG = f"mlflow.sharedViewState.{KEY}"
MODE = "workflowType=machine_learning"  # without it the UI opens on its pages for language-model applications


def tags(scores: Sequence[str]) -> dict[str, str]:
    """The experiment tag that holds the view: a row a cell, the best `comp` first, every score, method and seed.

    Sweeps are left out: sorted by a score, the UI would show their trials among the cells.
    """
    shown = [f"metrics.`score/{name}`" for name in scores] + ["params.`method`", "params.`seed`"]
    state = {"orderByKey": shown[0] if scores else "", "orderByAsc": False, "selectedColumns": shown,
             "searchFilter": "tags.kind = 'cell'", "startTime": "ALL", "lifecycleFilter": "Active"}  # fmt: skip
    return {TAG: json.dumps(state)}


def address(server: str, experiment: str) -> str:
    """Where a server's UI shows the view; without an experiment, the list of them."""
    if not experiment:
        return f"{server}/#/experiments?{MODE}"
    return f"{server}/#/experiments/{experiment}/runs?viewStateShareKey={KEY}&{MODE}"
