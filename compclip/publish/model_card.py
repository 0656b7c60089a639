"""The model card of a publication: what the run's own files say, laid out by card.md.j2.

Absolute paths are shortened to their last name, and whatever looks like a secret is masked. Shares are in percent. An
interval of a number is over its items; one of a difference over seeds and items.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path, PurePosixPath
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from compclip.base import links, yaml_text
from compclip.base.errors import UserError, redact_secrets, unknown
from compclip.base.files import check_output_folder, fingerprint, read_mapping, temporary_path, write_json
from compclip.config import drawn_scenes
from compclip.config.cell import PRETRAINED, Cell
from compclip.fetch import catalogue
from compclip.fetch.catalogue import Offer
from compclip.interface.method import load_method
from compclip.model import model_config
from compclip.report import blind_comparison, run_details, table_heads, tables
from compclip.report.escape import layout_markdown, to_code, to_markdown
from compclip.report.statistics import Interval
from compclip.report.table_formats import describe_interval, format_interval, format_number
from compclip.report.tables import Column, ResultTable, Statistic
from compclip.runs import result_files, run_folder
from compclip.runs.item_outcomes import CLASSIFICATION, COMPOSITION, PARTIAL, RETRIEVAL
from compclip.runs.result_files import FinishedRun
from compclip.runs.run_folder import Published, RunFolder, Trained
from compclip.runs.run_store import RESOURCES

LICENCE = re.compile(r"[a-z0-9][a-z0-9.-]{0,60}")  # identifiers of the hub
TAGS = ["open_clip", "clip", "compclip"]
OUTSIDE = re.compile(r"(?<![\w.:/])(?:~|/[\w.+@-])[\w.+@ -]*/[\w./+@ -]*")  # an absolute path of somebody's machine
FACTS = ("run_key", "git_commit", "seconds", "device", "python")  # of environment.json, in this order
HEADLINE = "headline"
# The hub's names of tasks.
TASKS = {
    CLASSIFICATION: ("zero-shot-image-classification", "Zero-shot image classification"),
    RETRIEVAL: ("image-text-retrieval", "Image-text retrieval"),
    COMPOSITION: ("image-text-matching", "Compositional image-text matching"),
}
HEAD = ("benchmark", "metric", "this checkpoint", "95 %", "seeds", "mean ± std", "difference to the start, 95 %")


def write_card(
    source: SourceRun,
    licence: str,
    notes: list[str],
    converted: bool,
    has_head: bool = False,
    own_options: Sequence[str] = (),
) -> str:
    """Return the card's text. `notes` are its lines on formats, `converted` whether transformers' is among them.

    A model that `has_head`, or whose config has `own_options`, is opened by compclip alone.
    """
    run = source.run
    config = run.config
    backbone = config.get("backbone") or {}
    model = str(backbone.get("model") or run.cell.backbone)
    weights = str(backbone.get("weights") or "")
    start = "random weights" if model_config.has_random_weights(model, weights) else weights or "its own weights"
    numbers = collect_numbers(source)
    offers = find_offers(config.get("data") or {})
    origin = [(name, run.environment[name]) for name in FACTS if run.environment.get(name) not in (None, "")]
    origin += (run.environment.get("packages") or {}).items()
    environment = Environment(  # Markdown, not HTML
        loader=FileSystemLoader(Path(__file__).parent), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"md": lambda text: to_markdown(str(text)), "code": lambda text: to_code(str(text))}
    card = environment.get_template("card.md.j2").render(
        head=make_head(
            source, numbers, offers, licence, converted, "compclip" if has_head or own_options else "open_clip"
        ),
        cell=run.cell,
        version=metadata.version("compclip"),
        model=shorten_paths(model),
        weights=shorten_paths(start),
        has_head=has_head,
        own_options=", ".join(own_options),
        converted=converted,
        notes=notes,
        numbers=format_table(numbers) if numbers else "",
        is_drawn=drawn_scenes.lies_in_scenes(str((config.get("data") or {}).get("images") or "")),
        notice=drawn_scenes.NOTICE,
        seeds=", ".join(str(sibling.cell.seed) for sibling in source.seeds),
        has_start=bool(source.pretrained),
        marks=describe_marks(source, numbers),
        shared=describe_shared_pictures(source),
        criteria=", ".join(table_heads.CRITERIA.values()),
        offers=offers,
        licence=licence,
        recipe=mask_config(config),
        origin=origin,
    )
    return redact_secrets(card)


def make_head(
    source: SourceRun, numbers: list[CardNumber], offers: list[Offer], licence: str, converted: bool, library: str
) -> str:
    """Return the YAML that the hub reads; `library` opens the model."""
    from huggingface_hub import ModelCardData

    datasets = [offer.section.hub.removeprefix("datasets/") for offer in offers if offer.section.hub]
    data = ModelCardData(
        license=licence or None,
        library_name=library,
        pipeline_tag="zero-shot-image-classification",
        tags=[*TAGS, "transformers"] if converted else TAGS,
        datasets=list(dict.fromkeys(datasets)) or None,
        base_model=find_base_model(source.run.config.get("backbone") or {}) or None,
        model_name=source.run.cell.name,
        eval_results=make_model_index(numbers, source) or None,
    )
    return str(data.to_yaml()).strip()


def find_base_model(backbone: Mapping[str, Any]) -> str:
    """Return the hub's repository that a backbone's weights are from; empty where they are from none."""
    model = str(backbone.get("model") or "")
    weights = str(backbone.get("weights") or "")
    if model.startswith("hf-hub:"):
        return model.removeprefix("hf-hub:")
    if not weights or "/" in weights or weights == model_config.RANDOM:
        return ""
    import open_clip

    return str(open_clip.pretrained.get_pretrained_cfg(model, weights).get("hf_hub", "")).rstrip("/")


def find_offers(data: Mapping[str, Any]) -> list[Offer]:
    """Find the entries of the catalogue whose folders hold files that a data set names."""
    paths = [PurePosixPath(value) for value in yaml_text.flatten(data).values() if isinstance(value, str) and value]
    offers = []
    for offer in catalogue.load_catalogue().values():
        folder = offer.section.folder
        if folder and any(path.is_relative_to(folder) for path in paths):
            offers.append(offer)
    return offers


def describe_marks(source: SourceRun, numbers: list[CardNumber]) -> list[str]:
    """Describe what makes numbers unlike those of others: records that are missing, a tokenizer that stands in."""
    marks = []
    if any(PARTIAL in number.mark for number in numbers):
        marks.append(f"{PARTIAL} less than nine tenths of the records were scored: no number of the whole benchmark")
    marks += table_heads.describe_lost_names([source.run])
    tokenizers = {result.tokenizer for result in source.run.results.values() if result.tokenizer}
    if tokenizers:
        marks.append(f"Texts were read by a stand-in tokenizer ({', '.join(sorted(tokenizers))})")
    return marks


def describe_shared_pictures(source: SourceRun) -> list[str] | None:
    """Describe what training has seen of each benchmark that the run was scored on; None where nobody compared."""
    cell = source.run.cell
    path = source.root / table_heads.OVERLAPS / f"{cell.data}.json"
    if not path.is_file():
        return None
    shared = table_heads.read_overlaps(source.root, [cell.data])[cell.data]
    compared = read_mapping(path)
    group = ResultTable(cell.backbone, cell.data, (), ())
    lines = []
    for name in source.run.results:
        if name in shared:
            lines += table_heads.describe_overlaps(group, {name: shared[name]})
        else:
            lines.append(f"{name}: {'no shared picture was found' if name in compared else 'not compared'}")
    return lines


def mask_config(config: Mapping[str, Any]) -> str:
    """Return a configuration as YAML without absolute paths, secrets, and ends of a code block."""
    return redact_secrets(shorten_paths(yaml_text.dump_yaml(config))).replace("```", "'''")


def shorten_paths(text: str) -> str:
    """Return `text` with each absolute path, which names somebody's machine, as '.../NAME'."""
    return OUTSIDE.sub(lambda match: f".../{PurePosixPath(match[0]).name}", text)


