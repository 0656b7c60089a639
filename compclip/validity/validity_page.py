"""The page of validity as one self-contained file, and the same as JSON and CSV."""

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
from compclip.validity.counterparts import Counterparts
from compclip.validity.difference_pairs import DifferencePair, Unpaired
from compclip.validity.pair_summary import DRAWS, MIN_PAIRS, CorrelationRow, Estimate, PairSummary

FIELDS = (
    "row", "column", "kind", "family", "half", "detail", "unit", "published", "ours", "ours_by_seed", "printed",
)  # fmt: skip
HEADLINES = {
    "within_columns": "Spearman's correlation of differences ranked within their column",
    "raw": "Spearman's correlation of differences in points, over all columns",
}


@dataclass(frozen=True)
class ValidityResults:
    """All that the page shows. `summaries` starts with the choosing half; `looks` are those of validity.json.

    `wrong_activations` are published numbers that are left out for the activation that they were scored with.
    `predictors` are summaries of what published numbers alone predict, by the name of the half.
    """

    grid: str
    declared: Counterparts
    pairs: tuple[DifferencePair, ...]
    summaries: tuple[PairSummary, ...]
    predictors: Mapping[str, Sequence[PairSummary]]
    unpaired: Unpaired
    missing: tuple[MissingResult, ...]
    held_out: bool
    looks: tuple[str, ...]
    wrong_activations: tuple[PublishedNumber, ...] = ()

    def headline(self, summary: PairSummary) -> Estimate:
        """Return the headline number, which the file declares in advance."""
        return (summary.within if self.declared.headline == "within_columns" else summary.raw).rho


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
    }
    return environment.get_template("validity.html.j2").render(
        results=results, facts=list_facts(results), headline=HEADLINES[results.declared.headline], draws=DRAWS,
        least=MIN_PAIRS, sections=[arrange_section(results, s) for s in results.summaries[:2]],
        numbers=[(s, results.headline(s)) for s in results.summaries],
    )  # fmt: skip


def list_facts(results: ValidityResults) -> list[tuple[str, str]]:
    """Return the (name, text) lines at the head of the page."""
    first = results.summaries[0]
    seeds = sorted({len(p.seeds) for p in results.pairs})
    return [
        ("grid", results.grid),
        ("shown", "both halves" if results.held_out else "the choosing half"),
        ("pairs", f"{first.pairs}, of {first.methods} methods in the choosing half"),
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
    is_choosing = summary.name == results.summaries[0].name
    pairs = [p for p in results.pairs if p.is_choosing == is_choosing and not p.column.detail]
    pairs.sort(key=lambda p: p.column.position)
    markers = assign_markers(pairs)
    points = [p for p in pairs if not p.unit.score]
    pairs_by_column: dict[str, list[DifferencePair]] = {}
    for pair in pairs:
        pairs_by_column.setdefault(pair.column.name, []).append(pair)
    return {
        "summary": summary, "headline": results.headline(summary),
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


def make_json(results: ValidityResults, results_hash: str) -> dict[str, Any]:
    """Return the content of validity.json; `results_hash` is the hash of our numbers."""
    return {
        "grid": results.grid,
        "headline": results.declared.headline,
        "held_out": {"revealed": results.held_out, "looks": list(results.looks)},
        "results": results_hash,
        "draws": DRAWS,
        "summaries": {s.name: _make_summary_json(results, s) for s in results.summaries},
        "predictors": {
            half: {s.name: _make_pooled_json(s) for s in summaries} for half, summaries in results.predictors.items()
        },
        "pairs": [dict(zip(FIELDS, line, strict=True)) for line in _make_pair_rows(results.pairs)],
        "unpaired": asdict(results.unpaired),
        "missing": [asdict(m) for m in results.missing],
        "wrong_activations": len(results.wrong_activations),
    }


def _make_summary_json(results: ValidityResults, summary: PairSummary) -> dict[str, Any]:
    return {
        "headline": asdict(results.headline(summary)), **_make_pooled_json(summary),
        "columns": {row.name: _make_row_json(row) for row in summary.columns},
        "rows": {row.name: _make_row_json(row) for row in summary.rows},
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
            p.row, p.column.name, p.kind, p.column.family, "choosing" if p.is_choosing else "held_out", p.column.detail,
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
