"""Weights and tokenizers of backbones that are not here: files, and what a hub's cache has; no torch is imported."""

from __future__ import annotations

import functools
import importlib.util
import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from compclip.base.errors import UserError, unknown
from compclip.base.files import read_mapping
from compclip.config import plan
from compclip.config.sections import Backbone
from compclip.fetch.catalogue import Offer, load_shipped
from compclip.fetch.missing_input import MissingInput, is_there
from compclip.model import hub_cache, model_config

CONFIG = "open_clip_config.json"
HUB = "hf-hub:"
FOLDER = "local-dir:"
STAND_IN = "clip"  # in place of a tokenizer's folder
MODELS = Path("models")  # what the stage `backbone` makes


def find_missing_weights(where: str, backbone: Backbone) -> Iterator[MissingInput]:
    """Yield what a model lacks of its config, weights and tokenizer; `where`: its key in params.yaml."""
    model = backbone.model
    if model.startswith(HUB):
        yield from _find_uncached(f"{where}.model", model, model.removeprefix(HUB))
    elif ("/" in model or model.endswith(".json")) and not is_there(path := model.removeprefix(FOLDER)):
        yield MissingInput(f"{where}.model", path)
    if not model.startswith(model_config.SCHEMES):
        yield from _find_missing_file_or_tag(f"{where}.weights", model, backbone.weights)
    yield from _find_missing_tokenizer(where, backbone)


def _find_missing_file_or_tag(key: str, model: str, weights: str) -> Iterator[MissingInput]:
    is_shipped = weights.endswith(model_config.SHIPPED) and model_config.PRETRAIN.is_file()
    if is_shipped or is_there(weights) or model_config.has_random_weights(model, weights):
        return  # what a project was shipped with is made again by the stage `backbone`
    if "/" in weights or Path(weights).suffix:
        yield MissingInput(key, weights)
    else:
        yield from _find_missing_tag(key, model, weights)


def is_made(name: str, backbone: Backbone, seed: int) -> bool:
    """Return whether the stage `backbone` has made a model of this section, by today's code."""
    planned = plan.read_planned("backbone", name)
    if planned.get("params") != asdict(backbone) or not is_there(str(MODELS / name)):
        return False
    return planned == plan.describe_backbone(backbone, seed)


def _find_missing_tag(key: str, model: str, tag: str) -> Iterator[MissingInput]:
    if model.endswith(".json"):
        return  # no model of open_clip's has tags of this name; the stage says so
    name = f"{model}::{tag}"
    for offer in load_shipped().values():
        if name in offer.section.tags:
            yield from _find_uncached(key, name, offer.section.hub)
            return
    import open_clip  # takes seconds: the catalogue has the tags that the grids name

    tags = open_clip.list_pretrained_tags_by_model(model)
    if tag not in tags:
        yield MissingInput(key, name, str(unknown("weights", tag, tags)), "no such weights")
        return
    repository, _, file = open_clip.get_pretrained_cfg(model, tag).get("hf_hub", "").rpartition("/")
    if repository:  # weights of other addresses are fetched by the stage alone
        yield from _find_uncached(key, name, repository, *filter(None, [file]))


def _find_uncached(key: str, name: str, repository: str, *files: str) -> Iterator[MissingInput]:
    """Yield weights that the cache lacks and that the hub does not give."""
    if hub_cache.find_cached(repository, *(files or hub_cache.WEIGHT_FILES)) or _is_hub_reachable():
        return
    fault = f"not in the hub's cache ({hub_cache.cache_path(repository)}), and the hub does not answer"
    entries = tuple(
        offer for offer in load_shipped().values() if offer.section.cache and offer.section.hub == repository
    )
    fix = f"{'' if entries else 'fetch it where there is a network, '}or give a file of weights"
    yield MissingInput(key, name, fix, fault, tuple(offer.name for offer in entries))


@functools.cache
def _is_hub_reachable() -> bool:
    """Return whether the hub answers; asked once a process."""
    return hub_cache.is_reachable()


# --- tokenizers -----------------------------------------------------------------------------------------------------


def _find_missing_tokenizer(where: str, backbone: Backbone) -> Iterator[MissingInput]:
    folder = backbone.tokenizer
    if folder:
        if folder != STAND_IN and not has_tokenizer(folder):
            yield MissingInput(f"{where}.tokenizer", folder, fault="no tokenizer there")
        return
    repository = _read_text_config(backbone.model).get("hf_tokenizer_name", "")
    sources = [repository, backbone.model.removeprefix(HUB)] if repository else []
    if not sources or any(hub_cache.find_cached(source, *hub_cache.TOKENIZER_FILES) for source in sources):
        return
    if _is_hub_reachable():
        return
    bringing = [offer for offer in load_shipped().values() if _has_tokenizer_of(offer, repository)]
    fix = "give a folder with the tokenizer"
    if bringing and bringing[0].section.folder:
        fix = f"then set {where}.tokenizer: {bringing[0].section.folder}"
    fault = "its tokenizer is not in the hub's cache, and the hub does not answer"
    yield MissingInput(f"{where}.tokenizer", repository, fix, fault, tuple(offer.name for offer in bringing[:1]))


def has_tokenizer(folder: str) -> bool:
    """Return whether a folder has one of the files of a tokenizer."""
    return any(os.path.isfile(os.path.join(folder, name)) for name in hub_cache.TOKENIZER_FILES)


def _has_tokenizer_of(offer: Offer, repository: str) -> bool:
    name = repository.rpartition("/")[2]
    return offer.section.hub.rpartition("/")[2] == name and any("tokenizer" in p for p in offer.section.patterns)


def _read_text_config(model: str) -> dict:
    """Return the config of a model's text tower; empty where it is not at hand."""
    path: Path | None = Path(model)
    if model.startswith(HUB):
        path = hub_cache.find_cached(model.removeprefix(HUB), CONFIG)
    elif model.startswith(FOLDER):
        return {}  # its own folder has the tokenizer
    elif not model.endswith(".json"):
        package = importlib.util.find_spec("open_clip")
        folders = package.submodule_search_locations if package else None
        path = Path(folders[0], "model_configs", f"{model}.json") if folders else None
    try:
        config = read_mapping(path) if path and path.is_file() else {}
    except UserError:  # the stage says what is wrong with it
        return {}
    text_cfg = config.get("model_cfg", config).get("text_cfg", {})
    return text_cfg if isinstance(text_cfg, dict) else {}
