"""The page, the CSV files and the LaTeX table of the field, and the same as tables of pandas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import pandas
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from compclip import report
from compclip.base.files import write_atomic
from compclip.base.messages import format_count
from compclip.field import conflicts, replication, tradeoff_figures
from compclip.field.conflicts import Comparison
from compclip.field.published_field import LIST, OURS, PublishedField, SourceModel, read_field
from compclip.field.replication import Replication
from compclip.field.tradeoff_figures import Panel
from compclip.report import claims
from compclip.report.escape import format_csv, format_name, to_latex
from compclip.report.published_numbers import PublishedNumber
from compclip.report.table_formats import layout_latex

NUMBER_FIELDS = (
    "source", "table", "row", "method", "backbone", "data", "benchmark", "metric", "value", "unit", "activation",
    "weights", "other_mean",
)  # fmt: skip
MODEL_FIELDS = ("source", "row", "method", "family", "backbone", "data", "weights", "from_scratch", "activation")
Table = tuple[Sequence[str], list[tuple[object, ...]]]  # its head and its lines


@dataclass(frozen=True)
class FieldResults:
    """All that is shown: the numbers, what sources say of the same weights, and the claims in all contexts."""

    published: PublishedField
    comparisons: tuple[Comparison, ...]
    replications: tuple[Replication, ...]

    @property
    def headline(self) -> str:
        """How much there is, in one sentence."""
        numbers = self.published.numbers
        listed = {n.row for n in numbers if n.paper == LIST}
        printed = sum(n.paper != OURS for n in numbers)
        counts = conflicts.count_conflicts(self.comparisons)
        return (
            f"{len(self.published.papers)} papers and a list of {len(listed)} models print {printed:,} numbers of "
            f"{self.published.count_models()} models; of {counts['compared']:,} that two or more print of the same "
            f"weights, {counts['apart']} are more than half a point apart."
        )


def load_field(published: Path, stated: Path, own: Sequence[PublishedNumber] = ()) -> FieldResults:
    """Read published tables and claims, and compare them: `load_field(Path("experiments/published"), CLAIMS)`."""
    printed = read_field(published)
    comparisons = conflicts.compare_sources(printed)
    replications = replication.replicate_claims(printed, claims.read_claims(stated))
    return FieldResults(read_field(published, own), tuple(comparisons), tuple(replications))


def make_tables(results: FieldResults) -> dict[str, Table]:
    """Make every table by its name: numbers, models, conflicts, claims."""
    return {
        "numbers": (NUMBER_FIELDS, tabulate_numbers(results.published)),
        "models": ((*MODEL_FIELDS, *results.published.facts.axes), tabulate_models(results.published)),
        "conflicts": (conflicts.FIELDS, conflicts.tabulate_conflicts(results.comparisons)),
        "claims": (replication.FIELDS, replication.tabulate_replications(results.replications)),
    }


def make_frames(results: FieldResults) -> dict[str, pandas.DataFrame]:
    """Make the same tables for pandas; values are numbers."""
    return {name: pandas.DataFrame(lines, columns=list(head)) for name, (head, lines) in make_tables(results).items()}


def tabulate_numbers(published: PublishedField) -> list[tuple[object, ...]]:
    """Lay out a line for each number, by `NUMBER_FIELDS`."""
    lines: list[tuple[object, ...]] = []
    for n in published.numbers:
        place = (n.paper, n.table, n.row, n.method, n.backbone, n.data, n.benchmark, n.metric)
        cause = published.facts.find_cause(n)
        other_mean = cause.cause if cause and cause.is_mean else ""
        lines.append((*place, float(n.value), n.unit, n.activation, published.find_weights(n), other_mean))
    return lines


def tabulate_models(published: PublishedField) -> list[tuple[object, ...]]:
    """Lay out a line for each model, by `MODEL_FIELDS` and the axes; a value that is not printed is None."""
    lines: list[tuple[object, ...]] = []
    for m in published.models:
        family = published.facts.find_family(m.method) if m.method else ""
        values = [published.measure(m, axis) for axis in published.facts.axes]
        about = (published.find_weights(m), published.is_from_scratch(m), "gelu" if m.is_wrong else "")
        lines.append((m.source, m.row, m.method, family, m.backbone, m.data, *about, *values))
    return lines


def format_latex(published: PublishedField) -> str:
    """Format one booktabs table for each backbone: the models of papers, ablations apart, along all axes."""
    axes = published.facts.axes
    parts = []
    for backbone in published.facts.backbones:
        rows = []
        for m in published.models:
            values = [published.measure(m, axis) for axis in axes]
            is_shown = m.backbone.partition(" ")[0] == backbone and m.method and not (m.is_ablation or m.is_wrong)
            if is_shown and sum(value is not None for value in values) > 1:
                cells = ["--" if value is None else f"{value:.1f}" for value in values]
                names = (m.row, m.source, m.backbone.removeprefix(backbone).strip(), m.data)
                rows.append([*map(to_latex, names), *cells])
        head = [
            "Model",
            "Source",
            "Weights",
            "Data",
            *(to_latex(axis.title.removesuffix(", %")) for axis in axes.values()),
        ]
        caption = "; ".join(f"{axis.title.removesuffix(', %')}: {axis.means}" for axis in axes.values())
        if rows:
            alignment = "llll" + "r" * len(axes)
            parts.append(layout_latex(alignment, [head], rows, to_latex(backbone), f"in percent. {to_latex(caption)}."))
    return "\n".join(parts)


def draw_pictures(published: PublishedField) -> list[tuple[str, str, list[Panel]]]:
    """Draw each picture on each backbone: backbone, picture, panels; the first leads the page."""
    drawn = []
    for backbone in published.facts.backbones:
        for name, picture in published.facts.pictures.items():
            panels = tradeoff_figures.list_panels(published, picture, backbone)
            if panels:
                drawn.append((backbone, name, panels))
    return drawn


def describe_panels(published: PublishedField, panels: Sequence[Panel]) -> str:
    """Say what a picture has: its points, papers and numbers, and how many points lie outside of its axes."""
    counts = tradeoff_figures.count_numbers(published, panels)
    outside = max(len(panel.points) - len(panel.inside) for panel in panels)
    papers = format_count(counts["papers"], "paper") + (f" and of {LIST}'s list" if counts["listed"] else "")
    rest = f"; up to {outside} a panel lie outside" if outside else ""
    return (
        f"{panels[0].backbone}: {counts['points']} models of {papers}, placed by {counts['numbers']} printed "
        f"numbers{rest}. An arrow leads from the pretrained model to what was tuned from it."
    )


def describe_axes(published: PublishedField, panels: Sequence[Panel]) -> list[tuple[str, str]]:
    """Say what each axis of a picture is: its title and its definition."""
    names = dict.fromkeys(name for panel in panels for name in (panel.y, panel.x))
    return [(published.facts.axes[name].title, published.facts.axes[name].means) for name in names]


def tabulate_benchmarks(published: PublishedField) -> list[tuple[str, list[str], list[tuple[SourceModel, list[str]]]]]:
    """Lay out every benchmark: its name, its metrics, and the printed values of each model that has one.

    A metric whose means differ has a column for each mean.
    """

    def is_of(number: PublishedNumber) -> str:
        return number.benchmark

    benchmarks = []
    for benchmark, of_benchmark in groupby(sorted(published.numbers, key=is_of), key=is_of):
        heads = dict.fromkeys(head_of(published, n) for n in of_benchmark)
        rows = []
        for model in sorted(published.models, key=lambda m: (m.backbone == "", m.backbone, m.source)):
            printed = {head_of(published, n): n.value for n in model.numbers.values() if n.benchmark == benchmark}
            if printed:
                rows.append((model, [printed.get(head, "") for head in heads]))
        benchmarks.append((format_name(benchmark), list(heads), rows))
    return benchmarks


def head_of(published: PublishedField, number: PublishedNumber) -> str:
    """Return the head of a number's column: its metric, and its mean where it is another one."""
    cause = published.facts.find_cause(number)
    mean = f" ({cause.cause})" if cause and cause.is_mean else ""
    return format_name(number.metric) + mean


