"""What a grid reads and that is not there, all of it at once, before anything runs.

Looked for are the data sets, backbones and benchmarks of params.yaml, since DVC goes through all of them, and what the
methods of its grid read. What an earlier stage makes is not missing, and a server is not asked for answers that are
there. Paths are looked at and nothing is read; a server and a hub have a few seconds to answer. Weights and tokenizers
are files, or what a hub's cache has; no torch is imported.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import re
import shlex
import shutil
import socket
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import urlsplit

from compclip.base import environment_variables, plugins
from compclip.base.errors import UserError, one_line, unknown
from compclip.base.files import read_mapping
from compclip.base.messages import format_count
from compclip.config import data_paths, grid, plan
from compclip.config.drawn_scenes import lies_in_scenes
from compclip.config.sections import Backbone, BenchmarkSection, Data, Params
from compclip.config.servers import ALLOW, Server, rewriter_config
from compclip.fetch.catalogue import Fit, Offer, find_offers, load_shipped
from compclip.interface.method import load_method
from compclip.model import hub_cache, model_config
from compclip.text import parser_models, wordnet_files

ANSWER_S = 2.0  # in which a server must take a connection
STAGES_FILE = Path("dvc.yaml")
PROJECT_FILE = re.compile(r"^ +- (experiments/[\w./-]+)$", re.M)  # that a stage of dvc.yaml depends on
MADE = {"recaption": "samples", "rewrite": "rewrites"}  # folders of data/<name> that hold the answers of servers
RAW = "data/raw/"
README = "experiments/grids/README.md"
LISTED = 3  # keys of a path that are named
CONFIG = "open_clip_config.json"
HUB = "hf-hub:"
FOLDER = "local-dir:"
STAND_IN = "clip"  # in place of a tokenizer's folder
MODELS = Path("models")  # what the stage `backbone` makes


@dataclass(frozen=True)
class MissingInput:
    """A path, or the name of weights, a server or a variable: its key in params.yaml, and how to get it.

    `advice`: what to do, where no entry of the catalogue (`offers`) brings it, or besides that. `more`: the number of
    further paths of the key that are missing.
    """

    key: str
    path: str
    advice: str = ""
    fault: str = "missing"
    offers: tuple[str, ...] = ()
    more: int = 0

    def describe(self) -> str:
        """Say in one line what is missing and what brings it."""
        path = f"{self.path} and {self.more} more" if self.more else self.path
        return f"{': '.join(filter(None, (self.key, path, self.fault)))}; {self.fix}"

    @property
    def fix(self) -> str:
        """What brings it, or what to correct."""
        command = f"`compclip fetch {' '.join(self.offers)}`" if self.offers else ""
        return ", ".join(filter(None, (command, self.advice)))


def is_there(path: str) -> bool:
    """Return whether there is a file, or a folder with more in it than what a download that was cut left."""
    if not os.path.isdir(path):
        return os.path.exists(path)
    try:
        with os.scandir(path) as entries:
            return any(not entry.name.startswith(".") for entry in entries)
    except OSError:  # it is there, and whoever reads it says what is wrong
        return True


def list_missing(params: Params, root: Path = Path(), here: bool = True) -> list[MissingInput]:
    """List all that the grid of a project in `root` reads and that is not there, each path once.

    `here`: whether servers are asked from this machine, and not from those that jobs are sent to.
    """
    return [*list_missing_files(params, root, here), *find_missing_words()]


def list_missing_files(params: Params, root: Path = Path(), here: bool = True) -> list[MissingInput]:
    """List the same without what annotating captions needs of every project."""
    with contextlib.chdir(root):
        return _merge(_find_missing_files(params, here))


def require_inputs(params: Params, root: Path = Path(), here: bool = True) -> None:
    """Print all that is missing, and leave with exit code 2 where something is."""
    missing = list_missing(params, root, here)
    if missing:
        print_missing(missing)
        raise SystemExit(2)


def print_missing(missing: Sequence[MissingInput]) -> None:
    """Print a line for each on stderr, and for several one with the command that fetches them together."""
    for item in missing:
        print(f"error: {one_line(str(UserError(item.describe())))}", file=sys.stderr)
    if len(missing) > 1:
        print(f"error: {describe_fetch(missing)}", file=sys.stderr)


def describe_fetch(missing: Sequence[MissingInput]) -> str:
    """Return the line that ends a list of missing inputs, with the command that fetches them together."""
    names = dict.fromkeys(name for item in missing for name in item.offers)
    verb = "is" if len(missing) == 1 else "are"
    command = f"; `compclip fetch {' '.join(names)}` brings what can be fetched" if names else ""
    return f"{format_count(len(missing), 'input')} {verb} missing{command}"


def _merge(missing: Iterable[MissingInput]) -> list[MissingInput]:
    """Join those of equal paths, whose keys are named together."""
    by_path: dict[tuple[str, str], list[MissingInput]] = {}
    for item in missing:
        by_path.setdefault((item.path or item.key, item.fault), []).append(item)
    merged = []
    for items in by_path.values():
        keys = list(dict.fromkeys(item.key for item in items))
        more = [f"{len(keys) - LISTED} more"] if len(keys) > LISTED else []
        merged.append(replace(items[0], key=", ".join(keys[:LISTED] + more)))
    return merged


# --- files and folders ----------------------------------------------------------------------------------------------


def _find_missing_files(params: Params, here: bool) -> Iterator[MissingInput]:
    """Yield what is missing of data, models, benchmarks, methods and servers, seen from the project's folder."""
    for name, data in params.data.items():
        yield from _advise(_find_missing_data(params, f"data.{name}", data), data.path)
        if here:
            yield from _advise(_find_missing_writers(name, data))
    for name, backbone in params.backbones.items():
        if not is_made(name, backbone, params.scenes.seed):
            yield from _advise(find_missing_weights(f"backbones.{name}", backbone))
    for name, benchmark in params.benchmarks.items():
        yield from _advise(_find_missing_benchmark(name, benchmark), benchmark.path)
    yield from _advise(_find_missing_of_methods(params))
    stages = STAGES_FILE.read_text(encoding="utf-8") if STAGES_FILE.is_file() else ""
    for path in dict.fromkeys(PROJECT_FILE.findall(stages)):
        if not is_there(path):
            yield MissingInput(str(STAGES_FILE), path, "`compclip init --update` brings the package's")


