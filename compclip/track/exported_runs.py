"""What an exporter gets: the finished cells of the grid, with the names and values that MLflow has."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from compclip.config import grid, read
from compclip.runs.run_folder import Published
from compclip.track import entries
from compclip.track.entries import EntryOptions, MetricPoint, MlflowEntry
from compclip.track.tracked_files import SummaryCache


@dataclass(frozen=True)
class ExportedRun:
    """A finished cell: its name, parameters, tags and points; the latter's results stand at the last logged step."""

    entry: MlflowEntry

    @property
    def name(self) -> str:
        """Method-backbone-data-seed."""
        return self.entry.name

    @property
    def params(self) -> dict[str, str]:
        """The resolved parameters, with dotted names."""
        return self.entry.params

    @property
    def tags(self) -> dict[str, str]:
        """The cell's axes, its run key, commit and device."""
        return self.entry.tags

    @cached_property
    def content(self) -> str:
        """A hash of 16 digits: another one where a parameter, a result or the curve is another."""
        numbers = [(point.name, repr(point.value)) for point in self.entry.numbers]
        text = json.dumps([numbers, self.params, self.entry.content_of_files], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @cached_property
    def points(self) -> list[MetricPoint]:
        """Finite values in the order of their steps: the curve, read from its file, then the results."""
        points, results = self.entry.finite, set(self.entry.numbers)
        last_step = max((point.step for point in points), default=0)
        return [point._replace(step=last_step) if point in results else point for point in points]


def list_exported_runs(params_path: str | Path, root: Path) -> Iterator[ExportedRun]:
    """Yield the grid's cells that are published below `root`, in the order of the grid."""
    params, summaries = read.load_params(params_path), SummaryCache()
    places = [Published(root, cell) for cell in grid.list_cells(params)]
    cells = [summaries.summary(p.trained, p.results) for p in places if p.trained.environment.is_file()]
    columns = entries.select_columns([cell.run for cell in cells], params.report.columns)
    options = EntryOptions("", frozenset(cell.name for cell in cells), "", columns)
    yield from map(ExportedRun, entries.make_cell_entries(cells, options))
