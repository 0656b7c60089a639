"""What orchestration costs at 14, 100 and 500 cells: all runs are finished in the store, nothing trains.

    python -m perf.speed.cells [--cells 14 100 500]

For each size a copy of the project in a temporary folder: a tiny world and model, `dvc repro keys`, then a finished and
scored run by hand for every key (weights of their own). Measured in CPU seconds of the commands and their children, and
in wall time: collecting (`dvc repro evaluate`), the report, MLflow, a `dvc repro` that has nothing to do (the least of
three), and status.
Disk: how many copies of each checkpoint there are, by inode. The last line is a JSON document; exit code 1 where a
bound is broken.

Takes 2 minutes with 14 cells, 6 with 500; needs nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from compclip.base.files import read_json, write_atomic, write_json
from compclip.base.safe_names import SafeName
from compclip.evaluate import result_store
from compclip.runs import run_store
from compclip.runs.run_store import StoredRun
from perf.checkout import copy

GRIDS = {14: (7, 2), 100: (25, 4), 500: (25, 20)}  # cells: methods, seeds
PARAMS = """
grid: {{methods: {methods}, backbones: [tiny], data: [scenes], seeds: {seeds}}}
train: {{max_steps: 2, batch_size: 8, threads: 1, log_every_steps: 1}}
methods: {{pretrained: {{}}, negclip: {{caption: first, variants: {variants}}}}}
backbones: {{tiny: {{model: tiny.json}}}}
data: {{scenes: {{source: karpathy, path: data/scenes_world/train.json, images: data/scenes_world/train, captioner: scenes}}}}
benchmarks:
  sugarcrepe: {{path: data/scenes_world/sugarcrepe, images: data/scenes_world/test}}
  sugarcrepe_pp: {{path: data/scenes_world/sugarcrepe_pp, images: data/scenes_world/test}}
  retrieval: {{path: data/scenes_world/retrieval/dataset.json, images: data/scenes_world/test, split: test}}
evaluate: {{benchmarks: [sugarcrepe, sugarcrepe_pp, retrieval], threads: 1}}
wise_ft: {{methods: [], seeds: [], benchmarks: [], alphas: [0, 1]}}
scenes: {{seed: 0, train: 24, retrieval: 300, records: 200, per_class: 1, processes: 1}}
"""  # noqa: E501
TINY = {
    "embed_dim": 16,
    "vision_cfg": {"image_size": 64, "patch_size": 16, "width": 32, "layers": 1, "head_width": 16},
    "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 16, "heads": 1, "layers": 1},
}
WEIGHTS_BYTES = 2_000_000
# Variables of whoever measures: without its bytecode every process would compile the project anew.
NOT_A_USERS = ("MLFLOW_TRACKING_URI", "PYTHONDONTWRITEBYTECODE", run_store.VARIABLE)
BOUNDS = {"nothing_s": 10.0, "status_s": 2.0, "report_s": 60.0, "track_s_a_run": 1.0}
STAGES_A_METHOD = 2  # train@method and evaluate@method
COLLECT_S_A_STAGE, COLLECT_S_A_CELL = 1.0, 0.05
NOTHING_GROWS = 2.0  # from 14 cells to 500


def checkout(root: Path, methods: int, seeds: int) -> Path:
    """A copy of the project with a grid of so many cells, one of the methods being the untrained model."""
    variants = {f"v{i:02d}": {"train": {"lr": 1e-4 * (i + 1)}} for i in range(methods - 1)}
    names = ["pretrained", *(f"negclip.{name}" for name in variants)]
    params = {"methods": json.dumps(names), "seeds": json.dumps(list(range(seeds))), "variants": json.dumps(variants)}
    copy(root, PARAMS.format(**params))
    write_json(root / "tiny.json", TINY)
    return root


def command(root: Path, *words: str) -> tuple[float, float]:
    """CPU and wall seconds of `python -m words` in the copy, its children's included."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {k: v for k, v in os.environ.items() if k not in NOT_A_USERS}
    env |= {"PATH": path, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
    usage_before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, "-m", *words], cwd=root, env=env, check=True, stdout=sys.stderr)
    usage_after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = usage_after.ru_utime + usage_after.ru_stime - usage_before.ru_utime - usage_before.ru_stime
    return round(cpu, 2), round(time.perf_counter() - began, 2)


def runs(root: Path) -> Iterator[StoredRun]:
    """The different runs of the grid, in its order."""
    seen_keys: set[str] = set()
    for plan in sorted((root / run_store.PLAN).glob("*.json")):
        for run in run_store.load_planned(SafeName(plan.stem, "method"), root):
            if run.key not in seen_keys:
                seen_keys.add(run.key)
                yield run