# --- numbers of a card ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CardNumber:
    """A column's number for the published checkpoint with its interval over items, and over the seeds."""

    column: Column
    value: float
    interval: Interval | None
    statistic: Statistic
    mark: str = ""  # of a number that is not of the whole benchmark


def collect_numbers(source: SourceRun) -> list[CardNumber]:
    """Collect the headline of each benchmark that has one of several metrics, and its metrics without details."""
    numbers = []
    run = source.run
    for column in _list_columns(run):
        score = blind_comparison.compute_score(column, {run.cell.seed: run})
        statistic = tables.compute_statistic(column, source.seeds, source.pretrained)
        if score is not None and statistic is not None:
            mark = table_heads.column_mark(column, [run])
            numbers.append(CardNumber(column, score.mean, score.difference, statistic, mark))
    return numbers


def _list_columns(run: FinishedRun) -> Iterator[Column]:
    for benchmark in run.results:
        members = tables.headline(benchmark, [run])
        if len(members) > 1:
            yield Column(benchmark, HEADLINE, members, members[0].lower, members[0].score)
        for column in tables.list_columns([run], [benchmark]):
            if column in members or not tables.is_detail(column, [run]):
                yield column


def format_table(numbers: list[CardNumber]) -> str:
    """Format the numbers as a table of Markdown."""
    rows = []
    for number in numbers:
        column = number.column
        statistic = number.statistic
        spread = "" if statistic.std is None else f" ± {format_number(statistic.std, column)}"
        change = "" if statistic.change is None else format_number(statistic.change, column, sign=True)
        cells = (
            to_markdown(column.benchmark),
            to_markdown(" ".join(filter(None, (column.metric, column.arrow, number.mark)))),
            format_number(number.value, column),
            format_interval(number.interval, column, sign=False) if number.interval else "",
            str(statistic.seeds),
            "" if statistic.seeds < 2 else f"{format_number(statistic.mean, column)}{spread}",
            f"{change} {describe_interval(statistic, column)}".strip(),
        )
        rows.append(cells)
    return layout_markdown(HEAD, rows)


