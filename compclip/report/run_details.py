"""The runs of the grid: which cells have all their results, what the others lack, and what is behind the numbers.

The pretrained model needs only its results.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from compclip.base import yaml_text
from compclip.base.errors import UserError
from compclip.base.messages import format_percent
from compclip.base.progress_line import ProgressLine
from compclip.base.safe_names import SafeName
from compclip.config import grid, sections
from compclip.config.cell import PRETRAINED
from compclip.interface.method import load_method
from compclip.report.tables import MethodRow, ResultTable
from compclip.runs import progress, result_files, run_folder
from compclip.runs.picture_splits import PictureSplit
from compclip.runs.progress import describe_replaced
from compclip.runs.result_files import FinishedRun, Result
from compclip.runs.run_folder import CUT, FAULTS, REPLACED, Published
from compclip.runs.run_store import RESOURCES

if TYPE_CHECKING:
    from compclip.config.cell import Cell


@dataclass(frozen=True)
class MissingResult:
    """A cell, or one result of a cell, that the grid asks for and nobody has published."""

    cell: str
    reason: str


def collect_runs(
    cells: Iterable[Cell], benchmarks: Iterable[str], root: Path, partial: bool = False
) -> tuple[list[FinishedRun], list[MissingResult]]:
    """Collect every cell's run, in the order of `cells`, and what is missing.

    Raises UserError naming the missing cells and results unless `partial`.
    """
    benchmarks = list(benchmarks)
    runs = []
    missing = []
    all_cells = list(cells)
    for cell in ProgressLine("runs", len(all_cells), all_cells):
        run, cell_missing = read_cell(Published(root, cell), benchmarks)
        missing += cell_missing
        if run is not None:
            runs.append(run)
    if missing and not partial:
        listing = "; ".join(f"{m.cell}: {m.reason}" for m in missing)
        raise UserError(f"{root}: {len(missing)} missing: {listing}; run `dvc repro`, or give --partial")
    if not runs:
        raise UserError(f"{root}: holds no cell of the grid; run `dvc repro` or give --root")
    return runs, missing


def read_cell(published: Published, benchmarks: list[str]) -> tuple[FinishedRun | None, list[MissingResult]]:
    """Read one cell's run (None where nothing of it can be shown) and what it lacks, with the reason."""
    cell = published.cell
    trained = published.trained
    if not trained.path.is_dir() and not published.results.is_dir():
        return None, [MissingResult(cell.name, "no run directory")]
    files = () if cell.method == PRETRAINED else (trained.config, trained.metrics, trained.environment)
    reasons = [f"no {path.name}" for path in files if not path.is_file()]
    results: dict[str, Result] = {}
    for name in benchmarks:
        path = run_folder.result_path(published.results, SafeName(name, "benchmark"))
        try:
            if path.is_file():
                results[name] = result_files.read_result(path)
            else:
                reasons.append(f"no result of {name}")
        except UserError as error:
            reasons.append(str(error))
    run = None
    try:
        config = result_files.read_config(trained)
        curve = result_files.read_curve(trained)
        facts = trained.facts()
        if results:
            run = FinishedRun(trained, published.results, cell, config, curve, facts, results)
    except UserError as error:
        reasons.append(str(error))
    return run, [MissingResult(cell.name, reason) for reason in reasons]


def select_split(runs: Sequence[FinishedRun], split: PictureSplit) -> list[FinishedRun]:
    """Return runs with the items of a split alone. Raises UserError where a benchmark has none."""
    selected = [split.select(run) for run in runs]
    for whole_run, run in zip(runs, selected, strict=True):
        absent = whole_run.results.keys() - run.results.keys() - set(split.authors.values())
        if absent:
            raise UserError(
                f"report.split={split.name}: {whole_run.cell.name} has no such items of {min(absent)}; evaluate it "
                "again (`dvc repro`), or set another evaluate.validation_share"
            )
    return selected


def find_stale_runs(params: sections.Params, runs: Iterable[FinishedRun], partial: bool) -> list[MissingResult]:
    """Find runs whose parameters are not the grid's: their mean with other seeds would be of two methods.

    An option that is newer than a run counts at its default. Raises UserError naming the first unless `partial`.
    """
    stale = []
    settings_of: dict[tuple[str, str, str], tuple[dict[str, Any], dict[str, Any]]] = {}
    for run in (run for run in runs if run.cell.method != PRETRAINED and run.config):
        method = run.cell.method
        key = (method, run.cell.backbone, run.cell.data)
        if key not in settings_of:
            resolved = grid.resolve_cell(params, run.cell)
            defaults = {"method": asdict(type(resolved.method)()), "train": asdict(sections.Train())}
            settings_of[key] = (
                _flatten_settings({"method": asdict(resolved.method), "train": asdict(resolved.train)}, method),
                _flatten_settings(defaults, method),
            )
        declared, defaults_of_method = settings_of[key]
        used = defaults_of_method | _flatten_settings(run.config, method)
        names = sorted(declared.keys() | used.keys())
        changed = [name for name in names if declared.get(name) != used.get(name)]
        if changed:
            difference = f"{changed[0]}={used.get(changed[0])} where the grid has {declared.get(changed[0])}"
            stale.append(MissingResult(run.cell.name, f"trained with {difference}"))
    if stale and not partial:
        count = f" ({len(stale)} such runs)" if len(stale) > 1 else ""
        raise UserError(f"{stale[0].cell}: {stale[0].reason}{count}; run `dvc repro`, or give --partial")
    return stale


