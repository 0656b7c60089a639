"""The model card of a publication: what the run's own files say, and nothing that they do not.

Absolute paths are shortened to their last name, and whatever looks like a secret is masked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import PurePosixPath
from typing import Any

from compclip.base import yaml_text
from compclip.base.errors import redact_secrets
from compclip.base.files import read_mapping
from compclip.config import drawn_scenes
from compclip.fetch import catalogue
from compclip.fetch.catalogue import Offer
from compclip.model import model_config
from compclip.publish.source_run import SourceRun
from compclip.report import blind_comparison, statistics, table_heads, tables
from compclip.report.escape import to_code, to_markdown
from compclip.report.run_details import flatten_keys
from compclip.report.statistics import Interval, ItemDifferences
from compclip.report.table_heads import column_mark
from compclip.report.tables import Column, ResultTable, Statistic
from compclip.runs.item_outcomes import CLASSIFICATION, COMPOSITION, PARTIAL, RETRIEVAL
from compclip.runs.result_files import FinishedRun

LICENCE = re.compile(r"[a-z0-9][a-z0-9.-]{0,60}")  # identifiers of the hub
TAGS = ["open_clip", "clip", "compclip"]
OUTSIDE = re.compile(r"(?<![\w.:/])(?:~|/[\w.+@-])[\w.+@ -]*/[\w./+@ -]*")  # an absolute path of somebody's machine
FACTS = ("run_key", "git_commit", "seconds", "device", "python")  # of environment.json, in this order
OPEN_CLIP = """
import open_clip
model, _, preprocess = open_clip.create_model_and_transforms("local-dir:FOLDER")  # or hf-hub:OWNER/NAME
tokenizer = open_clip.get_tokenizer("local-dir:FOLDER")
"""
WITH_HEAD = """
from compclip.evaluate import pair_scorers
from compclip.model import backbone
model = backbone.load("FOLDER")  # or hf-hub:OWNER/NAME
pictures, texts = ["one.jpg", "one.jpg"], ["a cup on a book", "a book on a cup"]
pair_scorers.encode(model, pictures, texts).matches(pictures, texts)  # a score a pair
"""
TRANSFORMERS = """
from transformers import CLIPModel, CLIPProcessor, CLIPTextModel
model, processor = CLIPModel.from_pretrained("FOLDER"), CLIPProcessor.from_pretrained("FOLDER")
text_encoder = CLIPTextModel.from_pretrained("FOLDER", subfolder="text_encoder")  # as diffusers takes it
"""


def write_card(source: SourceRun, licence: str, notes: list[str], converted: bool, has_head: bool = False) -> str:
    """Return the card's text. `notes` are its lines on formats, `converted` whether transformers' is among them.

    A model that `has_head` is opened by compclip alone.
    """
    numbers = collect_numbers(source)
    offers = find_offers(source.run.config.get("data") or {})
    sections = [
        _describe_start(source),
        _describe_use(notes, converted, has_head),
        _describe_numbers(source, numbers),
        _describe_shared_pictures(source),
        _describe_data(source, offers, licence),
        _describe_recipe(source),
        _describe_origin(source),
    ]
    library = "compclip" if has_head else "open_clip"
    head = make_head(source, numbers, offers, licence, converted, library)
    return redact_secrets(f"---\n{head}\n---\n\n" + "\n\n".join(sections) + "\n")


def make_head(
    source: SourceRun,
    numbers: list[CardNumber],
    offers: list[Offer],
    licence: str,
    converted: bool,
    library: str,
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
    paths = [PurePosixPath(value) for value in flatten_keys(dict(data)).values() if isinstance(value, str) and value]
    entries = [offer for offer in catalogue.load_catalogue().values() if offer.section.folder]
    return [offer for offer in entries if any(path.is_relative_to(offer.section.folder) for path in paths)]


# --- sections -------------------------------------------------------------------------------------------------


def _describe_start(source: SourceRun) -> str:
    cell = source.run.cell
    backbone = source.run.config.get("backbone") or {}
    model = str(backbone.get("model") or cell.backbone)
    weights = str(backbone.get("weights") or "")
    start = "random weights" if model_config.has_random_weights(model, weights) else weights or "its own weights"
    return (
        f"# {to_markdown(cell.name)}\n\nA CLIP model fine-tuned by the method {to_code(cell.method)} on the data set "
        f"{to_code(cell.data)} with compclip {metadata.version('compclip')}. It started from "
        f"{to_code(shorten_paths(model))} with {to_code(shorten_paths(start))}; seed {cell.seed}."
    )


def _describe_use(notes: list[str], converted: bool, has_head: bool) -> str:
    code = WITH_HEAD if has_head else OPEN_CLIP + TRANSFORMERS * converted
    return "\n".join(["## Use", "", f"```python{code}```", "", *(f"- {to_markdown(note)}" for note in notes)]).strip()


def _describe_numbers(source: SourceRun, numbers: list[CardNumber]) -> str:
    if not numbers:
        return "## Numbers\n\nThis run was not scored."
    seeds = ", ".join(str(run.cell.seed) for run in source.seeds)
    start = "the model that it started from" if source.pretrained else "no start, whose results were not there"
    drawn = str((source.run.config.get("data") or {}).get("images") or "")
    notice = f"**{drawn_scenes.NOTICE}**\n\n" if drawn_scenes.lies_in_scenes(drawn) else ""
    return (
        f"## Numbers\n\n{notice}{format_table(numbers)}\n\nShares are in percent; ↑ more is better, ↓ "
        f"less. The interval of a number is over the benchmark's items. Seeds: {seeds}. Differences are to {start}, "
        "over seeds and items together unless they say otherwise."
        f"{_describe_blind(source)}{_describe_marks(source, numbers)}"
    )


def _describe_blind(source: SourceRun) -> str:
    """Describe what the rows without the picture are, where there are any."""
    names = ", ".join(run.cell.method for run in source.blind)
    return (
        f" Blind rows ({names}) prefer texts without looking at the picture; sighted items are those that all of them "
        f"get wrong. Both numbers are over the seeds."
        if names
        else ""
    )


def _describe_marks(source: SourceRun, numbers: list[CardNumber]) -> str:
    """Describe what makes numbers unlike those of others: records that are missing, a tokenizer that stands in."""
    sentences = []
    if any(PARTIAL in number.mark for number in numbers):
        sentences.append(
            f" {PARTIAL} less than nine tenths of the records were scored: no number of the whole benchmark."
        )
    sentences += [f" {sentence}." for sentence in table_heads.describe_lost_names([source.run])]
    tokenizers = {result.tokenizer for result in source.run.results.values() if result.tokenizer}
    if tokenizers:
        sentences.append(f" Texts were read by a stand-in tokenizer ({', '.join(sorted(tokenizers))}).")
    return "".join(sentences)


def _describe_shared_pictures(source: SourceRun) -> str:
    """Describe what training has seen of each benchmark that the run was scored on."""
    cell, title = source.run.cell, "## What training has seen of the benchmarks"
    path = source.root / table_heads.OVERLAPS / f"{cell.data}.json"
    if not path.is_file():
        return f"{title}\n\nNobody compared the training pictures with the benchmarks'."
    shared = table_heads.read_overlaps(source.root, [cell.data])[cell.data]
    compared = read_mapping(path)
    group = ResultTable(cell.backbone, cell.data, (), ())
    lines = []
    for name in source.run.results:
        if name in shared:
            lines += table_heads.describe_overlaps(group, {name: shared[name]})
        else:
            lines.append(f"{name}: {'no shared picture was found' if name in compared else 'not compared'}")
    criteria = ", ".join(table_heads.CRITERIA.values())
    listing = "\n".join(f"- {to_markdown(line)}" for line in lines)
    how = f"\n\nPictures were compared {criteria}; one that was scaled anew is not found." if compared else ""
    return f"{title}\n\n{listing}{how}"


def _describe_data(source: SourceRun, offers: list[Offer], licence: str) -> str:
    lines = [
        f"- {to_markdown(offer.section.what)}: {to_markdown(offer.section.licence or 'licence not known')}"
        for offer in offers
    ] or ["- None of the data set's files is in compclip's catalogue: their licence is not known here."]
    stated = f"Licence of the weights: {to_code(licence)}." if licence else "Nobody stated a licence of these weights."
    return "## Data and licences\n\nIn the folders of the data set:\n\n" + "\n".join(lines) + f"\n\n{stated}"


def _describe_recipe(source: SourceRun) -> str:
    config = mask_config(source.run.config)
    return f"## Recipe\n\nEverything resolved:\n\n```yaml\n{config}```"


def mask_config(config: Mapping[str, Any]) -> str:
    """Return a configuration as YAML without absolute paths, secrets, and ends of a code block."""
    return redact_secrets(shorten_paths(yaml_text.dump_yaml(config))).replace("```", "'''")


def _describe_origin(source: SourceRun) -> str:
    facts = source.run.environment
    lines = [f"- {key}: {to_code(str(facts[key]))}" for key in FACTS if facts.get(key) not in (None, "")]
    packages = facts.get("packages") or {}
    lines += [f"- {to_markdown(str(name))}: {to_code(str(version))}" for name, version in packages.items()]
    return "\n".join(["## Where it comes from", "", f"- published by compclip {metadata.version('compclip')}", *lines])


def shorten_paths(text: str) -> str:
    """Return `text` with each absolute path, which names somebody's machine, as '.../NAME'."""
    return OUTSIDE.sub(lambda match: f".../{PurePosixPath(match[0]).name}", text)


