"""One self-contained page: the tables, plots and details as text that the template lays out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from compclip.config.cell import PRETRAINED
from compclip.report import (
    among,
    claims_table,
    comparison,
    completeness,
    crossed,
    details,
    overlaps,
    plots,
    reference,
    tables,
    view_shares,
    wise_ft,
)
from compclip.report.claims import Claim, Finding, judge
from compclip.report.collect import Missing
from compclip.report.formats import between, header, number
from compclip.report.official import Official, equal, obstacles
from compclip.report.overlaps import Shared
from compclip.report.published import TOLERANCE, Comparison, Number, compare
from compclip.report.statistics import Interval
from compclip.report.tables import SUMMARY, Column, Group, Row, Statistic
from compclip.runs.results import FinishedRun

RANK = {0: "", 1: "best", 2: "second"}
VERDICT = {1: "better", -1: "worse", 0: ""}
MANY = 25  # methods; the head of the page counts the variants of more
MARK = {1: "▲", -1: "▼", 0: ""}


@dataclass(frozen=True)
class Page:
    """All that is shown: runs, the columns by section, what is missing, published numbers, the methods' defaults."""

    runs: tuple[FinishedRun, ...]
    benchmarks: tuple[str, ...]
    main: tuple[Group, ...]
    parts: tuple[Group, ...]
    rest: tuple[Group, ...]
    missing: tuple[Missing, ...]
    published: tuple[Number, ...]
    defaults: Callable[[FinishedRun], dict[str, Any]]
    findings: tuple[Finding, ...] = ()
    lines: tuple[wise_ft.Line, ...] = ()
    overlaps: Mapping[str, Shared] = field(default_factory=dict)  # what each data set shares with benchmarks
    models: tuple[among.Model, ...] = ()  # published ones, to stand among
    reference: str = ""  # the method that all others are compared with, beside the pretrained model
    contrasts: tuple[Group, ...] = ()  # the main tables as differences to it
    official: Official = field(default_factory=Official)  # the benchmarks that published numbers are of

    def shared(self, group: Group) -> Shared:
        """What a table's trained rows have seen of the benchmarks."""
        return overlaps.of(group, self.overlaps, self.benchmarks)

    @property
    def notes(self) -> dict[str, list[str]]:
        """The same in words, by table; of tables without any nothing."""
        found = {group.name: overlaps.notes(group, self.shared(group)) for group in self.main}
        return {name: told for name, told in found.items() if told}


def build(
    runs: Sequence[FinishedRun], benchmarks: Sequence[str], wanted: Sequence[str] | None, missing: Sequence[Missing],
    published: Sequence[Number], defaults: Callable[[FinishedRun], dict[str, Any]],
    claims: Sequence[Claim] = (), lines: Sequence[wise_ft.Line] = (),
    shared: Mapping[str, Shared] | None = None, models: Sequence[among.Model] = (), against: str = "",
    official: Official | None = None,
) -> Page:  # fmt: skip
    """Compute every table. `main`: summary and chosen columns; `parts`: groups of items; `rest`: all other metrics.

    `against` is a method that all others are compared with, beside the pretrained model; "" for none.
    """
    tables.comparable(runs)
    shown = tables.columns(runs, wanted, benchmarks)
    main = (*tables.summary_columns(shown, runs), *shown)
    others = [c for c in tables.every_column(runs, benchmarks) if c not in main]
    sections = (main, [c for c in others if "/" in c.metric], [c for c in others if "/" not in c.metric])
    made = [tuple(comparison.groups(runs, s)) if s else () for s in sections]
    columns = {c.name: c for c in (*main, *others)}
    findings = tuple(judge(claims, runs, made[0], columns, published))
    return Page(
        tuple(runs), tuple(benchmarks), *made, tuple(missing), tuple(published), defaults, findings,
        tuple(lines), shared or {}, tuple(models), against, tuple(reference.contrasts(made[0], against)),
        official or Official(),
    )  # fmt: skip


def render(page: Page) -> str:
    """The page's HTML, the same bytes for the same run files."""
    names, counts = details.counts(page.runs, page.benchmarks)
    return _template().render(
        facts=facts(page), missing=page.missing, missing_cells=len({m.cell for m in page.missing}),
        formulas=formulas(page), main=[section(g, page.shared(g)) for g in page.main],
        parts=[section(g) for g in page.parts],
        rest=[section(g) for g in page.rest], intervals=[differences(g) for g in page.main],
        reference=page.reference, contrasts=[differences(g) for g in page.contrasts],
        tradeoffs=[(g.name, f, tradeoff_key(g)) for g in page.main if (f := tradeoff_figures(g))],
        lines=[(g.name, f) for g in page.main if (f := line_figures(g, page.lines))],
        losses=[(g.name, f) for g in page.main if (f := loss_figures(g))],
        published=comparisons(page), tolerance=TOLERANCE, standings=standings(page), models=len(page.models),
        not_published=unequal(page, {number.column for number in page.published}),
        not_among=unequal(page, {column for model in page.models for column in model.values}),
        claims=claims_table.sections(page.findings), claims_rule=claims_table.RULE,
        count_names=names, counts=counts,
        group_counts=details.group_counts(page.runs),
        hours=hours(page), machines=details.machines(page.runs), versions=details.versions(page.runs),
        settings=settings(page), view_shares=view_shares.tabulate(page.main),
    )  # fmt: skip


