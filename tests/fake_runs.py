"""Runs and results with numbers that a person can check: three methods, two seeds (a third on demand), three benchmarks.

A row of bits is the outcomes of a metric's items; `swap` is the mean of its two subsets.
"""

import json
from pathlib import Path

from compclip.base.files import write_atomic, write_json
from compclip.config.cell import Cell
from compclip.report.published_numbers import OfficialBenchmarks
from compclip.runs import run_folder
from compclip.runs.item_outcomes import COMPOSITION, RETRIEVAL
from compclip.runs.run_folder import Published, Trained

METHODS = ("pretrained", "negclip", "clic")
BENCHMARKS = ("sugarcrepe", "hard_positives", "retrieval")
OFFICIAL = OfficialBenchmarks({name: (name * 2,) for name in BENCHMARKS})  # as if they were the papers' benchmarks
DECLARED = {
    "sugarcrepe": {"kind": COMPOSITION, "lower": [], "scores": [], "headline": []},
    "hard_positives": {"kind": COMPOSITION, "lower": ["brittleness"], "scores": ["mean_score"], "headline": []},
    "retrieval": {"kind": RETRIEVAL, "lower": [], "scores": [], "headline": ["i2t_recall_at_1", "t2i_recall_at_1"]},
}

# (method, seed) -> metric -> bits; the pretrained model is the same under both seeds
BITS = {
    ("pretrained", 0): {"swap_att": "1111100000", "swap_obj": "11000", "bad": "1000", "i2t": "11110", "t2i": "11100"},
    ("negclip", 0): {"swap_att": "1111111100", "swap_obj": "11100", "bad": "1100", "i2t": "11100", "t2i": "11100"},
    ("negclip", 1): {"swap_att": "1111111111", "swap_obj": "11110", "bad": "1110", "i2t": "11000", "t2i": "11110"},
    ("negclip", 2): {"swap_att": "1111111110", "swap_obj": "11110", "bad": "1100", "i2t": "11100", "t2i": "11100"},
    ("clic", 0): {"swap_att": "1111111110", "swap_obj": "11100", "bad": "0000", "i2t": "11110", "t2i": "11111"},
    ("clic", 1): {"swap_att": "1111111110", "swap_obj": "11100", "bad": "1000", "i2t": "11111", "t2i": "11110"},
    ("clic", 2): {"swap_att": "1111111110", "swap_obj": "11100", "bad": "1000", "i2t": "11111", "t2i": "11111"},
}
BITS[("pretrained", 1)] = BITS[("pretrained", 2)] = BITS[("pretrained", 0)]


def cell(method: str, backbone: str = "vit", data: str = "scenes", seed: int = 0) -> Cell:
    return Cell(method, backbone, data, seed)


def cells(methods: tuple[str, ...] = METHODS, seeds: tuple[int, ...] = (0, 1)) -> list[Cell]:
    return [cell(m, seed=s) for m in methods for s in seeds]


def make(root: Path, grid: list[Cell] | None = None) -> Path:
    """Write run and results of every cell below `root`, which it gives."""
    for one in grid or cells():
        place = Published(root, one)
        _write(place.results, one)
        _run(place.trained, one)
    return root


def trained(root: Path, name: str) -> Trained:
    """The run of the cell of that name, made by `make`."""
    return _place(root, name).trained


def result(root: Path, name: str, benchmark: str) -> Path:
    """One result file of the cell of that name."""
    return run_folder.result_path(_place(root, name).results, benchmark)


def _place(root: Path, name: str) -> Published:
    method, backbone, data, seed = name.split("-")
    return Published(root, Cell(method, backbone, data, int(seed)))


def _write(path: Path, cell: Cell) -> None:
    bits = BITS[(cell.method, cell.seed)]
    subsets = _items(bits, {"swap_att": "swap_att", "swap_obj": "swap_obj"})
    swap = (_mean(bits["swap_att"]) + _mean(bits["swap_obj"])) / 2
    unseen = {"swap_att/unseen_pairs": _mean(bits["swap_att"][:4])}
    files = {
        "sugarcrepe": (subsets, {"swap": swap, **unseen}, {"swap": ["swap_att", "swap_obj"]}, 15),
        "hard_positives": (_items(bits, {"brittleness": "bad"}), {"mean_score": 0.25}, {}, 4),
        "retrieval": (_items(bits, {"i2t_recall_at_1": "i2t", "t2i_recall_at_1": "t2i"}), {}, {}, 5),
    }
    for name, (items, extra, means, n) in files.items():
        _result(path, name, items, extra, means, n)


def write_sugarcrepe(path: Path, bits: dict[str, str]) -> None:
    """Write SugarCrepe's results alone, of outcomes by subset."""
    subsets = _items(bits, {name: name for name in bits})
    swap = sum(map(_mean, bits.values())) / len(bits)
    _result(path, "sugarcrepe", subsets, {"swap": swap}, {"swap": list(bits)}, 15)


def _result(path: Path, name: str, items: dict, extra: dict, means: dict, n: int) -> None:
    metrics = {m: sum(i["outcomes"]) / len(i["outcomes"]) for m, i in items.items()} | extra
    counts = {"records": n, "scored": n, "missing_image": 0}
    head = {
        "benchmark": name, "module": name, "n": n, **DECLARED[name], "metrics": metrics, "counts": counts,
        "items": items, "units": {},
    }  # fmt: skip
    write_json(run_folder.result_path(path, name), head | {"means": means, "fingerprint": name * 2, "seconds": 1.5})


def _items(bits: dict[str, str], names: dict[str, str]) -> dict[str, dict]:
    bits_by_metric = {metric: bits[key] for metric, key in names.items()}
    return {
        m: {"ids": [f"{m}:{i}" for i in range(len(b))], "outcomes": [int(x) for x in b]}
        for m, b in bits_by_metric.items()
    }


def _mean(bits: str) -> float:
    return bits.count("1") / len(bits)


def _run(path: Trained, cell: Cell) -> None:
    tuned = cell.method != "pretrained"
    lines = [_line(step, cell.seed) for step in (10, 20, 30)] if tuned else []
    write_atomic(path.metrics, "".join(json.dumps(line) + "\n" for line in lines))
    train = f"train: {{lr: {2e-6 if cell.method == 'clic' else 1e-6}, threads: 1}}"
    where = f"cell: {{method: {cell.method}, backbone: {cell.backbone}, data: {cell.data}, seed: {cell.seed}}}"
    write_atomic(path.config, f"{where}\n{train}\nmethod: {{weight: 0.5}}\n")
    facts = {"run_key": f"key-{cell.name}", "python": "3.11", "packages": {"torch": "2.0"}, "device": "cpu"}
    facts |= {"threads": 1, "git_commit": "0123456789abcdef", "peak_memory_mib": 900, "dropped": {}}
    write_json(path.environment, facts | {"seconds": 62.0 if tuned else 1.0})
    write_atomic(path.checkpoint / "open_clip_config.json", "{}")


def _line(step: int, seed: int) -> dict:
    clip, local = 3.0 - step / 20 + seed, 0.5
    loss = {"loss": clip + local, "clip": clip, "local": local}
    speed = {"lr": 1e-6, "logit_scale": 50.0, "grad_norm": 1.0, "samples_per_second": 100.0}
    return {"step": step, "epoch": step / 30, "samples": step * 8, **loss, **speed, "time": 1_700_000_000.0 + step}
