"""Where sources print other numbers of the same weights, and whether the papers' findings come back in other sources.

Sources are compared by the first number that each prints. The difference counts from more than half a point. A cause is
the wrong activation (`activation` in the tables) or one that field.yaml declares; it explains the difference if those
sources against which nothing is known agree, and theirs is then what our scorer would give.

Each inequality of claims.yaml is put to all published contexts. A context is one source, backbone and training data set
of which both methods are printed; a method there may be trained by the paper or be its authors' checkpoint. Columns
that a mean stands for are averaged over what both rows print. The sign holds if the difference lies on its side of the
margin. Rows that were scored with a wrong activation do not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from compclip.config.cell import PRETRAINED
from compclip.field.published_field import Cause, PublishedField, SourceModel, name_without_data
from compclip.report import published_numbers
from compclip.report.claims import Claim, Inequality
from compclip.report.published_numbers import RELEASED, TOLERANCE, PublishedNumber

WRONG_ACTIVATION = "scored with GELU, trained with QuickGELU"
UNKNOWN = "not known"
NOT_ALL = "the rest is not known"


@dataclass(frozen=True)
class Comparison:
    """What two sources or more print of the same weights in a column, and how far apart that is, in points.

    `apart_as_trained` leaves out wrong activations and other means. `cause` has the likely causes, each with its
    sources; `expected` is what our scorer would give, where it is known.
    """

    weights: str
    backbone: str
    column: str
    printed: str
    apart: float
    apart_as_trained: float
    cause: str
    expected: str


def compare_readings(
    weights: str, backbone: str, column: str, readings: Sequence[tuple[PublishedNumber, Cause]]
) -> Comparison:
    """Compare numbers of the same weights, each with what is known against it.

    They are explained where the sound ones agree, and no cause has to explain more than it can.
    """
    as_trained = [n for n, cause in readings if not n.activation and not cause.is_mean]
    sound = [number for number, cause in readings if not cause.cause]
    is_explained = bool(sound) and spread(sound) <= TOLERANCE
    sources: dict[str, list[str]] = {}
    printed = []
    for number, cause in readings:
        printed.append(f"{number.paper} ({number.table}) {number.value}")
        if cause.cause:
            sources.setdefault(cause.cause, []).append(number.paper)
        if sound and spread([number, sound[0]]) > cause.points + TOLERANCE:
            is_explained = False
    causes = [f"{', '.join(names)}: {cause}" for cause, names in sources.items()]
    if causes and not is_explained:
        causes.append(NOT_ALL)
    expected = ""
    if is_explained:
        values = [float(number.value) for number in sound]
        expected = " to ".join(dict.fromkeys(f"{end:g}" for end in (min(values), max(values))))
    apart = spread([number for number, _ in readings])
    likely = "; ".join(causes) or UNKNOWN
    return Comparison(weights, backbone, column, "; ".join(printed), apart, spread(as_trained), likely, expected)


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
            comparisons.append(compare_readings(*key, list(readings.values())))
    return sorted(comparisons, key=lambda comparison: -comparison.apart)


# --- whether findings come back


@dataclass(frozen=True)
class Context:
    """One source's difference left - right in a claim's column; `is_wrong`: a row has a wrong activation."""

    claim: str
    paper: str
    table: str
    inequality: str
    source: str
    backbone: str
    data: str
    difference: float
    holds: bool
    is_wrong: bool

    @property
    def name(self) -> str:
        """Where it is, and the difference."""
        where = ", ".join(filter(None, (self.source, self.backbone, self.data)))
        difference = f"{self.difference:+.2f}".replace("-", "−")
        return f"{where} ({difference})"


def replicate_claims(published: PublishedField, claims: Sequence[Claim]) -> list[Context]:
    """Put every inequality of every claim to all contexts."""
    models = group_by_claim_name(published.models)
    contexts = []
    for claim in claims:
        for inequality in claim.inequalities:
            for left, right in product(models.get(inequality.left, []), models.get(inequality.right, [])):
                # the pretrained model fits every data set
                is_same_data = left.data == right.data or right.method == PRETRAINED
                if is_same_data and (left.source, left.backbone) == (right.source, right.backbone):
                    contexts += compare_models(left, right, claim, inequality)
    return contexts


def group_by_claim_name(models: Sequence[SourceModel]) -> dict[str, list[SourceModel]]:
    """Group models by the name that claims have for them; of a method that a source trained its own models alone."""
    groups: dict[str, list[SourceModel]] = {}
    trained = {(model.source, model.method) for model in models}
    for model in models:
        name = name_without_data(model.method, model.data)
        is_released = model.method.startswith(RELEASED)
        if not (is_released and (model.source, name) in trained):
            groups.setdefault(name, []).append(model)
    return groups


def compare_models(left: SourceModel, right: SourceModel, claim: Claim, inequality: Inequality) -> list[Context]:
    """Compare two models in an inequality's column; none where one of them has no number there."""
    shared = [column for column in left.numbers if column in right.numbers]
    values = []
    for model in (left, right):
        numbers = {column: model.numbers[column] for column in shared}
        values.append(published_numbers.find_printed_value(numbers, inequality.column))
    if values[0] is None or values[1] is None:
        return []
    difference = round(values[0] - values[1], 4)
    holds = (difference - inequality.margin) * inequality.sign > 0
    head = (claim.name, claim.paper, claim.table, inequality.text, left.source, left.backbone, left.data)
    return [Context(*head, difference, holds, left.is_wrong or right.is_wrong)]