def _template() -> Template:
    loader = FileSystemLoader(Path(__file__).parent)
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return made.get_template("page.html.j2")


def facts(page: Page) -> list[tuple[str, str]]:
    """What the grid holds, as (name, values) pairs for the head of the page."""
    cells = [r.cell for r in page.runs]
    pairs = {
        "methods": methods([c.method for c in cells]),
        "backbone": [c.backbone for c in cells], "data": [c.data for c in cells],
        "seeds": [str(c.seed) for c in cells if c.method != PRETRAINED] or [str(c.seed) for c in cells],
        "benchmarks": list(page.benchmarks),
    }  # fmt: skip
    pairs["GPU-hours"] = [details.hours([r for r in page.runs if r.cell.method != PRETRAINED])]
    pairs["stand-in tokenizer"] = [f"{name} ({where})" for name, where in details.stand_ins(page.runs)]
    return [(name, ", ".join(dict.fromkeys(values))) for name, values in pairs.items() if values]


def methods(names: Sequence[str]) -> list[str]:
    """Every method; of a long list the variants by number."""
    names = list(dict.fromkeys(names))
    if len(names) <= MANY:
        return names
    count = Counter(name.partition(".")[0] for name in names)
    return [f"{base} ({n} variants)" if n > 1 else base for base, n in count.items()]


def hours(page: Page) -> list[tuple[str, list[details.Spent]]]:
    """GPU-hours of every trained row by table; none where no run says."""
    if details.device_seconds(page.runs) is None:
        return []
    found = [(g.name, [details.spent(r.method, r.runs) for r in g.rows if r.method != PRETRAINED]) for g in page.main]
    return [(name, rows) for name, rows in found if rows]


def formulas(page: Page) -> list[tuple[str, str]]:
    """How each summary column is made of others."""
    found = [c for g in page.main[:1] for c in g.columns if c.benchmark == SUMMARY]
    return [(c.metric, _formula(c)) for c in found]


def _formula(column: Column) -> str:
    if all(part.benchmark == SUMMARY for part in column.parts):
        return "mean of " + ", ".join(part.metric for part in column.parts)
    inner = "; ".join(f"{p.benchmark} ({', '.join(q.metric for q in p.parts)})" for p in column.parts if p.parts)
    return (
        f"mean over benchmarks of the mean of a benchmark's columns: {inner}"
        if inner
        else "mean of " + ", ".join(p.name for p in column.parts)
    )


@dataclass(frozen=True)
class Shown:
    """A number as the table shows it; `key` sorts."""

    text: str
    small: str
    css: str
    mark: str
    title: str
    key: str
    figure: str = ""
    over: str = ""


EMPTY = Shown("–", "", "none", "", "no result", "")


def section(group: Group, shared: Shared | None = None) -> dict[str, Any]:
    """A table of means: header spans, columns, and rows of shown numbers; a mark at benchmarks that were seen."""
    made, shared = _table(group, group.rows, _shown), shared or {}
    notes = [f"{overlaps.MARK} {note}" for note in overlaps.notes(group, shared)] + completeness.notes(group)
    return made | {"seen": dict.fromkeys(shared, overlaps.MARK), "notes": notes}


def differences(group: Group) -> dict[str, Any]:
    """A table of differences with their intervals; without what they are to, or alone, no rows."""
    rows = [row for row in group.rows if any(e and e.change is not None for e in row.statistics)]
    limits = [_limit([row.statistics[i] for row in rows]) for i in range(len(group.columns))]
    return _table(group, rows, lambda e, c: _difference(e, c, limits[group.columns.index(c)]))


def _table(group: Group, rows: Sequence[Row], show: Callable[[Statistic | None, Column], Shown]) -> dict[str, Any]:
    lines = [(r.method, r.seeds, [show(e, c) for e, c in zip(r.statistics, group.columns, strict=True)]) for r in rows]
    labels = {row.method: completeness.label(row, group) for row in rows}
    starts = {i for i, c in enumerate(group.columns) if i and group.columns[i - 1].benchmark != c.benchmark}
    spans = header(group.columns)
    columns = {"spans": spans, "columns": group.columns, "starts": starts, "marks": completeness.marks(group)}
    head = {"backbone": completeness.backbone(group), "records": completeness.records(group)}
    head |= {"scored": completeness.of_benchmarks(group), "seen": {}}
    return {"name": group.name, "rows": lines, "labels": labels, "notes": [], **columns, **head}


def _shown(found: Statistic | None, column: Column) -> Shown:
    if found is None:
        return EMPTY
    small = "" if found.std is None else "±" + number(found.std, column)
    title = f"{column.name}: {found.mean:.4f}, {found.seeds} seed{'s' * (found.seeds > 1)}"
    css = f"{RANK[found.rank]} {VERDICT[found.verdict]}".strip()
    return Shown(number(found.mean, column), small, css, MARK[found.verdict], title, f"{found.mean:.6f}")


