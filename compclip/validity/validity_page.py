"""The page of validity as one self-contained file, and the same as JSON and CSV."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape as escape_html
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from compclip.report import escape
from compclip.report.run_collection import MissingResult
from compclip.report.svg_figures import COLOURS, Axis, draw_axes, draw_line, format_tick, linear_axis, wrap_svg
from compclip.validity.counterparts import Counterparts
from compclip.validity.difference_pairs import DifferencePair
from compclip.validity.pair_summary import CorrelationRow, Correlations, PairSummary
from compclip.validity.rank_correlation import DRAWS, LEAST, Estimate
from compclip.validity.unpaired import Unpaired

FIELDS = (
    "row", "column", "kind", "family", "half", "detail", "unit", "published", "ours", "ours_by_seed", "printed",
)  # fmt: skip
HEADLINES = {
    "within_columns": "Spearman's correlation of differences ranked within their column",
    "raw": "Spearman's correlation of differences in points, over all columns",
}


@dataclass(frozen=True)
class ValidityResults:
    """All that the page shows. `summaries` has the half that is looked at first; `looks` as in validity.json."""

    grid: str
    declared: Counterparts
    pairs: tuple[DifferencePair, ...]
    summaries: tuple[PairSummary, ...]
    unpaired: Unpaired
    missing: tuple[MissingResult, ...]
    held_out: bool
    looks: tuple[str, ...]

    def headline(self, of: PairSummary) -> Estimate:
        """The number that was named before there was any."""
        return (of.within if self.declared.headline == "within_columns" else of.raw).rho


def render_validity(found: ValidityResults) -> str:
    """The page's HTML, the same bytes for the same results."""
    here = Path(__file__).parent
    loader = FileSystemLoader([here, here.parent / "report"])
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.filters |= {
        "value": format_estimate,
        "interval": format_ends,
        "share": format_share,
        "shares": format_share_ends,
    }
    return made.get_template("validity.html.j2").render(
        found=found, facts=list_facts(found), headline=HEADLINES[found.declared.headline], draws=DRAWS, least=LEAST,
        sections=[layout_half(found, s) for s in found.summaries[:2]],
        numbers=[(s, found.headline(s)) for s in found.summaries],
    )  # fmt: skip


def list_facts(found: ValidityResults) -> list[tuple[str, str]]:
    """The lines at the head of the page."""
    first = found.summaries[0]
    seeds = sorted({len(p.seeds) for p in found.pairs})
    return [
        ("grid", found.grid),
        ("shown", "both halves" if found.held_out else "the choosing half"),
        ("pairs", f"{first.pairs}, of {first.methods} methods in the choosing half"),
        ("seeds", " or ".join(map(str, seeds)) or "none"),
    ]


def layout_half(found: ValidityResults, of: PairSummary) -> dict[str, Any]:
    """One half: its numbers, tables and plots; a set of pairs that only sums up others has no tables."""
    pairs = sorted((p for p in _of(found, of) if not p.column.detail), key=lambda p: p.column.place)
    look = assign_markers(pairs)
    points = [p for p in pairs if not p.unit.score]
    return {
        "summary": of, "headline": found.headline(of),
        "columns": sorted(of.columns, key=lambda own: own.detail), "rows": of.rows,
        "scatter": Markup(draw_pairs(points, look, f"All pairs, {of.name}")) if points else "",
        "key": [(Markup(draw_swatch(look[name])), name) for name in dict.fromkeys(p.column.name for p in points)],
        "figures": [(name, Markup(draw_pairs(own, look, name, (300, 220)))) for name, own in _by_column(pairs)],
    }  # fmt: skip


def _of(found: ValidityResults, of: PairSummary) -> list[DifferencePair]:
    return [p for p in found.pairs if p.chosen == (of.name == found.summaries[0].name)]


def _by_column(pairs: Sequence[DifferencePair]) -> list[tuple[str, list[DifferencePair]]]:
    """The columns that have a correlation."""
    names = dict.fromkeys(p.column.name for p in pairs)
    own = [(name, [p for p in pairs if p.column.name == name]) for name in names]
    return [(name, found) for name, found in own if len(found) >= LEAST]


def format_estimate(found: Estimate) -> str:
    """Two decimals with a sign."""
    return "–" if found.value is None else f"{found.value:+.2f}".replace("-", "−")


def format_ends(found: Estimate) -> str:
    """Both ends, or nothing."""
    if found.low is None or found.high is None:
        return ""
    return f"[{found.low:+.2f}, {found.high:+.2f}]".replace("-", "−")


def format_share(found: Estimate) -> str:
    """A share in percent."""
    return "–" if found.value is None else f"{100 * found.value:.0f} %"


def format_share_ends(found: Estimate) -> str:
    """Its interval."""
    return "" if found.low is None or found.high is None else f"[{100 * found.low:.0f}, {100 * found.high:.0f}]"


