"""What a benchmark's module declares: all that its author has to know stands here and in `Benchmark` and `Record`.

Five ideas are enough: `METRICS`, `HEADLINE`, `load`, the `Record` and the function `evaluate` of the `Benchmark` that
`load` returns. Everything else has a default.

data/benchmarks/<name>.json keeps it (the stage `benchmark`), so that an evaluation is recognised without reading any
benchmark; <name>.arrow beside it has what the pictures are known by, and data/records/<name>.arrow the texts that the
report joins with outcomes. Pillow is imported where a benchmark is read.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from compclip.base import files, messages, plugins
from compclip.base.errors import UserError, unknown
from compclip.config import columns
from compclip.config.sections import DEFAULT_SCORING, Scoring
from compclip.data import parquet_cells
from compclip.data.sample import ImageLocation, PictureFinder
from compclip.evaluate.benchmark import Benchmark, Outcomes, file_of, ids, parse_reference, with_box
from compclip.evaluate.embeddings import Embeddings, number_keys
from compclip.evaluate.metrics import Ranks
from compclip.prepare import image_folder
from compclip.runs.item_outcomes import RETRIEVED, SPECIAL_TOKENS
from compclip.text.caption_cleaning import has_special_token

if TYPE_CHECKING:
    from compclip.config.sections import BenchmarkSection as Section
    from compclip.prepare.record_writer import RecordPicture, StoredRecord

HOOKS = {
    "METRICS": "metrics", "HEADLINE": "headline", "load": "load", "Config": "config", "BENCHMARK_GROUP": "group",
    "reads": "reads", "RECOGNISES": "recognises", "FILE_HEAD": "file_head",
}  # fmt: skip


@dataclass(frozen=True)
class BenchmarkModule:
    """The hooks of one module in `compclip/benchmarks`, or of another package's.

    metrics (`METRICS`): every metric that it may measure; `*` stands for names that only its files tell.
    headline (`HEADLINE`): the metrics whose plain mean is the benchmark's one number, in the report's Comp and ZS and
        in MLflow; absent where its authors give none: then Comp takes the mean of its columns in the report. Those of
        `Benchmark.lower` may not be among them.
    load (`load(path, images=None, split="")`): read the authors' files. Raises UserError for damaged ones.
    config (`Config`): a frozen dataclass of options, which `load` gets as `options`; None: the benchmark has none.
    reads (`reads(path, split="")`, and `options` as `load`): the files below `path` that `load` must have, where their
        names are known; what is missing is said before anything runs. Absent: those of RECOGNISES by their split.
    group (`BENCHMARK_GROUP`): names it with others wherever benchmarks are named (`config.columns`).
    recognises (`RECOGNISES`): patterns of files, seen from `path`, of any one of which `compclip init --test` knows it;
        a mapping where `split` names which of them are read. Empty: it is taken by its name alone.
    file_head (`FILE_HEAD`): a regular expression that such a file must also fit, `.` any character: its first 64 KiB,
        of Parquet and Arrow a JSON list of the columns' names.

    A module may also name NEGATIVE_FAMILIES, a tuple of methods, papers or rules that its wrong captions are made by:
    the report says of which rows that train with them that is true. Its own name is always one. Rules are named as
    `swap.negclip`. REMARK is what the report says of it wherever its number is compared.
    """

    metrics: tuple[str, ...]
    load: Callable[..., Benchmark]
    headline: tuple[str, ...] = ()
    config: type | None = None
    reads: Callable[..., Sequence[Path]] | None = None
    group: str = columns.DEFAULT
    recognises: Sequence[str] | Mapping[str, str] = ()
    file_head: str = ""


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
    if hooks.group not in columns.GROUPS:
        raise unknown("group", hooks.group, columns.GROUPS, f"benchmark {name!r}: BENCHMARK_GROUP")
    return hooks


def _check_names(name: str, module: ModuleType) -> None:
    """Raise UserError for a public name that is probably a misspelt hook."""
    absent_hooks = {hook.upper(): hook for hook in HOOKS if hook not in vars(module)}
    for public_name in vars(module):
        matches = get_close_matches(public_name.upper(), absent_hooks, n=1, cutoff=0.8)
        if matches:
            raise UserError(
                f"benchmark {name!r}: unknown hook {public_name!r}; did you mean {absent_hooks[matches[0]]!r}?"
            )


def load_benchmark(name: str, section: Section) -> Benchmark:
    """Read a benchmark of params.yaml; halves of surrogate pairs in its texts are repaired and counted.

    Raises UserError for a picture outside of the section's `images`, and for an id that no file can hold.
    """
    module = load_module(section.benchmark or name)
    options = {}
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
    if not section.images_outside:
        tables = set(map(str, benchmark.files))  # pictures inside of these lie nowhere else
        pictures = []
        for record in benchmark.records:
            for image in record.images:
                place = file_of(parse_reference(image)[0])
                if parquet_cells.file_of(place) not in tables:
                    pictures.append((f"{record.subset}/{record.id}", place))
        image_folder.check_images(pictures, section.images, section.path)
    for key in chain(ids(benchmark.records), *benchmark.groups.values()):
        if files.has_lone(key):
            raise UserError(f"{section.path}: id {key!a}: holds half a surrogate pair, no character; rename it")


def _repair_texts(benchmark: Benchmark) -> Benchmark:
    texts = list(chain.from_iterable(record.texts for record in benchmark.records))
    marked = sum(map(has_special_token, texts))
    if marked:
        benchmark = replace(benchmark, dropped={**benchmark.dropped, SPECIAL_TOKENS: marked})
    spoilt = sum(map(files.has_lone, texts))
    if not spoilt:
        return benchmark
    records = tuple(replace(r, texts=tuple(map(files.replace_lone, r.texts))) for r in benchmark.records)
    return replace(benchmark, records=records, dropped={**benchmark.dropped, "repaired_texts": spoilt})


def find_missing(refs: Collection[str]) -> set[str]:
    """Return the pictures whose file is not there."""
    refs_of: dict[str, list[str]] = {}
    for ref in refs:
        refs_of.setdefault(parquet_cells.file_of(file_of(parse_reference(ref)[0])), []).append(ref)
    return set(chain.from_iterable(of_file for path, of_file in refs_of.items() if not os.path.isfile(path)))


def list_inputs(benchmarks: Iterable[Benchmark]) -> tuple[list[str], list[str]]:
    """Return the different pictures and texts that are scored, sorted; a text beside missing pictures alone is none."""
    refs: set[str] = set()
    texts: set[str] = set()
    for benchmark in benchmarks:
        refs.update(images := benchmark.images)
        texts.update(benchmark.texts_beside(find_missing(images)))
    return sorted(refs), sorted(texts)


# --- what a benchmark's files hold: records, pictures found and missing, the fingerprint; no model is needed


def count_benchmark(benchmark: Benchmark) -> dict[str, Any]:
    """Return counts and fingerprint."""
    images = benchmark.images
    return {
        "records": len(benchmark),
        "images": len(images),
        "missing_images": len(find_missing(images)),
        "texts": len(benchmark.texts),
        **benchmark.dropped,
        "fingerprint": benchmark.fingerprint(),
    }


def score_made_vectors(benchmark: Benchmark) -> Outcomes:
    """Return the outcomes of made-up vectors, which have every metric's items: no picture is opened."""

    class Unranked(Embeddings):
        """Vectors whose ranks nobody counts: all pairs of a large retrieval take minutes, and the names need none."""

        def ranks(self, refs: Sequence[str], texts: Sequence[str], owner_T: np.ndarray, first: int = 0) -> Ranks:
            no_text = np.zeros((len(refs), 0), np.int64)
            return Ranks(np.zeros((len(refs), 3)), np.zeros((len(texts), 3)), no_text, no_text)

    image_row = number_keys(benchmark.images)
    text_row = number_keys(benchmark.texts)
    generator = np.random.default_rng(0)
    image_ID = generator.standard_normal((len(image_row), 2), dtype=np.float32)
    text_TD = generator.standard_normal((len(text_row), 2), dtype=np.float32)
    return benchmark.score(Unranked(image_ID, text_TD, image_row, text_row, {}))


