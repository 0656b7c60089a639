"""The page and the CSV files of the field, and the same as tables of pandas."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from itertools import product
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from compclip import report
from compclip.base.errors import UserError
from compclip.base.files import write_atomic
from compclip.base.messages import format_count
from compclip.config.cell import PRETRAINED
from compclip.field.published_field import (
    FACTS_FILE,
    LIST,
    OURS,
    Cause,
    Picture,
    PublishedField,
    SourceModel,
    name_without_data,
    read_field,
    to_letters,
)
from compclip.report import claims, published_numbers
from compclip.report.claims import Claim, Inequality
from compclip.report.escape import format_csv, format_name, hide_in_page
from compclip.report.published_numbers import RELEASED, TOLERANCE, PublishedNumber
from compclip.report.svg_plots import DIAMOND, DPI, PAPER, SOFT, STYLE, SvgPlot, boxes_overlap, export_svg, name_box


@dataclass(frozen=True)
class FieldResults:
    """All that is shown: the numbers, what sources say of the same weights, and the claims in all contexts."""

    published: PublishedField
    comparisons: tuple[Comparison, ...]
    claims: tuple[Claim, ...]
    contexts: tuple[Context, ...]

    @property
    def conflicts(self) -> list[Comparison]:
        """What is further apart than digits and ties explain."""
        return [comparison for comparison in self.comparisons if comparison.apart > TOLERANCE]

    @property
    def headline(self) -> str:
        """How much there is, in one sentence."""
        numbers = self.published.numbers
        listed = {n.row for n in numbers if n.paper == LIST}
        printed = len(numbers) - [n.paper for n in numbers].count(OURS)
        return (
            f"{len(self.published.papers)} papers and a list of {len(listed)} models print {printed:,} numbers of "
            f"{self.published.count_models()} models; of {len(self.comparisons):,} that two or more print of the same "
            f"weights, {len(self.conflicts)} are more than half a point apart."
        )


def load_field(published: Path, stated: Path, own_numbers: Sequence[PublishedNumber] = ()) -> FieldResults:
    """Read published tables and claims, and compare them: `load_field(Path("experiments/published"), CLAIMS)`."""
    printed = read_field(published)
    findings = claims.read_claims(stated)
    comparisons = tuple(compare_sources(printed))
    contexts = tuple(replicate_claims(printed, findings))
    return FieldResults(read_field(published, own_numbers), comparisons, tuple(findings), contexts)


def make_frames(results: FieldResults) -> dict[str, pandas.DataFrame]:
    """Make every table by its name, for pandas: numbers, models along the axes, conflicts, and claims by context."""
    published = results.published
    numbers = []
    for n in published.numbers:
        cause = published.facts.find_cause(n)
        extra = {"value": float(n.value), "weights": published.find_weights(n)}
        numbers.append(asdict(n) | extra | {"other_mean": cause.cause if cause.is_mean else ""})
    models = []
    for m in published.models:
        about: dict[str, object] = {name: getattr(m, name) for name in ("source", "row", "method", "backbone", "data")}
        about |= {"family": published.facts.find_family(m.method), "activation": "gelu" if m.is_wrong else ""}
        about |= {"weights": published.find_weights(m), "from_scratch": published.is_from_scratch(m)}
        models.append(about | {axis: published.measure(m, axis) for axis in published.facts.axes})
    tables = {"numbers": numbers, "models": models, "conflicts": results.conflicts, "claims": results.contexts}
    return {name: pandas.DataFrame(rows) for name, rows in tables.items()}


def draw_pictures(published: PublishedField) -> list[tuple[str, str, list[Panel]]]:
    """Draw each picture on each backbone: backbone, picture, panels; the first leads the page."""
    pictures = []
    for backbone in published.facts.backbones:
        for name, picture in published.facts.pictures.items():
            panels = list_panels(published, picture, backbone)
            if panels:
                pictures.append((backbone, name, panels))
    return pictures


def describe_panels(published: PublishedField, panels: Sequence[Panel]) -> str:
    """Say what a picture has: its points, papers and numbers, and how many points lie outside of its axes."""
    counts = count_numbers(published, panels)
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
    models = sorted(published.models, key=lambda model: (model.backbone == "", model.backbone, model.source))
    benchmarks = []
    for benchmark in sorted({n.benchmark for n in published.numbers}):
        heads: dict[str, None] = {}
        printed = []
        for model in models:
            values = {}
            for number in model.numbers.values():
                if number.benchmark == benchmark:
                    values[head_of(published, number)] = number.value
            if values:
                heads |= dict.fromkeys(values)
                printed.append((model, values))
        rows = [(model, [values.get(head, "") for head in heads]) for model, values in printed]
        benchmarks.append((format_name(benchmark), list(heads), rows))
    return benchmarks


def head_of(published: PublishedField, number: PublishedNumber) -> str:
    """Return the head of a number's column: its metric, and its mean where it is another one."""
    cause = published.facts.find_cause(number)
    return format_name(number.metric) + (f" ({cause.cause})" if cause.is_mean else "")


