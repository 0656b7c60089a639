"""The page of validity as one self-contained file, its table as Markdown, and the same as JSON and CSV."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape as escape_html
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from compclip.base.number_text import format_count
from compclip.report import escape
from compclip.report.published_numbers import PublishedNumber
from compclip.report.run_collection import MissingResult
from compclip.report.svg_figures import COLOURS, draw_axes, draw_line, format_tick, linear_axis, wrap_svg
from compclip.validity import goal_verdict
from compclip.validity.counterparts import HELD_OUT, NEW_ROWS, Counterparts
from compclip.validity.difference_pairs import DifferencePair, Unpaired
from compclip.validity.goal_verdict import HeadlineRow
from compclip.validity.pair_summary import DRAWS, MIN_PAIRS, CorrelationRow, Estimate, PairSummary
from compclip.validity.trivial_predictors import DEALS, Ceiling

FIELDS = (
    "row", "column", "kind", "family", "half", "detail", "unit", "published", "ours", "ours_by_seed", "printed",
)  # fmt: skip
HEADLINES = {
    "within_columns": "Spearman's correlation of differences ranked within their column",
    "raw": "Spearman's correlation of differences in points, over all columns",
}


PLURALS = {HELD_OUT: "held-out pairs", NEW_ROWS: "new rows"}


@dataclass(frozen=True)
class Looks:
    """Whether a half that is kept aside is shown, and the hashes of the results with which it was."""

    revealed: bool
    hashes: tuple[str, ...]


@dataclass(frozen=True)
class ValidityResults:
    """All that the page shows. `rows` starts with the choosing half; `looks` are by half.

    `wrong_activations` are published numbers that are left out for the activation that they were scored with.
    """

    grid: str
    declared: Counterparts
    pairs: tuple[DifferencePair, ...]
    ceiling: Ceiling
    rows: tuple[HeadlineRow, ...]
    unpaired: Unpaired
    missing: tuple[MissingResult, ...]
    looks: Mapping[str, Looks]
    wrong_activations: tuple[PublishedNumber, ...] = ()

    @property
    def halves(self) -> list[HeadlineRow]:
        """The lines that are no part of another."""
        return [row for row in self.rows if not row.is_part]

    @property
    def shown(self) -> list[str]:
        """The names of what is shown, as text."""
        return [format_name(row.summary.name) for row in self.halves]


def render_validity(results: ValidityResults) -> str:
    """Return the page's HTML, the same bytes for the same results."""
    here = Path(__file__).parent
    loader = FileSystemLoader([here, here.parent / "report"])
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        "value": format_estimate,
        "interval": format_ends,
        "share": format_share,
        "shares": format_share_ends,
        "name": format_name,
        "verdict": goal_verdict.describe_verdict,
        "percent": goal_verdict.format_percent,
    }
    return environment.get_template("validity.html.j2").render(
        results=results, facts=list_facts(results), headline=HEADLINES[results.declared.headline], draws=DRAWS,
        deals=DEALS, least=MIN_PAIRS, sections=[arrange_section(results, row.summary) for row in results.halves],
        most=results.ceiling.within if results.declared.headline == "within_columns" else results.ceiling.raw,
        looks=[(PLURALS[half], looks) for half, looks in results.looks.items()],
    )  # fmt: skip


def list_facts(results: ValidityResults) -> list[tuple[str, str]]:
    """Return the (name, text) lines at the head of the page."""
    seeds = sorted({len(p.seeds) for p in results.pairs})
    pairs = "; ".join(
        f"{format_name(row.summary.name)} {row.summary.pairs}, of {row.summary.methods} methods"
        for row in results.halves
    )
    return [
        ("grid", results.grid),
        ("goal", goal_verdict.describe_goal(results.declared.goal, results.ceiling)),
        ("pairs", pairs),
        ("seeds", " or ".join(map(str, seeds)) or "none"),
        ("left out", describe_wrong_activations(results.wrong_activations)),
    ]


def describe_wrong_activations(numbers: Sequence[PublishedNumber]) -> str:
    """Describe how many published numbers, of which papers, were scored with a wrong activation."""
    papers = dict.fromkeys(n.paper for n in numbers)
    rows = {(n.paper, n.table, n.row) for n in numbers}
    count = f"{format_count(len(numbers), 'published number')} in {format_count(len(rows), 'row')}"
    return f"{count} ({', '.join(papers)}), scored with a wrong activation" if numbers else "nothing"