def make_json(found: ValidityResults, results: str) -> dict[str, Any]:
    """What validity.json holds; `results` is the hash of the numbers of ours that were read."""
    return {
        "grid": found.grid,
        "headline": found.declared.headline,
        "held_out": {"revealed": found.held_out, "looks": list(found.looks)},
        "results": results,
        "draws": DRAWS,
        "summaries": {s.name: _summary(found, s) for s in found.summaries},
        "pairs": [dict(zip(FIELDS, line, strict=True)) for line in _lines(found.pairs)],
        "unpaired": asdict(found.unpaired),
        "missing": [asdict(m) for m in found.missing],
    }


def _summary(found: ValidityResults, of: PairSummary) -> dict[str, Any]:
    return {
        "headline": asdict(found.headline(of)), "pairs": of.pairs, "methods": of.methods,
        "within_columns": asdict(of.within), "raw": asdict(of.raw), "signs": asdict(of.signs),
        "columns": {own.name: _line(own) for own in of.columns}, "rows": {own.name: _line(own) for own in of.rows},
    }  # fmt: skip


def _line(own: CorrelationRow) -> dict[str, Any]:
    both: Correlations = own.found
    return {"pairs": own.pairs, "detail": own.detail, **asdict(both), "signs": asdict(own.signs)}


def format_pairs_csv(pairs: Sequence[DifferencePair]) -> str:
    """One line a pair: differences with higher as better, and every published difference behind the mean."""
    return escape.format_csv([FIELDS, *([_joined(v) for v in line] for line in _lines(pairs))])


def _joined(cell: Any) -> Any:
    return "; ".join(map(str, cell)) if isinstance(cell, list) else cell


def _lines(pairs: Sequence[DifferencePair]) -> list[list[Any]]:
    return [
        [
            p.row, p.column.name, p.kind, p.column.family, "choosing" if p.chosen else "held_out", p.column.detail,
            "score" if p.unit.score else "points", p.published, p.mean,
            [f"seed {seed}: {gap:+g}" for seed, gap in zip(p.seeds, p.ours, strict=True)],
            [f"{own.text}: {own.difference:+g}" for own in p.printed],
        ]
        for p in pairs
    ]  # fmt: skip


SHAPES = ("circle", "square", "triangle")
Marker = tuple[int, str]  # colour and shape


def assign_markers(pairs: Sequence[DifferencePair]) -> dict[str, Marker]:
    """A colour and a shape for each column, no two alike among the first 24."""
    names = dict.fromkeys(p.column.name for p in sorted(pairs, key=lambda p: p.column.place))
    return {name: (1 + i % (COLOURS - 1), SHAPES[i // (COLOURS - 1) % len(SHAPES)]) for i, name in enumerate(names)}


def draw_pairs(
    pairs: Sequence[DifferencePair], look: Mapping[str, Marker], title: str, size: tuple[int, int] = (860, 520)
) -> str:
    """All pairs in the unit of their columns; dashed lines through 0, the pretrained model, on both sides."""
    width, height = size
    x = linear_axis([0.0, *(p.published for p in pairs)], 58, width - 20, 8 if width > 500 else 4)
    y = linear_axis([0.0, *(p.mean for p in pairs)], height - 44, 18)
    unit = "" if any(p.unit.score for p in pairs) else ", points"
    body = draw_axes(x, y, f"published difference{unit}", f"on the scenes{unit}") + _draw_zero(x, y)
    return wrap_svg(body + "".join(_draw_pair(p, look[p.column.name], x, y) for p in pairs), width, height, title)


def _draw_zero(x: Axis, y: Axis) -> str:
    return draw_line(x(0), y.start, x(0), y.stop, "guide") + draw_line(x.start, y(0), x.stop, y(0), "guide")


def _draw_pair(pair: DifferencePair, look: Marker, x: Axis, y: Axis) -> str:
    told = (
        f"{pair.row}, {pair.column.name}: published {_format_signed(pair.published)}, ours {_format_signed(pair.mean)}"
    )
    return draw_marker(x(pair.published), y(pair.mean), look, told)


def _format_signed(value: float) -> str:
    return f"{'+' if value > 0 else ''}{format_tick(round(value, 3))}"


def draw_marker(left: float, top: float, look: Marker, told: str = "") -> str:
    """One point, with what is shown when it is pointed at."""
    colour, shape = look
    css, title = f'class="f{colour} dot"', f"<title>{escape_html(told)}</title>" if told else ""
    if shape == "circle":
        return f'<circle {css} cx="{left:.1f}" cy="{top:.1f}" r="4.5">{title}</circle>'
    if shape == "square":
        return f'<rect {css} x="{left - 4:.1f}" y="{top - 4:.1f}" width="8" height="8">{title}</rect>'
    return f'<path {css} d="M{left:.1f} {top - 5:.1f}l5 9h-10Z">{title}</path>'


def draw_swatch(look: Marker) -> str:
    """The mark of a column for the key below a plot."""
    return wrap_svg(draw_marker(7, 7, look), 14, 14, "", "spark")
