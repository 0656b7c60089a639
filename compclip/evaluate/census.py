"""What a benchmark's files hold: records, pictures found and missing, the fingerprint. No model is needed.

data/benchmarks/<name>.json keeps it (the stage `benchmark`), so that an evaluation is recognised without reading any
benchmark; <name>.arrow beside it has what the pictures are known by, and data/records/<name>.arrow the texts that the
report joins with outcomes. Pillow is imported where a benchmark is read.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from compclip.base.errors import unknown
from compclip.base.files import write_json
from compclip.data.sample import ImageLocation
from compclip.evaluate import result_store
from compclip.evaluate.benchmark import Benchmark, Outcomes, metric_by_scorer
from compclip.evaluate.embeddings import Embeddings
from compclip.evaluate.picture_references import file_of, parse_reference
from compclip.runs.item_outcomes import COMPOSITION

if TYPE_CHECKING:
    from compclip.base.safe_names import SafeName
    from compclip.config.sections import BenchmarkSection as Section
    from compclip.prepare.benchmark_records import RecordPicture
    from compclip.prepare.record_writer import StoredRecord


def count_benchmark(benchmark: Benchmark) -> dict[str, Any]:
    """Return counts and fingerprint."""
    paths = [file_of(parse_reference(ref)[0]) for ref in benchmark.images]
    exists = {path: os.path.isfile(path) for path in dict.fromkeys(paths)}
    return {
        "records": len(benchmark),
        "images": len(paths),
        "missing_images": sum(not exists[path] for path in paths),
        "texts": len(benchmark.texts),
        **benchmark.dropped,
        "fingerprint": benchmark.fingerprint(),
    }


def metric_names(benchmark: Benchmark) -> list[str]:
    """Return the names of all metrics that the records have."""
    return list(score_made_vectors(benchmark).metrics)


def score_made_vectors(benchmark: Benchmark) -> Outcomes:
    """Return the outcomes of made-up vectors, which have every metric's items: no picture is opened."""

    class Unranked(Embeddings):
        """Vectors whose ranks nobody counts: all pairs of a large retrieval take minutes, and the names need none."""

        def ranks(self, refs: Sequence[str], texts: Sequence[str], owner_T: np.ndarray) -> tuple[Any, Any]:
            return np.zeros((len(refs), 3)), np.zeros((len(texts), 3))

    keys, generator = (benchmark.images, benchmark.texts), np.random.default_rng(0)
    image_ID, text_TD = (generator.standard_normal((len(names), 2), dtype=np.float32) for names in keys)
    image_row, text_row = ({key: row for row, key in enumerate(names)} for names in keys)
    return benchmark.score(Unranked(image_ID, text_TD, image_row, text_row, {}))


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
    from compclip.config import columns
    from compclip.evaluate.benchmark_module import load_benchmark
    from compclip.prepare import benchmark_overlap, benchmark_records, record_writer

    benchmark = load_benchmark(name, section)
    names = metric_names(benchmark) if report_metrics else []
    names += [metric_by_scorer(scorer, metric) for scorer in scorers[1:] for metric in names]
    for metric in columns.list_absent(report_metrics, names):
        where = f"{columns.WHERE}: not in the files of {name}"
        raise unknown("column", f"{name}/{metric}", [f"{name}/{metric}" for metric in names], where)
    counts = count_benchmark(benchmark)
    file_states = {str(file): result_store.file_state(file) for file in benchmark.files}
    pictures = dict.fromkeys(parse_reference(ref)[0] for ref in benchmark.images)
    benchmark_overlap.write_benchmark_images(root / result_store.CENSUSES / f"{name}.arrow", pictures)
    all_records = benchmark.authors or benchmark
    record_writer.write_records(
        benchmark_records.records_file(root, name),
        list_stored_records(all_records) if benchmark.kind == COMPOSITION else [],
        list(dict.fromkeys((benchmark.fingerprint(), all_records.fingerprint()))),
    )
    write_json(
        root / result_store.CENSUSES / f"{name}.json", counts | {"section": asdict(section), "files": file_states}
    )
    return counts


def list_stored_records(benchmark: Benchmark) -> list[StoredRecord]:
    """List the records as they are written for the report, with the groups of each."""
    from compclip.prepare.record_writer import StoredRecord

    groups_of: dict[tuple[str, str], list[str]] = {}
    for subset, groups in benchmark.groups.items():
        for group in sorted(groups):
            for key in groups[group]:
                groups_of.setdefault((subset, key), []).append(group)
    return [
        StoredRecord(r.subset, r.id, r.texts, tuple(groups_of.get((r.subset, r.id), ())), _parse_pictures(r.images))
        for r in benchmark.records
    ]


def _parse_pictures(references: Sequence[str]) -> tuple[RecordPicture, ...]:
    from compclip.prepare.benchmark_records import RecordPicture

    pictures = []
    for picture, box in map(parse_reference, references):
        offset, length = (picture.offset, picture.length) if isinstance(picture, ImageLocation) else (0, 0)
        pictures.append(RecordPicture(file_of(picture), offset, length, box or ()))
    return tuple(pictures)
