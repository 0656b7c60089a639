"""The share of training samples that had each text and picture that a method asks for, by table of the report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from compclip.report.tables import Group
from compclip.runs.results import FinishedRun

RARE = 0.05  # a share below it is said in a sentence
Shares = Mapping[str, float]


@dataclass(frozen=True)
class MethodShares:
    """One method's parts as the table shows them: `common` those of every sample, `others` with their share."""

    method: str
    common: str
    others: str


@dataclass(frozen=True)
class GroupShares:
    """The methods of one table, and a sentence for each rare part."""

    name: str
    methods: tuple[MethodShares, ...]
    notes: tuple[str, ...]


def tabulate(groups: Iterable[Group]) -> list[GroupShares]:
    """Collect the shares of every trained method; groups without any are left out."""
    sections = []
    for group in groups:
        means = {row.method: mean_shares(row.runs) for row in group.rows}
        methods = tuple(_describe(method, shares) for method, shares in means.items() if shares)
        notes = tuple(note for method, shares in means.items() for note in rare_parts(method, shares))
        if methods:
            sections.append(GroupShares(group.name, methods, notes))
    return sections


def mean_shares(runs: Sequence[FinishedRun]) -> Shares:
    """Average each part's share over the runs that say it."""
    recorded = [run.environment.get("view_shares") or {} for run in runs]
    parts = dict.fromkeys(part for shares in recorded for part in shares)
    return {part: fmean(shares[part] for shares in recorded if part in shares) for part in parts}


def rare_parts(method: str, shares: Shares) -> list[str]:
    """Say of each part below RARE how few samples had it."""
    return [f"{method}: {part} was there for {_percent(s)} of the samples" for part, s in shares.items() if s < RARE]


def _describe(method: str, shares: Shares) -> MethodShares:
    common = ", ".join(part for part, share in shares.items() if share == 1)
    others = ", ".join(f"{part} {_percent(share)}" for part, share in shares.items() if share != 1)
    return MethodShares(method, common or "–", others or "–")


def _percent(share: float) -> str:
    """'97.3 %'; more digits where these would say 0 or 100."""
    digits = 1 if 0.0005 <= share <= 0.9995 else 4
    return f"{100 * share:.{digits}f} %"