def render_page(results: FieldResults) -> str:
    """Render the page: one file without network or scripts."""
    folders = [Path(__file__).parent, Path(report.__file__).parent]  # the report's style sheet
    environment = Environment(
        loader=FileSystemLoader(folders),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    functions: tuple[Callable, ...] = (
        draw_pictures, describe_panels, describe_axes, tabulate_benchmarks, conflicts.count_conflicts,
        conflicts.list_conflicts, conflicts.describe_readings, replication.count_claims, format_name,
    )  # fmt: skip
    environment.globals |= {function.__name__: function for function in functions}
    legend = tradeoff_figures.list_legend(results.published)
    return environment.get_template("field.html.j2").render(results=results, legend=legend, draw=_draw, OURS=OURS)


def _draw(panel: Panel, published: PublishedField) -> Markup:
    return Markup(tradeoff_figures.render_panel(panel, published))


def write_field(results: FieldResults, out: Path) -> None:
    """Write the CSV files, the LaTeX table and last the page."""
    files = {f"{name}.csv": format_csv([head, *lines]) for name, (head, lines) in make_tables(results).items()}
    files["field.tex"] = format_latex(results.published)
    files["index.html"] = render_page(results)
    for name, text in files.items():
        write_atomic(out / name, text.encode())


def write_picture(results: FieldResults, path: Path) -> None:
    """Write the first picture by itself: .png, .svg or .pdf."""
    _, _, panels = draw_pictures(results.published)[0]
    caption = describe_panels(results.published, panels)
    form = path.suffix.lower().lstrip(".")
    write_atomic(path, tradeoff_figures.render_picture(results.published, panels, caption, form))
