"""The page of validity as one self-contained file, and the same as JSON and CSV."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from compclip.report import escape
from compclip.report.collect import Missing
from compclip.report.validity import plot
from compclip.report.validity.analysis import Both, Line, Summary
from compclip.report.validity.correlation import DRAWS, LEAST, Estimate
from compclip.report.validity.declared import Declared
from compclip.report.validity.pairs import Pair
from compclip.report.validity.unpaired import Unpaired

FIELDS = (
    "row", "column", "kind", "family", "half", "detail", "unit", "published", "ours", "ours_by_seed", "printed",
)  # fmt: skip
HEADLINES = {
    "within_columns": "Spearman's correlation of differences ranked within their column",
    "raw": "Spearman's correlation of differences in points, over all columns",
}


@dataclass(frozen=True)
class Found:
    """All that the page shows. `summaries` has the half that is looked at first; `looks` as in validity.json."""

    grid: str
    declared: Declared
    pairs: tuple[Pair, ...]
    summaries: tuple[Summary, ...]
    unpaired: Unpaired
    missing: tuple[Missing, ...]
    held_out: bool
    looks: tuple[str, ...]

    def headline(self, of: Summary) -> Estimate:
        """The number that was named before there was any."""
        return (of.within if self.declared.headline == "within_columns" else of.raw).rho


def render(found: Found) -> str:
    """The page's HTML, the same bytes for the same results."""
    here = Path(__file__).parent
    loader = FileSystemLoader([here, here.parent])
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.filters |= {"value": value, "interval": interval, "share": share, "shares": shares}
    return made.get_template("validity.html.j2").render(
        found=found, facts=facts(found), headline=HEADLINES[found.declared.headline], draws=DRAWS, least=LEAST,
        sections=[section(found, s) for s in found.summaries[:2]],
        numbers=[(s, found.headline(s)) for s in found.summaries],
    )  # fmt: skip


def facts(found: Found) -> list[tuple[str, str]]:
    """The lines at the head of the page."""
    first = found.summaries[0]
    seeds = sorted({len(p.seeds) for p in found.pairs})
    return [
        ("grid", found.grid),
        ("shown", "both halves" if found.held_out else "the choosing half"),
        ("pairs", f"{first.pairs}, of {first.methods} methods in the choosing half"),
        ("seeds", " or ".join(map(str, seeds)) or "none"),
    ]


def section(found: Found, of: Summary) -> dict[str, Any]:
    """One half: its numbers, tables and plots; a set of pairs that only sums up others has no tables."""
    pairs = sorted((p for p in _of(found, of) if not p.column.detail), key=lambda p: p.column.place)
    look = plot.looks(pairs)
    points = [p for p in pairs if not p.unit.score]
    return {
        "summary": of, "headline": found.headline(of),
        "columns": sorted(of.columns, key=lambda own: own.detail), "rows": of.rows,
        "scatter": Markup(plot.scatter(points, look, f"All pairs, {of.name}")) if points else "",
        "key": [(Markup(plot.swatch(look[name])), name) for name in dict.fromkeys(p.column.name for p in points)],
        "figures": [(name, Markup(plot.scatter(own, look, name, (300, 220)))) for name, own in _by_column(pairs)],
    }  # fmt: skip


def _of(found: Found, of: Summary) -> list[Pair]:
    return [p for p in found.pairs if p.chosen == (of.name == found.summaries[0].name)]


def _by_column(pairs: Sequence[Pair]) -> list[tuple[str, list[Pair]]]:
    """The columns that have a correlation."""
    names = dict.fromkeys(p.column.name for p in pairs)
    own = [(name, [p for p in pairs if p.column.name == name]) for name in names]
    return [(name, found) for name, found in own if len(found) >= LEAST]


def value(found: Estimate) -> str:
    """Two decimals with a sign."""
    return "–" if found.value is None else f"{found.value:+.2f}".replace("-", "−")


def interval(found: Estimate) -> str:
    """Both ends, or nothing."""
    if found.low is None or found.high is None:
        return ""
    return f"[{found.low:+.2f}, {found.high:+.2f}]".replace("-", "−")


def share(found: Estimate) -> str:
    """A share in percent."""
    return "–" if found.value is None else f"{100 * found.value:.0f} %"


def shares(found: Estimate) -> str:
    """Its interval."""
    return "" if found.low is None or found.high is None else f"[{100 * found.low:.0f}, {100 * found.high:.0f}]"


def facts_json(found: Found, results: str) -> dict[str, Any]:
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


def _summary(found: Found, of: Summary) -> dict[str, Any]:
    return {
        "headline": asdict(found.headline(of)), "pairs": of.pairs, "methods": of.methods,
        "within_columns": asdict(of.within), "raw": asdict(of.raw), "signs": asdict(of.signs),
        "columns": {own.name: _line(own) for own in of.columns}, "rows": {own.name: _line(own) for own in of.rows},
    }  # fmt: skip


def _line(own: Line) -> dict[str, Any]:
    both: Both = own.found
    return {"pairs": own.pairs, "detail": own.detail, **asdict(both), "signs": asdict(own.signs)}


def pairs_csv(pairs: Sequence[Pair]) -> str:
    """One line a pair: differences with higher as better, and every published difference behind the mean."""
    return escape.table_csv([FIELDS, *([_joined(v) for v in line] for line in _lines(pairs))])


def _joined(cell: Any) -> Any:
    return "; ".join(map(str, cell)) if isinstance(cell, list) else cell


def _lines(pairs: Sequence[Pair]) -> list[list[Any]]:
    return [
        [
            p.row, p.column.name, p.kind, p.column.family, "choosing" if p.chosen else "held_out", p.column.detail,
            "score" if p.unit.score else "points", p.published, p.mean,
            [f"seed {seed}: {gap:+g}" for seed, gap in zip(p.seeds, p.ours, strict=True)],
            [f"{own.text}: {own.difference:+g}" for own in p.printed],
        ]
        for p in pairs
    ]  # fmt: skip
