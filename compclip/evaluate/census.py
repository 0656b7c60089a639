"""What a benchmark's files hold: records, pictures found and missing, the fingerprint. No model is needed.

data/benchmarks/<name>.json keeps it (the stage `benchmark`), where `fingerprints` finds it; <name>.arrow beside it has
what the pictures are known by. Every benchmark enters by `load`, which trusts none of its module's names and texts.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compclip.base.errors import unknown
from compclip.base.files import write_json
from compclip.base.safe_names import SafeName
from compclip.evaluate import benchmark_fingerprints
from compclip.evaluate.benchmark_module import load_benchmark
from compclip.evaluate.picture_references import file_of, parse_reference

if TYPE_CHECKING:
    from compclip.config.sections import BenchmarkSection as Section
    from compclip.evaluate.benchmark import Benchmark


def count_benchmark(benchmark: Benchmark) -> dict[str, Any]:
    """Counts and fingerprint."""
    paths = [file_of(parse_reference(ref)[0]) for ref in benchmark.images]
    exists = {path: os.path.isfile(path) for path in dict.fromkeys(paths)}
    missing_count = sum(not exists[path] for path in paths)
    return {
        "records": len(benchmark),
        "images": len(paths),
        "missing_images": missing_count,
        "texts": len(benchmark.texts),
        **benchmark.dropped,
        "fingerprint": benchmark.fingerprint(),
    }


def metric_names(benchmark: Benchmark) -> list[str]:
    """Return the names of all metrics that the records have: those of made-up vectors, no picture is opened."""
    import numpy as np

    from compclip.evaluate.embeddings import Embeddings

    class Unranked(Embeddings):
        """Vectors whose ranks nobody counts: all pairs of a large retrieval take minutes, and the names need none."""

        def ranks(self, refs: Sequence[str], texts: Sequence[str], owner_T: np.ndarray) -> tuple[Any, Any]:
            return np.zeros((len(refs), 3)), np.zeros((len(texts), 3))

    keys, generator = (benchmark.images, benchmark.texts), np.random.default_rng(0)
    image_ID, text_TD = (generator.standard_normal((len(names), 2), dtype=np.float32) for names in keys)
    image_row, text_row = ({key: row for row, key in enumerate(names)} for names in keys)
    return list(benchmark.score(Unranked(image_ID, text_TD, image_row, text_row, {})).metrics)


def check_columns(
    name: SafeName, benchmark: Benchmark, report_metrics: Sequence[str], scorers: Sequence[str] = ()
) -> None:
    """Raise UserError for a metric that the report is to show and these files do not have."""
    from compclip.config import columns
    from compclip.evaluate.benchmark import metric_by_scorer

    names = metric_names(benchmark) if report_metrics else []
    names += [metric_by_scorer(scorer, metric) for scorer in scorers[1:] for metric in names]
    for metric in columns.list_absent(report_metrics, names):
        where = f"{columns.WHERE}: not in the files of {name}"
        raise unknown("column", f"{name}/{metric}", [f"{name}/{metric}" for metric in names], where)


def write_census(
    name: SafeName,
    section: Section,
    root: Path = Path("."),
    report_metrics: Sequence[str] = (),
    scorers: Sequence[str] = (),
) -> dict[str, Any]:
    """Count a benchmark and keep what was found, with the state of its files; gives the counts.

    Raises UserError for a metric of the report's columns (`report_metrics`) that the files do not have.
    """
    from compclip.prepare import (
        benchmark_overlap,  # and with it Pillow, which nobody needs who only asks for a fingerprint
    )

    benchmark = load_benchmark(name, section)
    check_columns(name, benchmark, report_metrics, scorers)
    counts = count_benchmark(benchmark)
    file_state = {
        "section": asdict(section),
        "files": {str(f): benchmark_fingerprints.stamp(f) for f in benchmark.files},
    }
    benchmark_overlap.write_benchmark_images(
        root / benchmark_fingerprints.FOLDER / f"{name}.arrow",
        dict.fromkeys(parse_reference(ref)[0] for ref in benchmark.images),
    )
    write_json(root / benchmark_fingerprints.FOLDER / f"{name}.json", counts | file_state)
    return counts
