"""Runs whose methods gain so many points on each benchmark: outcomes of items, drawn once for all methods of a seed."""

import zlib
from collections.abc import Mapping

import numpy as np

from compclip.report import report_page
from compclip.report.first_screen import ComparedTable
from compclip.report.report_page import ReportPage
from compclip.runs.item_outcomes import CLASSIFICATION, COMPOSITION, RETRIEVAL, Items
from compclip.runs.result_files import FinishedRun, Result
from tests.report import made_page

FIVE = ("sugarcrepe", "sugarcrepe_pp", "winoground", "hard_positives", "aro")
GENERAL = {"retrieval": ("i2t_recall_at_1", "t2i_recall_at_1"), "zeroshot": ("top_1",)}
KINDS = {"retrieval": RETRIEVAL, "zeroshot": CLASSIFICATION}
BASE = 0.6  # the pretrained model's share of right items
CURVE = [{"step": 10, "time": 1_700_000_000.0, "loss": 1.0, "grad_norm": 1.0}]
Gains = Mapping[str, Mapping[str, float]]  # method -> benchmark -> points


def make_runs(
    gains: Gains, seeds: int = 3, benchmarks: tuple[str, ...] = FIVE, items: int = 1000, spread: float = 0.3
) -> list[FinishedRun]:
    """Make the runs of the pretrained model, the same under every seed, and of methods, which deviate by `spread`."""
    runs = []
    for method, points in {"pretrained": {}, **gains}.items():
        runs += [_make_run(method, seed, points, benchmarks, items, spread) for seed in range(seeds)]
    return runs


def _make_run(
    method: str, seed: int, points: Mapping[str, float], benchmarks: tuple[str, ...], items: int, spread: float
) -> FinishedRun:
    results = {}
    for name in (*benchmarks, *GENERAL):
        metrics = GENERAL.get(name, ("accuracy",))
        outcomes = {
            metric: _draw(method, seed, f"{name}/{metric}", points.get(name, 0.0), items, spread) for metric in metrics
        }
        means = {metric: float(of.values.mean()) for metric, of in outcomes.items()}
        counts = {"records": items, "scored": items}
        kind = KINDS.get(name, COMPOSITION)
        results[name] = Result(name, name, kind, means, counts=counts, items=outcomes, headline=metrics)
    return made_page.make_finished(method, seed, results, [] if method == "pretrained" else CURVE)


def _draw(method: str, seed: int, column: str, points: float, items: int, spread: float) -> Items:
    """Draw outcomes: an item's difficulty is the same for all, a method moves what it can do by `points`."""
    if method == "pretrained":
        seed, spread = 0, 0.0
    difficulty_I = np.random.default_rng(zlib.crc32(column.encode())).random(items)
    generator = np.random.default_rng(zlib.crc32(f"{method} {seed} {column}".encode()))
    ability = BASE + points / 100 + spread / 100 * generator.standard_normal()
    noise_I = 0.02 * generator.standard_normal(items)
    return Items(tuple(map(str, range(items))), (difficulty_I < ability + noise_I).astype(float))


def build_page(gains: Gains, reference: str = "finetune", notice: str = "", kindred=None, **shape) -> ReportPage:
    runs = make_runs(gains, **shape)
    benchmarks = list(runs[0].results)
    return made_page.build_page(runs, benchmarks, reference=reference, notice=notice, kindred=kindred or {})


def compare(page: ReportPage) -> ComparedTable:
    """Return a page's only table as the first screen compares it."""
    (compared,) = report_page.compare_tables(page)
    return compared
