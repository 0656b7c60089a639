"""One self-contained page: the tables, plots and details as text that the template lays out, and the files beside it.

`plots/.written.json` has the name and hash of each plot: a file that somebody changed or put there is not the report's.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from compclip.base.files import read_bytes, read_mapping, write_atomic, write_json
from compclip.base.number_text import format_count
from compclip.config.cell import PRETRAINED
from compclip.config.columns import SUMMARY
from compclip.config.sections import WHOLE
from compclip.prepare.benchmark_records import BenchmarkRecords
from compclip.report import (
    blind_comparison,
    claims,
    decisions,
    item_gallery,
    method_stories,
    published_numbers,
    report_figures,
    run_details,
    slice_tables,
    table_formats,
    table_heads,
    tables,
    trajectories,
    tuned_rows,
)
from compclip.report.blind_comparison import BlindTable
from compclip.report.claims import Claim, Finding, judge_claims
from compclip.report.escape import to_markdown
from compclip.report.method_stories import MethodStory
from compclip.report.published_numbers import DifferenceBeside, OfficialBenchmarks, PaperComparison, PublishedNumber
from compclip.report.run_details import MissingResult
from compclip.report.table_formats import layout_differences, layout_means, layout_scores
from compclip.report.table_heads import SharedPictures
from compclip.report.tables import MethodRow, ResultTable
from compclip.runs import run_folder
from compclip.runs.picture_splits import PictureSplit
from compclip.runs.result_files import FinishedRun

GALLERY_MARK = "<!-- gallery -->"  # texts of others are escaped: none holds it
ITEMS = 3  # won, and lost, of each method
MANY = 25  # methods; the head of the page counts the variants of more


@dataclass(frozen=True)
class ReportPage:
    """All that is shown: runs, the columns by section, what is missing, published numbers, the methods' defaults."""

    runs: tuple[FinishedRun, ...]
    benchmarks: tuple[str, ...]
    main: tuple[ResultTable, ...]
    subsets: tuple[ResultTable, ...]
    other_metrics: tuple[ResultTable, ...]
    missing: tuple[MissingResult, ...]
    published: tuple[PublishedNumber, ...]
    defaults: Callable[[FinishedRun], dict[str, Any]]
    findings: tuple[Finding, ...] = ()
    lines: tuple[trajectories.WiseFtLine, ...] = ()
    overlaps: Mapping[str, SharedPictures] = field(default_factory=dict)  # what each data set shares with benchmarks
    models: tuple[published_numbers.PublishedModel, ...] = ()  # published ones, to stand among
    reference: str = ""  # the method that all others are compared with, beside the pretrained model
    contrasts: tuple[ResultTable, ...] = ()  # the main tables as differences to it
    version_tables: tuple[ResultTable, ...] = ()  # the main columns of each backbone that is a version of one
    version_contrasts: tuple[ResultTable, ...] = ()
    official: OfficialBenchmarks = field(default_factory=OfficialBenchmarks)  # those that published numbers are of
    blind: Mapping[str, Sequence[FinishedRun]] = field(default_factory=dict)  # by data set
    blind_tables: Mapping[str, BlindTable] = field(default_factory=dict)  # of the main tables, by name
    correction: str = ""  # over the comparisons of each table
    notice: str = ""  # of what a reader must know before any number
    split: PictureSplit = field(default_factory=PictureSplit)  # the items that all tables are of
    whole_tables: tuple[ResultTable, ...] = ()  # of a split: the means over whole benchmarks, as papers print them
    slices: tuple[slice_tables.SliceTable, ...] = ()
    items: int = ITEMS  # won, and lost, of each method on the page
    root: Path = Path()  # of the project, where pictures lie
    tuning: tuple[tuned_rows.TunedMethod, ...] = ()
    curves: tuple[trajectories.TrainingCurve, ...] = ()

    def shared(self, group: ResultTable) -> SharedPictures:
        """Return which pictures of the benchmarks a table's trained rows have seen."""
        return table_heads.select_overlaps(group, self.overlaps, self.benchmarks)

    def blind_rows(self, group: ResultTable) -> tuple[MethodRow, ...]:
        """Return a table's rows of what is had without the picture."""
        return blind_comparison.make_blind_rows(group, self.blind.get(group.data, ()))

    @property
    def authors_lines(self) -> list[list[DifferenceBeside]]:
        """List the authors' differences, to the reference and to the pretrained model; none without a notice."""
        if not self.notice:
            return []
        lines = [published_numbers.list_differences(self.main, PRETRAINED, self.published)]
        if self.reference:
            lines.insert(0, published_numbers.list_differences(self.contrasts, self.reference, self.published))
        return [of_base for of_base in lines if of_base]

    @property
    def notes(self) -> dict[str, list[str]]:
        """The same in words, by table; of tables without any nothing."""
        sentences = {group.name: table_heads.describe_overlaps(group, self.shared(group)) for group in self.main}
        return {name: lines for name, lines in sentences.items() if lines}