def _advise(missing: Iterable[MissingInput], companion: str = "") -> Iterator[MissingInput]:
    """Yield each with the entries of the catalogue that bring it, else with what to correct."""
    for item in missing:
        offers, fit = ([], Fit.NONE) if item.offers else find_offers(item.path, companion)
        if offers:
            notes = [offer.section.note for offer in offers if fit == Fit.FOLDER and item.path != offer.section.folder]
            yield replace(item, offers=tuple(offer.name for offer in offers), advice=", ".join(filter(None, notes)))
            continue
        place = f"put it there ({README} says what it is)" if item.path.startswith(RAW) else "put it there"
        yield item if item.offers or item.advice else replace(item, advice=f"{place}, or correct {item.key}")


def _find_missing_data(params: Params, where: str, data: Data) -> Iterator[MissingInput]:
    source = plugins.load_plugin(plugins.SOURCES, data.source)
    is_remote = hasattr(source, "is_remote") and source.is_remote(data)
    for key, paths in data_paths.list_paths(asdict(data)).items():
        if is_remote and key in ("path", "images") or data.images_outside and key == "images":
            continue
        ending = "/config.json" if key == "masked.model" else ""
        absent = [path for path in paths if not is_there(path + ending) and not _is_output(path, params)]
        yield from _name_first(f"{where}.{key}", absent)


def _name_first(key: str, paths: list[str]) -> Iterator[MissingInput]:
    """Yield several paths of a key as one."""
    if paths:
        yield MissingInput(key, paths[0], more=len(paths) - 1)


def _is_output(path: str, params: Params) -> bool:
    """Return whether a stage makes what lies there."""
    folder = PurePath(os.path.normpath(path))
    outputs = [PurePath(MODELS / name) for name in params.backbones]
    outputs += [PurePath("data", name, made) for name in params.data for made in ("shards", *MADE.values())]
    return lies_in_scenes(path) or any(folder.is_relative_to(output) for output in outputs)


def _find_missing_benchmark(name: str, section: BenchmarkSection) -> Iterator[MissingInput]:
    """Yield what is missing of a benchmark; of a folder that is there also files that its module must have."""
    where = f"benchmarks.{name}"
    absent = {key: path for key in ("path", "images") if not _is_drawn_or_there(path := getattr(section, key))}
    for key, path in absent.items():
        yield MissingInput(f"{where}.{key}", path)
    if os.path.isdir(section.path) and "path" not in absent and not lies_in_scenes(section.path):
        files = map(str, _list_required_files(name, section))
        yield from _name_first(f"{where}.path", [file for file in files if not os.path.exists(file)])


