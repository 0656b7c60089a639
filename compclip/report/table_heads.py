"""What stands around a table: its backbone's weights, how many records were scored, pictures that training has seen.

A column of which less than nine tenths was scored is marked: most often pictures are missing. So is a retrieval whose
gallery lacks pictures of its split. What a data set shares with the benchmarks is in data/overlaps/<name>.json.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from compclip.base.files import read_mapping, understand
from compclip.base.messages import format_count
from compclip.config.cell import PRETRAINED
from compclip.model import model_config
from compclip.report import run_details, tables, validation_curves
from compclip.report.tables import Column, MethodRow, ResultTable
from compclip.runs import progress
from compclip.runs.item_outcomes import LOST_NAMES, PARTIAL, SMALLER, is_partial
from compclip.runs.result_files import FinishedRun
from compclip.runs.run_folder import REPLACED

MANY = 8  # benchmarks that are all named
SMALL_TEST = 200  # records: of fewer, each is half a point or more
RANDOM = "random weights"  # stands where the pretrained model's name would
OVERLAPS = Path("data/overlaps")
SHARED = "†"  # the mark of a benchmark of which training has seen pictures
MANY_REPLACED = 0.1  # of a row's training samples: a larger share is said beside its table
PICTURES = "pictures"  # all of them, besides those by each criterion
CHOSEN = "¶"  # the mark of a row that shows a chosen checkpoint
TUNED = "§"  # the mark of a row that was tuned on what the table shows
SEARCHED = "‖"  # the mark of a row whose search ended at an edge, or found nothing
ROW_MARKS = (TUNED, CHOSEN, SEARCHED)
STALLED = "⊘"  # the mark of a row with a run that stopped learning
CRITERIA = {"sha256": "by SHA-256", "bytes": "by length and first bytes", "coco_id": "by COCO's number"}
SharedPictures = Mapping[str, Mapping[str, int]]  # benchmark -> how many pictures, and of them by criterion


@dataclass(frozen=True)
class Coverage:
    """How many records were scored, of how many."""

    scored: int
    records: int

    @property
    def is_partial(self) -> bool:
        """Whether less than nine tenths were scored."""
        return is_partial(self.scored, self.records)

    @property
    def short(self) -> str:
        """'319 of 7,511', '7,511'."""
        return f"{self.records:,}" if self.scored == self.records else f"{self.scored:,} of {self.records:,}"

    @property
    def text(self) -> str:
        """'319 of 7,511 records (4.2 %)', '7,511 records'."""
        percent = 100 * self.scored / self.records
        share = f"{percent:.1f}" if percent < 10 else f"{int(percent)}"  # never rounded up to all
        return f"{self.short} records" + ("" if self.scored == self.records else f" ({share} %)")


def column_coverage(column: Column, runs: Sequence[FinishedRun]) -> Coverage | None:
    """Return the column's coverage; of a mean, and over runs, the lowest. None where no result says."""
    members = column.members or tables.mean_members(column, runs)
    if members:
        return _lowest_coverage(column_coverage(member, runs) for member in members)
    metric = column.metric.partition("/")[0]  # a group of items is as covered as all of them
    return _lowest_coverage(_run_coverage(run, column.benchmark, metric) for run in runs)


def _run_coverage(run: FinishedRun, benchmark: str, metric: str = "") -> Coverage | None:
    """Return the coverage of a metric in a run, by default that of the whole benchmark."""
    result = run.results.get(benchmark)
    if result and metric in result.coverage:
        return Coverage(*result.coverage[metric])
    counts = result.counts if result else {}
    return Coverage(counts["scored"], counts["records"]) if counts.get("records") and "scored" in counts else None


def _lowest_coverage(coverages: Iterable[Coverage | None]) -> Coverage | None:
    return min((c for c in coverages if c), key=lambda c: c.scored / c.records, default=None)


def benchmark_coverage(group: ResultTable) -> dict[str, Coverage]:
    """Return the coverage of each benchmark that the group's columns are of, the lowest over its runs."""
    coverages = {}
    for name in list_benchmarks(group.columns):
        lowest = _lowest_coverage(_run_coverage(run, name) for run in group.runs)
        if lowest:
            coverages[name] = lowest
    return coverages


def list_benchmarks(columns: Iterable[Column]) -> list[str]:
    """List the benchmarks that columns are of; several of one that is a mean over them."""
    names = []
    for column in columns:
        names += list_benchmarks(column.members) if column.members else [column.benchmark]
    return list(dict.fromkeys(names))


def column_mark(column: Column, runs: Sequence[FinishedRun]) -> str:
    """Return a column's marks: little of it was scored, its gallery lost pictures; "" for a number like others'."""
    coverage = column_coverage(column, runs)
    marks = [PARTIAL] if coverage and coverage.is_partial else []
    if not count_lost_names(runs).keys().isdisjoint(list_benchmarks([column])):
        marks.append(SMALLER)
    return " ".join(marks)


def column_marks(group: ResultTable) -> dict[Column, str]:
    """Return the marks of each column; "" of one that has none."""
    return {column: column_mark(column, group.runs) for column in group.columns}


def count_lost_names(runs: Sequence[FinishedRun]) -> dict[str, int]:
    """Count the pictures that each retrieval lost: its split's file names them, and they have no caption."""
    counts = {}
    for run in runs:
        for name, result in run.results.items():
            if result.counts.get(LOST_NAMES):
                counts[name] = result.counts[LOST_NAMES]
    return counts


def describe_lost_names(runs: Sequence[FinishedRun]) -> list[str]:
    """Say of which retrievals pictures are lost, and what that does to their numbers."""
    why = "names of its split's file have no caption: recall in the smaller gallery is higher"
    return [f"{SMALLER} {name}: {number:,} {why}" for name, number in count_lost_names(runs).items()]


