"""The model card of a publication: what the run's own files say, and nothing that they do not.

Absolute paths are shortened to their last name, and whatever looks like a secret is masked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import metadata
from pathlib import PurePosixPath
from typing import Any

from compclip.base import yaml_text
from compclip.base.files import read_mapping
from compclip.base.redact import redact_secrets
from compclip.config import drawn_scenes
from compclip.fetch import catalogue
from compclip.fetch.catalogue import Offer
from compclip.model import model_config
from compclip.publish import card_numbers
from compclip.publish.source_run import SourceRun
from compclip.report import table_heads
from compclip.report.escape import to_code, to_markdown
from compclip.report.run_details import flatten_keys
from compclip.report.tables import ResultTable
from compclip.runs.item_outcomes import PARTIAL

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
    numbers = card_numbers.collect_numbers(source)
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
    numbers: list[card_numbers.CardNumber],
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
        eval_results=card_numbers.make_model_index(numbers, source) or None,
    )
    return str(data.to_yaml()).strip()


def find_base_model(backbone: Mapping[str, Any]) -> str:
    """Return the hub's repository that a backbone's weights are from; empty where they are from none."""
    model, weights = str(backbone.get("model") or ""), str(backbone.get("weights") or "")
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
    cell, backbone = source.run.cell, source.run.config.get("backbone") or {}
    model, weights = str(backbone.get("model") or cell.backbone), str(backbone.get("weights") or "")
    start = "random weights" if model_config.has_random_weights(model, weights) else weights or "its own weights"
    return (
        f"# {to_markdown(cell.name)}\n\nA CLIP model fine-tuned by the method {to_code(cell.method)} on the data set "
        f"{to_code(cell.data)} with compclip {metadata.version('compclip')}. It started from "
        f"{to_code(shorten_paths(model))} with {to_code(shorten_paths(start))}; seed {cell.seed}."
    )


def _describe_use(notes: list[str], converted: bool, has_head: bool) -> str:
    code = WITH_HEAD if has_head else OPEN_CLIP + TRANSFORMERS * converted
    return "\n".join(["## Use", "", f"```python{code}```", "", *(f"- {to_markdown(note)}" for note in notes)]).strip()


def _describe_numbers(source: SourceRun, numbers: list[card_numbers.CardNumber]) -> str:
    if not numbers:
        return "## Numbers\n\nThis run was not scored."
    seeds = ", ".join(str(run.cell.seed) for run in source.seeds)
    start = "the model that it started from" if source.pretrained else "no start, whose results were not there"
    drawn = str((source.run.config.get("data") or {}).get("images") or "")
    notice = f"**{drawn_scenes.NOTICE}**\n\n" if drawn_scenes.lies_in_scenes(drawn) else ""
    return (
        f"## Numbers\n\n{notice}{card_numbers.format_table(numbers)}\n\nShares are in percent; ↑ more is better, ↓ "
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


def _describe_marks(source: SourceRun, numbers: list[card_numbers.CardNumber]) -> str:
    """Describe what makes numbers unlike those of others: records that are missing, a tokenizer that stands in."""
    sentences = []
    if any(PARTIAL in number.mark for number in numbers):
        sentences.append(
            f" {PARTIAL} less than nine tenths of the records were scored: no number of the whole benchmark."
        )
    sentences += [f" {sentence}." for sentence in table_heads.describe_lost_names([source.run])]
    if tokenizers := {result.tokenizer for result in source.run.results.values() if result.tokenizer}:
        sentences.append(f" Texts were read by a stand-in tokenizer ({', '.join(sorted(tokenizers))}).")
    return "".join(sentences)


def _describe_shared_pictures(source: SourceRun) -> str:
    """Describe what training has seen of each benchmark that the run was scored on."""
    cell, title = source.run.cell, "## What training has seen of the benchmarks"
    path = source.root / table_heads.OVERLAPS / f"{cell.data}.json"
    if not path.is_file():
        return f"{title}\n\nNobody compared the training pictures with the benchmarks'."
    shared, compared = table_heads.read_overlaps(source.root, [cell.data])[cell.data], read_mapping(path)
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
