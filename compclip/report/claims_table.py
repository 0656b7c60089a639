"""The claims table: the same verdicts, differences and intervals for the page, Markdown, CSV and LaTeX."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from compclip.report import escape
from compclip.report.claims import ABSENT, HOLDS, REFUTED, SEEDS, UNDECIDED, Evidence, Finding, counts
from compclip.report.escape import md, md_code, tex
from compclip.report.formats import number
from compclip.report.statistics import Interval
from compclip.report.tables import Column

RULE = (
    "An inequality holds if both of its 95 % intervals lie on its side of the margin, and is refuted if both lie on "
    "the other: Student's t over the differences of the seeds that both methods have, and the paired bootstrap over "
    f"items, where the metric keeps them. In between, or with fewer than {SEEDS} shared seeds, it is undecided. A "
    "claim does not hold as soon as one inequality is refuted; it holds if all do. With many claims a few verdicts "
    "come by luck; nothing corrects for that. Differences are the first method minus the second, in points; the "
    "paper's are those of its own table, their range where it has several rows."
)
CSS = {HOLDS: "better", REFUTED: "worse", UNDECIDED: "", ABSENT: "none"}
FIELDS = (
    "group", "claim", "paper", "table", "claim_verdict", "inequality", "verdict", "column", "difference", "margin",
    "seeds", "seed_low", "seed_high", "items", "item_low", "item_high", "paper_low", "paper_high", "why",
)  # fmt: skip


@dataclass(frozen=True)
class Line:
    """One inequality as text."""

    text: str
    paper: str
    ours: str
    by_seed: str
    by_item: str
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
        told = ", ".join(f"{verdict}: {n}" for verdict, n in counts(mine).items())
        made.append(Section(group, f"{len(mine)} claims; {told}", judged, absent))
    return made


def _block(finding: Finding) -> Block:
    claim = finding.claim
    source = f"{claim.paper}, {claim.table}"
    lines = tuple(_line(e) for e in finding.evidence)
    missing = ", ".join(dict.fromkeys(name for e in finding.evidence for name in e.missing))
    return Block(claim.name, claim.finding, source, finding.verdict, CSS[finding.verdict], lines, missing)


def _line(e: Evidence) -> Line:
    ours = "–" if e.difference is None else number(e.difference, e.column, sign=True)
    seeds, items = (_interval(i, e.column) for i in (e.by_seed, e.by_item))
    return Line(e.part.text, _printed(e.printed, e.column), ours, seeds, items, e.verdict, CSS[e.verdict], e.why)


def _interval(found: Interval | None, column: Column | None) -> str:
    if found is None or column is None:
        return "–"
    return f"[{number(found.low, column, sign=True)}, {number(found.high, column, sign=True)}]"


def _printed(found: Sequence[float], column: Column) -> str:
    if not found:
        return "–"
    ends = [number(v / column.scale, column, sign=True) for v in (min(found), max(found))]
    return ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"


def markdown(findings: Sequence[Finding]) -> str:
    """The claims of every group in Markdown; empty without claims."""
    return "".join(_markdown_section(s) for s in sections(findings))


def _markdown_section(section: Section) -> str:
    head = ["verdict", "claim", "inequality", "paper", "ours", "seeds 95 %", "items 95 %", "of the inequality"]
    rows = [head, ["---"] * len(head)]
    for block in section.judged:
        for i, line in enumerate(block.lines):
            first = [f"**{block.verdict}**", md(f"{block.finding} ({block.source})")] if i == 0 else ["", ""]
            last = md(f"{line.verdict} ({line.why})" if line.why else line.verdict)
            rows.append([*first, md_code(line.text), line.paper, line.ours, line.by_seed, line.by_item, last])
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
    seed, item = ((i.low, i.high) if i else (None, None) for i in (e.by_seed, e.by_item))
    items = e.by_item.items if e.by_item else None
    line = [
        finding.group, claim.name, claim.paper, claim.table, finding.verdict, e.part.text, e.verdict, e.part.column,
        e.difference, e.part.margin / scale, e.seeds, *seed, items, *item, *ends, e.why,
    ]  # fmt: skip
    return ["" if v is None else f"{v:.6f}" if isinstance(v, float) else v for v in line]


def latex(findings: Sequence[Finding]) -> str:
    """One booktabs table for each group, the claims it can answer; empty without any."""
    return "".join("\n" + _latex_table(s) for s in sections(findings) if s.judged)


def _latex_table(section: Section) -> str:
    rows = [row for block in section.judged for row in _latex_rows(block)]
    lines = [
        r"\begin{table}[t]", r"\centering", r"\resizebox{\linewidth}{!}{%", r"\begin{tabular}{llcccc}", r"\toprule",
        r"Claim & Inequality & Paper & Ours & Seeds & Items \\", r"\midrule", *rows, r"\bottomrule", r"\end{tabular}}",
        rf"\caption{{{tex(section.group)}: {tex(section.counts)}. Differences, in points, with their 95\,\% intervals "
        r"over seeds and over items.}", r"\end{table}",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _latex_rows(block: Block) -> list[str]:
    rows = []
    for i, line in enumerate(block.lines):
        first = f"{tex(block.name)} ({tex(block.source)}): {tex(block.verdict)}" if i == 0 else ""
        shown = (line.text, line.paper, line.ours, line.by_seed, line.by_item)
        rows.append(" & ".join([first, *map(tex, shown)]) + r" \\")
    return rows
