"""Runs and results for every cell of a paper's grid: invented numbers under the metric names of the real modules."""

import zlib
from pathlib import Path

from compclip.base.files import write_atomic, write_json
from compclip.benchmarks import (
    aro,
    bivlc,
    crepe,
    eqben,
    half_truths,
    hard_positives,
    imagecode,
    negbench,
    spec,
    sugarcrepe_pp,
    svo_probes,
    valse,
    vl_checklist,
    whatsup,
)
from compclip.config import grid, sections
from compclip.evaluate.benchmark_module import load_module
from compclip.report import published_numbers
from compclip.report.published_numbers import OfficialBenchmarks
from compclip.runs import run_folder
from compclip.runs.item_outcomes import CLASSIFICATION, COMPOSITION, RETRIEVAL
from compclip.runs.run_folder import Published

SUGARCREPE = (
    "add_obj", "add_att", "replace_obj", "replace_att", "replace_rel", "swap_obj", "swap_att", "add", "replace",
    "swap", "average", "average_kinds",
)  # fmt: skip
RECALLS = tuple(f"{way}_recall_at_{k}" for way in ("i2t", "t2i") for k in (1, 5, 10))
SENTENCES = (*RECALLS, *(f"mean_recall_at_{k}" for k in (1, 5, 10)))
METRICS = {
    "sugarcrepe": SUGARCREPE,
    "sugarcrepe_pp": (*(f"{s}_{task}" for s in sugarcrepe_pp.SUBSETS for task in ("itt", "tot")), *sugarcrepe_pp.MEANS),
    "winoground": ("text", "image", "group"),
    "bivlc": (*bivlc.NAMES, *bivlc.CHOICES),
    "negbench": tuple(m for m in negbench.METRICS if m.startswith(("coco_mcq", "voc2007_mcq")) and "template" not in m),
    "half_truths": tuple(m for m in half_truths.METRICS if "ordered" not in m),
    "retrieval": RECALLS,
    "coco_counterfactuals": RECALLS,
    "docci": SENTENCES,
    "imageinwords": SENTENCES,
    "zeroshot": ("top_1", "top_5", "mean_per_class", "map_11", "roc_auc"),
    "aro": (*aro.TASKS, "average"),
    "crepe": (*crepe.TYPES, "average"),
    "eqben": tuple(eqben.MEANS),
    "imagecode": (*imagecode.KINDS, "average"),
    "spec": tuple(spec.MEANS),
    "svo_probes": (*svo_probes.KINDS, "average"),
    "valse": (*valse.PIECES, *valse.MEANS),
    "vl_checklist": (*vl_checklist.TASKS, *vl_checklist.KINDS, "average", "average_kinds"),
    "mmvp_vlm": ("text", "image", "group"),
    "cc_neg": ("accuracy",),
    "dci": RECALLS,
    "sharegpt4v": RECALLS,
    "whatsup": (*whatsup.FILES, "average"),
    "hard_positives": tuple(f"{kind}_{metric}" for kind in ("replace_relations", "replace_attributes", "replace", "swap")
                            for metric in ("original", "augmented", "gap", "brittleness", "mean_score")),
}  # fmt: skip


KINDS = {"zeroshot": CLASSIFICATION} | dict.fromkeys(
    ("retrieval", "coco_counterfactuals", "docci", "imageinwords"), RETRIEVAL
)


def number(*key: str) -> float:
    """A number of its own between 0 and 1 for every key, the same in every process."""
    return zlib.crc32("/".join(key).encode()) % 1000 / 1000


def official(params: sections.Params, published: Path) -> OfficialBenchmarks:
    """As if all benchmarks of a grid were the papers' own."""
    fingerprints = {name: (f"official {name}",) for name in params.evaluate.benchmarks}
    return OfficialBenchmarks(fingerprints, published_numbers.read_official_benchmarks(published).means)


def make(params: sections.Params, root: Path) -> Path:
    """Write config, results and the other files of every cell below `root`, which it gives."""
    modules = {name: params.benchmarks[name].benchmark or name for name in params.evaluate.benchmarks}
    declared = {module: _declare(module) for module in set(modules.values())}
    for cell in grid.list_cells(params):
        place = Published(root, cell)
        write_atomic(place.trained.config, grid.run_to_yaml(grid.resolve(params, cell)))
        write_atomic(place.trained.metrics, "")
        write_json(place.trained.environment, {"run_key": cell.name, "seconds": 1.0})
        for name, module in modules.items():
            values = {m: number(cell.method, cell.backbone, cell.data, name, m) for m in METRICS[module]}
            result = {"benchmark": name, "n": 10, **declared[module], "metrics": values,
                      "counts": {"records": 10, "scored": 10}, "fingerprint": f"official {name}"}  # fmt: skip
            write_json(run_folder.result_path(place.results, name), result)
    return root


def _declare(module: str) -> dict:
    """What a benchmark's module says of its metrics."""
    metrics = {*METRICS[module]}
    return {"kind": KINDS.get(module, COMPOSITION), "lower": sorted({*hard_positives.LOWER} & metrics),
            "scores": sorted({*hard_positives.SCORES} & metrics), "headline": list(load_module(module).headline)}  # fmt: skip