def summarize_claims(results: FieldResults) -> list[tuple[Claim, str, list[Context], list[Context]]]:
    """List every inequality with its claim, the contexts that count, and those with a wrong activation."""
    summaries = []
    for claim in results.claims:
        for inequality in claim.inequalities:
            sound: list[Context] = []
            wrong: list[Context] = []
            for context in results.contexts:
                if (context.claim, context.inequality) == (claim.name, inequality.text):
                    (wrong if context.is_wrong else sound).append(context)
            summaries.append((claim, inequality.text, sound, wrong))
    return summaries


def count_lone_claims(results: FieldResults) -> int:
    """Count the claims that one source alone prints."""
    claims_and_sources = {(c.claim, c.source) for c in results.contexts if not c.is_wrong}
    sources = Counter(claim for claim, _ in claims_and_sources)
    return list(sources.values()).count(1)


def render_page(results: FieldResults) -> str:
    """Render the page: one file without network or scripts."""
    folders = [Path(__file__).parent, Path(report.__file__).parent]  # the report's style sheet
    loader = FileSystemLoader(folders)
    environment = Environment(
        loader=loader, autoescape=True, finalize=hide_in_page, undefined=StrictUndefined, trim_blocks=True
    )
    functions: tuple[Callable, ...] = (
        draw_pictures, describe_panels, describe_axes, tabulate_benchmarks, summarize_claims, count_lone_claims,
        list_legend, render_panel, format_name,
    )  # fmt: skip
    for function in functions:
        environment.globals[function.__name__] = function
    return environment.get_template("field.html.j2").render(results=results, field=results.published, OURS=OURS)


def write_field(results: FieldResults, out: Path) -> None:
    """Write the CSV files, and last the page."""
    files = {}
    for name, frame in make_frames(results).items():
        lines = frame.astype(object).where(frame.notna(), None).itertuples(index=False)
        files[f"{name}.csv"] = format_csv([list(frame.columns), *lines])
    files["index.html"] = render_page(results)
    for name, text in files.items():
        write_atomic(out / name, text.encode())


def write_picture(results: FieldResults, path: Path) -> None:
    """Write the first panel by itself: .png, .svg or .pdf."""
    plot = draw_first_panel(results.published)
    plot.to_svg()  # places names and legend
    stream = io.BytesIO()
    with matplotlib.rc_context(STYLE):
        plot.figure.savefig(stream, format=path.suffix.lower()[1:], facecolor=PAPER, dpi=2 * DPI)
    write_atomic(path, stream.getvalue())


# --- where sources differ, and whether findings come back -----------------------------------------------------------
# Where sources print other numbers of the same weights, and whether the papers' findings come back in other sources.
#
# Sources are compared by the first number that each prints. The difference counts from more than half a point. A
# cause is the wrong activation (`activation` in the tables) or one that field.yaml declares; it explains the
# difference if those sources against which nothing is known agree, and theirs is then what our scorer would give.
#
# Each inequality of claims.yaml is put to all published contexts. A context is one source, backbone and training data
# set of which both methods are printed; a method there may be trained by the paper or be its authors' checkpoint.
# Columns that a mean stands for are averaged over what both rows print. The sign holds if the difference lies on its
# side of the margin. Rows that were scored with a wrong activation do not count.