def build_page(
    runs: Sequence[FinishedRun],
    benchmarks: Sequence[str],
    column_names: Sequence[str] | None,
    missing: Sequence[MissingResult],
    published: Sequence[PublishedNumber],
    defaults: Callable[[FinishedRun], dict[str, Any]],
    claims: Sequence[Claim] = (),
    lines: Sequence[trajectories.WiseFtLine] = (),
    shared: Mapping[str, SharedPictures] | None = None,
    models: Sequence[published_numbers.PublishedModel] = (),
    reference: str = "",
    official: OfficialBenchmarks | None = None,
    blind: Mapping[str, Sequence[FinishedRun]] | None = None,
    correction: str = "",
    split: PictureSplit | None = None,
    whole_runs: Sequence[FinishedRun] = (),
    tuned: Mapping[tuned_rows.RowName, str] | None = None,
    records: Mapping[str, BenchmarkRecords] | None = None,
    items: int = ITEMS,
    root: Path = Path(),
    tuning: Sequence[tuned_rows.TunedMethod] = (),
    versions: tables.Versions | None = None,
    curves: Sequence[trajectories.TrainingCurve] = (),
    notice: str = "",
) -> ReportPage:
    """Compute every table. `main`: summary and chosen columns; `subsets`: groups of items; `other_metrics`: the rest.

    `runs` and `blind` have the items of `split` alone; `whole_runs` are the same runs with all items.
    `tuned` says which rows were tuned on what is shown.
    `reference` is a method that all others are compared with, beside the pretrained model; "" for none. `correction` is
    made over all comparisons of a table (`report.correction`). `records` are what benchmarks asked, for slices of items
    and for the `items` won and lost ones of each method, whose pictures lie below `root`. `tuning` is what was spent on
    the methods' parameters, and what was chosen. `versions` are groups of backbones that are versions of one. `curves`
    are runs at shares of their training. `notice` is what a reader must know before any number.
    """
    blind, split = blind or {}, split or PictureSplit()
    tables.check_same_files([*runs, *(run for of_data in blind.values() for run in of_data)])
    selected = tables.select_columns(runs, column_names, benchmarks)
    main = (*tables.summary_columns(selected, runs), *selected)
    remaining = [c for c in tables.list_columns(runs, benchmarks) if c not in main]
    sections = (main, [c for c in remaining if "/" in c.metric], [c for c in remaining if "/" not in c.metric])
    checkpoints = trajectories.describe_checkpoints(curves)
    leaks = trajectories.find_leaks(checkpoints, split.name)

    def mark(table: ResultTable) -> ResultTable:
        return trajectories.mark_checkpoints(tuned_rows.mark_tuned(table, leaks | dict(tuned or {})), checkpoints)

    main_tables, subsets, other_metrics = (
        tuple(map(mark, tables.build_tables(runs, s, split, versions))) if s else () for s in sections
    )
    by_version = list(map(mark, tables.build_version_tables(runs, main, split, versions or {})))
    columns = {c.name: c for c in (*main, *remaining)}
    compared = {g.name: blind_comparison.build_blind_table(g, blind.get(g.data, ())) for g in main_tables}
    findings = tuple(judge_claims(claims, runs, main_tables, columns, published, correction))
    contrasts = tables.build_contrasts(main_tables, reference)
    return ReportPage(
        runs=tuple(runs),
        benchmarks=tuple(benchmarks),
        main=_correct_tables(main_tables, correction),
        subsets=_correct_tables(subsets, correction),
        other_metrics=_correct_tables(other_metrics, correction),
        missing=tuple(missing),
        published=tuple(published),
        defaults=defaults,
        findings=findings,
        lines=tuple(lines),
        overlaps=shared or {},
        models=tuple(models),
        reference=reference,
        contrasts=_correct_tables(contrasts, correction),
        version_tables=_correct_tables(by_version, correction),
        version_contrasts=_correct_tables(tables.build_contrasts(by_version, reference), correction),
        official=official or OfficialBenchmarks(),
        blind=blind,
        blind_tables={name: _correct_blind(table, correction) for name, table in compared.items() if table},
        correction=correction,
        notice=notice,
        split=split,
        whole_tables=tuple(tables.build_tables(whole_runs, tuple(columns.values()), versions=versions))
        if split.name != WHOLE
        else (),
        slices=tuple(filter(None, (slice_tables.search_table(g, records or {}, reference) for g in main_tables))),
        items=items,
        root=root,
        tuning=tuple(tuning),
        curves=tuple(curves),
    )


