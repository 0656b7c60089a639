"""What a benchmark's module declares: all that its author has to know stands here and in `Benchmark` and `Record`.

Five ideas are enough: `METRICS`, `HEADLINE`, `load`, the `Record` and the function `evaluate` of the `Benchmark` that
`load` returns. Everything else has a default.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from difflib import get_close_matches
from types import ModuleType
from typing import TYPE_CHECKING

from compclip.base import json_text, messages, plugins
from compclip.base.errors import UserError, unknown
from compclip.config import benchmark_groups
from compclip.data.picture_names import PictureFinder
from compclip.evaluate.benchmark import Benchmark
from compclip.evaluate.picture_references import file_of, parse_reference, with_box
from compclip.prepare import sample_cleaning
from compclip.text.caption_cleaning import has_special_token

if TYPE_CHECKING:
    from compclip.config.sections import BenchmarkSection as Section

HOOKS = {"METRICS": "metrics", "HEADLINE": "headline", "load": "load", "Config": "config", "BENCHMARK_GROUP": "group"}

SPECIAL_TOKENS = "special_tokens"  # count of a result: texts that spell a mark of a tokenizer


@dataclass(frozen=True)
class BenchmarkModule:
    """The hooks of one module in `compclip/benchmarks`, or of another package's.

    metrics (`METRICS`): every metric that it may measure; `*` stands for names that only its files tell.
    headline (`HEADLINE`): the metrics whose plain mean is the benchmark's one number, in the report's Comp and ZS and
        in MLflow; () where its authors give none, then Comp takes the mean of its columns in the report. Which metrics
        are better when lower says `Benchmark.lower`; none of them may stand here.
    load (`load(path, images=None, split="")`): read the authors' files. Raises UserError for damaged ones.
    config (`Config`): a frozen dataclass of options, which `load` gets as `options`; None: the benchmark has none.
    group (`BENCHMARK_GROUP`): names it with others wherever benchmarks are named (`config.benchmark_groups`).
    """

    metrics: tuple[str, ...]
    headline: tuple[str, ...]
    load: Callable[..., Benchmark]
    config: type | None = None
    group: str = benchmark_groups.DEFAULT


def load_module(name: str) -> BenchmarkModule:
    """Import a benchmark's module and return its hooks.

    Raises UserError for an unknown name, a missing hook, a name that is nearly a hook, or a headline that is no metric.
    """
    module = plugins.load_plugin(plugins.BENCHMARKS, name)
    _check_names(name, module)
    hooks = BenchmarkModule(**{field: vars(module)[hook] for hook, field in HOOKS.items() if hook in vars(module)})
    for metric in hooks.headline:
        if metric not in hooks.metrics:
            raise unknown("metric", metric, hooks.metrics, f"benchmark {name!r}: HEADLINE")
    if hooks.group not in benchmark_groups.GROUPS:
        raise unknown("group", hooks.group, benchmark_groups.GROUPS, f"benchmark {name!r}: BENCHMARK_GROUP")
    return hooks


def _check_names(name: str, module: ModuleType) -> None:
    """Raise UserError for a public name that is probably a misspelt hook."""
    absent_hooks = {hook.upper(): hook for hook in HOOKS if hook not in vars(module)}
    for public_name in vars(module):
        if matches := get_close_matches(public_name.upper(), absent_hooks, n=1, cutoff=0.8):
            raise UserError(
                f"benchmark {name!r}: unknown hook {public_name!r}; did you mean {absent_hooks[matches[0]]!r}?"
            )


def load_benchmark(name: str, section: Section) -> Benchmark:
    """Read a benchmark of params.yaml; halves of surrogate pairs in its texts are repaired and counted.

    Raises UserError for a picture outside of the section's `images`, and for an id that no file can hold.
    """
    module, options = load_module(section.benchmark or name), {}
    if section.options:
        from compclip.config import grid  # and with it OmegaConf, which nobody needs who has no options

        options["options"] = grid.benchmark_config(name, section, f"benchmarks.{name}.options")
    benchmark = module.load(section.path, images=section.images, split=section.split, **options)
    benchmark = _find_pictures(benchmark, PictureFinder(section.images, section.path))
    _check_pictures_and_ids(benchmark.authors or benchmark, section)
    authors = benchmark.authors and _repair_texts(benchmark.authors)
    return replace(_repair_texts(benchmark), authors=authors, headline=benchmark.headline or module.headline)


def _find_pictures(benchmark: Benchmark, finder: PictureFinder) -> Benchmark:
    """Return the benchmark with its pictures as they are called on the disk; one that two names mean is missing."""
    files: dict[str, str] = {}
    for picture in (benchmark.authors or benchmark).images:
        path = parse_reference(picture)[0]
        if isinstance(path, str):
            files[picture] = finder.find(path)
    shared = finder.find_shared()
    for line in shared.values():
        messages.warn(line)
    renamed = {}
    for picture, file in files.items():
        path, box = parse_reference(picture)
        if file != path and file not in shared:
            renamed[picture] = with_box(file, box)
    return _rename_pictures(benchmark, renamed) if renamed else benchmark


def _rename_pictures(benchmark: Benchmark, renamed: dict[str, str]) -> Benchmark:
    records = []
    for record in benchmark.records:
        records.append(replace(record, images=tuple(renamed.get(image, image) for image in record.images)))
    authors = benchmark.authors and _rename_pictures(benchmark.authors, renamed)
    return replace(benchmark, records=tuple(records), authors=authors)


def _check_pictures_and_ids(benchmark: Benchmark, section: Section) -> None:
    records = benchmark.records
    if not section.images_outside:
        pictures = ((f"{r.subset}/{r.id}", file_of(parse_reference(image)[0])) for r in records for image in r.images)
        sample_cleaning.check_images(pictures, section.images, section.path)
    group_names = [group for groups in benchmark.groups.values() for group in groups]
    for key in [record.id for record in records] + group_names:
        if json_text.has_lone(key):
            raise UserError(f"{section.path}: id {key!a}: holds half a surrogate pair, no character; rename it")


def _repair_texts(benchmark: Benchmark) -> Benchmark:
    texts = [text for record in benchmark.records for text in record.texts]
    marked = sum(map(has_special_token, texts))
    if marked:
        benchmark = replace(benchmark, dropped={**benchmark.dropped, SPECIAL_TOKENS: marked})
    spoilt = sum(map(json_text.has_lone, texts))
    if not spoilt:
        return benchmark
    records = tuple(replace(r, texts=tuple(map(json_text.replace_lone, r.texts))) for r in benchmark.records)
    return replace(benchmark, records=records, dropped={**benchmark.dropped, "repaired_texts": spoilt})