WRONG_ACTIVATION = "scored with GELU, trained with QuickGELU"
UNKNOWN = "not known"
NOT_ALL = "the rest is not known"


@dataclass(frozen=True)
class Comparison:
    """What two sources or more print of the same weights in a column, and how far apart that is, in points.

    `apart_as_trained` leaves out wrong activations and other means. `cause` has the likely causes, each with its
    sources; `expected` is what our scorer would give, where it is known.
    """

    weights: str
    backbone: str
    column: str
    printed: str
    apart: float
    apart_as_trained: float
    cause: str
    expected: str


def compare_readings(
    weights: str, backbone: str, column: str, readings: Sequence[tuple[PublishedNumber, Cause]]
) -> Comparison:
    """Compare numbers of the same weights, each with what is known against it.

    They are explained where the sound ones agree, and no cause has to explain more than it can.
    """
    sound = []
    sources: dict[str, list[str]] = {}
    printed = []
    for number, cause in readings:
        printed.append(f"{number.paper} ({number.table}) {number.value}")
        if cause.cause:
            sources.setdefault(cause.cause, []).append(number.paper)
        else:
            sound.append(float(number.value))
    as_trained = [float(n.value) for n, cause in readings if not (n.activation or cause.is_mean)]
    is_explained = bool(sound) and spread(sound) <= TOLERANCE
    for number, cause in readings if sound else ():
        is_explained &= spread([float(number.value), sound[0]]) <= cause.points + TOLERANCE
    causes = [f"{', '.join(names)}: {cause}" for cause, names in sources.items()]
    if causes and not is_explained:
        causes.append(NOT_ALL)
    expected = ""
    if is_explained:
        expected = " to ".join(dict.fromkeys((f"{min(sound):g}", f"{max(sound):g}")))
    apart = spread([float(number.value) for number, _ in readings])
    likely = "; ".join(causes) or UNKNOWN
    return Comparison(weights, backbone, column, "; ".join(printed), apart, spread(as_trained), likely, expected)


def spread(values: Sequence[float]) -> float:
    """Return how far numbers are apart."""
    return round(max(values) - min(values), 4) if values else 0.0


def compare_sources(published: PublishedField) -> list[Comparison]:
    """Compare what sources print of the same weights, the largest difference first."""
    groups: dict[tuple[str, str, str], dict[tuple[str, str], tuple[PublishedNumber, Cause]]] = {}
    for number in published.numbers:
        weights = published.find_weights(number)
        if weights:
            cause = published.facts.find_cause(number)
            if number.activation:
                cause = Cause(cause=WRONG_ACTIVATION, is_mean=cause.is_mean)
            readings = groups.setdefault((weights, number.backbone, number.column), {})
            readings.setdefault((number.paper, number.activation), (number, cause))
    comparisons = []
    for key, readings in groups.items():
        sources = {source for source, _ in readings}
        if len(sources) > 1 and not all(cause.is_mean for _, cause in readings.values()):
            comparisons.append(compare_readings(*key, list(readings.values())))
    return sorted(comparisons, key=lambda comparison: -comparison.apart)


# --- whether findings come back


@dataclass(frozen=True)
class Context:
    """One source's difference left - right in a claim's column; `is_wrong`: a row has a wrong activation."""

    claim: str
    paper: str
    table: str
    inequality: str
    source: str
    backbone: str
    data: str
    difference: float
    holds: bool
    is_wrong: bool

    @property
    def name(self) -> str:
        """Where it is, and the difference."""
        where = ", ".join(filter(None, (self.source, self.backbone, self.data)))
        difference = f"{self.difference:+.2f}".replace("-", "−")
        return f"{where} ({difference})"


