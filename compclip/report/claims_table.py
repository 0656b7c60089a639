"""The claims table: the same verdicts, differences and intervals for the page, Markdown, CSV and LaTeX."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from compclip.report import escape
from compclip.report.claims import ABSENT, HOLDS, REFUTED, SEEDS, UNDECIDED, Evidence, Finding, counts
from compclip.report.escape import md, md_code, tex
from compclip.report.formats import between, number
from compclip.report.tables import Column

RULE = (
    "An inequality holds if its 95 % interval lies on its side of the margin, and is refuted if it lies on the other; "
    f"in between, or with fewer than {SEEDS} shared seeds, it is undecided. The interval is over seeds and items "
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
class Line:
    """One inequality as text."""

    text: str
    paper: str
    ours: str
    interval: str
    over: str
    verdict: str
    css: str
    why: str


@dataclass(frozen=True)
class Block:
    """One claim as text, its inequalities below each other."""

    name: str
    finding: str
    source: str
    verdict: str
    css: str
    lines: tuple[Line, ...]
    missing: str


@dataclass(frozen=True)
class Section:
    """The claims of one group: those that the grid can answer, those it cannot, and how many have which verdict."""

    group: str
    counts: str
    judged: tuple[Block, ...]
    absent: tuple[Block, ...]


def sections(findings: Sequence[Finding]) -> list[Section]:
    """One section for each backbone and data set."""
    made = []
    for group in dict.fromkeys(f.group for f in findings):
        mine = [f for f in findings if f.group == group]
        judged = tuple(_block(f) for f in mine if f.verdict != ABSENT)
        absent = tuple(_block(f) for f in mine if f.verdict == ABSENT)
        evidence = [e for f in mine for e in f.evidence]
        told = f"{_counted('claims', mine)}; of {_counted('inequalities', evidence)}"
        made.append(Section(group, told, judged, absent))
    return made


def _counted(what: str, found: Sequence[Finding | Evidence]) -> str:
    return f"{len(found)} {what}; " + ", ".join(f"{verdict}: {n}" for verdict, n in counts(found).items())


def _block(finding: Finding) -> Block:
    claim = finding.claim
    source = f"{claim.paper}, {claim.table}"
    lines = tuple(_line(e) for e in finding.evidence)
    missing = ", ".join(dict.fromkeys(name for e in finding.evidence for name in e.missing))
    return Block(claim.name, claim.finding, source, finding.verdict, CSS[finding.verdict], lines, missing)


def _line(e: Evidence) -> Line:
    told, ends = _printed(e.printed, e.column), between(e.interval, e.column) if e.interval else "–"
    return Line(e.part.text, told, _ours(e), ends, e.over or "–", e.verdict, CSS[e.verdict], e.why)


def _ours(e: Evidence) -> str:
    if e.difference is None:
        return "–"
    return number(e.difference, e.column, sign=True) + ("" if e.std is None else f" ± {number(e.std, e.column)}")


def _printed(found: Sequence[float], column: Column) -> str:
    if not found:
        return "–"
    ends = [number(v / column.scale, column, sign=True) for v in (min(found), max(found))]
    return ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"


def markdown(findings: Sequence[Finding]) -> str:
    """The claims of every group in Markdown; empty without claims."""
    return "".join(_markdown_section(s) for s in sections(findings))


def _markdown_section(section: Section) -> str:
    head = ["verdict", "claim", "inequality", "paper", "ours", "95 %", "over", "of the inequality"]
    rows = [head, ["---"] * len(head)]
    for block in section.judged:
        for i, line in enumerate(block.lines):
            first = [f"**{block.verdict}**", md(f"{block.finding} ({block.source})")] if i == 0 else ["", ""]
            last = md(f"{line.verdict} ({line.why})" if line.why else line.verdict)
            rows.append([*first, md_code(line.text), line.paper, line.ours, line.interval, line.over, last])
    table = "\n".join("| " + " | ".join(row) + " |" for row in rows) if section.judged else "None can be judged."
    absent = "".join(f"- {md(f'{b.name} ({b.source}): no {b.missing}')}\n" for b in section.absent)
    rest = f"\nNot in this grid:\n\n{absent}" if absent else ""
    return f"\n## Claims: {md(section.group)}\n\n{section.counts}. {RULE}\n\n{table}\n{rest}"


def table_csv(findings: Sequence[Finding]) -> str:
    """One line for each inequality, differences, margins and intervals in the metrics' own unit."""
    return escape.table_csv([FIELDS, *(_csv_line(f, e) for f in findings for e in f.evidence)])


def _csv_line(finding: Finding, e: Evidence) -> list[Any]:
    claim, scale = finding.claim, e.column.scale
    ends = (min(e.printed) / scale, max(e.printed) / scale) if e.printed else (None, None)
    items, low, high = (e.interval.items, e.interval.low, e.interval.high) if e.interval else (None, None, None)
    line = [
        finding.group, claim.name, claim.paper, claim.table, finding.verdict, e.part.text, e.verdict, e.part.column,
        e.difference, e.part.margin / scale, e.seeds, e.std, items, low, high, e.over, *ends, e.why,
    ]  # fmt: skip
    return ["" if v is None else f"{v:.6f}" if isinstance(v, float) else v for v in line]


def latex(findings: Sequence[Finding]) -> str:
    """One booktabs table for each group, the claims it can answer; empty without any."""
    return "".join("\n" + _latex_table(s) for s in sections(findings) if s.judged)


def _latex_table(section: Section) -> str:
    rows = [row for block in section.judged for row in _latex_rows(block)]
    lines = [
        r"\begin{table}[t]", r"\centering", r"\resizebox{\linewidth}{!}{%", r"\begin{tabular}{llcccc}", r"\toprule",
        r"Claim & Inequality & Paper & Ours & 95\,\% & Over \\", r"\midrule", *rows, r"\bottomrule", r"\end{tabular}}",
        rf"\caption{{{tex(section.group)}: {tex(section.counts)}. Differences, in points, $\pm$ their standard "
        r"deviation over seeds, and their 95\,\% intervals.}", r"\end{table}",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _latex_rows(block: Block) -> list[str]:
    rows = []
    for i, line in enumerate(block.lines):
        first = f"{tex(block.name)} ({tex(block.source)}): {tex(block.verdict)}" if i == 0 else ""
        shown = (line.text, line.paper, line.ours, line.interval, line.over)
        rows.append(" & ".join([first, *map(tex, shown)]) + r" \\")
    return rows