def _list_required_files(name: str, section: BenchmarkSection) -> Iterable[Path]:
    """List the files that a benchmark's module must have: those that it says, else those that it is known by."""
    module = plugins.load_plugin(plugins.BENCHMARKS, section.benchmark or name)
    if hasattr(module, "reads"):
        options = {"options": grid.benchmark_config(name, section)} if section.options else {}
        files: Iterable[Path] = module.reads(section.path, split=section.split, **options)
        return files
    names = getattr(module, "RECOGNISES", ())
    selected = [part.strip() for part in section.split.split(",")] if section.split else list(names)
    return [Path(section.path) / names[part] for part in selected if isinstance(names, Mapping) and part in names]


def _is_drawn_or_there(path: str) -> bool:
    return lies_in_scenes(path) or is_there(path)


def _find_missing_of_methods(params: Params) -> Iterator[MissingInput]:
    """Yield checkpoints and helper models of the grid's methods."""
    for name in params.grid.methods:
        method = load_method(name)
        base, dot, variant = name.partition(".")
        where = f"methods.{base}.variants.{variant}" if dot else f"methods.{base}"
        paths: dict[str, str] = {}
        for data in params.grid.data:
            config, _ = grid.method_config(params, name, data)
            helpers = {
                p: fix for p, fix in method.helpers(config).items() if not hub_cache.find_cached(p, "config.json")
            }
            paths |= {**method.reads(config), **helpers}
        for path, fix in paths.items():
            if not is_there(path):
                yield MissingInput(where, path, fix)


# --- servers and models that write ----------------------------------------------------------------------------------


def _find_missing_writers(name: str, data: Data) -> Iterator[MissingInput]:
    """Yield servers of a data set that do not answer, and captioners' weights, unless all that is asked is written."""
    captioner = grid.captioner_config(data)
    if not _is_written(name, "recaption", {"captioner": data.captioner, "options": data.options}):
        where = f"data.{name}.options"
        if isinstance(captioner, Server):
            yield from _find_server_faults(where, captioner)
        elif hasattr(captioner, "model"):  # named as backbones are
            model = Backbone(captioner.model, getattr(captioner, "weights", ""))
            yield from find_missing_weights(where, model)
    rewriter = rewriter_config(data)
    if rewriter and not _is_written(name, "rewrite", data.rewriter):
        yield from _find_server_faults(f"data.{name}.rewriter", rewriter)


def _is_written(name: str, stage: str, section: Mapping[str, Any]) -> bool:
    """Return whether a stage was finished with this section, by whatever code, or jobs of a cluster work on it."""
    if any(Path(".work/shards", stage, name, "jobs").glob("*/task.json")):
        return True
    planned = plan.read_planned(stage, name).get("params", {})
    is_same = all(planned.get(key) == value for key, value in section.items())
    return is_same and Path("data", name, MADE[stage], "manifest.json").is_file()


def _find_server_faults(where: str, server: Server) -> Iterator[MissingInput]:
    if server.api_key_env and not environment_variables.read_secret(server.api_key_env):
        fix = "set it to the key of the server"
        yield MissingInput(f"{where}.api_key_env", f"${server.api_key_env}", fix, "not set")
    if not server.server:
        if not _takes_connections(server.url):
            fix = f"start the server, or correct {where}.url"
            yield MissingInput(f"{where}.url", server.url, fix, "does not answer")
        return
    if os.environ.get(ALLOW) != "1":
        fix = "read the command, then allow grids to start servers: set it to 1"
        yield MissingInput(f"{where}.server", f"${ALLOW}", fix, "not set")
    program = shlex.split(server.server)[0]
    if not shutil.which(program):
        yield MissingInput(f"{where}.server", program, f"install it, or correct {where}.server", "no such program")


@functools.cache
def _takes_connections(url: str) -> bool:
    """Return whether somebody listens at an address; each is asked once a process."""
    address = urlsplit(url)
    port = address.port or (443 if address.scheme == "https" else 80)
    try:
        socket.create_connection((address.hostname or "", port), ANSWER_S).close()
    except OSError:
        return False
    return True


# --- word lists -----------------------------------------------------------------------------------------------------


def find_missing_words() -> Iterator[MissingInput]:
    """Yield what annotating captions needs: an English model of spaCy's, and WordNet."""
    try:
        parser_models.model_name()
    except UserError as error:
        yield MissingInput("spaCy's model", "", str(error).partition("; ")[2])
    if not wordnet_files.is_installed():
        yield MissingInput("WordNet", "", wordnet_files.ADVICE.partition(": ")[2])


# --- weights and tokenizers of backbones ------------------------------------------------------------------------------


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