def replicate_claims(published: PublishedField, claims: Sequence[Claim]) -> list[Context]:
    """Put every inequality of every claim to all contexts."""
    models = group_by_claim_name(published.models)
    contexts = []
    for claim in claims:
        for inequality in claim.inequalities:
            for left, right in product(models.get(inequality.left, []), models.get(inequality.right, [])):
                # the pretrained model fits every data set
                is_same_data = left.data == right.data or right.method == PRETRAINED
                if is_same_data and (left.source, left.backbone) == (right.source, right.backbone):
                    contexts += compare_models(left, right, claim, inequality)
    return contexts


def group_by_claim_name(models: Sequence[SourceModel]) -> dict[str, list[SourceModel]]:
    """Group models by the name that claims have for them; of a method that a source trained its own models alone."""
    groups: dict[str, list[SourceModel]] = {}
    trained = {(model.source, model.method) for model in models}
    for model in models:
        name = name_without_data(model.method, model.data)
        is_released = model.method.startswith(RELEASED)
        if not (is_released and (model.source, name) in trained):
            groups.setdefault(name, []).append(model)
    return groups


def compare_models(left: SourceModel, right: SourceModel, claim: Claim, inequality: Inequality) -> list[Context]:
    """Compare two models in an inequality's column; none where one of them has no number there."""
    left_numbers = {column: number for column, number in left.numbers.items() if column in right.numbers}
    right_numbers = {column: right.numbers[column] for column in left_numbers}
    left_value = published_numbers.find_printed_value(left_numbers, inequality.column)
    right_value = published_numbers.find_printed_value(right_numbers, inequality.column)
    if left_value is None or right_value is None:
        return []
    difference = round(left_value - right_value, 4)
    holds = (difference - inequality.margin) * inequality.sign > 0
    head = (claim.name, claim.paper, claim.table, inequality.text, left.source, left.backbone, left.data)
    return [Context(*head, difference, holds, left.is_wrong or right.is_wrong)]


# --- the trade-off --------------------------------------------------------------------------------------------------
# The trade-off: composition against zero-shot and retrieval, a point a published model, families by colour and mark.
#
# An arrow leads from the pretrained model to what was tuned from it, both as the same source prints them. The axes
# span the models of papers that were tuned; what lies outside is counted. Colours are Okabe and Ito's, told apart by
# the colour-blind; in the page ink, paper and rules are the page's own, so that they follow the reader's dark mode.


# a family's colour, matplotlib's mark and the same mark as a character, in the order of field.yaml
STYLES = (
    ("#1c2430", "o", "○"), ("#737373", "X", "✖"), ("#0072b2", "o", "●"), ("#009e73", "D", "◆"), ("#cc79a7", "v", "▼"),
    ("#d55e00", "^", "▲"), ("#e69f00", "s", "■"), ("#56b4e9", "P", "✚"), ("#8c6d31", "h", "⬢"),
)  # fmt: skip
PANEL = (4.6, 4.3)  # inches
PICTURE = (860, 500)  # pixels of the README's width
LEAST = 5  # points of a panel that is drawn
OFFSETS = ((6, 4), (6, -10), (-6, 4), (-6, -10), (6, 14), (-6, 14), (6, -20), (-6, -20))  # of a label, in points


@dataclass(frozen=True)
class Point:
    """A model at its two values, and the pretrained model's from which its arrow comes, if one does."""

    model: SourceModel
    x: float
    y: float
    base: tuple[float, float] | None = None


@dataclass(frozen=True)
class Panel:
    """One pair of axes on one backbone; `limits` are left, right, bottom and top."""

    backbone: str
    x: str
    y: str
    points: tuple[Point, ...]
    limits: tuple[float, float, float, float]

    @property
    def inside(self) -> list[Point]:
        """The points within the axes."""
        left, right, bottom, top = self.limits
        return [p for p in self.points if left <= p.x <= right and bottom <= p.y <= top]