def _correct_tables(group_tables: Sequence[ResultTable], correction: str) -> tuple[ResultTable, ...]:
    """Return tables with the marks and ranks that are decided after the correction, each table by itself."""
    corrected = (decisions.correct_table(table, correction) for table in group_tables)
    return tuple(decisions.mark_order(table, correction) for table in corrected)


def _correct_blind(table: BlindTable, correction: str) -> BlindTable:
    """Return a comparison with blind rows whose differences are those decided after the correction, table by table."""
    above, gains = (decisions.correct_table(differences, correction) for differences in (table.above, table.gains))
    return replace(table, above=above, gains=gains)


def tell_stories(page: ReportPage) -> list[tuple[str, list[MethodStory]]]:
    """Describe each table's methods in words, by the table's name."""
    contrasts, stories = {group.name: group for group in page.contrasts}, []
    for group in page.main:
        blind = page.blind_tables.get(group.name)
        gains = blind.gains if blind else None
        sentences = method_stories.tell_stories(group, gains, contrasts.get(group.name), page.reference)
        stories.append((group.name, sentences))
    return [(name, sentences) for name, sentences in stories if sentences]


def render_page(page: ReportPage, out: Path = Path("reports")) -> str:
    """Render the HTML of a page in the folder `out`, the same bytes for the same run files."""
    names, counts = run_details.tabulate_counts(page.runs, page.benchmarks)
    loader = FileSystemLoader(Path(__file__).parent)
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    text = environment.get_template("page.html.j2").render(
        facts=list_facts(page),
        notice=page.notice,
        authors_lines=[(published_numbers.summarize_differences(lines), lines) for lines in page.authors_lines],
        authors_head=published_numbers.DIFFERENCE_HEAD,
        missing=page.missing,
        missing_cells=len({m.cell for m in page.missing}),
        formulas=describe_summaries(page),
        stories=tell_stories(page),
        main=[layout_means(g, page.shared(g), page.blind_rows(g)) for g in page.main],
        by_version=[layout_means(g) for g in page.version_tables],
        intervals_by_version=[layout_differences(g) for g in page.version_tables],
        contrasts_by_version=[layout_differences(g) for g in page.version_contrasts],
        subsets=[layout_means(g, blind=page.blind_rows(g)) for g in page.subsets],
        other_metrics=[layout_means(g, blind=page.blind_rows(g)) for g in page.other_metrics],
        above_blind=[layout_differences(table.above) for table in page.blind_tables.values()],
        sighted=[layout_scores(table.sighted) for table in page.blind_tables.values()],
        sighted_gains=[layout_differences(table.gains) for table in page.blind_tables.values()],
        intervals=[layout_differences(g) for g in page.main],
        reference=page.reference,
        contrasts=[layout_differences(g) for g in page.contrasts],
        composition=[(g.name, method_stories.judge_methods(g, page.reference)) for g in page.contrasts],
        tradeoffs=[(g.name, *drawn) for g in page.main if (drawn := draw_tradeoffs(g))[0]],
        lines=[(g.name, f) for g in page.main if (f := draw_wise_ft(g, page.lines))],
        curves=[section for g in page.main if (section := trajectories.lay_out_section(g, page.curves))],
        losses=[(g.name, curves) for g in page.main if (curves := draw_losses(g))],
        published=compare_published(page),
        tolerance=published_numbers.TOLERANCE,
        standings=rank_among_models(page),
        models=len(page.models),
        not_published=list_incomparable(page, {number.column for number in page.published}),
        not_among=list_incomparable(page, {column for model in page.models for column in model.values}),
        tuning=[method.layout() for method in page.tuning],
        tuning_rule=tuned_rows.describe_tuning(page.tuning),
        claims=claims.build_sections(page.findings),
        claims_rule=claims.RULE,
        correction=decisions.describe_correction(page.correction),
        claims_css=claims.CSS,
        describe_evidence=claims.describe_evidence,
        count_names=names,
        counts=counts,
        group_counts=run_details.count_groups(page.runs),
        hours=run_details.tabulate_hours(page.runs, page.main),
        machines=run_details.tabulate_runs(page.runs),
        versions=run_details.list_package_versions(page.runs),
        settings=run_details.list_settings(page.main, page.defaults),
        view_shares=run_details.tabulate_view_shares(page.main),
        slices=[(t.name, slice_tables.describe_search(t), slice_tables.group_slices(t)) for t in page.slices],
        has_gallery=bool(page.slices and page.items),
        gallery_mark=Markup(GALLERY_MARK),
    )
    return _insert_gallery(text, page, out, environment) if page.slices and page.items else text


