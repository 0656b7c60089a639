"""FSC-CLIP's averages of each benchmark, recomputed by our benchmarks' own rules from 202 published models' subsets.

vl_compo's authors, of whom FSC-CLIP's first author is one, released every subset (`individual_results.csv`) and their
averages (`results.csv`).
"""

import csv
from collections import Counter
from functools import lru_cache

import numpy as np
import pytest

from compclip.benchmarks import (
    aro,
    crepe,
    eqben,
    imagecode,
    retrieval,
    sugarcrepe,
    svo_probes,
    valse,
    vl_checklist,
    whatsup,
)
from compclip.evaluate.benchmark import Benchmark
from compclip.evaluate.benchmark_module import load_module
from compclip.evaluate.embeddings import Embeddings
from compclip.report import published_numbers, tables
from compclip.report.tables import Column
from compclip.runs.item_outcomes import CLASSIFICATION, COMPOSITION, RETRIEVAL, Items
from compclip.runs.result_files import Result
from tests.conftest import ROOT
from tests.report import made_page

NOTHING = Embeddings(np.zeros((0, 0)), np.zeros((0, 0)), {}, {}, {})
ALIKE = 1e-6
ARO = {"VG_Relation": aro.RELATION, "VG_Attribute": aro.ATTRIBUTION, "Flickr30k_Order": "flickr30k_order",
       "COCO_Order": "coco_order"}  # fmt: skip
WHATSUP = {"WhatsUp_A": "Controlled_Images_A", "WhatsUp_B": "Controlled_Images_B", "COCO_QA_ONE": "COCO_QA_one_obj",
           "COCO_QA_TWO": "COCO_QA_two_obj", "VG_QA_ONE": "VG_QA_one_obj", "VG_QA_TWO": "VG_QA_two_obj"}  # fmt: skip
COUNTS = {  # records, where an average is over the records of several subsets
    "add_obj": 2062, "add_att": 692, "replace_obj": 1652, "replace_att": 788, "replace_rel": 1406, "swap_obj": 245,
    "swap_att": 666, "video": 1872, "static": 430, **{f"{name}_{s}": 2000 for name in eqben.KUBRIC for s in eqben.SCORES},
}  # fmt: skip
OURS = {  # their column: our benchmark, and the metric that is it
    "aro": ("aro", "average"), "crepe": ("crepe", "average"), "eqben": ("eqben", "group"),
    "imagecode": ("imagecode", "average"), "sugarcrepe": ("sugarcrepe", "average_kinds"),
    "svo_probes": ("svo_probes", "average"), "valse": ("valse", "average_phenomena"),
    "vl_checklist": ("vl_checklist", "average_kinds"), "whatsup": ("whatsup", "average"),
    "winoground": ("winoground", "group"), "colorswap": ("colorswap", "group"), "mmvp_vlm": ("mmvp_vlm", "group"),
}  # fmt: skip
RULES = {  # means of ours by benchmark, and what is pooled before
    "aro": (aro.MEANS, None), "crepe": (crepe.MEANS, None), "eqben": (eqben.MEANS, eqben.kubric),
    "imagecode": ({}, imagecode.overall), "sugarcrepe": (sugarcrepe.MEANS, sugarcrepe.by_kind),
    "svo_probes": (svo_probes.MEANS, None), "valse": (valse.MEANS, None), "vl_checklist": (vl_checklist.MEANS, None),
    "whatsup": (whatsup.MEANS, None), "winoground": ({}, None), "colorswap": ({}, None),
}  # fmt: skip


@pytest.fixture(scope="module")
def published(shared_data):
    """Each model's row of subsets and its row of averages."""
    folder = shared_data / "published"
    if not folder.is_dir():
        pytest.skip(f"no published numbers at {folder}")
    subsets, averages = (
        list(csv.DictReader((folder / f"vl_compo_{name}.csv").read_text("utf-8").splitlines()))
        for name in ("individual_results", "results")
    )
    several = Counter(_model(row) for row in averages)

    def name_of(row):
        return *_model(row), row["family"] if several[_model(row)] > 1 else ""

    averages_by_model = {name_of(row): row for row in averages}
    assert len(averages_by_model) == len(subsets) == 202
    return [(row, averages_by_model[name_of(row)]) for row in subsets]


def _model(row):
    return row["arch"], row["pretrained"]


def _subsets(row, benchmark):
    """Their subsets of a benchmark under our names, in percent."""
    prefix = f"{benchmark}::"
    theirs = {key.removeprefix(prefix): float(v) for key, v in row.items() if key.startswith(prefix)}
    names = {"aro": ARO, "whatsup": WHATSUP, "imagecode": {"videos": "video", "static": "static"}}.get(benchmark, {})
    return {names.get(key, key.replace("::", "_")): value for key, value in theirs.items()}


