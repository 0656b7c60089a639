"""What `python -m compclip.track` costs on grids of 50 and 500 finished runs, and how many files it keeps twice.

    python perf/track.py [--cells 50 500] [--weights-mib 2]

For each size a folder with invented runs as a real grid leaves them: 50 logged steps of eight terms, seven benchmarks
with 62 metrics and their items (0.6 MB), small weights, all linked into a store. The command then runs in processes of
its own, one run short of the grid: once for all of them, once more with nothing to do, and once with the last run.
Prints one JSON document a size; exit code 1 where a new run takes more than a second of CPU, where one new run costs
more calls of MLflow's client beside many runs than beside few, or where weights lie on the disk twice.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from omegaconf import OmegaConf

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from compclip.base import links  # noqa: E402
from compclip.base.files import write_atomic, write_json  # noqa: E402
from compclip.config.cell import Cell  # noqa: E402
from compclip.runs import folder  # noqa: E402
from compclip.runs.folder import Folder, Published  # noqa: E402

METHODS, SEEDS = 10, 5  # of each backbone and data set
STEPS, LIMIT_S = 50, 1.0
# benchmark -> metrics and the items of each
BENCHMARKS = {
    "sugarcrepe": {f"{kind}{pairs}": n for kind in ("add_att", "add_obj", "replace_att", "replace_obj", "replace_rel",
                   "swap_att", "swap_obj") for pairs, n in (("", 300), ("/seen_pairs", 150), ("/unseen_pairs", 150))},
    "sugarcrepe_pp": {f"{kind}_{task}": 300 for kind in ("replace_att", "replace_obj", "replace_rel", "swap_att",
                      "swap_obj") for task in ("itt", "tot")},
    "winoground": {"text": 300, "image": 300, "group": 300},
    "hard_positives": {f"{kind}_{metric}": n for kind, n in (("replace_relations", 300), ("replace_attributes", 300),
                       ("swap", 300), ("replace", 600)) for metric in ("original", "augmented", "brittleness", "gap")},
    "retrieval": {f"{way}_recall_at_{k}": n for way, n in (("i2t", 500), ("t2i", 1500)) for k in (1, 5, 10)},
    "zeroshot_symbols": {"top_1": 240, "top_5": 240, "mean_per_class": 240},
    "zeroshot_colours": {"top_1": 120, "top_5": 120, "mean_per_class": 120},
}  # fmt: skip
KINDS = {"retrieval": "retrieval", "zeroshot_symbols": "classification", "zeroshot_colours": "classification"}
TERMS = ("loss", "clip", "local", "global", "lr", "logit_scale", "grad_norm", "samples_per_second")
CHILD = """
import collections, json, sys, mlflow
from compclip.track.__main__ import main
calls = collections.Counter()
def counted(name, real):
    def call(*args, **kwargs):
        calls[name] += 1
        return real(*args, **kwargs)
    return call
for name, real in list(vars(mlflow.MlflowClient).items()):
    if callable(real) and not name.startswith("_"):
        setattr(mlflow.MlflowClient, name, counted(name, real))