# --- numbers of a card ----------------------------------------------------------------------------------------------
# The numbers of a model card: each benchmark's headline and metrics with intervals, and the hub's model-index.
#
# Shares are shown in percent. An interval of a number is over its items; one of a difference over seeds and items.


HEADLINE = "headline"
# The hub's names of tasks.
TASKS = {
    CLASSIFICATION: ("zero-shot-image-classification", "Zero-shot image classification"),
    RETRIEVAL: ("image-text-retrieval", "Image-text retrieval"),
    COMPOSITION: ("image-text-matching", "Compositional image-text matching"),
}
BLIND_HEAD = " above the best blind row, 95 % | on sighted items, 95 % |"
HEAD = "| benchmark | metric | this checkpoint | 95 % | seeds | mean ± std | difference to the start, 95 % |"


@dataclass(frozen=True)
class CardNumber:
    """A column's number for the published checkpoint, and over the seeds."""

    column: Column
    value: float
    interval: Interval | None
    statistic: Statistic
    mark: str = ""  # of a number that is not of the whole benchmark
    above: Statistic | None = None  # the difference to the best row that looks at no picture
    sighted: Statistic | None = None  # the number on items that all those rows get wrong


def collect_numbers(source: SourceRun) -> list[CardNumber]:
    """Collect the headline of each benchmark that has one of several metrics, and its metrics without details."""
    numbers = []
    blind = source.blind
    trainings = tables.index_runs(source.seeds)
    on_sighted = {t: blind_comparison.select_sighted(run, blind) for t, run in trainings.items()} if blind else {}
    for column in _list_columns(source.run):
        value = tables.column_value(source.run, column)
        statistic = tables.compute_statistic(column, source.seeds, source.pretrained)
        if value is not None and statistic is not None:
            interval = compute_item_interval(source.run, column)
            mark = column_mark(column, [source.run])
            compared = blind_comparison.is_compared(column, blind)
            above = blind_comparison.compute_above(column, trainings, blind) if compared else None
            sighted = blind_comparison.compute_score(column, on_sighted) if compared else None
            numbers.append(CardNumber(column, value, interval, statistic, mark, above, sighted))
    return numbers


