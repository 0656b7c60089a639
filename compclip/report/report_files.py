"""Write all files of a report: the page, the tables beside it, and the numbers behind the plots.

`plots/.written.json` has the name and hash of each plot: a file that somebody changed or put there is not the report's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from compclip.base.files import read_bytes, read_mapping, write_atomic, write_json
from compclip.report import (
    authors_differences,
    blind_comparison,
    claims_table,
    composition_verdicts,
    decisions,
    latex_tables,
    method_stories,
    report_figures,
    report_page,
    slice_tables,
    table_formats,
    training_curves,
    tuning_table,
    wise_ft_lines,
)
from compclip.report.escape import to_markdown
from compclip.report.report_page import ReportPage

MANIFEST = ".written.json"


def write_report(page: ReportPage, out: Path) -> None:
    """Write all files of the report; each is whole or not there, and the page comes last."""
    groups = page.main
    plots = {"tradeoff.csv": report_figures.format_tradeoff_csv(groups)}
    if wise_ft := wise_ft_lines.format_lines_csv(groups, page.lines):
        plots["wise_ft.csv"] = wise_ft
    if curves := training_curves.format_curves_csv(groups, page.curves):
        plots["training_curves.csv"] = curves
    for group in groups:
        for row in group.rows:
            if losses := report_figures.format_loss_csv(row.runs):
                plots[f"loss/{row.method}-{group.backbone}-{group.data}.csv"] = losses
    files = {
        "report.md": (f"{page.notice}\n\n" if page.notice else "")
        + table_formats.format_markdown(groups, page.missing, page.notes, {g.name: page.blind_rows(g) for g in groups})
        + (f"\n{correction}\n" if (correction := decisions.describe_correction(page.correction)) else "")
        + "".join(
            f"\n## In words: {to_markdown(name)}\n\n{method_stories.format_markdown(stories)}"
            for name, stories in report_page.tell_stories(page)
        )
        + "".join(map(authors_differences.format_markdown, page.authors_lines))
        + table_formats.format_contrasts_markdown(page.contrasts, page.reference)
        + "".join(composition_verdicts.format_markdown(group, page.reference) for group in page.contrasts)
        + slice_tables.format_slices_markdown(page.slices)
        + tuning_table.format_tuning_markdown(page.tuning)
        + training_curves.format_curves_markdown(groups, page.curves)
        + claims_table.format_markdown(page.findings),
        "report.csv": table_formats.format_results_csv(
            (*groups, *page.subsets, *page.other_metrics, *page.version_tables)
        ),
        "report.tex": latex_tables.format_latex(groups, page.notes, {g.name: page.blind_rows(g) for g in groups})
        + latex_tables.format_blind_latex(list(page.blind_tables.values()))
        + latex_tables.format_contrasts_latex(page.contrasts, page.reference)
        + claims_table.format_latex(page.findings),
        "claims.csv": claims_table.format_csv(page.findings),
        "reference.csv": table_formats.format_contrasts_csv((*page.contrasts, *page.version_contrasts), page.reference),
        "blind.csv": blind_comparison.format_blind_csv(groups, page.blind_tables),
        "slices.csv": slice_tables.format_slices_csv(page.slices),
        **({"tuning.csv": tuning_table.format_tuning_csv(page.tuning)} if page.tuning else {}),
        **{f"plots/{name}": text for name, text in plots.items()},
        "index.html": report_page.render_page(page, out),
    }
    remove_old_plots(out / "plots", plots)
    write_json(out / "metrics.json", table_formats.flatten_means(groups))
    for name, text in files.items():
        write_atomic(out / name, text.encode("utf-8", "replace"))


def remove_old_plots(folder: Path, plots: Mapping[str, str]) -> None:
    """Remove the plots of an earlier report that are not among `plots`, and note these before they are written."""
    manifest = folder / MANIFEST
    old_hashes = read_mapping(manifest) if manifest.is_file() else {}
    stale = {name: old_hash for name, old_hash in old_hashes.items() if name not in plots}
    for path in list(folder.rglob("*.csv")):
        old_hash = stale.get(path.relative_to(folder).as_posix())
        if old_hash and hashlib.sha256(read_bytes(path)).hexdigest() == old_hash:
            path.unlink()
    hashes = {name: hashlib.sha256(text.encode("utf-8", "replace")).hexdigest() for name, text in plots.items()}
    write_json(manifest, hashes)