def make_model_index(numbers: list[CardNumber], source: SourceRun) -> list[Any]:
    """Make the entries of a model-index: the published checkpoint's numbers, shares in percent; no marked ones."""
    from huggingface_hub import EvalResult

    entries = []
    for number in numbers:
        if not number.mark:
            column = number.column
            task, title = TASKS.get(source.run.results[column.benchmark].kind, TASKS[COMPOSITION])
            unit = "" if column.score else " (%)"
            value = round(column.scale * number.value, 2 if unit else 4)
            dataset: dict[str, Any] = {"dataset_type": column.benchmark, "dataset_name": column.benchmark}
            metric: dict[str, Any] = {"metric_type": column.metric, "metric_name": f"{column.metric}{unit}"}
            entries.append(EvalResult(task_type=task, task_name=title, metric_value=value, **dataset, **metric))
    return entries


# --- the run that is published --------------------------------------------------------------------------------------
# The run that is published, by its cell's name or its folder, and the runs that its numbers stand beside.


@dataclass(frozen=True)
class SourceRun:
    """A finished run; `seeds` are this and the runs of other seeds alike, `pretrained` what they started from."""

    run: FinishedRun
    seeds: tuple[FinishedRun, ...]
    pretrained: tuple[FinishedRun, ...]
    root: Path  # of the project


def find_source_run(reference: str, root: Path) -> SourceRun:
    """Find a run by the name of its cell, or by a folder of runs/ or of the store.

    Raises UserError where there is none, or it is not finished or trained nothing.
    """
    trained, results, root = _locate(reference, root)
    for path in (trained.config, trained.environment):
        if not path.is_file():
            raise UserError(f"{reference}: not finished: no {path.name}; train it first (`compclip status`)")
    run = result_files.read_finished_run(trained, results)
    if not load_method(run.cell.method).TRAINS or not run.checkpoint:
        raise UserError(f"{reference}: has no weights of its own; give a cell of a method that was trained")
    by_seed = {}
    for sibling in _read_siblings(run, root):
        if _settings(sibling) == _settings(run):
            by_seed[sibling.cell.seed] = sibling
    by_seed[run.cell.seed] = run
    seeds = tuple(by_seed[seed] for seed in sorted(by_seed))
    source = SourceRun(run, seeds, _read_pretrained(run, root), root)
    tables.check_same_files([*source.seeds, *source.pretrained])
    return source


