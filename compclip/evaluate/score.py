"""Checkpoint x benchmarks -> results documents."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from compclip.base import code, plugins
from compclip.base.errors import UserError, unknown
from compclip.base.files import read_json, write_json
from compclip.evaluate import embed
from compclip.evaluate.benchmark import Benchmark, Items, Outcomes
from compclip.model import backbone, sharing
from compclip.model.backbone import Model

if TYPE_CHECKING:
    from compclip.config.sections import Benchmark as Section

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
    return outcomes_of_all([model], benchmarks, batch_size, threads)[0]


def outcomes_of_all(
    models: Sequence[Model], benchmarks: Mapping[str, Benchmark], batch_size: int = 256, threads: int = 2
) -> list[dict[str, Outcomes]]:
    """Score models that are fed alike on all benchmarks; a picture is read and prepared once for them all.

    Raises UserError where one of them gives no numbers.
    """
    refs = [ref for benchmark in benchmarks.values() for ref in benchmark.images]
    texts = [text for benchmark in benchmarks.values() for text in benchmark.texts]
    found = embed.encode_all(models, refs, texts, batch_size, threads)
    return [{name: benchmark.score(seen) for name, benchmark in benchmarks.items()} for seen in found]


def load_benchmarks(params: Any, names: Sequence[str]) -> tuple[dict[str, Benchmark], dict[str, str]]:
    """The benchmarks of params.yaml by name, and each one's module. Raises UserError for an unknown name."""
    for name in names:
        if name not in params.benchmarks:
            raise unknown("benchmark", name, params.benchmarks, "benchmarks")
    return load({name: params.benchmarks[name] for name in names})


def load(sections: Mapping[str, Section]) -> tuple[dict[str, Benchmark], dict[str, str]]:
    """The benchmarks of some sections by name, and each one's module. Raises UserError for an unknown module."""
    loaded, module_of = {}, {}
    for name, section in sections.items():
        module_of[name] = section.benchmark or name
        module = plugins.find(plugins.BENCHMARKS, module_of[name])
        loaded[name] = module.load(section.path, images=section.images, split=section.split)
    return loaded, module_of


def run(job: Job) -> dict[str, dict]:
    """The results documents of a job by benchmark name. `seconds` is the wall time of the whole pass."""
    return _together([job])[0]


def run_all(jobs: Sequence[Job]) -> Iterator[tuple[Job, dict[str, dict] | UserError]]:
    """Each job with its results documents, or with the error that it ended in; the others go on.

    The jobs differ in their checkpoint alone. Those that are fed alike share a pass over the pictures, as many at once
    as memory holds; `seconds` is then an equal share of the pass.
    """
    for part in sharing.parts(jobs, lambda job: job.checkpoint):
        yield from _each(part)


def _each(jobs: Sequence[Job]) -> Iterator[tuple[Job, dict[str, dict] | UserError]]:
    """Together; where one fails, one by one, to know which."""
    try:
        yield from zip(jobs, _together(jobs), strict=True)
    except UserError as error:
        if len(jobs) == 1:
            yield jobs[0], error
        else:
            for job in jobs:
                yield from _each([job])


def _together(jobs: Sequence[Job]) -> list[dict[str, dict]]:
    start, first = time.perf_counter(), jobs[0]
    models = [backbone.load(j.checkpoint, j.model, j.device, j.tokenizer, j.activation) for j in jobs]
    scored = outcomes_of_all(models, first.benchmarks, first.batch_size, first.threads)
    seconds = round((time.perf_counter() - start) / len(jobs), 3)
    return [_documents(*of_one, seconds) for of_one in zip(jobs, models, scored, strict=True)]


def _documents(job: Job, model: Model, scored: Mapping[str, Outcomes], seconds: float) -> dict[str, dict]:
    stand_in = {"tokenizer": model.tokenizer.record} if model.tokenizer.record else {}
    made_with = {"path": job.checkpoint, "fingerprint": _fingerprint(job.checkpoint), **stand_in}
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
    scored = {name: [job.module_of[name], b.fingerprint()] for name, b in sorted(job.benchmarks.items())}
    modules = sorted({plugins.locate(plugins.BENCHMARKS, module) for module in job.module_of.values()})
    made_by = code.digest(__name__, *modules)
    parts = [_fingerprint(job.checkpoint), scored, job.batch_size, job.threads, made_by]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


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