def _insert_gallery(text: str, page: ReportPage, out: Path, environment: Environment) -> str:
    """Put the gallery where the page has its mark, as much of it as the page's bound leaves room for."""
    room = item_gallery.PAGE_BYTES - len(text.encode("utf-8", "replace"))
    results = Path(os.path.relpath(page.root / run_folder.RESULTS, out))
    galleries = item_gallery.make_galleries(page.slices, page.items, page.root, results, room)
    gallery = environment.get_template("gallery.html.j2").render(galleries=galleries)
    return text.replace(GALLERY_MARK, gallery, 1)


def list_facts(page: ReportPage) -> list[tuple[str, str]]:
    """List what the grid holds, as (name, values) pairs for the head of the page."""
    cells = [r.cell for r in page.runs]
    pairs: dict[str, list[str]] = {
        "methods": abbreviate_methods([c.method for c in cells]),
        "backbone": [c.backbone for c in cells],
        "data": [c.data for c in cells],
        "seeds": [str(c.seed) for c in cells if c.method != PRETRAINED] or [str(c.seed) for c in cells],
        "benchmarks": list(page.benchmarks),
        "scores of": [page.split.describe()],
        "training took": [run_details.format_total_hours([r for r in page.runs if r.cell.method != PRETRAINED])],
        "stand-in tokenizer": [f"{n} ({where})" for n, where in run_details.list_stand_in_tokenizers(page.runs)],
    }
    return [(name, ", ".join(dict.fromkeys(values))) for name, values in pairs.items() if values]


def abbreviate_methods(names: Sequence[str]) -> list[str]:
    """Return every method; in a long list the variants are counted."""
    names = list(dict.fromkeys(names))
    if len(names) <= MANY:
        return names
    rows = Counter(name.partition(".")[0] for name in names)
    variants = {base: rows[base] - (base in names) for base in rows}
    return [f"{base} ({format_count(n, 'variant')})" if rows[base] > 1 else base for base, n in variants.items()]


def describe_summaries(page: ReportPage) -> list[tuple[str, str]]:
    """Describe how each summary column is made of others."""
    formulas = []
    for name, column in (page.main[0].summaries if page.main else {}).items():
        benchmarks = [f"{m.benchmark} ({', '.join(c.metric for c in m.members)})" for m in column.members if m.members]
        if all(member.benchmark == SUMMARY for member in column.members):
            text = "mean of " + ", ".join(member.metric for member in column.members)
        elif benchmarks:
            text = f"mean over benchmarks of the mean of a benchmark's columns: {'; '.join(benchmarks)}"
        else:
            text = "mean of " + ", ".join(member.name for member in column.members)
        formulas.append((name, text))
    return formulas


def draw_tradeoffs(group: ResultTable) -> tuple[list[Markup], list[tuple[str, str]]]:
    """Draw compositionality against zero-shot and retrieval, one figure for each summary column.

    Also return number and method, where the figures have numbers.
    """
    labels = {row.method: table_heads.row_label(row, group) for row in group.rows}
    numbers = report_figures.number_methods([row.method for row in group.rows])
    figures = [
        Markup(report_figures.draw_tradeoff(points, name, numbers or labels))
        for name, points in report_figures.collect_tradeoffs(group).items()
    ]
    return figures, [(number, method) for method, number in numbers.items()]