def list_stored_records(benchmark: Benchmark) -> list[StoredRecord]:
    """List the records as they are written for the report, with the groups of each."""
    from compclip.prepare.record_writer import StoredRecord

    groups_of: dict[tuple[str, str], list[str]] = {}
    for subset, groups in benchmark.groups.items():
        for group in sorted(groups):
            for key in groups[group]:
                groups_of.setdefault((subset, key), []).append(group)
    stored = []
    for r in benchmark.records:
        groups_of_record = tuple(groups_of.get((r.subset, r.id), ()))
        stored.append(StoredRecord(r.subset, r.id, r.texts, groups_of_record, _parse_pictures(r.images)))
    return stored


def _parse_pictures(references: Sequence[str]) -> tuple[RecordPicture, ...]:
    from compclip.prepare.record_writer import RecordPicture

    pictures = []
    for picture, box in map(parse_reference, references):
        offset, length = (picture.offset, picture.length) if isinstance(picture, ImageLocation) else (0, 0)
        pictures.append(RecordPicture(file_of(picture), offset, length, box or ()))
    return tuple(pictures)


# --- benchmarks of a pass, and the documents of their results ----------------------------------------------------


@dataclass(frozen=True)
class LoadedBenchmarks:
    """Benchmarks as read, each one's module, and how checkpoints are scored on them."""

    benchmarks: dict[str, Benchmark]
    module_of: dict[str, str]
    how: Scoring = DEFAULT_SCORING

    @functools.cached_property
    def fingerprints(self) -> dict[str, str]:
        """Each benchmark's, taken once for all checkpoints."""
        return {name: benchmark.fingerprint() for name, benchmark in self.benchmarks.items()}


