"""What the stage `tune` spent on each method, what it chose, and how flat the optimum is.

The gain of a trial is the sum of its objectives less that of the pretrained model, in points, on validation items. A
trial within `FLAT_POINTS` of the best gain could have been chosen as well: many of them, over a wide range of a
parameter, say that its value matters little.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compclip.config import tuning
from compclip.config.sections import Params
from compclip.report.escape import format_csv, to_markdown

FLAT_POINTS = 1.0
FIELDS = [
    *("method", "backbone-data", "study", "objectives", "trials", "failed", "device_seconds", "gain_before"),
    *("gain", "flat_trials", "parameter", "before", "chosen", "flat_low", "flat_high"),
]


@dataclass(frozen=True)
class ChosenParameter:
    """A parameter before and after tuning, and its least and largest value among the flat trials; "" of no number."""

    name: str
    before: Any
    chosen: Any
    flat_low: Any
    flat_high: Any

    def describe(self) -> str:
        """Describe it in words: name, chosen value, value before, and what the flat trials had."""
        text = f"{self.name} {_format_value(self.chosen)} (before {_format_value(self.before)}"
        return f"{text}; {_format_value(self.flat_low)} to {_format_value(self.flat_high)})"


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

    def layout(self) -> dict[str, str]:
        """Return the cells of its line."""
        before = "" if self.gain_before is None else f"{self.gain_before:+.1f}"
        return {
            "method": self.method,
            "place": self.place,
            "trials": f"{self.trials}" + (f" + {self.failed} failed" if self.failed else ""),
            "minutes": f"{self.device_seconds / 60:.1f}",
            "before": before,
            "gain": f"{self.gain:+.1f}",
            "flat": f"{self.flat_trials} of {self.trials}",
            "parameters": "; ".join(parameter.describe() for parameter in self.parameters),
        }


def read_tuned_methods(params: Params, root: Path) -> list[TunedMethod]:
    """Read what was chosen for the present section `tune`; empty where nothing is tuned."""
    documents = tuning.read_current(params, root)
    return [
        _summarize(method, place, document)
        for method, places in documents.items()
        for place, document in places.items()
    ]


def _summarize(method: str, place: str, document: Mapping[str, Any]) -> TunedMethod:
    reference = sum(document["reference"])
    gains = [100 * (sum(trial["values"]) - reference) for trial in document["trials"]]
    best = gains[[trial["number"] for trial in document["trials"]].index(document["best"])]
    declared = (gain for trial, gain in zip(document["trials"], gains, strict=True) if trial["paper"])
    flat = [t["params"] for t, gain in zip(document["trials"], gains, strict=True) if gain >= best - FLAT_POINTS]
    settings = document["request"]["settings"]
    return TunedMethod(
        method=method,
        place=place,
        study=document["study"],
        objectives=tuple(document["request"]["study"]["objectives"]),
        trials=len(gains),
        failed=document["failed"],
        device_seconds=document["device_seconds"],
        gain_before=next(declared, None),
        gain=best,
        flat_trials=len(flat),
        parameters=tuple(
            ChosenParameter(name, tuning.get_value(settings, name), value, *_range([p[name] for p in flat]))
            for name, value in document["values"].items()
        ),
    )


def _range(values: Sequence[Any]) -> tuple[Any, Any]:
    """Return the least and the largest of numbers; of choices all that there are, twice."""
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return min(values), max(values)
    names = ", ".join(sorted({str(value) for value in values}))
    return names, names


def _format_value(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def describe_tuning(methods: Sequence[TunedMethod]) -> str:
    """Describe in a paragraph what all of them were given."""
    objectives = " + ".join(dict.fromkeys(name for method in methods for name in method.objectives))
    minutes = sum(method.device_seconds for method in methods) / 60
    return (
        f"All methods had the same number of trials, with a seed of their own; {minutes:.0f} device-minutes in all. "
        f"They were chosen by {objectives} on validation items. A gain is the sum over these columns less that of the "
        "pretrained model, in points: before, of the values that the grid declares, and of the chosen ones. Flat are "
        f"trials within {FLAT_POINTS:g} point of the best gain; behind each chosen value stand the one before and the "
        "range that the flat trials had."
    )


def format_tuning_markdown(methods: Sequence[TunedMethod]) -> str:
    """Format the studies as a table; empty without any."""
    if not methods:
        return ""
    text = f"\n## Tuning\n\n{describe_tuning(methods)}\n\n"
    text += "| method | on | trials | minutes | before | gain | flat | chosen |\n"
    text += "| --- | --- | ---: | ---: | ---: | ---: | ---: | --- |\n"
    return text + "".join(f"| {' | '.join(map(to_markdown, method.layout().values()))} |\n" for method in methods)


def format_tuning_csv(methods: Sequence[TunedMethod]) -> str:
    """Format a row a chosen parameter; empty without studies."""
    rows = [row for method in methods for row in _list_rows(method)]
    return format_csv([FIELDS, *rows]) if rows else ""


def _list_rows(method: TunedMethod) -> Iterator[list[object]]:
    names = (method.method, method.place, method.study, " + ".join(method.objectives))
    counts = (method.trials, method.failed, method.device_seconds, method.gain_before, method.gain, method.flat_trials)
    for parameter in method.parameters:
        values = (parameter.before, parameter.chosen, parameter.flat_low, parameter.flat_high)
        yield [*names, *counts, parameter.name, *values]