def arrange_section(results: ValidityResults, summary: PairSummary) -> dict[str, Any]:
    """Arrange one half for the template: its numbers, tables and plots."""
    pairs = [p for p in results.pairs if p.half == summary.name and not p.column.detail]
    pairs.sort(key=lambda p: p.column.position)
    markers = assign_markers(pairs)
    points = [p for p in pairs if not p.unit.score]
    pairs_by_column: dict[str, list[DifferencePair]] = {}
    for pair in pairs:
        pairs_by_column.setdefault(pair.column.name, []).append(pair)
    return {
        "summary": summary,
        "columns": sorted(summary.columns, key=lambda row: row.detail), "rows": summary.rows,
        "scatter": Markup(draw_pairs(points, markers, f"All pairs, {summary.name}")) if points else "",
        "key": [
            (Markup(wrap_svg(draw_marker(7, 7, markers[name]), 14, 14, "", "spark")), name)
            for name in dict.fromkeys(p.column.name for p in points)
        ],
        "figures": [
            (name, Markup(draw_pairs(pairs_of_column, markers, name, (300, 220))))
            for name, pairs_of_column in pairs_by_column.items()
            if len(pairs_of_column) >= MIN_PAIRS
        ],
    }  # fmt: skip


def format_name(name: str) -> str:
    """Return the name of a set of pairs as text."""
    return name.replace("_", " ")


def describe_half(row: HeadlineRow) -> str:
    """Describe the headline of a half in one line."""
    estimate = f"{format_estimate(row.headline)} {format_ends(row.headline)}".rstrip()
    return f"{format_name(row.summary.name)}: {estimate}; {goal_verdict.describe_verdict(row.verdict)}"


def format_estimate(estimate: Estimate) -> str:
    """Format a correlation: two decimals with a sign."""
    return "–" if estimate.value is None else f"{estimate.value:+.2f}".replace("-", "−")


def format_ends(estimate: Estimate) -> str:
    """Format the interval of a correlation, "" without one."""
    if estimate.low is None or estimate.high is None:
        return ""
    return f"[{estimate.low:+.2f}, {estimate.high:+.2f}]".replace("-", "−")


def format_share(estimate: Estimate) -> str:
    """Format a share in percent."""
    return "–" if estimate.value is None else f"{100 * estimate.value:.0f} %"


def format_share_ends(estimate: Estimate) -> str:
    """Format the interval of a share in percent, "" without one."""
    if estimate.low is None or estimate.high is None:
        return ""
    return f"[{100 * estimate.low:.0f}, {100 * estimate.high:.0f}]"


TABLE_HEAD = (
    "pairs of", "pairs", "methods", "families, kinds", "ρ within columns", "of the ceiling", "ρ in points",
    "column's mean, in points", "same sign", "column's mean, same sign", "always up, same sign", "goal",
)  # fmt: skip


def format_markdown(results: ValidityResults) -> str:
    """Format the page's table in Markdown, with intervals over families, and below it what the ceiling is."""
    lines = [f"| {' | '.join(TABLE_HEAD)} |", "|---" * len(TABLE_HEAD) + "|"]
    lines += [f"| {' | '.join(_make_table_line(row))} |" for row in results.rows]
    most = results.ceiling.within if results.declared.headline == "within_columns" else results.ceiling.raw
    ceiling = f"Ceiling: {format_estimate(most)} {format_ends(most)}".rstrip()
    goal = goal_verdict.describe_goal(results.declared.goal, results.ceiling)
    return "\n".join([*lines, "", f"{ceiling}. Goal: {goal}.", ""])


def _make_table_line(row: HeadlineRow) -> list[str]:
    summary, column_means, always_up = row.summary, row.trivial.column_means, row.trivial.always_up
    points = [f"{format_estimate(s.raw.rho)} {format_ends(s.by_family.raw.rho)}" for s in (summary, column_means)]
    signs = [
        f"{format_share(s.signs)} {format_share_ends(s.by_family.signs)}" for s in (summary, column_means, always_up)
    ]
    within = summary.by_family.within.rho
    cells = [
        format_name(summary.name), str(summary.pairs), str(summary.methods), f"{summary.families}, {summary.kinds}",
        f"{format_estimate(within)} {format_ends(within)}",
        "–" if row.verdict.share is None else goal_verdict.format_percent(row.verdict.share),
        *points, *signs, "" if row.is_part else goal_verdict.describe_verdict(row.verdict),
    ]  # fmt: skip
    return [cell.strip() for cell in cells]


def make_json(results: ValidityResults) -> dict[str, Any]:
    """Return the content of validity.json."""
    return {
        "grid": results.grid,
        "headline": results.declared.headline,
        "goal": asdict(results.declared.goal),
        **{half: {"revealed": of.revealed, "looks": list(of.hashes)} for half, of in results.looks.items()},
        "draws": DRAWS,
        "ceiling": asdict(results.ceiling) | {"deals": DEALS},
        "summaries": {row.summary.name: _make_summary_json(row) for row in results.rows},
        "pairs": [dict(zip(FIELDS, line, strict=True)) for line in _make_pair_rows(results.pairs)],
        "unpaired": asdict(results.unpaired),
        "missing": [asdict(m) for m in results.missing],
        "wrong_activations": len(results.wrong_activations),
    }


