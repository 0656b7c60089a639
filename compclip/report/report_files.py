"""Write the files of a report, and remove the plots of an earlier one, but nobody else's files.

`plots/.written.json` has the name and hash of each plot: a file that somebody changed or put there is not the report's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from compclip.base.errors import UserError
from compclip.base.files import read_bytes, read_json, write_atomic, write_json
from compclip.report import claims_table, report_figures, report_page, table_formats, wise_ft_lines

MANIFEST = ".written.json"
LEGEND = (
    "Mean ± standard deviation over seeds, in percent; best **bold**, second best <u>underlined</u>; ▲ ▼ better or "
    "worse than the pretrained model where the 95 % interval of the difference excludes 0: over seeds and items "
    "together, of one checkpoint over the items alone. `seeds` counts checkpoints: one under two seeds is one."
)


def write_report(page: report_page.ReportPage, out: Path) -> None:
    """Write all files of the report; each is whole or not there, and the page comes last."""
    groups = page.main
    plots = {"tradeoff.csv": report_figures.format_tradeoff_csv(groups)}
    if wise_ft := wise_ft_lines.format_lines_csv(groups, page.lines):
        plots["wise_ft.csv"] = wise_ft
    for group in groups:
        for row in group.rows:
            if losses := report_figures.format_loss_csv(row.runs):
                plots[f"loss/{row.method}-{group.backbone}-{group.data}.csv"] = losses
    files = {
        "report.md": table_formats.format_markdown(groups, page.missing, LEGEND, page.notes)
        + table_formats.format_contrasts_markdown(page.contrasts, page.reference)
        + claims_table.format_markdown(page.findings),
        "report.csv": table_formats.format_results_csv((*groups, *page.subsets, *page.other_metrics)),
        "report.tex": table_formats.format_latex(groups, page.notes)
        + table_formats.format_contrasts_latex(page.contrasts, page.reference)
        + claims_table.format_latex(page.findings),
        "claims.csv": claims_table.format_csv(page.findings),
        "reference.csv": table_formats.format_contrasts_csv(page.contrasts, page.reference),
        **{f"plots/{name}": text for name, text in plots.items()},
        "index.html": report_page.render_page(page),
    }
    remove_old_plots(out / "plots", plots)
    write_json(out / "metrics.json", table_formats.flatten_means(groups))
    for name, text in files.items():
        write_atomic(out / name, text.encode("utf-8", "replace"))


def remove_old_plots(folder: Path, files: Mapping[str, str]) -> None:
    """Remove the plots of an earlier report that are not among `files`, and note these before they are written."""
    old_hashes = _read_manifest(folder)
    for name, wrote in old_hashes.items():
        if name not in files and _is_unchanged(folder / name, wrote, folder):
            (folder / name).unlink()
    write_json(folder / MANIFEST, {name: _hash(text.encode("utf-8", "replace")) for name, text in files.items()})


def _read_manifest(folder: Path) -> dict[str, str]:
    """Read the manifest; empty where it is missing or damaged."""
    try:
        manifest = read_json(folder / MANIFEST)
    except UserError:
        return {}
    return {name: str(wrote) for name, wrote in manifest.items()} if isinstance(manifest, dict) else {}


def _is_unchanged(path: Path, wrote: str, folder: Path) -> bool:
    """Return whether a file lies below the folder, links resolved, and is as it was written."""
    try:
        inside = path.resolve().is_relative_to(folder.resolve()) and path.suffix == ".csv" and not path.is_symlink()
        return inside and _hash(read_bytes(path)) == wrote
    except (UserError, OSError, ValueError, RuntimeError):  # names that no file can have, and links in a circle
        return False


def _hash(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()