def list_panels(published: PublishedField, picture: Picture, backbone: str) -> list[Panel]:
    """List the panels of a picture on a backbone and its kin (`ViT-L/14 CLIPA`); those with few points are left out."""
    models = [m for m in published.models if m.backbone.partition(" ")[0] == backbone and not m.is_wrong]
    panels = []
    for x in picture.x:
        points = locate_models(published, models, x, picture.y)
        tuned = [p for p in points if p.base]
        if len(points) >= LEAST and tuned:
            panels.append(Panel(backbone, x, picture.y, tuple(points), find_limits(tuned)))
    return panels


def locate_models(published: PublishedField, models: Sequence[SourceModel], x: str, y: str) -> list[Point]:
    """Return the models that have a value on both axes; those tuned with the place of their source's pretrained one."""
    bases: dict[tuple[str, str], tuple[float, float]] = {}
    points = []
    for model in sorted(models, key=lambda model: model.method != PRETRAINED):
        x_value = published.measure(model, x)
        y_value = published.measure(model, y)
        if x_value is None or y_value is None:
            continue
        key = (model.source, model.backbone)
        is_tuned = bool(model.method) and model.method != PRETRAINED and not published.is_from_scratch(model)
        points.append(Point(model, x_value, y_value, bases.get(key) if is_tuned else None))
        if model.method == PRETRAINED:
            bases.setdefault(key, (x_value, y_value))
    return points


def find_limits(points: Sequence[Point]) -> tuple[float, float, float, float]:
    """Return axes around tuned models and where they began, with a margin."""
    corners = np.array([[(p.x, p.y), p.base] for p in points]).reshape(-1, 2)
    low = corners.min(axis=0)
    high = corners.max(axis=0)
    margin = np.maximum(1.0, 0.09 * (high - low))
    (left, bottom), (right, top) = low - margin, high + margin
    return left, right, bottom, top


def draw_panel(ax: Axes, panel: Panel, published: PublishedField) -> None:
    """Draw one panel: listed models below, then arrows, marks and as many names as have room."""
    styles = dict(zip(published.facts.families, STYLES, strict=True))
    axes = published.facts.axes
    ax.set(xlim=panel.limits[:2], ylim=panel.limits[2:], xlabel=axes[panel.x].title, ylabel=axes[panel.y].title)
    for index, point in enumerate(panel.inside):
        model = point.model
        colour, mark, _ = styles.get(published.facts.find_family(model.method), (SOFT, "o", ""))
        is_small = model.is_ablation or not model.method
        if point.base and not model.is_ablation:
            arrow = {"arrowstyle": "->", "color": colour, "alpha": 0.45, "linewidth": 1.0, "shrinkA": 4, "shrinkB": 4}
            ax.annotate("", (point.x, point.y), point.base, arrowprops=arrow, zorder=2)
        ax.plot(
            point.x, point.y, "*" if model.source == OURS else mark, color=colour, markersize=4 if is_small else 8,
            markerfacecolor=PAPER if model.method == PRETRAINED else colour, alpha=0.6 if is_small else 1.0,
            zorder=3 if is_small else 4, gid=f"mark{index}",
        )  # fmt: skip
    write_names(ax, panel)


def write_names(ax: Axes, panel: Panel) -> None:
    """Write the name of each tuned model beside its mark, where no other name or mark is in the way.

    Of the same weights at one place, as several sources have them, one name is written.
    """
    used_boxes = []
    for point in panel.inside:
        x, y = ax.transData.transform((point.x, point.y))
        used_boxes.append((x - 4, y - 4, x + 4, y + 4))
    scale = ax.figure.dpi / 72
    frame = ax.get_window_extent()
    names: dict[tuple[str, int, int], Point] = {}
    for point in panel.inside:
        x, y = ax.transData.transform((point.x, point.y))
        key = (to_letters(name_without_data(point.model.method, point.model.data)), round(x / 20), round(y / 20))
        if point.base and not point.model.is_ablation:
            names.setdefault(key, point)
            if to_letters(point.model.short_name) == key[0]:  # rather than "Baseline [41]"
                names[key] = point
    repeated = Counter(point.model.short_name for point in names.values())
    for point in names.values():
        x, y = ax.transData.transform((point.x, point.y))
        name = point.model.short_name
        name += f" [{point.model.source}]" if repeated[name] > 1 else ""
        width = 4.6 * len(name) * scale
        for right, up in OFFSETS:
            box = name_box(x, y, (right * scale, up * scale), width, 2 * scale, 8 * scale)
            if box[0] > frame.x0 and box[2] < frame.x1 and not any(boxes_overlap(box, used) for used in used_boxes):
                side = "left" if right > 0 else "right"
                ax.annotate(
                    name, (point.x, point.y), (right, up), textcoords="offset points", ha=side, fontsize=8.5, zorder=5
                )
                used_boxes.append(box)
                break


