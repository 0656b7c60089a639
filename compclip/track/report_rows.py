"""The report in MLflow: a run with its files, and a run for each row of its tables, above those of the row's seeds.

All numbers are read from the report's own files: nothing is computed a second time.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from compclip.base.errors import UserError
from compclip.base.files import fingerprint, read_text
from compclip.base.messages import format_count, format_share
from compclip.config.cell import PRETRAINED
from compclip.report.escape import to_code, to_markdown
from compclip.runs.result_files import FinishedRun
from compclip.track.entries import NOTE_LIMIT, EntryOptions, MetricPoint, MlflowEntry

REPORTS = Path("reports")
FILES = (
    *("index.html", "report.md", "report.csv", "claims.csv", "reference.csv", "blind.csv", "slices.csv", "tuning.csv"),
)
TABLES = ("report", "reference", "blind", "slices")  # of which a row is made
SOURCE = {"mlflow.source.name": "python -m compclip.report"}
NUMBERS = ("mean", "std")  # of a row of report.csv
CONTRAST = ("difference", "low", "high")  # against the report's reference, else the pretrained model
BLIND = ("above", "above_low", "above_high", "sighted", "sighted_low", "sighted_high")  # of a row of blind.csv
BLIND_NOTE = " `above/…` is above the best row without the picture, `sighted/…` on items that all of those get wrong."
VERDICTS = {"better": 1.0, "": 0.0, "worse": -1.0}
REFUSED = re.compile(r"[^\w.\- :/]")  # characters that MLflow takes for no metric's name
RowName = tuple[str, str, str]  # method, backbone, data
CsvLine = Mapping[str, str]


def make_report_entries(root: Path, runs: Sequence[FinishedRun], options: EntryOptions) -> list[MlflowEntry]:
    """Make an entry for the report and one for each of its rows; none where there is no report.

    Raises UserError for a file that is none of a report's.
    """
    folder = root / REPORTS
    files = {name: folder / name for name in FILES if (folder / name).is_file()}
    if "report.csv" not in files:
        return []
    time = max((run.end for run in runs), default=files["report.csv"].stat().st_mtime)
    note = f"{_format_notice(options)}The page of `compclip report`."
    page = MlflowEntry(
        "report", "report", options.experiment, options.project, {"kind": "report", **SOURCE}, note,
        files=files, content_of_files=fingerprint(*files.values()), start=time, end=time,
    )  # fmt: skip
    tables = {name: _read_rows(files.get(f"{name}.csv")) for name in TABLES}
    rows = [_make_row(name, tables, runs, options, time) for name in tables["report"]]
    blind = tables["blind"].items()
    rows += [_make_blind_row(name, lines, options, time) for name, lines in blind if name not in tables["report"]]
    return [page, *rows]


def _format_notice(options: EntryOptions) -> str:
    return f"**{options.notice}** " if options.notice else ""


def set_parents(report: Sequence[MlflowEntry], cells: Sequence[MlflowEntry]) -> list[MlflowEntry]:
    """Return the report's entries and those of the cells, each of the grid's below its row where there is one."""
    rows = {entry.key for entry in report}
    entries = list(report)
    for cell in cells:
        key = row_key(*(cell.tags[name] for name in ("method", "backbone", "data")))
        entries.append(replace(cell, parent=key) if cell.at_home and key in rows else cell)
    return entries


def row_key(method: str, backbone: str, data: str) -> str:
    """Return the key of a row's entry."""
    return f"row/{method}/{backbone}/{data}"


def _read_rows(file: Path | None) -> dict[RowName, list[CsvLine]]:
    """Read a table of the report: its lines by row; none of a file that is not there."""
    rows: dict[RowName, list[CsvLine]] = {}
    for line in csv.DictReader(io.StringIO(read_text(file))) if file else ():
        try:
            rows.setdefault((line["method"], line["backbone"], line["data"]), []).append(line)
        except KeyError as error:
            raise UserError(f"{file}: has no column {error}; run `compclip report` again") from error
    return rows


