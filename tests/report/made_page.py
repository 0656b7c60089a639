"""A page of runs, its parts given by name wherever they belong."""

from dataclasses import fields

from compclip.report import report_page
from compclip.report.report_page import GridResults, Literature, PageSettings, ReportPage


def build_page(runs, benchmarks, columns=None, missing=(), numbers=(), **parts) -> ReportPage:
    """Build a page; `parts` are fields of its results, its literature or its settings."""
    parts |= {"columns": columns, "missing": missing, "numbers": numbers}
    values = {}
    for kind in (GridResults, Literature, PageSettings):
        names = [field.name for field in fields(kind) if field.name in parts]
        values[kind] = {name: parts.pop(name) for name in names}
    assert not parts, f"no part of a page: {', '.join(parts)}"
    results = GridResults(runs, benchmarks, **values[GridResults])
    return report_page.build_page(results, Literature(**values[Literature]), PageSettings(**values[PageSettings]))