def load_benchmarks(
    sections: Mapping[str, Section], names: Sequence[str], how: Scoring = DEFAULT_SCORING
) -> LoadedBenchmarks:
    """Read benchmarks of params.yaml, with all of their authors' records where ties go to the first.

    Raises UserError for an unknown name.
    """
    module_of = {}
    for name in names:
        if name not in sections:
            raise _no_section(name, sections)
        module_of[name] = sections[name].benchmark or name
    benchmarks = {name: load_benchmark(name, sections[name]).counted(how.ties) for name in names}
    return LoadedBenchmarks(benchmarks, module_of, how)


def _no_section(name: str, sections: Mapping[str, Section]) -> UserError:
    if name not in plugins.list_plugins(plugins.BENCHMARKS):
        return unknown("benchmark", name, sections, "benchmarks")
    fix = f"add benchmarks.{name}.path=FILE_OR_FOLDER benchmarks.{name}.images=FOLDER"
    names = [section_name for section_name, section in sections.items() if section.benchmark == name]
    return UserError(f"benchmarks.{name}: no files of it are named; {' or take '.join([fix, *names])}")


def result_documents(
    scored: Mapping[str, Outcomes], loaded: LoadedBenchmarks, made_with: Mapping[str, str], seconds: float
) -> dict[str, dict]:
    """Return the result documents of what was scored by `made_with` in so many seconds; others have none."""
    documents = {}
    for name, benchmark in loaded.benchmarks.items():
        if name in scored:
            documents[name] = {
                "benchmark": name,
                "module": loaded.module_of[name],
                "n": len(benchmark),
                **benchmark.declared(scored[name].metrics),
                **_outcomes_as_json(scored[name]),
                "pictures": benchmark.unit_pictures,
                "fingerprint": loaded.fingerprints[name],
                "checkpoint": dict(made_with),
                "how": loaded.how.recorded(),
                "seconds": seconds,
            }
    return documents


def _outcomes_as_json(scored: Outcomes) -> dict:
    pictures = scored.items.get(RETRIEVED[0])
    first = pictures.retrieved if pictures else None
    retrieved = {}
    if first:
        retrieved = {"numbers": first.number_NK.ravel().tolist(), "scores": first.score_NK.ravel().round(4).tolist()}
    items = {}
    units = {}
    for name, of_metric in scored.items.items():
        if of_metric.units:
            units[name] = list(of_metric.units)
        values = of_metric.values
        integers = values.astype(np.int64)
        outcomes = integers if np.array_equal(integers, values) else values
        items[name] = {"ids": list(of_metric.ids), "outcomes": outcomes.tolist()}
    return {
        "metrics": scored.metrics,
        "counts": scored.counts,
        "coverage": {metric: list(records) for metric, records in scored.coverage.items()},
        "items": items,
        "means": scored.means,
        "units": units,
        "retrieved": retrieved,
    }