def _make_row(
    name: RowName, tables: Mapping[str, Mapping[RowName, Sequence[CsvLine]]], runs: Iterable[FinishedRun],
    options: EntryOptions, time: float,
) -> MlflowEntry:  # fmt: skip
    method, backbone, data = name
    lines, contrasts, blind, slices = (tables[table].get(name, ()) for table in TABLES)
    reference = contrasts[0]["reference"] if contrasts else PRETRAINED
    compared = contrasts or [line for line in lines if line["difference"]]
    points = [*_points(lines, NUMBERS, time), *_points(compared, CONTRAST, time), *_points(blind, BLIND, time)]
    tags = {"kind": "row", "method": method, "backbone": backbone, "data": data, "reference": reference, **SOURCE}
    for line in compared:
        points.append(MetricPoint(f"verdict/{_metric(line)}", VERDICTS[line["verdict"]], time))
        if line["verdict"]:
            tags[f"verdict/{_metric(line)}"] = line["verdict"]
    fields = {"tuned_on": "tuned_on", "shown_checkpoint": "checkpoint", "search": "search"}
    marks = {tag: lines[0].get(field) for tag, field in fields.items()}
    tags |= {tag: mark for tag, mark in marks.items() if mark}
    seeds = max(int(line["seeds"]) for line in lines)
    backbones = max(int(line.get("backbones") or 1) for line in lines)  # none in a report of an earlier version
    count = f"{format_count(seeds, 'seed')}, whose runs stand below"
    if backbones > 1:
        count = f"{seeds} checkpoints of {backbones} backbones, whose own rows have their runs"
    note = _format_notice(options) + (
        f"**{to_markdown(method)}** on {to_markdown(backbone)}, {to_markdown(data)}: {count}. "
        f"`mean/…` and `std/…` are the report's; `difference/…`, `low/…` and `high/…` are to "
        f"{to_code(reference)} with the ends of its 95 % interval, and `verdict/…` is 1 better, -1 worse, 0 undecided. "
        f"Metrics are shares, the table is in percent.{BLIND_NOTE if blind else ''}"
    )
    if marks["tuned_on"]:
        note += f" **Tuned on what is shown**: it {to_markdown(marks['tuned_on'])}."
    note += "".join(f" It {to_markdown(text)}." for tag, text in marks.items() if text and tag != "tuned_on")
    note += f"\n\n{_format_slices(slices)}{_format_table(lines, compared, reference)}"
    starts = [run.start for run in runs if (run.cell.method, run.cell.backbone, run.cell.data) == name]
    return MlflowEntry(
        row_key(*name), "-".join(name), options.experiment, options.project, tags, note,
        numbers=tuple(points), start=min(starts, default=time), end=time,
    )  # fmt: skip


def _make_blind_row(name: RowName, lines: Sequence[CsvLine], options: EntryOptions, time: float) -> MlflowEntry:
    """Make the entry of a row of what is scored without the picture."""
    method, backbone, data = name
    tags = {"kind": "blind", "method": method, "backbone": backbone, "data": data, **SOURCE}
    note = f"**{to_markdown(method)}**: what is scored on each benchmark without its pictures (captions of {data})."
    numbers = tuple(_points(lines, ("mean",), time))
    return MlflowEntry(
        row_key(*name), "-".join(name), options.experiment, options.project, tags, note,
        numbers=numbers, start=time, end=time,
    )  # fmt: skip


def _format_slices(slices: Sequence[CsvLine]) -> str:
    """Format the slices that the report's page shows of a row as a table in Markdown, in points; empty without any."""
    rows = []
    for line in slices:
        if line["shown"] == "1":
            names = " | ".join(to_markdown(line[field]) for field in ("slice", "benchmark", "reference"))
            rows.append(f"| {names} | {100 * float(line['difference']):+.1f} | {100 * float(line['elsewhere']):+.1f} |")
    head = ["| slice | benchmark | against | there | elsewhere |", "| --- | --- | --- | ---: | ---: |"]
    return "\n".join([*head, *rows, "", ""]) if rows else ""


def _format_table(lines: Sequence[CsvLine], compared: Sequence[CsvLine], reference: str) -> str:
    """Format the row's numbers as a table in Markdown, in percent, as far as MLflow's limit allows."""
    contrasts = {_metric(line): line for line in compared}
    table = [f"| metric | mean | std | to {to_markdown(reference)} | 95 % interval | verdict |",
             "| --- | ---: | ---: | ---: | ---: | --- |"]  # fmt: skip
    shown_lines = [line for line in lines if _metric(line) in contrasts or not compared]
    for line in shown_lines:
        contrast = contrasts.get(_metric(line), {})
        mean, std, difference, low, high = (
            format_share(float(source[field]), not line["better"]) if source.get(field) else ""
            for source, field in [*((line, name) for name in NUMBERS), *((contrast, name) for name in CONTRAST)]
        )
        ends = f"[{low}, {high}]" if low else ""
        verdict = (contrast["verdict"] or "undecided") if contrast else ""
        table.append(f"| {to_markdown(_metric(line))} | {mean} | {std} | {difference} | {ends} | {verdict} |")
        if sum(map(len, table)) > NOTE_LIMIT - 1000:
            return "\n".join([*table[:-1], "", f"{len(shown_lines) - len(table) + 3} more are among the metrics."])
    return "\n".join(table)


def _points(lines: Iterable[CsvLine], fields: Sequence[str], time: float) -> Iterable[MetricPoint]:
    for line in lines:
        for field in fields:
            if line[field]:
                yield MetricPoint(f"{field}/{_metric(line)}", float(line[field]), time)


def _metric(line: CsvLine) -> str:
    return REFUSED.sub("_", f"{line['benchmark']}/{line['metric']}".replace("@", "_at_"))
