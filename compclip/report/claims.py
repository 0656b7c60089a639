"""The papers' findings (experiments/claims.yaml) as inequalities over the report's own columns, and whether they hold.

An inequality reads `clic > negclip + 1 on sugarcrepe/swap`; the margin, in the column's unit (points, or score), may be
left out. Its difference left - right - margin has one 95 % interval over seeds and items together (`crossed.py`), of
the seeds that both methods have; the pretrained model is one model, the same under every seed. Where a column keeps no
items the interval is over the seeds alone, and where there is one seed over the items alone.

The rule. An inequality holds if the interval lies wholly on its side of 0, is refuted if it lies wholly on the other
side, and is undecided else, always so with fewer than 3 shared seeds. A claim does not hold as soon as one inequality
is refuted; else it is not in this grid where a method or a column is missing; else it holds if all of its inequalities
do, and is undecided where one is. Intervals are not simultaneous. A claim that holds needs no correction, since all of
its inequalities must hold; one of k inequalities that are barely true is refuted by luck in up to k times 2.5 % of
grids. No correction for the number of claims is made.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from compclip.base import yaml_text
from compclip.base.errors import UserError, one_line, unknown
from compclip.config.cell import PRETRAINED
from compclip.report import crossed, published, tables
from compclip.report.crossed import Pair
from compclip.report.statistics import Interval, mean_std
from compclip.report.tables import Column, Group
from compclip.runs.results import FinishedRun

HOLDS, REFUTED, UNDECIDED, ABSENT = "holds", "does not hold", "undecided", "not in this grid"
VERDICTS = (HOLDS, REFUTED, UNDECIDED, ABSENT)
SEEDS = 3
Seeds = Mapping[int, FinishedRun]  # a method's runs by seed
FORM = re.compile(
    r"(?P<left>\S+) (?P<sign>[<>]) (?P<right>\S+)(?: (?P<plus>[+-]) (?P<margin>\d+(\.\d+)?))? on (?P<column>\S+)"
)
KEYS = ("paper", "table", "finding", "holds_if")


@dataclass(frozen=True)
class Inequality:
    """`left` is above (sign 1) or below (sign -1) `right` + `margin` in a column; the margin in the unit shown."""

    text: str
    left: str
    sign: int
    right: str
    margin: float
    column: str


@dataclass(frozen=True)
class Claim:
    """A finding of a paper in our words, and the inequalities that must all hold."""

    name: str
    paper: str
    table: str
    finding: str
    parts: tuple[Inequality, ...]


@dataclass(frozen=True)
class Evidence:
    """One inequality in one group: left - right in the metric's own unit and its interval, the margin not taken off.

    `std` is its spread over seeds and `over` what the interval is over; `printed` holds the same difference in the
    paper, in the unit shown, once for each pair of rows; `missing` names the methods and columns that the grid lacks;
    `why` says what keeps it from a verdict.
    """

    part: Inequality
    verdict: str
    column: Column | None = None
    difference: float | None = None
    seeds: int = 0
    std: float | None = None
    interval: Interval | None = None
    over: str = crossed.NEITHER
    printed: tuple[float, ...] = ()
    missing: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True)
class Finding:
    """A claim's verdict on one backbone and data set."""

    claim: Claim
    group: str
    verdict: str
    evidence: tuple[Evidence, ...]


def read(path: Path) -> list[Claim]:
    """The claims of a file, in its order. Raises UserError naming the claim, the key and the fix."""
    raw = yaml_text.plain(yaml_text.read(path, f"must map each claim's name to {', '.join(KEYS)}"), str(path))
    return [_claim(f"{path}: {name}", str(name), fields) for name, fields in raw.items()]


def _claim(where: str, name: str, raw: object) -> Claim:
    if not isinstance(raw, dict):
        raise UserError(f"{where}: must have the keys {', '.join(KEYS)}")
    for key in raw:
        if key not in KEYS:
            raise unknown("key", str(key), KEYS, where)
    for key in KEYS:
        if not raw.get(key):
            raise UserError(f"{where}.{key}: must be given; add it")
    if not isinstance(raw["holds_if"], list):
        raise UserError(f"{where}.holds_if: must be a list of inequalities, one a line")
    parts = tuple(inequality(str(text), where) for text in raw["holds_if"])
    return Claim(name, str(raw["paper"]), str(raw["table"]), one_line(str(raw["finding"])), parts)


def inequality(text: str, where: str) -> Inequality:
    """`left > right + margin on benchmark/metric`, or with `<`, parsed."""
    found = FORM.fullmatch(text)
    if found is None:
        raise UserError(f"{where}: {text!r}: must read as `clic > pretrained + 1.5 on sugarcrepe/swap`")
    if found["left"] == found["right"]:
        raise UserError(f"{where}: {text!r}: compares {found['left']} with itself; name two methods")
    margin = float(f"{found['plus'] or '+'}{found['margin'] or 0}")
    return Inequality(text, found["left"], 1 if found["sign"] == ">" else -1, found["right"], margin, found["column"])


