"""Which rows were tuned on what the report shows, and what the stage `tune` spent and chose.

A row is of a study if its parameters are those of a trial (to half a percent, since people round), the paper's own
settings apart. It was tuned on what is shown if the study's objectives are of a benchmark that is shown, unless one is
of validation items and the other of test items. What was copied from another project leaves no trace here.

The gain of a trial is the sum of its objectives less that of the pretrained model, in points, on validation items. A
trial within `FLAT_POINTS` of the best gain could have been chosen as well: many of them, over a wide range of a
parameter, say that its value matters little. A row says where its search left doubts: the best value of a parameter is
the outermost that was tried, or the tuned model's intervals hold the pretrained one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isclose
from pathlib import Path
from typing import Any

from compclip.base.files import read_mapping
from compclip.config import grid, tuning
from compclip.config.columns import SUMMARY
from compclip.config.sections import TEST, VALIDATION, WHOLE, Params
from compclip.report.escape import format_csv
from compclip.report.tables import MethodRow, ResultTable, RowName
from compclip.runs.result_files import FinishedRun

STUDIES = Path("studies")
ROUNDED = 5e-3  # relative; a value that was copied by hand


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
        settings = dict(run.config.get("method") or {})
        settings |= {f"train.{name}": value for name, value in (run.config.get("train") or {}).items()}
        for number, values in self.trials.items():
            if values and all(n in settings and _is_equal(value, settings[n]) for n, value in values.items()):
                return number
        return None

    def describe(self, trial: int) -> str:
        """Describe what a row of a trial was tuned on."""
        items = "whole benchmarks" if self.split == WHOLE else f"{self.split} items"
        chosen_by = f"chosen by {', '.join(self.objectives)} on {items}"
        return f"has the values of trial {trial} of the study {self.name}, {chosen_by}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_equal(tried: Any, used: Any) -> bool:
    are_numbers = _is_number(tried) and _is_number(used)
    return isclose(tried, used, rel_tol=ROUNDED) if are_numbers else tried == used


def read_studies(root: Path) -> list[PastStudy]:
    """Read the project's studies, sorted by name."""
    studies = []
    for path in sorted((root / STUDIES).glob("*/trials.json")):
        raw = read_mapping(path)
        objectives = tuple(o if isinstance(o, str) else o["metric"] for o in raw["objectives"])
        complete = [t for t in raw["trials"] if t["state"] == "complete" and not t.get("paper")]
        trials = {trial["number"]: trial["params"] for trial in complete}
        studies.append(PastStudy(raw["study"], raw["method"], raw.get("split", WHOLE), objectives, trials))
    return studies


def find_tuned_rows(
    runs: Iterable[FinishedRun], studies: Sequence[PastStudy], benchmarks: Collection[str], report_split: str
) -> dict[RowName, str]:
    """Describe for each row what it was tuned on, where the report shows that; rows that were not are absent."""
    leaky = [study for study in studies if study.overlaps(benchmarks, report_split)]
    rows: dict[RowName, str] = {}
    for run in runs:
        for study in leaky:
            trial = study.find_trial(run)
            if trial is not None:
                rows.setdefault((run.cell.method, run.cell.backbone, run.cell.data), study.describe(trial))
    return rows


# --- what the stage `tune` spent on each method, what it chose, and how flat the optimum is

FLAT_POINTS = 1.0
TUNING_FIELDS = [
    *("method", "backbone-data", "study", "objectives", "trials", "failed", "device_seconds", "gain_before"),
    *("gain", "flat_trials", "parameter", "before", "chosen", "flat_low", "flat_high"),
    *("declared_low", "declared_high", "searched_low", "searched_high", "at_edge"),
]
Ends = tuple[Any, Any]  # the least and the largest value; empty texts of choices


@dataclass(frozen=True)
class ChosenParameter:
    """A parameter before and after tuning, and the ends of what the flat trials had, was declared, and was searched.

    `at_edge`: nothing beyond the chosen value was tried on a side.
    """

    name: str
    before: Any
    chosen: Any
    flat: Ends
    declared: Ends = ("", "")
    searched: Ends = ("", "")
    at_edge: bool = False

    def describe(self) -> str:
        """Describe it in words: name, chosen value, value before, what the flat trials had, and a widened range."""
        text = f"{self.name} {_format_value(self.chosen)}"
        text += f" (before {_format_value(self.before)}; {_format_ends(self.flat)}"
        if self.searched != self.declared:
            text += f"; widened to {_format_ends(self.searched)}"
        return f"{text}; at an edge)" if self.at_edge else f"{text})"


@dataclass(frozen=True)
class TunedMethod:
    """A method's study in short. `gain_before`: of the values that the grid declares; None where no trial had them."""

    method: str
    place: str  # backbone-data
    study: str
    objectives: tuple[str, ...]
    trials: int
    failed: int
    device_seconds: float
    gain_before: float | None
    gain: float
    flat_trials: int
    parameters: tuple[ChosenParameter, ...]
    rows: tuple[RowName, ...] = ()  # that have its values


