"""Checkpoints x benchmarks -> result documents."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from compclip.base.errors import UserError, unknown
from compclip.config.how import USUAL, How
from compclip.evaluate import census, embed, local
from compclip.evaluate.benchmark import Benchmark, Outcomes
from compclip.evaluate.pictures import ROOM, Pictures
from compclip.model import backbone, sharing
from compclip.model.backbone import Model
from compclip.runs.items import COMPOSITION, PARTIAL, Items, is_partial

if TYPE_CHECKING:
    from compclip.config.how import Benchmark as Section
    from compclip.evaluate.embeddings import Embeddings


NOT_LEFT_OUT = ("records", "scored", "tied")  # counts of what is scored


@dataclass(frozen=True)
class Loaded:
    """Benchmarks as read, each one's module, and how checkpoints are scored on them."""

    benchmarks: dict[str, Benchmark]
    module_of: dict[str, str]
    how: How = USUAL

    @functools.cached_property
    def fingerprints(self) -> dict[str, str]:
        """Each benchmark's, taken once for all checkpoints."""
        return {name: benchmark.fingerprint() for name, benchmark in self.benchmarks.items()}


def load(sections: Mapping[str, Section], names: Sequence[str], how: How = USUAL) -> Loaded:
    """Read benchmarks of params.yaml, with all of their authors' records where ties go to the first.

    Raises UserError for an unknown name.
    """
    for name in names:
        if name not in sections:
            raise unknown("benchmark", name, sections, "benchmarks")
    read = {name: census.load(name, sections[name]).counted(how.ties) for name in names}
    return Loaded(read, {name: sections[name].benchmark or name for name in names}, how)


def device() -> str:
    """Where checkpoints are scored: a GPU where there is one."""
    return "cuda" if torch.cuda.is_available() else "cpu"


@dataclass(frozen=True)
class Checkpoint:
    """A model to score: folder, weights file or MODEL::TAG, how it is opened, and what its results say of it."""

    ref: str
    made_with: Mapping[str, str] = field(default_factory=dict)
    model: str = ""
    device: str = "cpu"
    tokenizer: str = ""
    activation: str = ""

    def open(self) -> Model:
        """The model."""
        return backbone.load(self.ref, self.model, self.device, self.tokenizer, self.activation)


def by_path(ref: str, model: str = "", device: str = "cpu", tokenizer: str = "", activation: str = "") -> Checkpoint:
    """A checkpoint that is known by its path, or by a hub's name and tag, which stand for themselves."""
    return Checkpoint(ref, {"path": ref, "fingerprint": backbone.known(ref)}, model, device, tokenizer, activation)


def outcomes(model: Model, benchmarks: Mapping[str, Benchmark], how: How = USUAL) -> dict[str, Outcomes]:
    """Score `model` on all benchmarks; an image or text that several of them need is encoded once."""
    return outcomes_of_all([model], benchmarks, how)[0]


def outcomes_of_all(
    models: Sequence[Model],
    benchmarks: Mapping[str, Benchmark],
    how: How = USUAL,
    weights: Sequence[str] = (),
    pictures: Pictures | None = None,
) -> list[dict[str, Outcomes]]:
    """Score models that are fed alike on all benchmarks; a picture is read and prepared once for them all.

    `weights`: their fingerprints, by which embeddings are kept where `how.cache` says so; without them none are.
    `pictures`: those that were prepared for others. Raises UserError where one of them gives no numbers.
    """
    refs = [ref for benchmark in benchmarks.values() for ref in benchmark.images]
    texts = [text for benchmark in benchmarks.values() for text in benchmark.texts]
    found = embed.encode_all(models, refs, texts, how, weights, pictures)
    given = zip(models, (replace(seen, ties=how.ties) for seen in found), strict=True)
    return [_scored(model, seen, benchmarks, how, pictures or Pictures()) for model, seen in given]


def _scored(
    model: Model, seen: Embeddings, benchmarks: Mapping[str, Benchmark], how: How, pictures: Pictures
) -> dict[str, Outcomes]:
    """By cosines all benchmarks; by further scorers those that compare a picture with some texts."""
    found = {name: benchmark.score(seen) for name, benchmark in benchmarks.items()}
    for scorer in how.scorers[1:]:
        other = local.scored(seen, scorer, model, how, pictures)
        for name, benchmark in benchmarks.items():
            if benchmark.kind == COMPOSITION:
                found[name] = found[name].beside(benchmark.score(other, benchmark.texts_alone), scorer)
    return found


def documents(checkpoint: Checkpoint, loaded: Loaded) -> dict[str, dict]:
    """A checkpoint's result documents by benchmark name. `seconds` is the wall time of the whole pass."""
    return _together([checkpoint], loaded, Pictures())[0]