def check(claims: Sequence[Claim], methods: Collection[str], columns: Collection[str], where: str) -> None:
    """Raise UserError for a method or a column of a claim that neither the grid nor a published table has."""
    for claim in claims:
        for part in claim.parts:
            for kind, name, known in (
                ("method", part.left, methods), ("method", part.right, methods), ("column", part.column, columns)
            ):  # fmt: skip
                if name not in known:
                    raise unknown(kind, name, known, f"{where}: {claim.name}: {part.text!r}")


def judge(
    claims: Sequence[Claim], runs: Sequence[FinishedRun], groups: Sequence[Group], columns: Mapping[str, Column],
    numbers: Sequence[published.Number] = (),
) -> list[Finding]:  # fmt: skip
    """Every claim on every group, group by group."""
    return [_finding(claim, group, runs, columns, numbers) for group in groups for claim in claims]


def _finding(
    claim: Claim, group: Group, runs: Sequence[FinishedRun], columns: Mapping[str, Column],
    numbers: Sequence[published.Number],
) -> Finding:  # fmt: skip
    mine = _by_method(runs, group)
    evidence = []
    for part in claim.parts:
        told = published.differences(numbers, claim.paper, claim.table, part.left, part.right, part.column)
        found = weigh(part, mine, columns.get(part.column), tuple(told))
        evidence.append(found if found.column else replace(found, column=published.column(numbers, part.column)))
    return Finding(claim, group.name, combine([e.verdict for e in evidence]), tuple(evidence))


def _by_method(runs: Sequence[FinishedRun], group: Group) -> dict[str, dict[int, FinishedRun]]:
    """The group's runs: method -> seed -> run; the pretrained model as the tables have it, for each of the seeds."""
    found = {row.method: {run.cell.seed: run for run in row.runs} for row in group.rows}
    base = tables.reference(runs, group.backbone, group.data)
    if not base:
        return found
    return found | {PRETRAINED: tables.for_seeds(base, [seed for own in found.values() for seed in own])}


def weigh(
    part: Inequality, runs: Mapping[str, Seeds], column: Column | None,
    printed: tuple[float, ...] = (),
) -> Evidence:  # fmt: skip
    """One inequality on the runs of one group, method -> seed -> run."""
    both = pairs(runs.get(part.left, {}), runs.get(part.right, {}), column)
    if column is None or not both:
        return _absent(part, runs, column, printed)
    gaps = [tables.value(a, column) - tables.value(b, column) for a, b in both]
    mean, std = mean_std(gaps)
    found, over = crossed.interval(gaps, crossed.parts(column, both))
    enough = len(both) >= SEEDS
    verdict = decide(part.sign, part.margin / column.scale, found) if enough else UNDECIDED
    why = "" if enough else f"{len(both)} of {SEEDS} seeds"
    return Evidence(part, verdict, column, mean, len(both), std, found, over, printed, why=why)


def _absent(part: Inequality, runs: Mapping[str, Seeds], column: Column | None, printed: tuple[float, ...]) -> Evidence:
    missing = tuple(name for name in (part.left, part.right) if name not in runs)
    missing += (part.column,) if column is None else ()
    why = f"no {', '.join(missing)}" if missing else f"no seed of both methods has {part.column}"
    return Evidence(part, ABSENT, column, printed=printed, missing=missing or (part.column,), why=why)


def pairs(left: Seeds, right: Seeds, column: Column | None) -> list[Pair]:
    """Of two methods, seed -> run, the runs of each seed that both have with the column.

    Two seeds of the same two checkpoints are one pair.
    """
    if column is None:
        return []
    both = [(left[seed], right[seed]) for seed in sorted(left.keys() & right.keys())]
    scored = [pair for pair in both if all(tables.value(run, column) is not None for run in pair)]
    return list({(a.identity, b.identity): (a, b) for a, b in scored}.values())


def decide(sign: int, margin: float, found: Interval | None) -> str:
    """The rule above for one inequality; without an interval it is undecided."""
    side = 0 if found is None else replace(found, low=found.low - margin, high=found.high - margin).sign
    return {1: HOLDS, -1: REFUTED}.get(side * sign, UNDECIDED)


def combine(verdicts: Sequence[str]) -> str:
    """The rule above for a claim from the verdicts of its inequalities."""
    for verdict in (REFUTED, ABSENT, UNDECIDED):
        if verdict in verdicts:
            return verdict
    return HOLDS


def counts(found: Sequence[Finding | Evidence]) -> dict[str, int]:
    """How many claims, or inequalities, have each verdict, all four named."""
    return {verdict: sum(f.verdict == verdict for f in found) for verdict in VERDICTS}
