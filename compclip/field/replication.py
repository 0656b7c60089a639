"""Whether the papers' findings come back: each inequality of claims.yaml against all published contexts.

A context is one source, backbone and training data set of which both methods are printed; a method there may be trained
by the paper or be its authors' checkpoint. Columns that a mean stands for are averaged over what both rows print. The
sign holds if the difference lies on its side of the margin. Rows that were scored with a wrong activation do not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compclip.config.cell import PRETRAINED
from compclip.field.published_field import PublishedField, SourceModel, name_without_data
from compclip.report import published_numbers
from compclip.report.claims import Claim, Inequality
from compclip.report.published_numbers import RELEASED


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
            for left in models.get(inequality.left, []):
                for right in models.get(inequality.right, []):
                    if is_same_context(left, right):
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


def is_same_context(left: SourceModel, right: SourceModel) -> bool:
    """Whether two models share source, backbone and data set; the pretrained one fits every data set."""
    is_same_data = left.data == right.data or right.method == PRETRAINED
    return is_same_data and (left.source, left.backbone) == (right.source, right.backbone)


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
