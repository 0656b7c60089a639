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

FIELDS = ("claim", "paper", "table", "inequality", "contexts", "holds", "sources", "holds_in", "fails_in", "left_out")


@dataclass(frozen=True)
class Context:
    """One source's difference left - right in a column."""

    source: str
    backbone: str
    data: str
    difference: float
    holds: bool
    is_wrong: bool

    @property
    def name(self) -> str:
        """Where it is, and the difference."""
        place = ", ".join(filter(None, (self.source, self.backbone, self.data)))
        difference = f"{self.difference:+.2f}".replace("-", "−")
        return f"{place} ({difference})"


@dataclass(frozen=True)
class Replication:
    """One inequality of a claim in all contexts; `left_out` were scored with a wrong activation."""

    claim: Claim
    inequality: Inequality
    contexts: tuple[Context, ...]
    left_out: tuple[Context, ...] = ()

    @property
    def holds(self) -> int:
        """In how many contexts the sign holds."""
        return sum(context.holds for context in self.contexts)

    @property
    def sources(self) -> list[str]:
        """The sources that print it."""
        return list(dict.fromkeys(context.source for context in self.contexts))

    @property
    def failing(self) -> list[Context]:
        """Where the sign does not hold."""
        return [context for context in self.contexts if not context.holds]


def replicate_claims(published: PublishedField, claims: Sequence[Claim]) -> list[Replication]:
    """Put every inequality of every claim to all contexts."""
    models = group_by_claim_name(published.models)
    replications = []
    for claim in claims:
        for inequality in claim.inequalities:
            pairs = pair_models(models.get(inequality.left, []), models.get(inequality.right, []))
            compared = [compare_models(left, right, inequality) for left, right in pairs]
            contexts = tuple(c for c in compared if c and not c.is_wrong)
            left_out = tuple(c for c in compared if c and c.is_wrong)
            replications.append(Replication(claim, inequality, contexts, left_out))
    return replications


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


def pair_models(left: Sequence[SourceModel], right: Sequence[SourceModel]) -> list[tuple[SourceModel, SourceModel]]:
    """Pair the models of one source, backbone and data set; the pretrained one fits every data set."""
    pairs = []
    for a in left:
        for b in right:
            is_same_data = a.data == b.data or b.method == PRETRAINED
            if (a.source, a.backbone) == (b.source, b.backbone) and is_same_data:
                pairs.append((a, b))
    return pairs


def compare_models(left: SourceModel, right: SourceModel, inequality: Inequality) -> Context | None:
    """Compare two models in an inequality's column; None where one of them has no number there."""
    shared = [column for column in left.numbers if column in right.numbers]
    values = []
    for model in (left, right):
        numbers = {column: model.numbers[column] for column in shared}
        values.append(published_numbers.find_printed_value(numbers, inequality.column))
    if values[0] is None or values[1] is None:
        return None
    difference = round(values[0] - values[1], 4)
    holds = (difference - inequality.margin) * inequality.sign > 0
    is_wrong = left.is_wrong or right.is_wrong
    return Context(left.source, left.backbone, left.data, difference, holds, is_wrong)


def count_claims(replications: Sequence[Replication]) -> dict[str, int]:
    """Count the claims, those of one source alone, and those whose every sign holds in every context."""
    by_claim: dict[str, list[Replication]] = {}
    for replication in replications:
        by_claim.setdefault(replication.claim.name, []).append(replication)
    sources = {name: {s for r in of_claim for s in r.sources} for name, of_claim in by_claim.items()}
    return {
        "claims": len(by_claim),
        "one_source": sum(len(names) == 1 for names in sources.values()),
        "everywhere": sum(sources[name] != set() and not any(r.failing for r in rs) for name, rs in by_claim.items()),
        "signs": sum(len(r.contexts) for r in replications),
        "signs_holding": sum(r.holds for r in replications),
    }


def tabulate_replications(replications: Sequence[Replication]) -> list[tuple[object, ...]]:
    """Lay out a line for each inequality, by `FIELDS`."""
    lines: list[tuple[object, ...]] = []
    for r in replications:
        holding = [context.name for context in r.contexts if context.holds]
        failing = [context.name for context in r.failing]
        head = (r.claim.name, r.claim.paper, r.claim.table, r.inequality.text, len(r.contexts), r.holds)
        left_out = [context.name for context in r.left_out]
        lines.append((*head, ", ".join(r.sources), "; ".join(holding), "; ".join(failing), "; ".join(left_out)))
    return lines