def render_panel(panel: Panel, published: PublishedField) -> Markup:
    """Return a panel as SVG for the page: each mark shows its name and numbers."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=PANEL, dpi=DPI)
        figure.subplots_adjust(left=0.13, right=0.98, top=0.98, bottom=0.13)
        draw_panel(figure.add_subplot(), panel, published)
        titles = [f"{p.model.row} ({p.model.source}): {p.x:.1f}, {p.y:.1f}" for p in panel.inside]
        return export_svg(figure, f"{panel.backbone}: {panel.y} against {panel.x}", titles)


def draw_first_panel(published: PublishedField) -> SvgPlot:
    """Draw the first panel for a file of its own: models that field.yaml names in colour, all others grey."""
    backbone, title, (panel, *_) = draw_pictures(published)[0]
    names = published.facts.pictures[title].names
    x_title, y_title = (published.facts.axes[axis].title for axis in (panel.x, panel.y))
    plot = SvgPlot(f"{backbone}: {y_title} against {x_title}", x_title, y_title, PICTURE)
    plot.axes.set(xlim=panel.limits[:2], ylim=panel.limits[2:])
    for name, pattern in names.items():
        point = next((p for p in panel.inside if fnmatchcase(p.model.declared_name, pattern)), None)
        if not point:
            raise UserError(f"{FACTS_FILE}: pictures.{title}.names.{name}: {pattern!r} fits no model within the axes")
        mark_named_model(plot, point, name, published)
    label = f"{len(panel.points) - len(names)} others, {len(panel.points) - len(panel.inside)} outside of the axes"
    for point in panel.inside:
        plot.mark(point.x, point.y, point.model.row, color=SOFT, alpha=0.4, markersize=5, mew=0, zorder=2, label=label)
        label = ""
    return plot


def mark_named_model(plot: SvgPlot, point: Point, name: str, published: PublishedField) -> None:
    """Draw a model's mark and name; the pretrained one is a diamond, where dashed lines meet."""
    family = published.facts.find_family(point.model.method)
    colour, marker, _ = dict(zip(published.facts.families, STYLES, strict=True))[family]
    style: dict[str, Any] = {"color": colour, "marker": marker}
    if family == PRETRAINED:
        plot.guide(point.x, point.y)
        style = DIAMOND
    label = family.partition(" (")[0]
    is_new = label not in plot.axes.get_legend_handles_labels()[1]
    plot.mark(point.x, point.y, point.model.row, name, zorder=4, label=label if is_new else "", **style)


def count_numbers(published: PublishedField, panels: Sequence[Panel]) -> dict[str, int]:
    """Count what panels show: papers, listed models, models, and the printed numbers that place them."""
    models = {}
    used = set[tuple[int, str]]()
    for panel in panels:
        for point in panel.points:
            models[id(point.model)] = point.model.source
            for axis in (panel.x, panel.y):
                columns = published.find_numbers(point.model, published.facts.axes[axis])
                used.update(product([id(point.model)], columns))
    sources = list(models.values())
    papers = set(sources) - {LIST, OURS}
    return {"papers": len(papers), "listed": sources.count(LIST), "points": len(models), "numbers": len(used)}


def list_legend(published: PublishedField) -> list[tuple[str, tuple[str, str, str]]]:
    """List the families, each with colour, matplotlib's mark, and the mark as a character."""
    styles = list(zip(published.facts.families, STYLES, strict=True))
    return [*styles, (f"other models of {LIST}", (SOFT, "o", "●"))]
