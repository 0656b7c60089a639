"""What orchestration costs at 14, 100 and 500 cells: all runs are finished in the store, nothing trains.

    python perf/cells.py [--cells 14 100 500]

For each size a copy of the project in a temporary folder: a tiny world and model, `dvc repro keys`, then a finished and
scored run by hand for every key (weights of their own). Measured in CPU seconds of the commands and their children, and
in wall time: collecting (`dvc repro evaluate`), the report, MLflow, a `dvc repro` that has nothing to do (the least of
three), and status.
Disk: how many copies of each checkpoint there are, by inode. The last line is a JSON document; exit code 1 where a
bound is broken.
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

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from compclip.base.files import read_json, write_atomic, write_json  # noqa: E402
from compclip.evaluate import kept  # noqa: E402
from compclip.runs import store  # noqa: E402
from compclip.runs.store import StoredRun  # noqa: E402
from perf.checkout import copy  # noqa: E402

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
NOT_A_USERS = ("MLFLOW_TRACKING_URI", "PYTHONDONTWRITEBYTECODE", store.VARIABLE)
BOUNDS = {"nothing_s": 15.0, "collect_s_a_cell": 0.3, "status_s": 2.0, "report_s": 60.0, "track_s_a_run": 1.0}
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
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, "-m", *words], cwd=root, env=env, check=True, stdout=sys.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return round(cpu, 2), round(time.perf_counter() - began, 2)


def runs(root: Path) -> Iterator[StoredRun]:
    """The different runs of the grid, in its order."""
    seen: set[str] = set()
    for plan in sorted((root / store.PLAN).glob("*.json")):
        for stored in store.planned(plan.stem, root):
            if stored.key not in seen:
                seen.add(stored.key)
                yield stored


def finish(root: Path) -> int:
    """A finished and scored run for every key, of the results of one that was really made; how many."""
    first = next(stored for stored in runs(root) if stored.cell.method != "pretrained")
    command(root, "compclip.train", "--method", first.cell.method)
    command(root, "compclip.evaluate", "--method", first.cell.method)
    [scores] = first.folder.path.glob("scores/*")
    results = {path.stem: read_json(path) for path in scores.glob("*.json") if path.stem != "summary"}
    rng, count = np.random.default_rng(0), 0
    for stored in runs(root):
        count += 1
        if not stored.finished:
            _invent(stored, first, results, rng)
    return count


def _invent(stored: StoredRun, model: StoredRun, results: dict[str, dict], rng: np.random.Generator) -> None:
    final = stored.folder.final
    shutil.copytree(model.folder.final.path, final.path)
    write_atomic(final.weights, rng.bytes(WEIGHTS_BYTES))
    write_atomic(final.config, stored.config_text())
    facts = read_json(model.folder.final.environment)
    weights = {"weights_fingerprint": rng.bytes(16).hex(), "run_key": stored.key}
    write_json(final.environment, facts | weights)
    write_atomic(stored.folder.lock, "")
    plan = read_json(stored.root / "plan" / "evaluate" / f"{stored.cell.method}.json")
    with_noise = {name: _noisy(document, rng) for name, document in results.items()}
    kept.mark(stored.folder, kept.keep(kept.planned(plan, stored.root), stored.folder, with_noise))


def _noisy(document: dict, rng: np.random.Generator) -> dict:
    """The document with other outcomes, and the metrics that follow from them."""
    items, metrics = {}, dict(document["metrics"])
    for name, one in document["items"].items():
        outcomes = (rng.random(len(one["ids"])) < rng.uniform(0.4, 0.9)).astype(int).tolist()
        items[name] = one | {"outcomes": outcomes}
        metrics[name] = float(np.mean(outcomes))
    for name, members in document["means"].items():
        metrics[name] = float(np.mean([metrics[m] for m in members]))
    return document | {"items": items, "metrics": metrics}


def copies(root: Path) -> float:
    """Inodes of weights in the store, runs/, DVC's cache and MLflow, for each different checkpoint."""
    large = [p for p in root.rglob("*") if p.is_file() and p.stat().st_size >= WEIGHTS_BYTES]
    found = [p for p in large if p.suffix != ".db" and not {".git", "experiments"} & set(p.parts)]
    different = {p.stat().st_ino for p in root.glob("store/*/final/checkpoint/*.safetensors")}
    base = {p.stat().st_ino for p in root.glob("models/*/*")}
    return round(len({p.stat().st_ino for p in found} - base) / len(different), 3)


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
    found = []
    for cells in parser.parse_args().cells:
        with tempfile.TemporaryDirectory(prefix="cells-") as folder:
            found.append(measure(Path(folder) / "p", *GRIDS[cells]))
        print(json.dumps(found[-1]), file=sys.stderr, flush=True)
    broken = [f"{f['cells']}: {name}={f[name]}" for f in found for name, most in BOUNDS.items() if f[name] > most]
    nothing = {f["cells"]: f["nothing_s"] for f in found}
    if {14, 500} <= nothing.keys() and nothing[500] > NOTHING_GROWS * nothing[14]:
        broken.append(f"500: nothing_s={nothing[500]}, {nothing[500] / nothing[14]:.2f} times that at 14")
    print(json.dumps({"sizes": found, "broken": broken}))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