def read_tuned_methods(params: Params, root: Path) -> list[TunedMethod]:
    """Read what was chosen for the present section `tune`; empty where nothing is tuned."""
    documents = tuning.read_current(params, root)
    rows: dict[tuple[str, str], list[RowName]] = {}
    for cell in grid.list_cells(params):
        row = (cell.method, cell.backbone, cell.data)
        rows.setdefault((cell.method, tuning.place_name(cell)), []).append(row)
    methods = []
    for method, places in documents.items():
        for place, document in places.items():
            methods.append(_summarize(method, place, document, rows[method, place]))
    return methods


def _summarize(method: str, place: str, document: Mapping[str, Any], rows: Sequence[RowName]) -> TunedMethod:
    request = document["request"]
    reference = sum(document["reference"])
    gains = [100 * (sum(trial["values"]) - reference) for trial in document["trials"]]
    best = gains[document["best"]]
    declared_gain = None
    flat_trials = []
    for trial, gain in zip(document["trials"], gains, strict=True):
        if trial["paper"] and declared_gain is None:
            declared_gain = gain
        if gain >= best - FLAT_POINTS:
            flat_trials.append(trial["params"])
    declared_space: dict[str, Any] = {}
    for search in request["searches"]:
        declared_space |= search["space"]
    parameters = []
    for name, value in document["values"].items():
        before = tuning.get_value(request["settings"], name)
        flat = _range([params[name] for params in flat_trials])
        declared = _list_ends(declared_space[name])
        searched = _list_ends(document["space"][name])
        parameters.append(ChosenParameter(name, before, value, flat, declared, searched, name in document["edges"]))
    return TunedMethod(
        method, place, ", ".join(document["studies"]), tuple(request["study"]["objectives"]), len(gains),
        document["failed"], document["device_seconds"], declared_gain, best, len(flat_trials), tuple(parameters),
        tuple(rows),
    )  # fmt: skip


def _list_ends(dimension: Mapping[str, Any]) -> Ends:
    """Return the ends of a searched range; empty texts of choices."""
    low, high = dimension.get("float") or dimension.get("int") or ("", "")
    return low, high


def describe_searches(tables: Iterable[ResultTable], methods: Sequence[TunedMethod]) -> dict[RowName, str]:
    """Say where the search of a row left doubts: at an edge, or with a model like the pretrained one."""
    tuned: dict[RowName, TunedMethod] = {}
    notes: dict[RowName, list[str]] = {}
    for method in methods:
        tuned |= dict.fromkeys(method.rows, method)
        edges = [f"{p.name} {_format_value(p.chosen)}" for p in method.parameters if p.at_edge]
        for row_name in method.rows if edges else ():
            notes[row_name] = [f"was tuned to an edge of the search: nothing beyond {', '.join(edges)} was tried"]
    for table in tables:
        for row in table.rows:
            name = (row.method, table.backbone, table.data)
            objectives = tuned[name].objectives if name in tuned else ()
            undecided = _list_undecided(table, row, objectives)
            if undecided:
                note = f"cannot be told from the pretrained model in {', '.join(undecided)}, by which it was tuned"
                notes.setdefault(name, []).append(note)
    return {name: "; it ".join(texts) for name, texts in notes.items()}


def _list_undecided(table: ResultTable, row: MethodRow, objectives: Collection[str]) -> list[str]:
    """List the objectives of which the difference to the pretrained model is open; empty where one is decided."""
    undecided = []
    for column, statistic in row.statistics.items():
        if column.name in objectives and statistic.difference:
            if statistic.verdict:
                return []
            undecided.append(column.name)
    return undecided


def _range(values: Sequence[Any]) -> Ends:
    """Return the least and the largest of numbers; of choices all that there are, twice."""
    if all(map(_is_number, values)):
        return min(values), max(values)
    names = ", ".join(sorted({str(value) for value in values}))
    return names, names


def _format_value(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _format_ends(ends: Ends) -> str:
    return " to ".join(map(_format_value, ends))


def tabulate_tuning(methods: Sequence[TunedMethod]) -> list[list[str]]:
    """Tabulate a line a method: trials, minutes, the gain before and after, flat trials, and what was chosen."""
    lines = []
    for m in methods:
        trials = f"{m.trials}" + (f" + {m.failed} failed" if m.failed else "")
        before = "–" if m.gain_before is None else f"{m.gain_before:+.1f}"
        chosen = "; ".join(parameter.describe() for parameter in m.parameters)
        flat = f"{m.flat_trials} of {m.trials}"
        minutes = f"{m.device_seconds / 60:.1f}"
        lines.append([m.method, m.place, trials, minutes, before, f"{m.gain:+.1f}", flat, chosen])
    return lines


def format_tuning_csv(methods: Sequence[TunedMethod]) -> str:
    """Format a row a chosen parameter, numbers with all their digits; empty without studies."""
    rows = []
    for method in methods:
        names = [method.method, method.place, method.study, " + ".join(method.objectives)]
        spent = [method.trials, method.failed, method.device_seconds]
        gains = [method.gain_before, method.gain, method.flat_trials]
        for p in method.parameters:
            values = [p.name, p.before, p.chosen, *p.flat, *p.declared, *p.searched, p.at_edge]
            cells = [*names, *spent, *gains, *values]
            rows.append(["" if cell is None else str(cell) for cell in cells])
    return format_csv([TUNING_FIELDS, *rows]) if rows else ""
