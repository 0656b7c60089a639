"""The claims table: the same verdicts, differences and intervals for the page, Markdown, CSV and LaTeX."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compclip.base.number_text import format_count
from compclip.report import escape
from compclip.report.claims import ABSENT, HOLDS, LEAST_SEEDS, REFUTED, UNDECIDED, Evidence, Finding, count_verdicts
from compclip.report.escape import to_code, to_latex, to_markdown
from compclip.report.latex_tables import layout_latex
from compclip.report.table_formats import csv_value, format_interval, format_number

RULE = (
    "An inequality holds if its 95 % interval lies on its side of the margin, and is refuted if it lies on the other; "
    f"in between, or with fewer than {LEAST_SEEDS} shared seeds, it is undecided. The interval is over seeds and items "
    "together: trainings and a benchmark's records are both samples, and every seed has the same records (Student's t; "
    "the variance over seeds and that over records, both paired, add up). Where a column keeps no items it is over the "
    "seeds alone, and with one seed over the items alone. A claim does not hold as soon as one inequality is refuted; "
    "it holds if all do. Intervals are not simultaneous: of many inequalities a few are decided by luck, unless "
    "report.correction names a correction. Differences are the first method minus the second, ± their standard "
    "deviation over seeds, in points; the paper's are those of its own table, their range where it has several rows."
)
CSS = {HOLDS: "better", REFUTED: "worse", UNDECIDED: "", ABSENT: "none"}
FIELDS = (
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
    for group in dict.fromkeys(f.group for f in findings):
        group_findings = [f for f in findings if f.group == group]
        judged = tuple(f for f in group_findings if f.verdict != ABSENT)
        absent = tuple(f for f in group_findings if f.verdict == ABSENT)
        evidence = [e for f in group_findings for e in f.evidence]
        counts = f"{_format_counts('claims', group_findings)}; of {_format_counts('inequalities', evidence)}"
        shortage = _describe_shortage(judged)
        sections.append(GroupClaims(group, counts, () if shortage else judged, absent, shortage))
    return sections


def _describe_shortage(judged: Sequence[Finding]) -> str:
    """Say why no claim can be decided; empty where some have seeds enough, or where there is none."""
    most = max((e.seeds for finding in judged for e in finding.evidence), default=LEAST_SEEDS)
    if most >= LEAST_SEEDS:
        return ""
    return (
        f"No table: the methods of {format_count(len(judged), 'claim')} share {format_count(most, 'seed')}, "
        f"and fewer than {LEAST_SEEDS} decide nothing. Give grid.seeds {LEAST_SEEDS} or more and run dvc repro; "
        "finished runs are not trained again. claims.csv has the differences so far"
    )


def _format_counts(what: str, judged: Sequence[Finding | Evidence]) -> str:
    return f"{len(judged)} {what}; " + ", ".join(f"{verdict}: {n}" for verdict, n in count_verdicts(judged).items())


def describe_evidence(e: Evidence) -> dict[str, str]:
    """Describe an inequality's numbers: the paper's and our difference, its interval, and what that is over."""
    paper = ours = interval = "–"
    if e.printed:
        ends = (format_number(v / e.column.scale, e.column, sign=True) for v in (min(e.printed), max(e.printed)))
        paper = " to ".join(dict.fromkeys(ends))
    if e.difference is not None:
        spread = "" if e.std is None else f" ± {format_number(e.std, e.column)}"
        ours = format_number(e.difference, e.column, sign=True) + spread
    if e.interval:
        interval = format_interval(e.interval, e.column)
    return {"paper": paper, "ours": ours, "interval": interval, "basis": e.basis or "–"}


def format_markdown(findings: Sequence[Finding]) -> str:
    """Format the claims of every group in Markdown; empty without claims."""
    return "".join(_markdown_section(s) for s in build_sections(findings))


def _markdown_section(section: GroupClaims) -> str:
    head = ["verdict", "claim", "inequality", "paper", "ours", "95 %", "over", "of the inequality"]
    rows = [head, ["---"] * len(head)]
    for finding in section.judged:
        first = [f"**{finding.verdict}**", to_markdown(f"{finding.claim.finding} ({finding.claim.source})")]
        for e in finding.evidence:
            last = to_markdown(f"{e.verdict} ({e.why})" if e.why else e.verdict)
            rows.append([*first, to_code(e.inequality.text), *describe_evidence(e).values(), last])
            first = ["", ""]
    table = "\n".join("| " + " | ".join(row) + " |" for row in rows) if section.judged else "None can be judged."
    body = f"{section.shortage}." if section.shortage else f"{section.counts}. {RULE}\n\n{table}"
    texts = [f"{f.claim.name} ({f.claim.source}): no {f.missing}" for f in section.absent]
    absent = "".join(f"- {to_markdown(text)}\n" for text in texts)
    absent_list = f"\nNot in this grid:\n\n{absent}" if absent else ""
    return f"\n## Claims: {to_markdown(section.group)}\n\n{body}\n{absent_list}"


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
    for finding in section.judged:
        claim = finding.claim
        first = f"{to_latex(claim.name)} ({to_latex(claim.source)}): {to_latex(finding.verdict)}"
        for e in finding.evidence:
            rows.append([first, *map(to_latex, (e.inequality.text, *describe_evidence(e).values()))])
            first = ""
    caption = (
        rf"{to_latex(section.counts)}. Differences, in points, $\pm$ their standard deviation over seeds, and their "
        r"95\,\% intervals."
    )
    head = ["Claim", "Inequality", "Paper", "Ours", r"95\,\%", "Over"]
    return layout_latex("llcccc", [head], rows, to_latex(section.group), caption)