def draw_wise_ft(group: ResultTable, lines: Sequence[trajectories.WiseFtLine]) -> list[Markup]:
    """Draw the WiSE-FT lines over the same axes as the trade-off figures."""
    build = functools.partial(trajectories.build_trajectories, group, lines)
    return report_figures.draw_against_comp(group, build, "WiSE-FT")


def draw_losses(group: ResultTable) -> list[tuple[str, Markup]]:
    """Draw one figure of loss curves for each method that was trained."""
    figures = [(row.method, report_figures.draw_loss(row.runs, f"Loss of {row.method}")) for row in group.rows]
    return [(method, Markup(svg)) for method, svg in figures if svg]


def compare_published(page: ReportPage) -> list[PaperComparison]:
    """Compare the papers' tables with ours, over all columns of each group whose benchmark is the papers'."""
    groups = [published_numbers.keep_comparable_columns(group, page.official) for group in _join_tables(page)]
    return [comparison for group in groups for comparison in published_numbers.compare_tables(page.published, group)]


def rank_among_models(page: ReportPage) -> list[published_numbers.Standing]:
    """Rank each method among published models, over all columns of each group whose benchmark is theirs."""
    groups = [published_numbers.keep_comparable_columns(group, page.official) for group in _join_tables(page)]
    return [standing for group in groups for standing in published_numbers.compute_standings(group, page.models)]


def list_incomparable(page: ReportPage, names: Collection[str]) -> list[tuple[str, dict[str, list[str]]]]:
    """List by group and reason the benchmarks whose published numbers do not compare with ours."""
    groups = _join_tables(page)
    obstacles = [(group.name, published_numbers.list_obstacles(group, names, page.official)) for group in groups]
    return [(name, reasons) for name, reasons in obstacles if reasons]


def _join_tables(page: ReportPage) -> list[ResultTable]:
    """Return the main tables with all columns of the other sections, of whole benchmarks."""
    if page.whole_tables:
        return list(page.whole_tables)
    joined = []
    for group in page.main:
        for table in (*page.subsets, *page.other_metrics):
            if table.name == group.name:
                rows = zip(group.rows, table.rows, strict=True)
                both = tuple(replace(a, statistics=a.statistics + b.statistics) for a, b in rows)
                group = replace(group, columns=group.columns + table.columns, rows=both)
        joined.append(group)
    return joined


# --- all files of a report: the page comes last

MANIFEST = ".written.json"


def write_report(page: ReportPage, out: Path) -> None:
    """Write all files of the report; each is whole or not there, and the page comes last."""
    groups = page.main
    plots = {"tradeoff.csv": report_figures.format_tradeoff_csv(groups)}
    if wise_ft := trajectories.format_lines_csv(groups, page.lines):
        plots["wise_ft.csv"] = wise_ft
    if curves := trajectories.format_curves_csv(groups, page.curves):
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
            f"\n## In words: {to_markdown(name)}\n\n{method_stories.format_stories_markdown(stories)}"
            for name, stories in tell_stories(page)
        )
        + "".join(map(published_numbers.format_differences_markdown, page.authors_lines))
        + table_formats.format_contrasts_markdown(page.contrasts, page.reference)
        + "".join(method_stories.format_verdicts_markdown(group, page.reference) for group in page.contrasts)
        + slice_tables.format_slices_markdown(page.slices)
        + tuned_rows.format_tuning_markdown(page.tuning)
        + trajectories.format_curves_markdown(groups, page.curves)
        + claims.format_claims_markdown(page.findings),
        "report.csv": table_formats.format_results_csv(
            (*groups, *page.subsets, *page.other_metrics, *page.version_tables)
        ),
        "report.tex": table_formats.format_latex(groups, page.notes, {g.name: page.blind_rows(g) for g in groups})
        + table_formats.format_blind_latex(list(page.blind_tables.values()))
        + table_formats.format_contrasts_latex(page.contrasts, page.reference)
        + claims.format_claims_latex(page.findings),
        "claims.csv": claims.format_claims_csv(page.findings),
        "reference.csv": table_formats.format_contrasts_csv((*page.contrasts, *page.version_contrasts), page.reference),
        "blind.csv": blind_comparison.format_blind_csv(groups, page.blind_tables),
        "slices.csv": slice_tables.format_slices_csv(page.slices),
        **({"tuning.csv": tuned_rows.format_tuning_csv(page.tuning)} if page.tuning else {}),
        **{f"plots/{name}": text for name, text in plots.items()},
        "index.html": render_page(page, out),
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