def documents_of_all(
    checkpoints: Sequence[Checkpoint], loaded: Loaded
) -> Iterator[tuple[Checkpoint, dict[str, dict] | UserError]]:
    """Each checkpoint with its result documents, or with the error that it ended in; the others go on.

    Those that are fed alike share a pass over the pictures, as many at once as memory holds; `seconds` is then an equal
    share of the pass. The next ones take the prepared pictures of those before, as far as these are kept.
    """
    pictures = Pictures(ROOM)
    for part in sharing.parts(checkpoints, lambda checkpoint: checkpoint.ref):
        yield from _each(part, loaded, pictures)


def _each(
    checkpoints: Sequence[Checkpoint], loaded: Loaded, pictures: Pictures
) -> Iterator[tuple[Checkpoint, dict[str, dict] | UserError]]:
    """Together; where one fails, one by one, to know which."""
    try:
        yield from zip(checkpoints, _together(checkpoints, loaded, pictures), strict=True)
    except UserError as error:
        if len(checkpoints) == 1:
            yield checkpoints[0], error
        else:
            for checkpoint in checkpoints:
                yield from _each([checkpoint], loaded, pictures)


def _together(
    checkpoints: Sequence[Checkpoint], loaded: Loaded, pictures: Pictures | None = None
) -> list[dict[str, dict]]:
    start = time.perf_counter()
    models = [checkpoint.open() for checkpoint in checkpoints]
    weights = [checkpoint.made_with.get("fingerprint", "") for checkpoint in checkpoints]
    scored = outcomes_of_all(models, loaded.benchmarks, loaded.how, weights if all(weights) else (), pictures)
    seconds = round((time.perf_counter() - start) / len(checkpoints), 3)
    return [_documents(*of_one, loaded, seconds) for of_one in zip(checkpoints, models, scored, strict=True)]


def _documents(
    checkpoint: Checkpoint, model: Model, scored: Mapping[str, Outcomes], loaded: Loaded, seconds: float
) -> dict[str, dict]:
    stand_in = {"tokenizer": model.tokenizer.record} if model.tokenizer.record else {}
    return told(scored, loaded, {**checkpoint.made_with, **stand_in}, seconds)


def told(
    scored: Mapping[str, Outcomes], loaded: Loaded, made_with: Mapping[str, str], seconds: float
) -> dict[str, dict]:
    """The result documents of what was scored by `made_with` in so many seconds."""
    return {
        name: {
            "benchmark": name,
            "module": loaded.module_of[name],
            "n": len(benchmark),
            **benchmark.declared(scored[name].metrics),
            **_plain(scored[name]),
            "fingerprint": loaded.fingerprints[name],
            "checkpoint": dict(made_with),
            "how": loaded.how.recorded(),
            "seconds": seconds,
        }
        for name, benchmark in loaded.benchmarks.items()
    }


def _plain(scored: Outcomes) -> dict:
    return {
        "metrics": scored.metrics,
        "counts": scored.counts,
        "coverage": {metric: list(records) for metric, records in scored.coverage.items()},
        "items": {name: {"ids": list(i.ids), "outcomes": _numbers(i)} for name, i in scored.items.items()},
        "means": scored.means,
        "units": {name: list(i.units) for name, i in scored.items.items() if i.units},
    }


def _numbers(items: Items) -> list[int | float]:
    whole = items.values.astype(np.int64)
    return (whole if np.array_equal(whole, items.values) else items.values).tolist()


def table(documents: Mapping[str, dict]) -> str:
    """One line a metric: benchmark, metric, value, and on how many items it rests; a mark where few records did."""
    lines = [f"{'benchmark':<18} {'metric':<36} {'value':>7} {'n':>7}"]
    for name, doc in documents.items():
        for metric, value in doc["metrics"].items():
            n = len(doc["items"][metric]["ids"]) if metric in doc["items"] else "mean"
            lines.append(f"{name:<18} {metric:<36} {value:>7.4f} {n:>7}{_mark(doc, metric)}")
    return "\n".join(lines)


def _mark(document: Mapping, metric: str) -> str:
    """How many of its records a metric was scored on, where these are less than nine tenths."""
    scored, records = document.get("coverage", {}).get(metric, (0, 0))
    return f"  {PARTIAL} {scored:,} of {records:,} records" if is_partial(scored, records) else ""


def warnings(documents: Mapping[str, dict]) -> list[str]:
    """One line for each benchmark some of whose records or images were left out."""
    found = []
    for name, doc in documents.items():
        counts = doc["counts"]
        left_out = {k: v for k, v in counts.items() if v and "/" not in k and k not in NOT_LEFT_OUT}
        if left_out or not counts["scored"]:
            listed = ", ".join(f"{v} {k}" for k, v in left_out.items()) or "no records"
            found.append(f"warning: {name}: {counts['scored']} of {counts['records']} records scored ({listed})")
    return found
