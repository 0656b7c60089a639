"""Where two sources print other numbers of the same weights on the same metric, by how much, and why as far as known.

Sources are compared by the first number that each prints. The difference counts from more than half a point. A cause is
the wrong activation (`activation` in the tables) or one that field.yaml declares; it explains the difference if those
sources against which nothing is known agree, and theirs is then what our scorer would give.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compclip.field.published_field import Cause, PublishedField
from compclip.report.published_numbers import TOLERANCE, PublishedNumber

WRONG_ACTIVATION = "scored with GELU, trained with QuickGELU"
UNKNOWN = "not known"
NOT_ALL = "the rest is not known"


@dataclass(frozen=True)
class Comparison:
    """What two sources or more print of the same weights in a column, and what is known against each number."""

    weights: str
    backbone: str
    column: str
    readings: tuple[tuple[PublishedNumber, Cause], ...]

    @property
    def apart(self) -> float:
        """How far the readings are apart, in points."""
        return spread([number for number, _ in self.readings])

    @property
    def is_conflict(self) -> bool:
        """Whether they are further apart than digits and ties explain."""
        return self.apart > TOLERANCE

    @property
    def sound(self) -> list[PublishedNumber]:
        """The numbers against which nothing is known."""
        return [number for number, cause in self.readings if not cause.cause]

    @property
    def apart_as_trained(self) -> float:
        """How far those with the activation of their training and the mean of the column are apart."""
        return spread([n for n, cause in self.readings if not n.activation and not cause.is_mean])

    @property
    def is_explained(self) -> bool:
        """Whether the sound numbers agree, and no cause has to explain more than it can."""
        if not self.sound or spread(self.sound) > TOLERANCE:
            return False
        return all(spread([number, self.sound[0]]) <= cause.points + TOLERANCE for number, cause in self.readings)

    @property
    def cause(self) -> str:
        """The likely causes, each with its sources."""
        sources: dict[str, list[str]] = {}
        for number, cause in self.readings:
            if cause.cause:
                sources.setdefault(cause.cause, []).append(number.paper)
        causes = [f"{', '.join(names)}: {cause}" for cause, names in sources.items()]
        if causes and not self.is_explained:
            causes.append(NOT_ALL)
        return "; ".join(causes) or UNKNOWN

    @property
    def expected(self) -> str:
        """What our scorer would give, where it is known."""
        values = [float(number.value) for number in self.sound] if self.is_explained else []
        return " to ".join(dict.fromkeys(f"{end:g}" for end in (min(values), max(values)))) if values else ""

    @property
    def printed(self) -> str:
        """What each source prints, with its table."""
        return "; ".join(f"{number.paper} ({number.table}) {number.value}" for number, _ in self.readings)


def spread(numbers: Sequence[PublishedNumber]) -> float:
    """Return how far numbers are apart."""
    values = [float(number.value) for number in numbers]
    return round(max(values) - min(values), 4) if values else 0.0


def compare_sources(published: PublishedField) -> list[Comparison]:
    """Compare what sources print of the same weights, the largest difference first."""
    groups: dict[tuple[str, str, str], dict[tuple[str, str], tuple[PublishedNumber, Cause]]] = {}
    for number in published.numbers:
        weights = published.find_weights(number)
        if weights:
            cause = published.facts.find_cause(number)
            if number.activation:
                cause = Cause(cause=WRONG_ACTIVATION, is_mean=cause.is_mean)
            readings = groups.setdefault((weights, number.backbone, number.column), {})
            readings.setdefault((number.paper, number.activation), (number, cause))
    comparisons = []
    for key, readings in groups.items():
        sources = {source for source, _ in readings}
        if len(sources) > 1 and not all(cause.is_mean for _, cause in readings.values()):
            comparisons.append(Comparison(*key, tuple(readings.values())))
    return sorted(comparisons, key=lambda comparison: -comparison.apart)