def _list_columns(run: FinishedRun) -> Iterator[Column]:
    for benchmark in run.results:
        members = tables.headline(benchmark, [run])
        if len(members) > 1:
            yield Column(benchmark, HEADLINE, members, members[0].lower, members[0].score)
        for column in tables.list_columns([run], [benchmark]):
            if column in members or not tables.is_detail(column, [run]):
                yield column


def compute_item_interval(run: FinishedRun, column: Column) -> Interval | None:
    """Compute the 95 % interval of a run's number over its items; None where the results have none.

    That of a share ends at 0 and 1.
    """
    value = tables.column_value(run, column)
    items = _collect_items(run, column, 1.0)
    interval = statistics.compute_interval([value], items)[0] if value is not None and items else None
    if interval is None or column.score:
        return interval
    return replace(interval, low=max(interval.low, 0.0), high=min(interval.high, 1.0))


def _collect_items(run: FinishedRun, column: Column, weight: float) -> list[ItemDifferences]:
    """Collect the items of the metrics whose weighted means are the column; empty where one of them has none."""
    members = column.members or tables.mean_members(column, [run])
    if members:
        by_member = [_collect_items(run, member, weight / len(members)) for member in members]
        return [item for of_member in by_member for item in of_member] if all(by_member) else []
    items = run.results[column.benchmark].items.get(column.metric)
    if items is None or len(set(units := statistics.item_units(items))) < 2:
        return []
    return [ItemDifferences(column.benchmark, weight, items.ids, items.values[None], units)]


