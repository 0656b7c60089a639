"""Which rows were tuned on what the report shows, by the project's studies and its stage `tune`: they bear a mark.

A row is of a study if its parameters are those of a trial (to half a percent, since people round), the paper's own
settings apart. It was tuned on what is shown if the study's objectives are of a benchmark that is shown, unless one is
of validation items and the other of test items. What was copied from another project leaves no trace here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isclose
from pathlib import Path
from typing import Any

from compclip.base.errors import UserError
from compclip.base.files import read_mapping
from compclip.config.columns import SUMMARY
from compclip.config.sections import TEST, VALIDATION, WHOLE
from compclip.report.tables import ResultTable
from compclip.runs.result_files import FinishedRun

STUDIES = Path("studies")
ROUNDED = 5e-3  # relative; a value that was copied by hand
RowName = tuple[str, str, str]  # method, backbone, data


@dataclass(frozen=True)
class PastStudy:
    """A study of the project: the settings that it tried, and the items that it chose by."""

    name: str
    method: str
    split: str
    objectives: tuple[str, ...]
    trials: Mapping[int, Mapping[str, Any]]

    def overlaps(self, benchmarks: Collection[str], report_split: str) -> bool:
        """Return whether it chose by items of `benchmarks` that a report of `report_split` has."""
        if {self.split, report_split} == {VALIDATION, TEST}:
            return False
        chosen_by = {objective.partition("/")[0] for objective in self.objectives}
        return bool(chosen_by & {SUMMARY, *benchmarks})

    def find_trial(self, run: FinishedRun) -> int | None:
        """Return the first trial whose values are a run's; None where the run has others, or is of another method."""
        if run.cell.method.partition(".")[0] != self.method.partition(".")[0]:
            return None
        settings = {**(run.config.get("method") or {})}
        settings |= {f"train.{name}": value for name, value in (run.config.get("train") or {}).items()}
        return next((n for n, values in self.trials.items() if values and _are_equal(values, settings)), None)

    def describe(self, trial: int) -> str:
        """Describe what a row of a trial was tuned on."""
        items = "whole benchmarks" if self.split == WHOLE else f"{self.split} items"
        chosen_by = f"chosen by {', '.join(self.objectives)} on {items}"
        return f"has the values of trial {trial} of the study {self.name}, {chosen_by}"


def _are_equal(values: Mapping[str, Any], settings: Mapping[str, Any]) -> bool:
    return all(name in settings and _is_equal(value, settings[name]) for name, value in values.items())


def _is_equal(tried: Any, used: Any) -> bool:
    numbers = [isinstance(value, (int, float)) and not isinstance(value, bool) for value in (tried, used)]
    return isclose(tried, used, rel_tol=ROUNDED) if all(numbers) else tried == used


def read_studies(root: Path) -> list[PastStudy]:
    """Read the project's studies, sorted by name. Raises UserError for a damaged file."""
    return [_read_study(path) for path in sorted((root / STUDIES).glob("*/trials.json"))]


def _read_study(path: Path) -> PastStudy:
    raw = read_mapping(path)
    try:
        objectives = tuple(str(o if isinstance(o, str) else o["metric"]) for o in raw["objectives"])
        trials = {
            int(trial["number"]): dict(trial["params"])
            for trial in raw["trials"]
            if trial["state"] == "complete" and not trial.get("paper")
        }
        return PastStudy(str(raw["study"]), str(raw["method"]), str(raw.get("split", WHOLE)), objectives, trials)
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path}: not a study's trials ({error!r}); run the sweep again") from error


def find_tuned_rows(
    runs: Iterable[FinishedRun], studies: Sequence[PastStudy], benchmarks: Collection[str], report_split: str
) -> dict[RowName, str]:
    """Describe for each row what it was tuned on, where the report shows that; rows that were not are absent."""
    leaky = [study for study in studies if study.overlaps(benchmarks, report_split)]
    rows: dict[RowName, str] = {}
    for run in runs:
        matches = ((study, trial) for study in leaky if (trial := study.find_trial(run)) is not None)
        if match := next(matches, None):
            study, trial = match
            rows.setdefault((run.cell.method, run.cell.backbone, run.cell.data), study.describe(trial))
    return rows


def mark_table(table: ResultTable, tuned: Mapping[RowName, str]) -> ResultTable:
    """Return a table that knows which of its rows were tuned on what it shows."""
    names = [(row.method, backbone, table.data) for row in table.rows for backbone in reversed(table.backbones)]
    return replace(table, tuned={name[0]: tuned[name] for name in names if name in tuned})
