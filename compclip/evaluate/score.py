"""Checkpoint x benchmarks -> result documents."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from compclip.base.errors import unknown
from compclip.evaluate import census, embed
from compclip.evaluate.benchmark import Benchmark, Items, Outcomes
from compclip.model import backbone
from compclip.model.backbone import Model

if TYPE_CHECKING:
    from compclip.config.sections import Benchmark as Section


@dataclass(frozen=True)
class Loaded:
    """Benchmarks as read, each one's module, and how checkpoints are scored on them."""

    benchmarks: dict[str, Benchmark]
    module_of: dict[str, str]
    batch_size: int = 256
    threads: int = 2


def load(sections: Mapping[str, Section], names: Sequence[str], batch_size: int = 256, threads: int = 2) -> Loaded:
    """Read benchmarks of params.yaml. Raises UserError for an unknown name."""
    for name in names:
        if name not in sections:
            raise unknown("benchmark", name, sections, "benchmarks")
    read = {name: census.load(name, sections[name]) for name in names}
    return Loaded(read, {name: sections[name].benchmark or name for name in names}, batch_size, threads)


def device() -> str:
    """Where checkpoints are scored: a GPU where there is one."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def outcomes(
    model: Model, benchmarks: Mapping[str, Benchmark], batch_size: int = 256, threads: int = 2
) -> dict[str, Outcomes]:
    """Score `model` on all benchmarks; an image or text that several of them need is encoded once."""
    refs = [ref for benchmark in benchmarks.values() for ref in benchmark.images]
    texts = [text for benchmark in benchmarks.values() for text in benchmark.texts]
    embeddings = embed.encode(model, refs, texts, batch_size, threads)
    return {name: benchmark.score(embeddings) for name, benchmark in benchmarks.items()}


def documents(model: Model, loaded: Loaded, made_with: Mapping[str, Any]) -> dict[str, dict]:
    """A model's result documents by benchmark name. `seconds` is the wall time of the whole pass."""
    start = time.perf_counter()
    scored = outcomes(model, loaded.benchmarks, loaded.batch_size, loaded.threads)
    return _documents(model, loaded, scored, made_with, time.perf_counter() - start)


def _documents(
    model: Model, loaded: Loaded, scored: Mapping[str, Outcomes], made_with: Mapping[str, Any], seconds: float
) -> dict[str, dict]:
    stand_in = {"tokenizer": model.tokenizer.record} if model.tokenizer.record else {}
    return {
        name: {
            "benchmark": name,
            "module": loaded.module_of[name],
            "n": len(benchmark),
            **_plain(scored[name]),
            "fingerprint": benchmark.fingerprint(),
            "checkpoint": {**made_with, **stand_in},
            "seconds": round(seconds, 3),
        }
        for name, benchmark in loaded.benchmarks.items()
    }


def made_with(checkpoint: str) -> dict[str, str]:
    """A checkpoint by path, or by a hub's name and tag, which stand for themselves."""
    known = backbone.weights_fingerprint(checkpoint) if Path(checkpoint).exists() else checkpoint
    return {"path": checkpoint, "fingerprint": known}


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