def _locate(reference: str, root: Path) -> tuple[Trained, Path, Path]:
    """Return the files of training, the folder of results, and the root of the project."""
    folder = Path(reference)
    if not folder.is_dir():
        runs = root / run_folder.RUNS
        cells = {f"{path.parent.name}-{path.name}": path for path in run_folder.published_folders(runs)}
        if reference not in cells:
            raise unknown("run", reference, cells, str(runs))
        folder = cells[reference]
    if (folder / "final").is_dir():  # of the store
        store_entry = RunFolder(folder)
        return store_entry.final, store_entry.results or store_entry.scores("none"), root
    folder = folder.absolute()
    if folder.parents[1].name == run_folder.RUNS:
        root = folder.parents[2]
    return Trained(folder), root / run_folder.RESULTS / folder.parent.name / folder.name, root


def _read_siblings(run: FinishedRun, root: Path) -> Iterator[FinishedRun]:
    """Yield the runs of the same method, backbone and data that have other seeds and are finished."""
    for path in run_folder.published_folders(root / run_folder.RUNS):
        trained = Trained(path)
        if path.parent.name == run.cell.method and trained.environment.is_file():
            results = root / run_folder.RESULTS / path.parent.name / path.name
            sibling = result_files.read_finished_run(trained, results)
            if sibling.cell != run.cell and sibling.cell[:3] == run.cell[:3]:
                yield sibling


def _settings(run: FinishedRun) -> dict[str, Any]:
    """Return what decides a run's numbers besides its seed, as its config.yaml says."""
    values = yaml_text.flatten(dict(run.config) | {"cell": None})
    return {key: value for key, value in values.items() if key.removeprefix("train.") not in RESOURCES}


def _read_pretrained(run: FinishedRun, root: Path) -> tuple[FinishedRun, ...]:
    """Return the pretrained model's results, of this seed or else of the first that has any."""
    _, backbone, data, seed = run.cell
    folders = sorted((root / run_folder.RESULTS / PRETRAINED).glob(f"{backbone}-{data}-*"))
    names = [str(seed), *(path.name.rpartition("-")[2] for path in folders)]
    for number in map(int, filter(str.isdecimal, names)):
        published = Published(root, Cell(PRETRAINED, backbone, data, number))
        base, _ = run_details.read_cell(published, list(run.results))
        if base:
            return (base,)
    return ()


# --- the folder of a publication ------------------------------------------------------------------------------------
# The folder of a publication: put in its place whole, never over what somebody else wrote there.


MARKER = "compclip_publication.json"
CARD = "README.md"


def check_target(folder: Path) -> None:
    """Raise UserError for a folder that holds more than an earlier publication, or a card that somebody edited."""
    check_output_folder(str(folder))
    if not folder.is_dir() or not any(folder.iterdir()):
        return
    if not (folder / MARKER).is_file():
        raise UserError(f"{folder}: is not empty, and no earlier publication; give another folder")
    record = read_mapping(folder / MARKER)
    recorded_files = {MARKER, *map(str, record.get("files") or ())}
    unknown_files = sorted(set(list_files(folder)) - recorded_files)
    if unknown_files:
        raise UserError(
            f"{folder}: holds {unknown_files[0]}, which no publication wrote; move it away, or give another folder"
        )
    card = folder / CARD
    if card.is_file() and fingerprint(card) != record.get("card"):
        raise UserError(f"{card}: was edited; move it away, or give another folder")


def write_publication(folder: Path, record: dict[str, Any], write: Callable[[Path], None]) -> None:
    """Have `write` fill a folder beside, mark it, and put it in the place of `folder`.

    `record` is what the marker says besides the names of the files. Raises UserError as `check_target`.
    """
    check_target(folder)
    staging = temporary_path(folder.absolute(), "new")
    try:
        write(staging)
        files = {"files": list_files(staging), "card": fingerprint(staging / CARD)}
        write_json(staging / MARKER, record | files)
        links.link_or_copy(staging, folder.absolute())
    finally:
        links.remove(staging)


def list_files(folder: Path) -> list[str]:
    """List the files below a folder by their paths in it, sorted."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())
