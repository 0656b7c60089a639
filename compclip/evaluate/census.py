"""What a benchmark's files hold: records, pictures found and missing, the fingerprint. No model is needed.

data/benchmarks/<name>.json keeps it (the stage `benchmark`), where `fingerprints` finds it; <name>.arrow beside it has
what the pictures are known by. Every benchmark enters by `load`, which trusts none of its module's names and texts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compclip.base import plugins, surrogates
from compclip.base.errors import UserError, unknown
from compclip.base.files import write_json
from compclip.base.names import Name
from compclip.data import within
from compclip.evaluate import stamps
from compclip.evaluate.boxes import file_of, unboxed

if TYPE_CHECKING:
    from compclip.config.how import Benchmark as Section
    from compclip.evaluate.benchmark import Benchmark


def load(name: str, section: Section) -> Benchmark:
    """A benchmark of params.yaml, read by its module; halves of surrogate pairs in its texts are repaired and counted.

    Raises UserError for a picture outside of the section's `images`, and for an id that no file can hold.
    """
    found = _read(name, section)
    whole = found.authors or found
    if not section.images_outside:
        within.check(_pictures(whole), section.images, section.path)
    for key in _names(whole):
        if surrogates.has(key):
            raise UserError(f"{section.path}: id {key!a}: holds half a surrogate pair, no character; rename it")
    return replace(_repaired(found), authors=found.authors and _repaired(found.authors))


def _read(name: str, section: Section) -> Benchmark:
    """What the module makes of the section, with its options where it has any."""
    module = plugins.find(plugins.BENCHMARKS, section.benchmark or name)
    options = {}
    if section.options:
        from compclip.config import grid  # and with it OmegaConf, which nobody needs who has no options

        options["options"] = grid.benchmark_config(name, section, f"benchmarks.{name}.options")
    found: Benchmark = module.load(section.path, images=section.images, split=section.split, **options)
    return found


def _pictures(benchmark: Benchmark) -> Iterator[tuple[str, str]]:
    """Record and file of each picture."""
    return ((f"{r.subset}/{r.id}", file_of(unboxed(image)[0])) for r in benchmark.records for image in r.images)


def _names(benchmark: Benchmark) -> Iterator[str]:
    """What results are called by."""
    yield from (record.id for record in benchmark.records)
    yield from (group for groups in benchmark.groups.values() for group in groups)


def _repaired(benchmark: Benchmark) -> Benchmark:
    texts = [text for record in benchmark.records for text in record.texts]
    spoilt = sum(map(surrogates.has, texts))
    if not spoilt:
        return benchmark
    records = tuple(replace(r, texts=tuple(map(surrogates.repaired, r.texts))) for r in benchmark.records)
    return replace(benchmark, records=records, dropped={**benchmark.dropped, "repaired_texts": spoilt})


def census(benchmark: Benchmark) -> dict[str, Any]:
    """Counts and fingerprint."""
    paths = [file_of(unboxed(ref)[0]) for ref in benchmark.images]
    there = {path: os.path.isfile(path) for path in dict.fromkeys(paths)}
    missing = sum(not there[path] for path in paths)
    return {
        "records": len(benchmark),
        "images": len(paths),
        "missing_images": missing,
        "texts": len(benchmark.texts),
        **benchmark.dropped,
        "fingerprint": benchmark.fingerprint(),
    }


def metrics(benchmark: Benchmark) -> list[str]:
    """Return the names of all metrics that the records have: those of made-up vectors, no picture is opened."""
    import numpy as np

    from compclip.evaluate.embeddings import Embeddings

    class Unranked(Embeddings):
        """Vectors whose ranks nobody counts: all pairs of a large retrieval take minutes, and the names need none."""

        def ranks(self, refs: Sequence[str], texts: Sequence[str], owner_T: np.ndarray) -> tuple[Any, Any]:
            return np.zeros((len(refs), 3)), np.zeros((len(texts), 3))

    keys, generator = (benchmark.images, benchmark.texts), np.random.default_rng(0)
    image_ID, text_TD = (generator.standard_normal((len(part), 2), dtype=np.float32) for part in keys)
    image_row, text_row = ({key: row for row, key in enumerate(part)} for part in keys)
    return list(benchmark.score(Unranked(image_ID, text_TD, image_row, text_row, {})).metrics)


def check_columns(name: Name, benchmark: Benchmark, report_metrics: Sequence[str], scorers: Sequence[str] = ()) -> None:
    """Raise UserError for a metric that the report is to show and these files do not have."""
    from compclip.config import columns
    from compclip.evaluate.benchmark import by

    names = metrics(benchmark) if report_metrics else []
    names += [by(scorer, metric) for scorer in scorers[1:] for metric in names]
    for metric in columns.absent(report_metrics, names):
        where = f"{columns.WHERE}: not in the files of {name}"
        raise unknown("column", f"{name}/{metric}", [f"{name}/{metric}" for metric in names], where)


def take(
    name: Name,
    section: Section,
    root: Path = Path("."),
    report_metrics: Sequence[str] = (),
    scorers: Sequence[str] = (),
) -> dict[str, Any]:
    """Count a benchmark and keep what was found, with the state of its files; gives the counts.

    Raises UserError for a metric of the report's columns (`report_metrics`) that the files do not have.
    """
    from compclip.data import overlap  # and with it Pillow, which nobody needs who only asks for a fingerprint

    benchmark = load(name, section)
    check_columns(name, benchmark, report_metrics, scorers)
    found = census(benchmark)
    known = {"section": asdict(section), "files": {str(f): stamps.stamp(f) for f in benchmark.files}}
    overlap.write(root / stamps.FOLDER / f"{name}.arrow", dict.fromkeys(unboxed(ref)[0] for ref in benchmark.images))
    write_json(root / stamps.FOLDER / f"{name}.json", found | known)
    return found