# --- as text --------------------------------------------------------------------------------------------------


def format_table(numbers: list[CardNumber]) -> str:
    """Format the numbers as a table of Markdown."""
    has_blind = any(number.above for number in numbers)
    lines = [HEAD + BLIND_HEAD * has_blind, "|---|---|---|---|---|---|---|" + "---|---|" * has_blind]
    for number in numbers:
        column = number.column
        statistic = number.statistic
        spread = "" if statistic.std is None else f" ± {_show(column, statistic.std)}"
        mean = "" if statistic.seeds < 2 else f"{_show(column, statistic.mean)}{spread}"
        name = " ".join(filter(None, (column.metric, column.arrow, number.mark)))
        cells: tuple[str, ...] = (
            column.benchmark,
            name,
            _show(column, number.value),
            _show_interval(column, number.interval),
            str(statistic.seeds),
            mean,
            _show_difference(column, statistic),
        )
        if has_blind:
            above = number.above
            sighted = number.sighted
            of_sighted = (
                f"{_show(column, sighted.mean)} ({_show_interval(column, sighted.difference)})" if sighted else ""
            )
            cells += (_show_difference(column, above) if above else "", of_sighted)
        lines.append(f"| {' | '.join(map(to_markdown, cells))} |")
    return "\n".join(lines)


def _show(column: Column, value: float, sign: str = "") -> str:
    return f"{column.scale * value:{sign}.{column.digits}f}"


def _show_interval(column: Column, interval: Interval | None, sign: str = "") -> str:
    return f"{_show(column, interval.low, sign)} to {_show(column, interval.high, sign)}" if interval else ""


def _show_difference(column: Column, statistic: Statistic) -> str:
    if statistic.change is None:
        return _show_interval(column, statistic.difference, "+")
    basis = statistics.describe_basis(statistic.basis)
    interval = _show_interval(column, statistic.difference, "+")
    around = ", ".join(filter(None, (interval, basis)))
    return _show(column, statistic.change, "+") + (f" ({around})" if around else "")


def make_model_index(numbers: list[CardNumber], source: SourceRun) -> list[Any]:
    """Make the entries of a model-index: the published checkpoint's numbers, shares in percent; no marked ones."""
    from huggingface_hub import EvalResult

    entries = []
    for number in (number for number in numbers if not number.mark):
        column = number.column
        task, title = TASKS.get(source.run.results[column.benchmark].kind, TASKS[COMPOSITION])
        unit = "" if column.score else " (%)"
        entries.append(
            EvalResult(
                task_type=task,
                task_name=title,
                dataset_type=column.benchmark,
                dataset_name=column.benchmark,
                metric_type=column.metric,
                metric_name=f"{column.metric}{unit}",
                metric_value=round(column.scale * number.value, 2 if unit else 4),
            )
        )
    return entries