def _flatten_settings(raw: dict[str, Any], method: str) -> dict[str, Any]:
    """Return the settings that decide a run's numbers, as config.yaml would have them; without training's, its own."""
    sections_read = SECTIONS if load_method(method).TRAINS else ("method",)
    values = yaml_text.flatten({section: raw.get(section, {}) for section in sections_read})
    return {key: value for key, value in values.items() if key.removeprefix("train.") not in RESOURCES}


# --- environments and hours

SECTIONS = ("train", "method")


def list_stand_in_tokenizers(runs: Sequence[FinishedRun]) -> list[tuple[str, str]]:
    """List (tokenizer, cells) for runs whose texts a stand-in read: their scores do not compare with others."""
    cells: dict[str, list[str]] = {}
    for run in runs:
        for name in dict.fromkeys(r.tokenizer for r in run.results.values() if r.tokenizer):
            cells.setdefault(name, []).append(run.cell.name)
    return [(name, "all runs" if len(c) == len(runs) else ", ".join(c)) for name, c in cells.items()]


def tabulate_runs(group: ResultTable) -> list[list[str]]:
    """Tabulate each trained row by environment.json: runs, hours, memory, parameters, dropped samples, device, commit.

    Of memory the most counts; devices and commits that differ are all named.
    """
    lines = []
    for row in group.rows:
        if row.method == PRETRAINED:
            continue
        dropped: Counter[str] = Counter()
        memory = []
        trained = []
        devices = []
        commits = []
        for facts in (run.environment for run in row.runs):
            dropped.update(facts.get("dropped") or {})
            memory += [facts["peak_memory_mib"]] if facts.get("peak_memory_mib") else []
            if facts.get("parameters"):  # of the plain model
                trained.append(f"{facts['trained_parameters']:,} of {facts['parameters']:,}")
            devices.append(str(facts.get("device") or "–"))
            commit = str(facts.get("git_commit") or "–")
            commits.append(commit[:10] + ("+" if commit.endswith("+") else ""))
        lines.append([
            row.method, str(len(row.runs)), format_hours(row.runs), f"{max(memory):,} MiB" if memory else "–",
            _join_distinct(trained) or "–", ", ".join(f"{n} {why}" for why, n in sorted(dropped.items())) or "none",
            _join_distinct(devices), _join_distinct(commits),
        ])  # fmt: skip
    return lines


def _join_distinct(texts: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(texts))


def format_total_hours(runs: Sequence[FinishedRun]) -> str:
    """Format the hours of all runs, and how many of them do not say."""
    silent = sum(run.environment.get("device_seconds") is None for run in runs)
    hours = format_hours(runs)
    return f"{hours} (without {silent} of {len(runs)} runs, which do not say)" if 0 < silent < len(runs) else hours


def format_hours(runs: Sequence[FinishedRun]) -> str:
    """Format GPU-hours, and apart from them process-hours of runs on a CPU; a dash where no run says."""
    facts = [run.environment for run in runs]
    spent = [(f.get("device_seconds") or 0.0, progress.is_on_gpu(f)) for f in facts]
    return progress.format_sum(spent) or "–"


RARE = 0.05  # a share below it is said in a sentence


def average_shares(row: MethodRow) -> dict[str, float]:
    """Average each view's share over the runs of a row that say any; a fault that one does not say is 0 there."""
    recorded = [run.environment["view_shares"] for run in row.runs if run.environment.get("view_shares")]
    averages = {}
    for view in dict.fromkeys(view for shares in recorded for view in shares):
        averages[view] = fmean(s.get(view, 0.0) for s in recorded if view in s or view.startswith(FAULTS))
    return averages


def describe_shares(group: ResultTable) -> list[str]:
    """Say which texts and pictures that a method asks for were rare, cut or replaced, by a table's rows."""
    notes = []
    for row in group.rows:
        for view, share in average_shares(row).items():
            percent = format_percent(share)
            if view.startswith(CUT):
                kind = view.removeprefix(CUT)
                notes.append(f"{row.method}: {percent} of the {kind} differ behind the model's context: masked")
            elif view == REPLACED:
                notes.append(f"{row.method}: {describe_replaced(share)}")
            elif share < RARE:
                notes.append(f"{row.method}: {view} was there for {percent} of the samples")
    return notes
