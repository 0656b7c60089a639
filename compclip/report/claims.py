"""The papers' findings (experiments/claims.yaml) as inequalities over the report's own columns, and whether they hold.

An inequality reads `clic > negclip + 1 on sugarcrepe/swap`; the margin, in the column's unit (points, or score), may be
left out. Its difference left - right - margin has one 95 % interval over seeds and items together of
the seeds that both methods have; the pretrained model is one model, the same under every seed. Where a column keeps no
items the interval is over the seeds alone, and where there is one seed over the items alone.

The rule. An inequality holds if the interval lies wholly on its side of 0, is refuted if it lies wholly on the other
side, and is undecided else; always so with one shared seed, and with two where the table has fewer than three trained
rows, which give no prior of what seeds vary by. A claim does not hold as soon as one inequality is refuted; else it is
not in this grid where a method or a column is missing; else it holds if all of its inequalities do, and is undecided
where one is. Intervals are not simultaneous. A claim that holds needs no correction, since all of its inequalities must
hold; one of k inequalities that are barely true is refuted by luck in up to k times 2.5 % of grids. `report.correction`
corrects for the number of inequalities of a table. One of Comp is undecided where it would be another without
one of its benchmarks (`composition_rule`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, islice
from operator import attrgetter
from pathlib import Path
from typing import Annotated

from pydantic import Field

from compclip.base import yaml_text
from compclip.base.errors import UserError, one_line, unknown
from compclip.base.messages import format_count
from compclip.config.validation import RequiredText, load_section
from compclip.report import composition_rule, decisions, escape, published_numbers, tables
from compclip.report.statistics import LEVEL, NEITHER, Interval, mean_std
from compclip.report.table_formats import format_interval, format_number
from compclip.report.tables import Column, ResultTable, RunsBySeed

HOLDS = "holds"
REFUTED = "does not hold"
UNDECIDED = "undecided"
ABSENT = "not in this grid"
VERDICTS = (HOLDS, REFUTED, UNDECIDED, ABSENT)
LEAST_SEEDS = 3
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
class ClaimDeclaration:
    """A claim as its file has it; `holds_if` are inequalities, one a line."""

    paper: RequiredText = ""
    table: RequiredText = ""
    finding: RequiredText = ""
    holds_if: Annotated[list[str], Field(min_length=1, validate_default=True)] = field(default_factory=list)


@dataclass(frozen=True)
class Claim:
    """A finding of a paper in our words, and the inequalities that must all hold."""

    name: str
    paper: str
    table: str
    finding: str
    inequalities: tuple[Inequality, ...]

    @property
    def source(self) -> str:
        """Where the paper says so."""
        return f"{self.paper}, {self.table}"


@dataclass(frozen=True)
class Evidence:
    """One inequality in one group: left - right in the metric's own unit and its interval, the margin not taken off.

    `std` is its spread over seeds and `basis` what the interval is over; `printed` holds the same difference in the
    paper, in the unit shown, once for each pair of rows; `missing` names the methods and columns that the grid lacks;
    `why` says what keeps it from a verdict.
    """

    inequality: Inequality
    verdict: str
    column: Column
    difference: float | None = None
    seeds: int = 0
    std: float | None = None
    interval: Interval | None = None
    basis: str = NEITHER
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

    @property
    def missing(self) -> str:
        """The methods and columns that the grid lacks."""
        return ", ".join(dict.fromkeys(name for e in self.evidence for name in e.missing))


def read_claims(path: Path) -> list[Claim]:
    """Read the claims of a file, in its order. Raises UserError naming the claim, the key and the fix."""
    raw = yaml_text.to_plain(yaml_text.read_yaml(path, f"must map each claim's name to {', '.join(KEYS)}"), str(path))
    claims = []
    for name, fields in raw.items():
        where = f"{path}: {name}"
        section = load_section(ClaimDeclaration, fields, where)
        inequalities = tuple(parse_inequality(text, where) for text in section.holds_if)
        claims.append(Claim(str(name), section.paper, section.table, one_line(section.finding), inequalities))
    return claims


def parse_inequality(text: str, where: str) -> Inequality:
    """Parse `left > right + margin on benchmark/metric`, or with `<`."""
    match = FORM.fullmatch(text)
    if match is None:
        raise UserError(f"{where}: {text!r}: must read as `clic > pretrained + 1.5 on sugarcrepe/swap`")
    if match["left"] == match["right"]:
        raise UserError(f"{where}: {text!r}: compares {match['left']} with itself; name two methods")
    margin = float(f"{match['plus'] or '+'}{match['margin'] or 0}")
    return Inequality(text, match["left"], 1 if match["sign"] == ">" else -1, match["right"], margin, match["column"])


def check_claim_names(claims: Sequence[Claim], methods: Collection[str], columns: Collection[str], where: str) -> None:
    """Raise UserError for a method or a column of a claim that neither the grid nor a published table has."""
    for claim in claims:
        for inequality in claim.inequalities:
            source = f"{where}: {claim.name}: {inequality.text!r}"
            for name in (inequality.left, inequality.right):
                if name not in methods:
                    raise unknown("method", name, methods, source)
            if inequality.column not in columns:
                raise unknown("column", inequality.column, columns, source)


def judge_claims(
    claims: Sequence[Claim], groups: Sequence[ResultTable], columns: Mapping[str, Column],
    numbers: Sequence[published_numbers.PublishedNumber] = (), correction: str = "",
) -> list[Finding]:  # fmt: skip
    """Judge every claim on every group, group by group; `correction` is over all inequalities of a group."""
    findings = []
    for group in groups:
        runs_by_method = group.runs_by_seed
        evidence = list[Evidence]()
        for claim in claims:
            for inequality in claim.inequalities:
                name = inequality.column
                printed = published_numbers.list_printed_differences(
                    numbers, claim.paper, claim.table, inequality.left, inequality.right, name
                )
                column = columns.get(name) or published_numbers.make_printed_column(numbers, name)
                evidence.append(judge_inequality(inequality, runs_by_method, column, tuple(printed), name in columns))
        corrected = iter(correct_evidence(evidence, correction))
        for claim in claims:
            final = tuple(islice(corrected, len(claim.inequalities)))
            findings.append(Finding(claim, group.name, combine_verdicts([e.verdict for e in final]), final))
    return findings


def correct_evidence(evidence: Sequence[Evidence], correction: str) -> list[Evidence]:
    """Leave open what is not decided any more after a correction over all inequalities that seeds enough judge."""
    if correction not in decisions.NAMES:
        return list(evidence)
    p_values = {}
    for index, e in enumerate(evidence):
        if e.interval and has_enough_seeds(e.seeds, e.interval):
            p_values[index] = decisions.p_value(e.interval, e.inequality.margin / e.column.scale)
    adjusted = decisions.adjust(list(p_values.values()), correction)
    corrected = list(evidence)
    for index, p in zip(p_values, adjusted, strict=True):
        if not p <= LEVEL and evidence[index].verdict in (HOLDS, REFUTED):
            why = f"not after {decisions.NAMES[correction]}'s correction"
            corrected[index] = replace(evidence[index], verdict=UNDECIDED, why=why)
    return corrected


def judge_inequality(
    inequality: Inequality, runs: Mapping[str, RunsBySeed], column: Column,
    printed: tuple[float, ...] = (), is_measured: bool = True,
) -> Evidence:  # fmt: skip
    """Judge one inequality on the runs of one group, method -> training -> run.

    `is_measured` is False for a column that only the paper has.
    """
    both = tables.pair_runs(runs.get(inequality.left, {}), runs.get(inequality.right, {}), column)
    if not both:
        missing = tuple(name for name in (inequality.left, inequality.right) if name not in runs)
        missing += () if is_measured else (inequality.column,)
        why = f"no {', '.join(missing)}" if missing else f"no seed of both methods has {inequality.column}"
        return Evidence(inequality, ABSENT, column, printed=printed, missing=missing or (inequality.column,), why=why)
    columns = [column, *composition_rule.leave_out_each(column).values()]
    priors = tables.estimate_priors(columns, runs.values())
    gaps, interval, basis = tables.compare_pairs(both, column, priors)
    mean, std = mean_std(gaps)
    enough = has_enough_seeds(len(both), interval)
    verdict = decide_verdict(inequality.sign, inequality.margin / column.scale, interval) if enough else UNDECIDED
    why = "" if enough else f"{len(both)} of {LEAST_SEEDS} seeds"
    rests_on = _list_supports(inequality, verdict, column, both, priors) if verdict in (HOLDS, REFUTED) else []
    if rests_on:
        verdict = UNDECIDED
        why = f"not decided without {' or without '.join(rests_on)}"
    elif enough and verdict == UNDECIDED and interval:
        why = decisions.describe_seeds(interval, inequality.margin / column.scale, column)
    return Evidence(inequality, verdict, column, mean, len(both), std, interval, basis, printed, why=why)


def _list_supports(
    inequality: Inequality, verdict: str, column: Column, pairs: Sequence[tables.RunPair], priors: tables.Priors
) -> list[str]:
    """List the benchmarks of Comp without which the verdict is another (`composition_rule`)."""
    supports = []
    for benchmark, part in composition_rule.leave_out_each(column).items():
        _, interval, _ = tables.compare_pairs(pairs, part, priors)
        if decide_verdict(inequality.sign, inequality.margin / column.scale, interval) != verdict:
            supports.append(benchmark)
    return supports


def has_enough_seeds(seeds: int, interval: Interval | None) -> bool:
    """Return whether so many seeds may decide: two where the table's other rows tell of the seeds' variance."""
    spread = interval.spread if interval else None
    return seeds >= LEAST_SEEDS or bool(spread and spread.prior_freedom)


def decide_verdict(sign: int, margin: float, interval: Interval | None) -> str:
    """Apply the rule above to one inequality; without an interval it is undecided."""
    side = 0 if interval is None else replace(interval, low=interval.low - margin, high=interval.high - margin).sign
    return {1: HOLDS, -1: REFUTED}.get(side * sign, UNDECIDED)


def combine_verdicts(verdicts: Sequence[str]) -> str:
    """Apply the rule above to a claim, from the verdicts of its inequalities."""
    for verdict in (REFUTED, ABSENT, UNDECIDED):
        if verdict in verdicts:
            return verdict
    return HOLDS


def count_verdicts(judged: Sequence[Finding | Evidence]) -> dict[str, int]:
    """Count how many claims, or inequalities, have each verdict, all four named."""
    verdicts = [finding.verdict for finding in judged]
    return {verdict: verdicts.count(verdict) for verdict in VERDICTS}


# --- the claims table: the same verdicts, differences and intervals for the page and as CSV

CSS = {HOLDS: "better", REFUTED: "worse", UNDECIDED: "", ABSENT: "none"}
CLAIM_FIELDS = (
    "group", "claim", "paper", "table", "claim_verdict", "inequality", "verdict", "column", "difference", "margin",
    "seeds", "std", "items", "low", "high", "over", "paper_low", "paper_high", "why",
)  # fmt: skip


@dataclass(frozen=True)
class GroupClaims:
    """The claims of one group: those that the grid can answer, those it cannot, and how many have which verdict.

    `shortage` says why none can be decided; `judged` is then empty.
    """

    group: str
    counts: str
    judged: tuple[Finding, ...]
    absent: tuple[Finding, ...]
    shortage: str = ""


def build_sections(findings: Sequence[Finding]) -> list[GroupClaims]:
    """Build one section for each backbone and data set."""
    sections = []
    for group, of_group in groupby(findings, attrgetter("group")):
        group_findings = list(of_group)
        judged: list[Finding] = []
        absent: list[Finding] = []
        evidence = list[Evidence]()
        for finding in group_findings:
            (absent if finding.verdict == ABSENT else judged).append(finding)
            evidence += finding.evidence
        counts = f"{_format_counts('claims', group_findings)}; of {_format_counts('inequalities', evidence)}"
        shortage = _describe_shortage(judged)
        sections.append(GroupClaims(group, counts, () if shortage else tuple(judged), tuple(absent), shortage))
    return sections


def _describe_shortage(judged: Sequence[Finding]) -> str:
    """Say why no claim can be decided; empty where some have seeds enough, or where there is none."""
    evidence = [e for finding in judged for e in finding.evidence]
    if not evidence or any(has_enough_seeds(e.seeds, e.interval) for e in evidence):
        return ""
    most = max(e.seeds for e in evidence)
    return (
        f"No table: the methods of {format_count(len(judged), 'claim')} share {format_count(most, 'seed')}, "
        f"and fewer than {LEAST_SEEDS} decide nothing. Give grid.seeds {LEAST_SEEDS} or more and run dvc repro; "
        "finished runs are not trained again. claims.csv has the differences so far"
    )


def _format_counts(what: str, judged: Sequence[Finding | Evidence]) -> str:
    return f"{len(judged)} {what}; " + ", ".join(f"{verdict}: {n}" for verdict, n in count_verdicts(judged).items())


def describe_counts(findings: Sequence[Finding]) -> str:
    """Say in a line how many claims have each verdict; those with none are not named."""
    return escape.join_counts(count_verdicts(findings))


def describe_evidence(e: Evidence) -> dict[str, str]:
    """Describe an inequality's numbers: the paper's and our difference, its interval, and what that is over."""
    column = e.column
    ends = (min(e.printed), max(e.printed)) if e.printed else ()
    paper = dict.fromkeys(format_number(value / column.scale, column, sign=True) for value in ends)
    ours = ""
    if e.difference is not None:
        spread = "" if e.std is None else f" ± {format_number(e.std, column)}"
        ours = format_number(e.difference, column, sign=True) + spread
    interval = format_interval(e.interval, column) if e.interval else ""
    texts = {"paper": " to ".join(paper), "ours": ours, "interval": interval, "basis": e.basis}
    return {name: text or "–" for name, text in texts.items()}


def format_claims_csv(findings: Sequence[Finding]) -> str:
    """Format one line for each inequality, differences, margins and intervals in the metrics' own unit."""
    lines: list[Sequence[object]] = []
    for finding in findings:
        claim = finding.claim
        for e in finding.evidence:
            scale = e.column.scale
            gap = e.interval
            interval = (gap.items, gap.low, gap.high) if gap else (None, None, None)
            ends = (min(e.printed) / scale, max(e.printed) / scale) if e.printed else (None, None)
            lines.append((
                finding.group, claim.name, claim.paper, claim.table, finding.verdict, e.inequality.text, e.verdict,
                e.inequality.column, e.difference, e.inequality.margin / scale, e.seeds, e.std, *interval, e.basis,
                *ends, e.why,
            ))  # fmt: skip
    return escape.format_csv([CLAIM_FIELDS, *lines])
