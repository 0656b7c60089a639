"""Checkpoint x benchmarks -> results documents."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from compclip.base import plugins
from compclip.base.errors import unknown
from compclip.base.files import fingerprint, read_json, write_json
from compclip.evaluate import embed
from compclip.evaluate.benchmark import Benchmark, Items, Outcomes
from compclip.model import backbone
from compclip.model.backbone import Model

# The code that an evaluation's results depend on.
CODE = (
    "backbone.py",
    "benchmark.py",
    "benchmarks",
    "embed.py",
    "evaluate.py",
    "hub.py",
    "images.py",
    "metrics.py",
    "tokenizers.py",
    "towers.py",
    "weights.py",
)
PRETRAINED = "pretrained"


@dataclass(frozen=True)
class Job:
    """One checkpoint, the benchmarks it is scored on, and how."""

    checkpoint: str
    benchmarks: dict[str, Benchmark]
    module_of: dict[str, str]
    batch_size: int = 256
    threads: int = 2
    model: str = ""
    device: str = "cpu"
    tokenizer: str = ""
    activation: str = ""


def outcomes(
    model: Model, benchmarks: Mapping[str, Benchmark], batch_size: int = 256, threads: int = 2
) -> dict[str, Outcomes]:
    """Score `model` on all benchmarks; an image or text that several of them need is encoded once."""
    refs = [ref for benchmark in benchmarks.values() for ref in benchmark.images]
    texts = [text for benchmark in benchmarks.values() for text in benchmark.texts]
    embeddings = embed.encode(model, refs, texts, batch_size, threads)
    return {name: benchmark.score(embeddings) for name, benchmark in benchmarks.items()}


def load_benchmarks(params: Any, names: Sequence[str]) -> tuple[dict[str, Benchmark], dict[str, str]]:
    """The benchmarks of params.yaml by name, and each one's module. Raises UserError for an unknown name."""
    loaded, module_of = {}, {}
    for name in names:
        if name not in params.benchmarks:
            raise unknown("benchmark", name, params.benchmarks, "benchmarks")
        entry_ = params.benchmarks[name]
        module_of[name] = entry_.benchmark or name
        module = plugins.find(plugins.BENCHMARKS, module_of[name])
        loaded[name] = module.load(entry_.path, images=entry_.images, split=entry_.split)
    return loaded, module_of


def run(job: Job) -> dict[str, dict]:
    """The results documents of a job by benchmark name. `seconds` is the wall time of the whole pass."""
    start = time.perf_counter()
    model = backbone.load(job.checkpoint, job.model, job.device, job.tokenizer, job.activation)
    scored = outcomes(model, job.benchmarks, job.batch_size, job.threads)
    stand_in = {"tokenizer": model.tokenizer.record} if model.tokenizer.record else {}
    made_with = {"path": job.checkpoint, "fingerprint": _fingerprint(job.checkpoint), **stand_in}
    seconds = round(time.perf_counter() - start, 3)
    return {
        name: {
            "benchmark": name, "module": job.module_of[name], "n": len(benchmark), **_plain(scored[name]),
            "fingerprint": benchmark.fingerprint(), "checkpoint": made_with, "seconds": seconds,
        }
        for name, benchmark in job.benchmarks.items()
    }  # fmt: skip


def _fingerprint(checkpoint: str) -> str:
    """Of the files; a hub's name and tag stand for themselves."""
    return backbone.weights_fingerprint(checkpoint) if Path(checkpoint).exists() else checkpoint


def _plain(scored: Outcomes) -> dict:
    return {
        "metrics": scored.metrics,
        "counts": scored.counts,
        "items": {name: {"ids": list(i.ids), "outcomes": _numbers(i)} for name, i in scored.items.items()},
        "means": scored.means,
    }


def _numbers(items: Items) -> list[int | float]:
    whole = items.values.astype(np.int64)
    return (whole if np.array_equal(whole, items.values) else items.values).tolist()


def summary(documents: Mapping[str, dict]) -> dict[str, float]:
    """All metrics flat, `benchmark/metric`."""
    return {f"{name}/{m}": value for name, doc in documents.items() for m, value in doc["metrics"].items()}


def table(documents: Mapping[str, dict]) -> str:
    """One line a metric: benchmark, metric, value, and on how many items it rests."""
    lines = [f"{'benchmark':<18} {'metric':<36} {'value':>7} {'n':>7}"]
    for name, doc in documents.items():
        for metric, value in doc["metrics"].items():
            n = len(doc["items"][metric]["ids"]) if metric in doc["items"] else "mean"
            lines.append(f"{name:<18} {metric:<36} {value:>7.4f} {n:>7}")
    return "\n".join(lines)


def warnings(documents: Mapping[str, dict]) -> list[str]:
    """One line for each benchmark some of whose records or images were left out."""
    found = []
    for name, doc in documents.items():
        counts = doc["counts"]
        left_out = {k: v for k, v in counts.items() if v and "/" not in k and k not in ("records", "scored")}
        if left_out or not counts["scored"]:
            listed = ", ".join(f"{v} {k}" for k, v in left_out.items()) or "no records"
            found.append(f"warning: {name}: {counts['scored']} of {counts['records']} records scored ({listed})")
    return found


def publish(documents: Mapping[str, dict], folder: Path) -> None:
    """Replace `folder` by one with these documents and summary.json: it is complete or not there."""
    fresh = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    write(documents, fresh)
    shutil.rmtree(folder, ignore_errors=True)
    os.replace(fresh, folder)


def write(documents: Mapping[str, dict], folder: Path) -> None:
    """Write <benchmark>.json and summary.json into `folder`, each whole; other files there stay."""
    for name, document in documents.items():
        write_json(folder / f"{name}.json", document)
    write_json(folder / "summary.json", summary(documents))


def identity(job: Job) -> str:
    """Equal for equal results: checkpoint, benchmarks, batch size, threads and code; the device is no part of it."""
    package = Path(__file__).parent
    scored = {name: [job.module_of[name], b.fingerprint()] for name, b in sorted(job.benchmarks.items())}
    parts = [
        _fingerprint(job.checkpoint),
        scored,
        job.batch_size,
        job.threads,
        fingerprint(*sorted(p for name in CODE for p in _files(package / name))),
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def _files(path: Path) -> list[Path]:
    return list(path.rglob("*.py")) if path.is_dir() else [path]


def keep(job: Job, documents: Mapping[str, dict], final: Path) -> None:
    """Leave results with a finished run, for `kept`."""
    (final / "evaluated.json").unlink(missing_ok=True)
    publish(documents, final / "results")
    write_json(final / "evaluated.json", {"identity": identity(job)})


def kept(job: Job, final: Path) -> dict[str, dict] | None:
    """The results that a finished run already has, where they are those that `job` would give."""
    mark = final / "evaluated.json"
    if not mark.is_file() or read_json(mark)["identity"] != identity(job):
        return None
    documents = {name: read_json(final / "results" / f"{name}.json") for name in job.benchmarks}
    return {name: doc | {"checkpoint": doc["checkpoint"] | {"path": job.checkpoint}} for name, doc in documents.items()}