def _scored(benchmark, subsets):
    """Our benchmark's metrics from the values of its subsets, by its own means and pools."""
    means, pool = RULES[benchmark]
    items = {name: _items(name, value) for name, value in subsets.items()}
    items |= pool(items) if pool else {}
    return Benchmark((), (), lambda records, embeddings: items, means, kind=COMPOSITION).score(NOTHING).metrics


def _items(name, value):
    count = COUNTS.get(name, 1)
    return Items(_ids(count), np.full(count, value))


@lru_cache
def _ids(count):
    return tuple(map(str, range(count)))


def _mmvp(subsets):
    """The group score over nine patterns of fifteen pairs each; the module that reads it has its own test."""
    return {"group": float(np.mean([value for name, value in subsets.items() if name.endswith("_group")]))}


@pytest.fixture(scope="module")
def recomputed_metrics(published):
    """The metrics of each model's row of subsets, by benchmark."""
    return [_all(row) for row, _ in published]


def _all(row):
    metrics_by_benchmark = {name: _scored(name, _subsets(row, name)) for name in RULES}
    return metrics_by_benchmark | {"mmvp_vlm": _mmvp(_subsets(row, "mmvp_vlm"))}


def test_twelve_averages_of_202_models_follow_from_their_subsets(published, recomputed_metrics):
    apart = [
        (_model(row), theirs, metrics[benchmark][metric], averages[theirs])
        for (row, averages), metrics in zip(published, recomputed_metrics, strict=True)
        for theirs, (benchmark, metric) in OURS.items()
        if abs(metrics[benchmark][metric] - float(averages[theirs])) > ALIKE
    ]
    assert apart == []


@lru_cache
def _headline(name):
    """What the benchmark's module declares; of a zero-shot set what ELEVATER counts."""
    if name.startswith("zeroshot_"):
        return ("elevater",)
    return load_module("retrieval" if name.startswith("retrieval_") else name).headline


def test_the_meta_averages_are_the_report_s_comp_zs_i2t_and_t2i(published, recomputed_metrics):
    for (row, averages), model_metrics in zip(published, recomputed_metrics, strict=True):
        results = {name: (COMPOSITION, metrics) for name, metrics in model_metrics.items()}
        for name, theirs in (("coco", "coco_karpathy"), ("flickr30k", "flickr30k")):
            recalls = {f"{way}_recall_at_1": float(row[f"{theirs}::{way}/R@1"]) for way in ("i2t", "t2i")}
            assert set(recalls) <= {f"{way}_recall_at_{k}" for way in ("i2t", "t2i") for k in retrieval.KS}
            results[f"retrieval_{name}"] = (RETRIEVAL, recalls)
        for theirs in (name for name in row if name.startswith("elevator::")):
            results[f"zeroshot_{theirs}"] = (CLASSIFICATION, {"top_1": 0.0, "elevater": float(row[theirs])})
        results = {name: Result(name, name, *of, headline=_headline(name)) for name, of in results.items()}
        model = made_page.make_finished("pretrained", results=results)
        columns = tuple(Column(*ours) for ours in OURS.values())
        ours_of = {c.metric: tables.column_value(model, c) for c in tables.summary_columns(columns, [model])}
        for ours, theirs in (("Comp", "comp_avg"), ("ZS", "21_tasks_avg"), ("I2T", "i2t_avg"), ("T2I", "t2i_avg")):
            assert ours_of[ours] == pytest.approx(float(averages[theirs]), abs=ALIKE), _model(row)


def test_the_numbers_of_records_are_those_of_the_files(shared_data):
    """Of SugarCrepe; ImageCoDe's and EqBen's files are not at hand, their counts are those the averages have."""
    benchmark = sugarcrepe.load(shared_data / "sugarcrepe")
    counts = Counter(record.subset for record in benchmark.records)
    assert counts == {name: COUNTS[name] for name in sugarcrepe.SUBSETS}


def test_the_listed_models_have_these_averages(published):
    """To two decimals, under the names of the metrics that they are."""
    folder = ROOT / "experiments" / "published" / "models"
    values_by_model = {f"{r['model']}, {r['weights']}": r for _, r in published_numbers.read_rows(folder, ("model",))}
    column_of = {theirs: "/".join(ours) for theirs, ours in OURS.items() if theirs not in ("colorswap", "mmvp_vlm")}
    for row, averages in published:
        values = values_by_model.get(f"{row['arch']}, {row['pretrained']}")
        if values and _model(row) != ("CLIP_ViT-B-16", "cc12m"):
            for theirs, column in column_of.items():
                expected = pytest.approx(float(averages[theirs]), abs=0.005 + ALIKE)
                assert float(values[column]) == expected, (row["arch"], column)