def finish(root: Path) -> int:
    """A finished and scored run for every key, of the results of one that was really made; how many."""
    first = next(run for run in runs(root) if run.cell.method != "pretrained")
    command(root, "compclip.train", "--method", first.cell.method)
    command(root, "compclip.evaluate", "--method", first.cell.method)
    [scores] = first.folder.path.glob("scores/*")
    results = {path.stem: read_json(path) for path in scores.glob("*.json") if path.stem != "summary"}
    rng, count = np.random.default_rng(0), 0
    for run in runs(root):
        count += 1
        if not run.adopt_if_finished():
            _invent(run, first, results, rng)
    return count


def _invent(run: StoredRun, model: StoredRun, results: dict[str, dict], rng: np.random.Generator) -> None:
    final = run.folder.final
    shutil.copytree(model.folder.final.path, final.path)
    write_atomic(final.weights, rng.bytes(WEIGHTS_BYTES))
    write_atomic(final.config, run.config_text())
    facts = read_json(model.folder.final.environment)
    weights = {"weights_fingerprint": rng.bytes(16).hex(), "run_key": run.key}
    write_json(final.environment, facts | weights)
    write_atomic(run.folder.lock, "")
    plan = read_json(run.root / "plan" / "evaluate" / f"{run.cell.method}.json")
    with_noise = {name: _noisy(document, rng) for name, document in results.items()}
    result_store.mark_scored(
        run.folder,
        result_store.store_results(result_store.task_from_plan(plan, run.root), run.folder, with_noise),
    )


def _noisy(document: dict, rng: np.random.Generator) -> dict:
    """The document with other outcomes, and the metrics that follow from them."""
    items, metrics = {}, dict(document["metrics"])
    for name, item_set in document["items"].items():
        outcomes = (rng.random(len(item_set["ids"])) < rng.uniform(0.4, 0.9)).astype(int).tolist()
        items[name] = item_set | {"outcomes": outcomes}
        metrics[name] = float(np.mean(outcomes))
    for name, members in document["means"].items():
        metrics[name] = float(np.mean([metrics[m] for m in members]))
    return document | {"items": items, "metrics": metrics}


def copies(root: Path) -> float:
    """Inodes of weights in the store, runs/, DVC's cache and MLflow, for each different checkpoint."""
    large = [p for p in root.rglob("*") if p.is_file() and p.stat().st_size >= WEIGHTS_BYTES]
    weight_files = [p for p in large if p.suffix != ".db" and not {".git", "experiments"} & set(p.parts)]
    different = {p.stat().st_ino for p in root.glob("store/*/final/checkpoint/*.safetensors")}
    base = {p.stat().st_ino for p in root.glob("models/*/*")}
    return round(len({p.stat().st_ino for p in weight_files} - base) / len(different), 3)


def measure(root: Path, methods: int, seeds: int) -> dict:
    """All figures of one size."""
    checkout(root, methods, seeds)
    prepared = command(root, "dvc", "repro", "--quiet", "keys", "benchmark")
    with contextlib.chdir(root):  # benchmarks are named from the project's root
        count, cells = finish(root), methods * seeds
    collected = command(root, "dvc", "repro", "--quiet", "evaluate")
    reported = command(root, "dvc", "repro", "--quiet", "report")
    tracked = command(root, "dvc", "repro", "--quiet", "track")
    nothing = min(command(root, "dvc", "repro", "--quiet") for _ in range(3))
    status = command(root, "compclip", "status")
    return {
        "cells": cells,
        "runs": count,
        "prepare_s": prepared,
        "collect_s": collected,
        "collect_s_a_cell": round(collected[0] / cells, 3),
        "report_s": reported[0],
        "track_s": tracked,
        "track_s_a_run": round(tracked[0] / cells, 3),
        "nothing_s": nothing[0],
        "nothing_wall_s": nothing[1],
        "status_s": status[0],
        "copies_of_a_checkpoint": copies(root),
        "lock_file_bytes": (root / "dvc.lock").stat().st_size,
    }


def main() -> int:
    """Measure each size; say which bounds are broken."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=int, nargs="+", choices=sorted(GRIDS), default=sorted(GRIDS))
    sizes = []
    for cells in parser.parse_args().cells:
        with tempfile.TemporaryDirectory(prefix="cells-") as folder:
            sizes.append(measure(Path(folder) / "p", *GRIDS[cells]))
        print(json.dumps(sizes[-1]), file=sys.stderr, flush=True)
    broken = [f"{f['cells']}: {name}={f[name]}" for f in sizes for name, most in BOUNDS.items() if f[name] > most]
    for f in sizes:
        stages = STAGES_A_METHOD * GRIDS[f["cells"]][0]
        if f["collect_s"][0] > (most := stages * COLLECT_S_A_STAGE + f["cells"] * COLLECT_S_A_CELL):
            broken.append(f"{f['cells']}: collect_s={f['collect_s'][0]}, of {most:.1f}")
    nothing = {f["cells"]: f["nothing_s"] for f in sizes}
    if {14, 500} <= nothing.keys() and nothing[500] > NOTHING_GROWS * nothing[14]:
        broken.append(f"500: nothing_s={nothing[500]}, {nothing[500] / nothing[14]:.2f} times that at 14")
    print(json.dumps({"sizes": sizes, "broken": broken}))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