def _make_summary_json(row: HeadlineRow) -> dict[str, Any]:
    trivial = {name: _make_pooled_json(getattr(row.trivial, name)) for name in ("column_means", "always_up")}
    return {
        "headline": asdict(row.headline), "of_ceiling": row.verdict.share,
        "verdict": None if row.is_part else asdict(row.verdict), **_make_pooled_json(row.summary),
        "raw_on_pairs_of_column_means": asdict(row.on_same_pairs), "predictors": trivial,
        "columns": {line.name: _make_row_json(line) for line in row.summary.columns},
        "rows": {line.name: _make_row_json(line) for line in row.summary.rows},
    }  # fmt: skip


def _make_pooled_json(summary: PairSummary) -> dict[str, Any]:
    return {
        "pairs": summary.pairs, "methods": summary.methods,
        "within_columns": asdict(summary.within), "raw": asdict(summary.raw), "signs": asdict(summary.signs),
        "families": summary.families, "kinds": summary.kinds,
        "by_family": {
            "within_columns": asdict(summary.by_family.within), "raw": asdict(summary.by_family.raw),
            "signs": asdict(summary.by_family.signs),
        },
    }  # fmt: skip


def _make_row_json(row: CorrelationRow) -> dict[str, Any]:
    return {"pairs": row.pairs, "detail": row.detail, **asdict(row.correlations), "signs": asdict(row.signs)}


def format_pairs_csv(pairs: Sequence[DifferencePair]) -> str:
    """Return one line for each pair: both differences, and every published difference behind the mean."""
    rows = [["; ".join(map(str, v)) if isinstance(v, list) else v for v in row] for row in _make_pair_rows(pairs)]
    return escape.format_csv([FIELDS, *rows])


def _make_pair_rows(pairs: Sequence[DifferencePair]) -> list[list[Any]]:
    return [
        [
            p.row, p.column.name, p.kind, p.column.family, p.half, p.column.detail,
            "score" if p.unit.score else "points", p.published, p.mean,
            [f"seed {seed}: {gap:+g}" for seed, gap in zip(p.seeds, p.ours, strict=True)],
            [f"{printed.text}: {printed.difference:+g}" for printed in p.printed],
        ]
        for p in pairs
    ]  # fmt: skip


SHAPES = ("circle", "square", "triangle")
Marker = tuple[int, str]  # colour and shape


def assign_markers(pairs: Sequence[DifferencePair]) -> dict[str, Marker]:
    """Assign a colour and a shape to each column, no two alike among the first 24."""
    names = dict.fromkeys(p.column.name for p in sorted(pairs, key=lambda p: p.column.position))
    return {name: (1 + i % (COLOURS - 1), SHAPES[i // (COLOURS - 1) % len(SHAPES)]) for i, name in enumerate(names)}


def draw_pairs(
    pairs: Sequence[DifferencePair], markers: Mapping[str, Marker], title: str, size: tuple[int, int] = (860, 520)
) -> str:
    """Draw all pairs in the unit of their columns, with dashed lines through 0, the pretrained model."""
    width, height = size
    x = linear_axis([0.0, *(p.published for p in pairs)], 58, width - 20, 8 if width > 500 else 4)
    y = linear_axis([0.0, *(p.mean for p in pairs)], height - 44, 18)
    unit = "" if any(p.unit.score for p in pairs) else ", points"
    zero_lines = draw_line(x(0), y.start, x(0), y.stop, "guide") + draw_line(x.start, y(0), x.stop, y(0), "guide")
    body = draw_axes(x, y, f"published difference{unit}", f"on the scenes{unit}") + zero_lines
    for p in pairs:
        theirs, ours = (f"{'+' * (v > 0)}{format_tick(round(v, 3))}" for v in (p.published, p.mean))
        tooltip = f"{p.row}, {p.column.name}: published {theirs}, ours {ours}"
        body += draw_marker(x(p.published), y(p.mean), markers[p.column.name], tooltip)
    return wrap_svg(body, width, height, title)


def draw_marker(x: float, y: float, marker: Marker, tooltip: str = "") -> str:
    """Return the SVG of one point and its tooltip."""
    colour, shape = marker
    css, title = f'class="f{colour} dot"', f"<title>{escape_html(tooltip)}</title>" if tooltip else ""
    if shape == "circle":
        return f'<circle {css} cx="{x:.1f}" cy="{y:.1f}" r="4.5">{title}</circle>'
    if shape == "square":
        return f'<rect {css} x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8">{title}</rect>'
    return f'<path {css} d="M{x:.1f} {y - 5:.1f}l5 9h-10Z">{title}</path>'
