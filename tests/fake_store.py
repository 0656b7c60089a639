"""A project whose runs are finished in the store, by hand: no data is read, nothing trains."""

import json
import os
from pathlib import Path

from compclip.base.files import write_atomic, write_json
from compclip.config import grid, read
from compclip.data import column_hashes
from compclip.data.shard_files import MANIFEST, Manifest, Shard
from compclip.prepare import shard_writer
from compclip.runs import run_store
from compclip.runs.run_store import StoredRun

PARAMS = """
grid: {{methods: {methods}, backbones: [tiny], data: [scenes], seeds: {seeds}}}
train: {{max_steps: 10, batch_size: 8, threads: 1}}
methods: {{fsc_clip: {{variants: {variants}}}, finetune: {{}}}}
backbones: {{tiny: {{model: tiny.json}}}}
data: {{scenes: {{source: karpathy, path: world/train.json, images: world/train, captioner: scenes}}}}
benchmarks: {{sugarcrepe: {{path: world/sugarcrepe, images: world/test}}}}
evaluate: {{benchmarks: [sugarcrepe], threads: 1}}
"""
DAY = 86400.0


def project(root: Path, methods: int = 1, seeds: int = 2) -> Path:
    """params.yaml of a grid of so many methods and seeds, and the files that its keys depend on."""
    variants = {f"v{i}": {"gamma": i / 10} for i in range(methods)}
    write_atomic(root / "params.yaml", params([f"fsc_clip.{name}" for name in variants], seeds, variants))
    write_data(root)
    write_atomic(root / "models/tiny/config.json", "config")
    for name in ("tiny.json", "world/train.json", "world/train", "world/sugarcrepe", "world/test"):
        write_atomic(root / name, "")  # read by no one, and asked for
    return root


def write_data(root: Path, **columns: str) -> None:
    """What keys read of the data set `scenes`: a manifest, and hashes of its columns, of which some may be others."""
    hashes = {"id": "i", "pictures": "p", "text": "t", "tokens": "o", "candidates": "c", "masked": "m"} | columns
    manifest = Manifest((Shard("00000", 1, 1, 1, json.dumps(hashes)),))
    shard_writer.write_manifest(root / "data/scenes" / MANIFEST, manifest)
    column_hashes.write_columns(root / "data/scenes", manifest, [hashes])


def params(methods: list[str], seeds: int, variants: dict | None = None) -> str:
    return PARAMS.format(
        methods=json.dumps(methods), seeds=json.dumps(list(range(seeds))), variants=json.dumps(variants or {})
    )


def runs(root: Path, params_file: str = "params.yaml", *overrides: str) -> list[StoredRun]:
    loaded = read.load_params(root / params_file, overrides)
    return [run_store.locate_run(run, root) for run in grid.resolve_all(loaded)]


def finish(stored: StoredRun, seconds: float = 36.0, days: float = 0.0, publish: bool = False) -> StoredRun:
    """Its finished files, of so many seconds on one device and so old."""
    folder, final = stored.folder, stored.folder.final
    write_atomic(folder.lock, "")
    write_atomic(final.weights, os.urandom(50_000))
    write_atomic(final.config, stored.config_text())
    row = {"epoch": 0.5, "loss": 1.0, "samples_per_second": 80.0, "time": 1.7e9}
    write_atomic(final.metrics, "".join(json.dumps({"step": step, **row}) + "\n" for step in range(1, 11)))
    life = {"started": 1.7e9, "devices": 1, "host": "node1", "pid": 1, "seconds": seconds}
    write_json(folder.lives / "a.json", life)
    write_json(folder.scores("e1") / "sugarcrepe.json", {"benchmark": "sugarcrepe", "metrics": {"add": 0.5}})
    write_json(folder.scored, {"identity": "e1"})
    write_json(final.environment, {"run_key": stored.key, "device_seconds": seconds, "processes": 1})
    then = final.environment.stat().st_mtime - days * DAY
    os.utime(final.environment, (then, then))
    if publish:
        stored.publish()
    return stored
