"""A page of runs, its parts given by name wherever they belong, runs of one benchmark `b`, and those of the fake grid.

And what tests of the page read: statistics by name, the texts of all files, the marks of a row.
"""

import csv
from dataclasses import fields
from pathlib import Path

import numpy as np

from compclip.report import report_page
from compclip.report.report_page import GridResults, Literature, PageSettings, ReportPage
from compclip.report.run_details import collect_runs
from compclip.report.tables import ResultTable, Statistic
from compclip.runs.item_outcomes import COMPOSITION, Items
from compclip.runs.result_files import FinishedRun, Result
from compclip.runs.run_folder import Trained
from tests import fake_runs


def make_finished(method, seed=0, results=None, curve=(), facts=None) -> FinishedRun:
    """Make a run of the fake grid from what its files hold."""
    cell = fake_runs.cell(method, seed=seed)
    config = {"train": {}, "method": {}}
    return FinishedRun(Trained(Path()), Path(), cell, config, list(curve), facts or {}, results or {})


def make_run(method, seed, outcome_I, metric="swap", keep=True, **facts) -> FinishedRun:
    """Make a run whose items of one metric have these outcomes; without `keep` it has their mean alone."""
    items = Items(tuple(map(str, range(len(outcome_I)))), np.asarray(outcome_I, dtype=float))
    kept_items = {metric: items} if keep else {}
    result = Result("b", "b", COMPOSITION, {metric: float(items.values.mean())}, items=kept_items)
    return make_finished(method, seed, {"b": result}, facts=facts)


def make_run_of_right(method, seed, right, total=400, metric="swap", keep=True) -> FinishedRun:
    """Make a run with the first `right` of `total` items right."""
    return make_run(method, seed, np.arange(total) < right, metric, keep)


def build_page(runs, benchmarks, columns=None, missing=(), numbers=(), **parts) -> ReportPage:
    """Build a page; `parts` are fields of its results, its literature or its settings."""
    parts |= {"columns": columns, "missing": missing, "numbers": numbers}
    values = {}
    for kind in (GridResults, Literature, PageSettings):
        names = [field.name for field in fields(kind) if field.name in parts]
        values[kind] = {name: parts.pop(name) for name in names}
    assert not parts, f"no part of a page: {', '.join(parts)}"
    results = GridResults(runs, benchmarks, **values[GridResults])
    return report_page.build_page(results, Literature(**values[Literature]), PageSettings(**values[PageSettings]))


def collect(root: Path, cells=None) -> list[FinishedRun]:
    """Return the runs of the fake grid's cells as they lie below `root`."""
    return collect_runs(cells or fake_runs.cells(), fake_runs.BENCHMARKS, root)[0]


def make_grid(root: Path, cells=None) -> list[FinishedRun]:
    """Make the fake grid's cells below `root`, and return their runs."""
    return collect(fake_runs.make(root, cells), cells)


def build_grid_page(runs, **parts) -> ReportPage:
    """Build the page of runs of the fake grid."""
    return build_page(runs, fake_runs.BENCHMARKS, **parts)


def summary_metrics(swap: float, i2t: float) -> dict[str, float]:
    """Return what the summary columns need of one model."""
    retrieval = {"retrieval/i2t_recall_at_1": i2t, "retrieval/t2i_recall_at_1": 0.5}
    return {"sugarcrepe/swap": swap, "hard_positives/swap_augmented": swap, **retrieval}


def read_statistics(table: ResultTable) -> dict[str, dict[str, Statistic]]:
    """method -> column name -> statistic."""
    return {row.method: {c.name: e for c, e in row.statistics.items()} for row in table.rows}


def write(page: ReportPage, folder: Path) -> dict[str, str]:
    """Write the page's files; return their texts by name."""
    report_page.write_report(page, folder)
    return {path.name: path.read_text() for path in folder.rglob("*") if path.is_file()}


def assert_marked(texts: dict[str, str], sign: str, latex_sign: str, note: str) -> None:
    """Page, Markdown and LaTeX have the sign at negclip's row and at no other one, and say why."""
    for name, mark in (("index.html", sign), ("report.md", sign), ("report.tex", latex_sign)):
        assert f"negclip {mark}" in texts[name] and note in texts[name], name
        assert f"clic {mark}" not in texts[name].replace("negclip", ""), name


def read_column(texts: dict[str, str], name: str) -> dict[str, str]:
    """What a column of report.csv says of each method."""
    return {line["method"]: line[name] for line in csv.DictReader(texts["report.csv"].splitlines())}