def describe_marks(group: ResultTable) -> list[str]:
    """Describe what the marks mean, where there are any."""
    notes = []
    for mark in ROW_MARKS:
        for method in group.by_method:
            if group.get_note(mark, method):
                notes.append(f"{mark} {method} {group.get_note(mark, method)}")
    if notes and notes[0].startswith(TUNED):
        notes[0] += ": a row so marked was tuned on what is shown, which favours it"
    for row in group.rows:
        stalls = describe_stalls(row)
        if stalls:
            notes.append(f"{STALLED} {row.method}: {stalls}")
    notes += [*validation_curves.describe_table(group), *_list_replaced(group)]
    marks = " ".join(column_marks(group).values())
    if PARTIAL in marks:
        why = "less than nine tenths of the column's records were scored: it compares with no full benchmark"
        notes.append(f"{PARTIAL} {why}")
    if SMALLER in marks:
        notes += describe_lost_names(group.runs)
    return notes


def describe_stalls(row: MethodRow) -> str:
    """Say which runs of a row stopped learning, and when; nothing where none did."""
    stalls = []
    for run in row.runs:
        step = progress.find_stall(run.curve)
        if step is not None:
            stalls.append(f"seed {run.cell.seed} from step {step} on")
    return f"learned nothing with {', '.join(stalls)}: the gradients were 0" if stalls else ""


def _list_replaced(group: ResultTable) -> list[str]:
    """Say of which rows more than a tenth of the training samples was replaced by others."""
    sentences = []
    for row in group.rows:
        share = run_details.average_shares(row).get(REPLACED, 0.0)
        if share > MANY_REPLACED:
            sentences.append(f"{row.method}: {progress.describe_replaced(share)}")
    return sentences


def describe_records(group: ResultTable) -> str:
    """Describe how many records of each benchmark were scored, in words; marked where less than nine tenths.

    Of many benchmarks those that were scored whole are counted alone.
    """
    coverages = benchmark_coverage(group)
    texts = []
    complete = 0
    for name, coverage in coverages.items():
        if len(coverages) > MANY and coverage.scored == coverage.records:
            complete += 1
        else:
            texts.append(f"{name} {coverage.text}{f' {PARTIAL}' if coverage.is_partial else ''}")
    return "; ".join(texts + ([f"all records of {complete} others"] if complete else []))


def describe_small_tests(group: ResultTable, column: Column) -> list[str]:
    """Say which benchmarks of a mean are small, and what a single item of theirs is worth."""
    sentences = []
    for name, coverage in benchmark_coverage(group.select(column.members)).items():
        if 0 < coverage.scored < SMALL_TEST:
            worth = f"one more or less is {100 / coverage.scored:.1f} points"
            sentences.append(f"{name} is a small test of {format_count(coverage.scored, 'item')}: {worth}")
    return sentences


def list_warnings(group: ResultTable) -> list[str]:
    """List warnings for the terminal: random weights, and benchmarks and data of which too little was read."""
    lines = []
    if tables.has_random_weights(group):
        lines.append(f"the backbone has {RANDOM}; there is no pretrained model")
    lines += [f"{name}: scored {c.text}" for name, c in benchmark_coverage(group).items() if c.is_partial]
    return [f"{group.name}: {line}" for line in (*lines, *_list_replaced(group))]


def backbone_names(group: ResultTable) -> tuple[str, str]:
    """Return the backbone's model and, as a word of a file, its weights: a tag, a path, `random`.

    Both are empty where no run says.
    """
    models = []
    weights = []
    for model, tag in tables.list_backbones(group):
        models.append(model)
        weights.append("random" if model_config.has_random_weights(model, tag) else tag or model)
    return ", ".join(dict.fromkeys(models)), ", ".join(weights)


def describe_backbone(group: ResultTable) -> str:
    """Describe the backbone in words: its model and where its weights are from; empty where no run says."""
    texts = []
    for model, tag in tables.list_backbones(group):
        if model_config.has_random_weights(model, tag):
            texts.append(f"{model}, {RANDOM} (not pretrained)")
        else:
            texts.append(f"{model}, pretrained weights {tag}" if tag else f"{model}, its own pretrained weights")
    return "; ".join(texts)


def row_label(row: MethodRow, group: ResultTable) -> str:
    """Return the label of a row: random weights are not called pretrained; a row bears its marks."""
    if row.method == PRETRAINED and tables.has_random_weights(group):
        return RANDOM
    marks = [mark for mark in ROW_MARKS if group.get_note(mark, row.method)]
    if describe_stalls(row):
        marks.append(STALLED)
    return " ".join([row.method, *marks])


def read_overlaps(root: Path, data: Iterable[str]) -> dict[str, SharedPictures]:
    """Read what each data set shares with the benchmarks; one without a file is left out."""
    overlaps: dict[str, SharedPictures] = {}
    for name in dict.fromkeys(data):
        path = root / OVERLAPS / f"{name}.json"
        if path.is_file():
            with understand(path, f"`compclip repro -f annotate@{name}` makes it again"):
                overlaps[name] = {b: counts for b, counts in read_mapping(path).items() if counts.get(PICTURES)}
    return overlaps


def describe_overlaps(group: ResultTable, shared: SharedPictures) -> list[str]:
    """Describe each benchmark's shared pictures in a sentence."""
    sentences = []
    for name, counts in shared.items():
        pictures = format_count(counts[PICTURES], "picture")
        criteria = ", ".join(f"{counts[key]:,} {text}" for key, text in CRITERIA.items() if counts.get(key))
        sentences.append(f"{group.data} shares {pictures} with {name} ({criteria})")
    return sentences
