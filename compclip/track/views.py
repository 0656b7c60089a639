"""What MLflow's UI opens: shared views of an experiment, which are tags of it, and their addresses.

MLflow 3 shows an experiment as one of language models unless the address says `machine_learning`, and folds runs below
their parents only where it sorts by time: the rows of the report are logged as if the best one was made last.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from compclip.track.entries import GRID

METHODS = "methods"  # a line a method, its seeds folded below it
CURVES = "curves"  # the losses of the runs, one over the other
UI_MODE = "workflowType=machine_learning"
TAG = "mlflow.sharedViewState."
SECTION = "compclip"
CREATED = "attributes.start_time"
NAME = "attributes.`Run Name`"
DETAILS = ("attributes.`Created`", "attributes.`Duration`", "attributes.`Dataset`", "attributes.`Models`")
LOSSES = ("train/loss", "train/lr", "system/samples_per_second")
COMMON = {"startTime": "ALL", "lifecycleFilter": "Active", "orderByAsc": False, "runsHiddenMode": "FIRST_20_RUNS",
          "isAccordionReordered": True}  # fmt: skip


def address(experiment: str, view: str = METHODS) -> str:
    """Return where a server's UI shows a view; without an experiment, the list of them."""
    if not experiment:
        return f"#/experiments?{UI_MODE}"
    mode = "CHART" if view == CURVES else "TABLE"
    return f"#/experiments/{experiment}/runs?viewStateShareKey={view}&{UI_MODE}&compareRunsMode={mode}"


def make_tags(headlines: Sequence[str]) -> dict[str, str]:
    """Return the experiment's tags with its views; `headlines` are the metrics that the list of methods shows.

    The charts of that list are the first two, one against the other, and each.
    """
    columns = [f"metrics.`{name}`" for name in headlines]
    charts = [_make_chart("BAR", name, metricKey=name) for name in headlines[:2]]
    if len(headlines) > 1:
        x, y = ({"key": name, "type": "METRIC"} for name in (headlines[1], headlines[0]))
        charts.insert(0, _make_chart("SCATTER", f"{headlines[0]} against {headlines[1]}", xaxis=x, yaxis=y))
    methods = {
        "searchFilter": f"tags.{GRID} = 'true'",
        "orderByKey": CREATED,
        "selectedColumns": [*columns, *DETAILS],
        "columnOrder": [NAME, *columns, *DETAILS],
        "columnWidths": {NAME: 230, **dict.fromkeys(columns, 100)},
        **_show_charts("Methods", charts),
    }
    curves = {
        "searchFilter": "tags.kind = 'cell'",
        "orderByKey": columns[0] if columns else "metrics.`train/loss`",  # no folding: rows have no curves
        "selectedColumns": columns,
        **_show_charts("Curves", [_make_chart("LINE", name, metricKey=name) for name in LOSSES]),
    }
    return {f"{TAG}{METHODS}": json.dumps(COMMON | methods), f"{TAG}{CURVES}": json.dumps(COMMON | curves)}


def _show_charts(title: str, charts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    flags = {"display": True, "isReordered": True, "deleted": False, "isGenerated": False}
    return {"compareRunCharts": charts, "compareRunSections": [{"uuid": SECTION, "name": title, **flags}]}


def _make_chart(kind: str, title: str, **settings: Any) -> dict[str, Any]:
    """Return a chart as the UI stores it."""
    return {"type": kind, "uuid": f"{SECTION} {title}", "metricSectionId": SECTION, "displayName": title,
            "deleted": False, "isGenerated": False, "runsCountToCompare": 100, **settings}  # fmt: skip
