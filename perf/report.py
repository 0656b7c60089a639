"""Time and peak memory of `python -m compclip.report` on grids of 50 and 500 invented runs.

    python perf/report.py [--cells 50 500] [--rows 25] [--keep FOLDER]

The methods are those of experiments/grids/claims.yaml, with the claims and the published tables; benchmarks have the
sizes of the real ones (SugarCrepe 7,511 items, SugarCrepe++ 4,757 twice, retrieval 1,000 pictures with five captions,
Winoground 400, classification of 1,000 pictures), curves 50 lines. With more --rows than the grid has methods, variants
are invented. Prints one JSON document; exit code 1 where 500 cells took more than 60 s or 2 GiB.
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
from pathlib import Path

import numpy as np
from omegaconf import OmegaConf

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from compclip.config import documents, grid, read, sections  # noqa: E402
from compclip.config.cell import PRETRAINED  # noqa: E402
from compclip.runs import folder  # noqa: E402
from compclip.runs.folder import Published  # noqa: E402
from compclip.runs.items import CLASSIFICATION, COMPOSITION, RETRIEVAL  # noqa: E402

SECONDS, MIB, LARGE = 60, 2048, 500
SUBSETS = {"add_att": 692, "add_obj": 2062, "replace_att": 788, "replace_obj": 1652, "replace_rel": 1406,
           "swap_att": 666, "swap_obj": 245}  # fmt: skip
KINDS = ("add", "replace", "swap")
PICTURES, CAPTIONS, KS = 1000, 5, (1, 5, 10)
TERMS = ("clip", "global", "local", "negative", "positive", "uni", "npc", "xac")
COLUMNS = (
    *(f"sugarcrepe/{kind}" for kind in KINDS), "sugarcrepe_pp/replace_itt", "sugarcrepe_pp/swap_itt",
    "winoground/text", "winoground/image", "retrieval/i2t_recall_at_5", "retrieval/t2i_recall_at_5", "zeroshot/top_1",
)  # fmt: skip


def params(cells: int, rows: int) -> str:
    """params.yaml of a grid of that many cells in so many rows of each table."""
    raw = OmegaConf.load(ROOT / "experiments" / "grids" / "claims.yaml")
    tables = 4 if cells >= 4 * rows else 1
    names = list(raw.grid.methods)[:rows]
    invented = {f"weight{i:03d}": {"lambda_local": i / 1000} for i in range(rows - len(names))}
    raw.methods.fsc_clip.variants.update(invented)
    raw.grid.methods = [*names, *(f"fsc_clip.{name}" for name in invented)]
    raw.grid.seeds = list(range(cells // rows // tables))
    for section in ("backbones", "data"):
        raw[section].other = raw[section].scenes
        raw.grid[section] = ["scenes", "other"] if tables > 1 else ["scenes"]
    raw.wise_ft = {}
    raw.report.columns = list(COLUMNS)
    raw.evaluate.benchmarks = ["sugarcrepe", "sugarcrepe_pp", "winoground", "retrieval", "zeroshot"]
    raw.benchmarks = {name: {"path": "nowhere", "images": "nowhere"} for name in raw.evaluate.benchmarks}
    return OmegaConf.to_yaml(raw)


def make(root: Path, loaded: sections.Params) -> None:
    """Runs and results of every cell."""
    for number, cell in enumerate(grid.cells(loaded)):
        place, rng = Published(root, cell), np.random.default_rng(0 if cell.method == PRETRAINED else number)
        skill = 0.5 + 0.02 * (loaded.grid.methods.index(cell.method) % 13)
        _run(place, documents.to_yaml(grid.resolve(loaded, cell)), rng)
        for name, document in results(skill, rng).items():
            path = folder.result(place.results, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps({"benchmark": name, "module": name, **document}, indent=1))


def _run(place: Published, config: str, rng: np.random.Generator) -> None:
    place.trained.path.mkdir(parents=True, exist_ok=True)
    place.trained.config.write_text(config)
    losses = rng.random((50, len(TERMS))) + np.linspace(3, 1, 50)[:, None]
    lines = [
        {"step": 10 * i, "epoch": i / 50, "samples": 640 * i, "loss": float(row.sum()),
         **dict(zip(TERMS, map(float, row), strict=True)), "lr": 1e-6, "grad_norm": 1.0, "time": 1.7e9 + i}
        for i, row in enumerate(losses, 1)
    ]  # fmt: skip
    place.trained.metrics.write_text("".join(json.dumps(line) + "\n" for line in lines))
    facts = {"run_key": place.cell.name, "device": "cpu", "threads": 1, "git_commit": "0123456789abcdef"}
    facts |= {"seconds": 600.0, "device_seconds": 700.0, "peak_memory_mib": 900, "packages": {"torch": "2.0"}}
    place.trained.environment.write_text(json.dumps(facts))


def results(skill: float, rng: np.random.Generator) -> dict[str, dict]:
    """One result document a benchmark, its items right with the chance `skill`."""
    captions = [f"{i}#{c}" for i in range(PICTURES) for c in range(CAPTIONS)]
    recall = {f"i2t_recall_at_{k}": [str(i) for i in range(PICTURES)] for k in KS}
    recall |= {f"t2i_recall_at_{k}": captions for k in KS}
    plus = {f"{s}_{task}": SUBSETS[s] for s in SUBSETS if not s.startswith("add") for task in ("itt", "tot")}
    means = {kind: [s for s in SUBSETS if s.startswith(kind)] for kind in KINDS} | {"average": list(SUBSETS)}
    means_plus = {f"{kind}_{task}": [m for m in plus if m.startswith(kind) and m.endswith(task)]
                  for kind in KINDS[1:] for task in ("itt", "tot")}  # fmt: skip
    ids = {
        "sugarcrepe": {subset: _numbers(n) for subset, n in SUBSETS.items()},
        "sugarcrepe_pp": {metric: _numbers(n) for metric, n in plus.items()},
        "winoground": dict.fromkeys(("text", "image", "group"), _numbers(400)),
        "retrieval": recall,
        "zeroshot": {"top_1": [f"{i}.jpg" for i in range(1000)]},
    }
    averages = {"sugarcrepe": means, "sugarcrepe_pp": means_plus}
    kinds = {"retrieval": RETRIEVAL, "zeroshot": CLASSIFICATION}
    return {n: _document(kinds.get(n, COMPOSITION), own, averages.get(n, {}), skill, rng) for n, own in ids.items()}


def _numbers(count: int) -> list[str]:
    return [str(i) for i in range(count)]


def _document(kind: str, ids: dict[str, list[str]], means: dict, skill: float, rng: np.random.Generator) -> dict:
    items = {m: {"ids": own, "outcomes": (rng.random(len(own)) < skill).astype(int).tolist()} for m, own in ids.items()}
    metrics = {m: sum(i["outcomes"]) / len(i["outcomes"]) for m, i in items.items()}
    metrics |= {name: float(np.mean([metrics[m] for m in members])) for name, members in means.items()}
    scored = max(map(len, ids.values()))
    counts = {"records": scored, "scored": scored, "missing_image": 0, "unreadable_image": 0, "empty_text": 0}
    return {"n": scored, "kind": kind, "lower": [], "scores": [], "metrics": metrics, "counts": counts, "items": items,
            "units": {}, "means": means, "fingerprint": "f" * 64, "seconds": 60.0}  # fmt: skip


def measure(root: Path) -> dict[str, float]:
    """Seconds of wall and processor time and peak memory of one report."""
    own = ROOT / "experiments"
    words = ["--claims", str(own / "claims.yaml"), "--published", str(own / "published")]
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    subprocess.run(
        [sys.executable, "-m", "compclip.report", *words], cwd=root, env=environment, check=True, stdout=sys.stderr
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    page = (root / "reports" / "index.html").stat().st_size
    return {"wall_s": round(time.perf_counter() - began, 1), "cpu_s": round(seconds, 1),
            "peak_mib": after.ru_maxrss // 1024, "page_mib": round(page / 2**20, 1)}  # fmt: skip


def main() -> int:
    """Make the grids and measure, the smallest first: the peak is that of the largest child so far."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=int, nargs="+", default=[50, LARGE])
    parser.add_argument("--rows", type=int, default=25, help="rows of each table")
    parser.add_argument("--keep", type=Path, help="make the grids here, and leave them")
    args = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory() as folder_:
        for cells in sorted(args.cells):
            root = (args.keep or Path(folder_)) / f"{cells}"
            if not (root / "params.yaml").is_file():
                root.mkdir(parents=True)
                (root / "params.yaml").write_text(params(cells, args.rows))
                make(root, read.load(root / "params.yaml"))
            found[cells] = measure(root)
    print(json.dumps(found, indent=1))
    large = found.get(LARGE)
    return int(large is not None and (large["wall_s"] > SECONDS or large["peak_mib"] > MIB))


if __name__ == "__main__":
    sys.exit(main())