code = main(sys.argv[1:])
print(json.dumps(calls), file=sys.stderr)
sys.exit(code)
"""


def cells(count: int) -> list[Cell]:
    """So many cells, the pretrained model's first; one data set for each 50."""
    methods = ["pretrained", *(f"finetune.v{i}" for i in range(1, METHODS))]
    data = [f"d{i}" for i in range(-(-count // (METHODS * SEEDS)))]
    return [Cell(m, "vit", d, s) for d in data for m in methods for s in range(SEEDS)][:count]


def params(root: Path, grid: list[Cell]) -> None:
    """The params.yaml of the grid."""
    source = {"source": "karpathy", "path": "a", "images": "b", "captioner": "none"}
    raw = {
        "grid": {
            "methods": list(dict.fromkeys(c.method for c in grid)),
            "backbones": ["vit"],
            "data": list(dict.fromkeys(c.data for c in grid)),
            "seeds": list(range(SEEDS)),
        },
        "train": {},
        "methods": {"pretrained": {}, "finetune": {"variants": {f"v{i}": {} for i in range(1, METHODS)}}},
        "backbones": {"vit": {"model": "ViT-B-32"}},
        "data": {c.data: source for c in grid},
        "benchmarks": {},
    }
    (root / "params.yaml").write_text(OmegaConf.to_yaml(raw))


def write(root: Path, cell: Cell, number: int, weights_mib: float) -> None:
    """One finished run in the store, published by links."""
    rng, run, place = np.random.default_rng(number), Folder(root / "store" / f"{number:016x}"), Published(root, cell)
    write_atomic(run.final.weights, rng.bytes(round(weights_mib * 2**20)))
    write_json(run.final.checkpoint / "open_clip_config.json", {"model_cfg": {}})
    write_atomic(run.final.config, OmegaConf.to_yaml(config(cell)))
    write_atomic(run.final.metrics, "".join(json.dumps(line) + "\n" for line in curve(rng)))
    facts = {"run_key": run.key, "device": "cpu", "threads": 1, "git_commit": "0" * 40, "peak_memory_mib": 900}
    write_json(run.final.environment, facts | {"seconds": 60.0, "device_seconds": 60.0, "dropped": {}})
    for name in BENCHMARKS:
        write_json(folder.result(run.scores("one"), name), document(name, rng))
    write_json(run.scored, {"identity": "one"})
    for part, target in zip(run.final.parts, place.trained.parts, strict=True):
        links.place(part, target)
    links.place(run.scores("one"), place.results)


def config(cell: Cell) -> dict:
    """As many parameters as a real run has."""
    where = {"method": cell.method, "backbone": cell.backbone, "data": cell.data, "seed": cell.seed}
    values = {f"value_{i}": i / 10 for i in range(24)}
    return {"cell": where, "method": {"gamma": 2.0}, "train": values, "data": {"path": "a"}, "backbone": {"model": "b"}}


def curve(rng: np.random.Generator) -> Iterator[dict]:
    """The logged steps."""
    for i in range(STEPS):
        values = dict(zip(TERMS, rng.random(len(TERMS)).tolist(), strict=True))
        yield {"step": 10 * (i + 1), "epoch": i / STEPS, "samples": 640 * i, **values, "time": 1_700_000_000.0 + i}


def document(name: str, rng: np.random.Generator) -> dict:
    """A benchmark's results."""
    items = {m: {"ids": [f"{m}:{i}" for i in range(n)], "outcomes": rng.integers(0, 2, n).tolist()}
             for m, n in BENCHMARKS[name].items()}  # fmt: skip
    metrics = {m: sum(i["outcomes"]) / len(i["outcomes"]) for m, i in items.items()}
    lower = [m for m in metrics if m.endswith(("brittleness", "gap"))]
    declared = {"kind": KINDS.get(name, "composition"), "lower": lower, "scores": []}
    head = {"benchmark": name, "module": name, "n": 300, **declared, "metrics": metrics}
    counts = {"records": 300, "scored": 300}
    return head | {"counts": counts, "items": items, "units": {}, "means": {}, "fingerprint": "f" * 64, "seconds": 12.5}


def track(root: Path) -> dict:
    """One call of the command in a process of its own."""
    env = {k: v for k, v in os.environ.items() if k != "MLFLOW_TRACKING_URI"}
    began, before = time.perf_counter(), _cpu()
    child = subprocess.Popen([sys.executable, "-c", CHILD], cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             text=True, env=env | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"})  # fmt: skip
    said, errors = child.communicate()
    if child.returncode:
        raise SystemExit(errors)
    calls = json.loads(errors.splitlines()[-1])
    return {"seconds": round(time.perf_counter() - began, 2), "cpu_seconds": round(_cpu() - before, 2),
            "said": said.splitlines()[0].partition(": ")[2], "calls": sum(calls.values()),
            "most_called": max(calls, key=calls.get)}  # fmt: skip


def _cpu() -> float:
    """Of all child processes that have ended: cores are shared, and the clock counts their other users too."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def disk(root: Path) -> dict:
    """Files and the inodes behind them, and how many copies of each run's weights there are."""
    every = [p.stat() for p in root.rglob("*") if p.is_file()]
    weights = [p.stat().st_ino for p in root.rglob(folder.WEIGHTS)]
    return {"files": len(every), "inodes": len({s.st_ino for s in every}),
            "mib": round(sum({s.st_ino: s.st_size for s in every}.values()) / 2**20, 1),
            "weights": len(weights), "weights_inodes": len(set(weights))}  # fmt: skip


def measure(root: Path, count: int, weights_mib: float) -> dict:
    """Everything about a grid of one size."""
    grid = cells(count)
    params(root, grid)
    for number, cell in enumerate(grid[:-1]):
        write(root, cell, number, weights_mib)
    before, first, nothing = disk(root), track(root), track(root)
    write(root, grid[-1], count - 1, weights_mib)
    one = track(root)
    each = round(first["cpu_seconds"] / (count - 1), 3)
    return {"cells": count, "first": first, "cpu_seconds_a_run": each, "nothing": nothing, "one_more": one,
            "disk_before": before, "disk_after": disk(root)}  # fmt: skip


def main() -> int:
    """Measure and say."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=int, nargs="+", default=[50, 500], help="sizes of the grids")
    parser.add_argument("--weights-mib", type=float, default=2.0, help="of each run")
    args, found = parser.parse_args(), []
    for count in args.cells:
        with tempfile.TemporaryDirectory(prefix="track-") as place:
            found.append(measure(Path(place), count, args.weights_mib))
        print(json.dumps(found[-1], indent=1), flush=True)
    slow = any(f["cpu_seconds_a_run"] > LIMIT_S for f in found)
    twice = any(f["disk_after"]["weights_inodes"] > f["cells"] for f in found)
    return int(slow or twice or len({f["one_more"]["calls"] for f in found}) > 1)


if __name__ == "__main__":
    sys.exit(main())
