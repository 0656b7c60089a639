"""Where two sources print other numbers of the same weights on the same metric, by how much, and why as far as known.

Sources are compared by the first number that each prints. The difference counts from more than half a point. A cause is
the wrong activation (`activation` in the tables) or one that field.yaml declares; it explains the difference if those
sources against which nothing is known agree, and theirs is then what our scorer would give.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compclip.field.published_field import PublishedField
from compclip.report.published_numbers import TOLERANCE, PublishedNumber

WRONG_ACTIVATION = "scored with GELU, trained with QuickGELU"
UNKNOWN = "not known"
NOT_ALL = "the rest is not known"
FIELDS = ("weights", "backbone", "column", "readings", "apart", "apart_as_trained", "cause", "ours_would_give")


@dataclass(frozen=True)
class Reading:
    """A number of a source, and what is known against it; `is_comparable` unless it is another mean."""

    number: PublishedNumber
    cause: str = ""
    points: float = 100.0
    is_comparable: bool = True

    @property
    def value(self) -> float:
        """The printed number."""
        return float(self.number.value)


@dataclass(frozen=True)
class Comparison:
    """All readings of the same weights in a column, of two sources or more."""

    weights: str
    backbone: str
    column: str
    readings: tuple[Reading, ...]

    @property
    def apart(self) -> float:
        """How far the readings are apart, in points."""
        return spread(self.readings)

    @property
    def sound(self) -> tuple[Reading, ...]:
        """The readings against which nothing is known."""
        return tuple(reading for reading in self.readings if not reading.cause)

    @property
    def apart_as_trained(self) -> float:
        """How far those with the activation of their training and the mean of the column are apart."""
        return spread([r for r in self.readings if r.is_comparable and r.cause != WRONG_ACTIVATION])

    @property
    def is_explained(self) -> bool:
        """Whether the sound readings agree, and no cause has to explain more than it can."""
        if not self.sound or spread(self.sound) > TOLERANCE + 1e-9:
            return False
        middle = self.sound[0].value
        return all(abs(r.value - middle) <= r.points + TOLERANCE for r in self.readings if r.cause)

    @property
    def cause(self) -> str:
        """The likely causes, each with its sources."""
        sources: dict[str, list[str]] = {}
        for reading in self.readings:
            if reading.cause:
                sources.setdefault(reading.cause, []).append(reading.number.paper)
        causes = [f"{', '.join(names)}: {cause}" for cause, names in sources.items()]
        if causes and not self.is_explained:
            causes.append(NOT_ALL)
        return "; ".join(causes) or UNKNOWN

    @property
    def expected(self) -> str:
        """What our scorer would give, where it is known."""
        if not self.is_explained:
            return ""
        values = [reading.value for reading in self.sound]
        return " to ".join(dict.fromkeys(f"{value:g}" for value in (min(values), max(values))))


def spread(readings: Sequence[Reading]) -> float:
    """Return how far the values are apart."""
    values = [reading.value for reading in readings]
    return round(max(values) - min(values), 4) if values else 0.0


def compare_sources(published: PublishedField) -> list[Comparison]:
    """Compare what sources print of the same weights, the largest difference first."""
    groups: dict[tuple[str, str, str], dict[tuple[str, str], Reading]] = {}
    for number in published.numbers:
        weights = published.find_weights(number)
        if weights:
            readings = groups.setdefault((weights, number.backbone, number.column), {})
            readings.setdefault((number.paper, number.activation), read_number(published, number))
    comparisons = []
    for (weights, backbone, column), readings in groups.items():
        is_comparable = any(reading.is_comparable for reading in readings.values())
        if is_comparable and len({source for source, _ in readings}) > 1:
            comparisons.append(Comparison(weights, backbone, column, tuple(readings.values())))
    return sorted(comparisons, key=lambda comparison: -comparison.apart)


def read_number(published: PublishedField, number: PublishedNumber) -> Reading:
    """Return a number with what is known against it."""
    cause = published.facts.find_cause(number)
    is_comparable = cause is None or not cause.is_mean
    if number.activation:
        return Reading(number, WRONG_ACTIVATION, is_comparable=is_comparable)
    return Reading(number, cause.cause, cause.points, is_comparable) if cause else Reading(number)


def list_conflicts(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """List the comparisons whose readings are further apart than their digits and ties explain."""
    return [comparison for comparison in comparisons if comparison.apart > TOLERANCE + 1e-9]


def count_conflicts(comparisons: Sequence[Comparison]) -> dict[str, int]:
    """Count what is compared, what is apart, and what still is by the right activation and the same mean."""
    conflicts = list_conflicts(comparisons)
    return {
        "compared": len(comparisons),
        "apart": len(conflicts),
        "apart_as_trained": sum(c.apart_as_trained > TOLERANCE + 1e-9 for c in conflicts),
        "unexplained": sum(not c.is_explained for c in conflicts),
    }


def tabulate_conflicts(comparisons: Sequence[Comparison]) -> list[tuple[object, ...]]:
    """Lay out a line for each conflict, by `FIELDS`."""
    return [
        (
            c.weights, c.backbone, c.column, describe_readings(c), c.apart, c.apart_as_trained, c.cause, c.expected,
        )
        for c in list_conflicts(comparisons)
    ]  # fmt: skip


def describe_readings(comparison: Comparison) -> str:
    """Say what each source prints, with its table."""
    return "; ".join(f"{r.number.paper} ({r.number.table}) {r.number.value}" for r in comparison.readings)