def _limit(column: Sequence[Statistic | None]) -> float:
    ends = [abs(v) for e in column if e and e.difference for v in (e.difference.low, e.difference.high)]
    return max(ends, default=0.0) or 1.0


def _difference(found: Statistic | None, column: Column, limit: float) -> Shown:
    if found is None or found.change is None:
        return EMPTY
    text, key = number(found.change, column, sign=True), f"{found.change:.6f}"
    gap = found.difference
    if gap is None:
        return Shown(text, "no items", "", "", "the benchmark keeps no items of this metric", key)
    figure = Markup(plots.interval_svg(gap.low, gap.high, gap.estimate, limit, found.verdict))
    css, mark = VERDICT[found.verdict], MARK[found.verdict]
    return Shown(text, between(gap, column), css, mark, _rests_on(found, gap), key, figure, crossed.less(found.over))


def _rests_on(found: Statistic, gap: Interval) -> str:
    """How many pairs an interval rests on, and where its seeds count, or could have, what it is over."""
    pairs = f"{gap.items} item pairs"
    return f"over {found.over}: {found.seeds} seed{'s' * (found.seeds > 1)}, {pairs}" if found.over else pairs


def tradeoff_figures(group: Group) -> list[Markup]:
    """Compositionality against zero-shot and retrieval, one figure for each summary column."""
    places = [i for i, c in enumerate(group.columns) if c.benchmark == SUMMARY]
    names = [group.columns[i].metric for i in places]
    chosen = [[row.statistics[i] for i in places] for row in group.rows]
    found, short = plots.tradeoffs(group, chosen, names), plots.numbers([row.method for row in group.rows])
    short = short or {row.method: completeness.label(row, group) for row in group.rows}
    return [Markup(plots.tradeoff_svg(points, name, short)) for name, points in found.items()]


def tradeoff_key(group: Group) -> list[tuple[str, str]]:
    """Number and method, where the figures have numbers."""
    return [(number, method) for method, number in plots.numbers([row.method for row in group.rows]).items()]


def line_figures(group: Group, lines: Sequence[wise_ft.Line]) -> list[Markup]:
    """The WiSE-FT lines over the same axes as the trade-off figures."""
    columns = {c.metric: c for c in wise_ft.columns(group)}
    comp = columns.pop("Comp", None)
    found = {name: wise_ft.trajectories(group, lines, c, comp) for name, c in columns.items()} if comp else {}
    return [Markup(plots.trajectory_svg(t, name)) for name, t in found.items() if t]


def loss_figures(group: Group) -> list[tuple[str, Markup]]:
    """One figure of loss curves for each method that was trained."""
    drawn = [(row.method, plots.loss_svg(row.runs, f"Loss of {row.method}")) for row in group.rows]
    return [(method, Markup(svg)) for method, svg in drawn if svg]


def comparisons(page: Page) -> list[Comparison]:
    """The papers' tables beside ours, over all columns of each group whose benchmark is the papers'."""
    groups = [equal(group, page.official) for group in _whole(page)]
    return [comparison for group in groups for comparison in compare(page.published, group)]


def standings(page: Page) -> list[among.Standing]:
    """Each method among published models, over all columns of each group whose benchmark is theirs."""
    groups = [equal(group, page.official) for group in _whole(page)]
    return [standing for group in groups for standing in among.standings(group, page.models)]


def unequal(page: Page, names: Collection[str]) -> list[tuple[str, dict[str, list[str]]]]:
    """Of each group the benchmarks with published numbers that ours do not compare with, by the reason."""
    found = [(group.name, obstacles(group, names, page.official)) for group in _whole(page)]
    return [(name, reasons) for name, reasons in found if reasons]


def _whole(page: Page) -> list[Group]:
    """The groups with all their columns."""
    parts = (*page.parts, *page.rest)
    return [_joined(group, [g for g in parts if g.name == group.name]) for group in page.main]


def _joined(group: Group, others: Sequence[Group]) -> Group:
    columns, rows = group.columns, group.rows
    for other in others:
        columns += other.columns
        rows = tuple(Row(a.method, a.runs, a.statistics + b.statistics) for a, b in zip(rows, other.rows, strict=True))
    return Group(group.backbone, group.data, columns, rows)


def settings(page: Page) -> list[tuple[str, list[details.Setting]]]:
    """Each trained method's parameters that differ from their defaults; by backbone and data where these differ."""
    found: dict[str, dict[str, list[details.Setting]]] = {}
    for group in page.main:
        for row in group.rows:
            if row.method != PRETRAINED and row.runs and row.runs[0].config:
                found.setdefault(row.method, {})[group.name] = details.settings(row.runs[0], page.defaults)
    return [pair for method, own in found.items() for pair in _named(method, own)]


def _named(method: str, own: dict[str, list[details.Setting]]) -> list[tuple[str, list[details.Setting]]]:
    first, *others = own.values()
    if all(other == first for other in others):
        return [(method, first)]
    return [(f"{method}, {where}", settings) for where, settings in own.items()]
