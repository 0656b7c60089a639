"""The claims table: the same verdicts, differences and intervals for the page, Markdown, CSV and LaTeX."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compclip.report import escape
from compclip.report.claims import ABSENT, HOLDS, LEAST_SEEDS, REFUTED, UNDECIDED, Evidence, Finding, count_verdicts
from compclip.report.escape import to_code, to_latex, to_markdown
from compclip.report.table_formats import csv_value, format_interval, format_number, layout_latex

RULE = (
    "An inequality holds if its 95 % interval lies on its side of the margin, and is refuted if it lies on the other; "
    f"in between, or with fewer than {LEAST_SEEDS} shared seeds, it is undecided. The interval is over seeds and items "
    "together: trainings and a benchmark's records are both samples, and every seed has the same records (Student's t; "
    "the variance over seeds and that over records, both paired, add up). Where a column keeps no items it is over the "
    "seeds alone, and with one seed over the items alone. A claim does not hold as soon as one inequality is refuted; "
    "it holds if all do. Intervals are not simultaneous: of many inequalities a few are decided by luck, and nothing "
    "corrects for that. Differences are the first method minus the second, ± their standard deviation over seeds, in "
    "points; the paper's are those of its own table, their range where it has several rows."
)
CSS = {HOLDS: "better", REFUTED: "worse", UNDECIDED: "", ABSENT: "none"}
FIELDS = (
    "group", "claim", "paper", "table", "claim_verdict", "inequality", "verdict", "column", "difference", "margin",
    "seeds", "std", "items", "low", "high", "over", "paper_low", "paper_high", "why",
)  # fmt: skip


@dataclass(frozen=True)
class InequalityText:
    """One inequality as text."""

    text: str
    paper: str
    ours: str
    interval: str
    basis: str
    verdict: str
    css: str
    why: str


@dataclass(frozen=True)
class ClaimText:
    """One claim as text, its inequalities below each other."""

    name: str
    finding: str
    source: str
    verdict: str
    css: str
    lines: tuple[InequalityText, ...]
    missing: str


@dataclass(frozen=True)
class GroupClaims:
    """The claims of one group: those that the grid can answer, those it cannot, and how many have which verdict."""

    group: str
    counts: str
    judged: tuple[ClaimText, ...]
    absent: tuple[ClaimText, ...]


def build_sections(findings: Sequence[Finding]) -> list[GroupClaims]:
    """Build one section for each backbone and data set."""
    sections = []
    for group in dict.fromkeys(f.group for f in findings):
        group_findings = [f for f in findings if f.group == group]
        judged = tuple(_describe_claim(f) for f in group_findings if f.verdict != ABSENT)
        absent = tuple(_describe_claim(f) for f in group_findings if f.verdict == ABSENT)
        evidence = [e for f in group_findings for e in f.evidence]
        counts = f"{_format_counts('claims', group_findings)}; of {_format_counts('inequalities', evidence)}"
        sections.append(GroupClaims(group, counts, judged, absent))
    return sections


def _format_counts(what: str, judged: Sequence[Finding | Evidence]) -> str:
    return f"{len(judged)} {what}; " + ", ".join(f"{verdict}: {n}" for verdict, n in count_verdicts(judged).items())


def _describe_claim(finding: Finding) -> ClaimText:
    claim = finding.claim
    lines = tuple(_describe_inequality(e) for e in finding.evidence)
    missing = ", ".join(dict.fromkeys(name for e in finding.evidence for name in e.missing))
    source = f"{claim.paper}, {claim.table}"
    return ClaimText(claim.name, claim.finding, source, finding.verdict, CSS[finding.verdict], lines, missing)


def _describe_inequality(e: Evidence) -> InequalityText:
    paper = ours = interval = "–"
    if e.printed:
        ends = (format_number(v / e.column.scale, e.column, sign=True) for v in (min(e.printed), max(e.printed)))
        paper = " to ".join(dict.fromkeys(ends))
    if e.difference is not None:
        spread = "" if e.std is None else f" ± {format_number(e.std, e.column)}"
        ours = format_number(e.difference, e.column, sign=True) + spread
    if e.interval:
        interval = format_interval(e.interval, e.column)
    return InequalityText(e.inequality.text, paper, ours, interval, e.basis or "–", e.verdict, CSS[e.verdict], e.why)


def format_markdown(findings: Sequence[Finding]) -> str:
    """Format the claims of every group in Markdown; empty without claims."""
    return "".join(_markdown_section(s) for s in build_sections(findings))


def _markdown_section(section: GroupClaims) -> str:
    head = ["verdict", "claim", "inequality", "paper", "ours", "95 %", "over", "of the inequality"]
    rows = [head, ["---"] * len(head)]
    for block in section.judged:
        for i, line in enumerate(block.lines):
            first = [f"**{block.verdict}**", to_markdown(f"{block.finding} ({block.source})")] if i == 0 else ["", ""]
            last = to_markdown(f"{line.verdict} ({line.why})" if line.why else line.verdict)
            rows.append([*first, to_code(line.text), line.paper, line.ours, line.interval, line.basis, last])
    table = "\n".join("| " + " | ".join(row) + " |" for row in rows) if section.judged else "None can be judged."
    absent = "".join(f"- {to_markdown(f'{b.name} ({b.source}): no {b.missing}')}\n" for b in section.absent)
    absent_list = f"\nNot in this grid:\n\n{absent}" if absent else ""
    return f"\n## Claims: {to_markdown(section.group)}\n\n{section.counts}. {RULE}\n\n{table}\n{absent_list}"


def format_csv(findings: Sequence[Finding]) -> str:
    """Format one line for each inequality, differences, margins and intervals in the metrics' own unit."""
    lines = []
    for finding in findings:
        head = (finding.group, finding.claim.name, finding.claim.paper, finding.claim.table, finding.verdict)
        for e in finding.evidence:
            scale, gap = e.column.scale, e.interval
            interval = (gap.items, gap.low, gap.high) if gap else (None, None, None)
            ends = (min(e.printed) / scale, max(e.printed) / scale) if e.printed else (None, None)
            values = (
                *head, e.inequality.text, e.verdict, e.inequality.column, e.difference, e.inequality.margin / scale,
                e.seeds, e.std, *interval, e.basis, *ends, e.why,
            )  # fmt: skip
            lines.append([csv_value(v) for v in values])
    return escape.format_csv([FIELDS, *lines])


def format_latex(findings: Sequence[Finding]) -> str:
    """Format one booktabs table for each group, the claims it can answer; empty without any."""
    return "".join("\n" + _latex_table(s) for s in build_sections(findings) if s.judged)


def _latex_table(section: GroupClaims) -> str:
    rows = []
    for block in section.judged:
        for i, line in enumerate(block.lines):
            first = f"{to_latex(block.name)} ({to_latex(block.source)}): {to_latex(block.verdict)}" if i == 0 else ""
            cells = (line.text, line.paper, line.ours, line.interval, line.basis)
            rows.append([first, *map(to_latex, cells)])
    caption = (
        rf"{to_latex(section.counts)}. Differences, in points, $\pm$ their standard deviation over seeds, and their "
        r"95\,\% intervals."
    )
    head = ["Claim", "Inequality", "Paper", "Ours", r"95\,\%", "Over"]
    return layout_latex("llcccc", [head], rows, to_latex(section.group), caption)
