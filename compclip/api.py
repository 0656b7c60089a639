"""compclip from Python: score a model on benchmarks, in a notebook or inside of a training loop, without a project.

    from compclip import api
    results = api.evaluate(model, ["sugarcrepe", "winoground"], preprocess=preprocess, tokenizer=tokenizer)
    results["sugarcrepe"].metrics["add_att"], results["sugarcrepe"].intervals["add_att"]

What `compclip evaluate` prints of a checkpoint are the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compclip.base.errors import UserError, unknown
from compclip.config import columns, project_files, read
from compclip.config.sections import BenchmarkSection

if TYPE_CHECKING:
    from compclip.evaluate.benchmark_module import LoadedBenchmarks

Place = str | Path


@dataclass(frozen=True)
class BenchmarkResult:
    """One benchmark's numbers. `document` is the result file that `compclip evaluate --out` would write.

    metrics: share of items by metric, 0 to 1. intervals: 95 % intervals of these over the items, by unit (a picture
    with all that is asked about it). items: each metric's outcomes by item.
    """

    metrics: dict[str, float]
    intervals: dict[str, tuple[float, float]]
    items: dict[str, dict[str, float]]
    document: dict[str, Any]


def evaluate(
    model: Any,
    benchmarks: Sequence[str],
    *,
    files: Mapping[str, Place] | None = None,
    images: Mapping[str, Place] | Place | None = None,
    preprocess: Callable | None = None,
    tokenizer: Callable | None = None,
    batch_size: int = 64,
    device: str = "",
) -> dict[str, BenchmarkResult]:
    """Score a model on benchmarks, by their names or groups (`comp`, `zeroshot`, `retrieval`, `long`).

    `model`: a checkpoint (a folder, or `MODEL::TAG`); an open_clip module, with its `preprocess` and `tokenizer`; or an
    object that encodes pictures and texts, or scores pairs of them (`compclip.evaluate.models`). A module is set to
    evaluation and back. `files` and `images` say where a benchmark's files and pictures lie, by its name (`images` may
    be one folder for all); by default params.yaml's places, or those to which `compclip fetch` brings them. A benchmark
    that params.yaml does not have, as one of your own, needs `files`.

    Raises UserError for an unknown benchmark, files that are missing or damaged, and a model that cannot be scored.
    """
    from compclip.evaluate import benchmark_module

    params = read.load_params(project_files.find_params())
    names = columns.expand_groups(benchmarks, params.benchmarks)
    for name in names:
        if name not in {**params.benchmarks, **(files or {})}:
            raise unknown("benchmark", name, params.benchmarks)
    sections = {**params.benchmarks, **_locate_files(names, params.benchmarks, files or {}, images)}
    loaded = benchmark_module.load_benchmarks(sections, names, replace(params.evaluate.scoring, batch_size=batch_size))
    documents = _score(model, loaded, preprocess, tokenizer, device)
    return {name: _result(document) for name, document in documents.items()}


def _locate_files(
    names: Sequence[str],
    sections: Mapping[str, BenchmarkSection],
    files: Mapping[str, Place],
    images: Mapping[str, Place] | Place | None,
) -> dict[str, BenchmarkSection]:
    """Return the sections of benchmarks whose files or pictures lie elsewhere than these say."""
    folders = images if isinstance(images, Mapping) else dict.fromkeys(names, images) if images else {}
    relocated = {}
    for name in [*files, *folders]:
        if name not in names:
            raise UserError(f"files, images: {name!r} is not among the benchmarks {list(names)}; correct the name")
        section = sections.get(name, BenchmarkSection())
        path = files.get(name, section.path)
        pictures = folders.get(name, section.images)
        relocated[name] = replace(section, path=str(path), images=str(pictures))
    return relocated


def _score(
    model: Any, loaded: LoadedBenchmarks, preprocess: Callable | None, tokenizer: Callable | None, device: str
) -> dict[str, dict]:
    from compclip.evaluate import foreign_models, score

    if isinstance(model, (str, Path)):
        return score.score_checkpoint(score.checkpoint_at(str(model), device=device or score.device()), loaded)
    if preprocess and tokenizer:
        model = foreign_models.OpenClipEncoder(model, preprocess, tokenizer)
    elif hasattr(model, "encode_image"):
        raise UserError(f"{type(model).__name__}: needs its preprocess and tokenizer; give both")
    foreign_models.check_model(model)
    return foreign_models.score_model(model, loaded, {"model": type(model).__name__})


def _result(document: dict[str, Any]) -> BenchmarkResult:
    from compclip.evaluate.compare import compute_intervals

    items = {name: dict(zip(i["ids"], i["outcomes"], strict=True)) for name, i in document["items"].items()}
    return BenchmarkResult(document["metrics"], compute_intervals(document), items, document)
