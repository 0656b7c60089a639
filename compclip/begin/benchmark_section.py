"""Recognise a test set: an official benchmark, a table of pairs, captions or folders by class, for `benchmarks`."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from compclip.base import plugins, yaml_text
from compclip.base.errors import UserError
from compclip.base.files import read_json
from compclip.base.messages import format_count
from compclip.begin import data_section
from compclip.begin.official_files import find_official, list_files
from compclip.benchmarks import _class_sets, _labelled, pairs, zeroshot
from compclip.config import project_files
from compclip.config.sections import BenchmarkSection
from compclip.config.validation import load_section
from compclip.data import tables
from compclip.data.sample import ENDINGS
from compclip.evaluate.benchmark import Benchmark
from compclip.evaluate.benchmark_module import find_missing, load_benchmark
from compclip.fetch.catalogue import load_catalogue

TEST_SPLITS = ("test", "val", "validation", "valid", "dev")  # best first
CLASS_FILES = 1_000  # of a folder, among which is a picture
_TEXT = r"([ _-]?(caption|text|sentence)s?)?([ _-]?\d+)?"
WRONG = re.compile(rf"((caption|text)s?[ _-])?(hard[ _-]?)?(negative|neg|wrong|false|foil|incorrect)s?{_TEXT}")
RIGHT = re.compile(rf"((caption|text)s?[ _-])?(positive|pos|right|true|correct){_TEXT}")
NOTHING = (
    "no official benchmark's files, no table with a true and a false text (negative_caption), no captions, no folders "
    "by class are there; give such a file or folder, or BENCHMARK=PATH with a name of `compclip list benchmarks`"
)


def find_tests(text: str, images: str = "", picture_folders: Sequence[str] = ()) -> dict[str, dict[str, Any]]:
    """Return the sections of `benchmarks` that read a file or a folder, by name; several where it holds several.

    `text`: the path, or BENCHMARK=PATH with a benchmark's module. `images`: where its pictures are ("": looked for, in
    `picture_folders` too). Raises UserError where no benchmark reads it, and where no picture is found.
    """
    module, path = _parse(text)
    path = path.absolute()
    if images and not os.path.isdir(images):
        raise UserError(f"--images {images}: no such folder; correct the path")
    sections = {}
    for name, section in _find_sections(module, path).items():
        places = [images] if images else _list_places(name, section, path, picture_folders)
        sections[name] = _find_images(name, section, places, "" if images else _folder_of(path))
    return sections


def _parse(text: str) -> tuple[str, Path]:
    """Return the benchmark that is named, or "", and the path. Raises UserError for an unknown one, and no file."""
    module, sign, name = text.partition("=")
    if not sign or Path(text).exists():
        module, name = "", text
    elif module not in plugins.list_plugins(plugins.BENCHMARKS):
        plugins.locate_plugin(plugins.BENCHMARKS, module, "--test")
    path = Path(name)
    if not path.exists():
        raise UserError(f"--test {text}: no such file or folder; correct the path")
    return module, path


def _folder_of(path: Path) -> str:
    return os.path.abspath(path if path.is_dir() else path.parent)


def _find_sections(module: str, path: Path) -> dict[str, dict[str, Any]]:
    """Return sections without `images`. Raises UserError where nothing is recognised."""
    official = {} if module in READERS else find_official(path)
    if module and module not in READERS:
        return {module: official.get(module, {"path": os.path.abspath(path)})}
    if official:
        return official
    for part, reader in itertools.product(_list_parts(path), [module] if module else READERS):
        section = READERS[reader](part)
        if section:
            name = data_section.make_name(path, "test")
            return {name: section if name == reader else {"benchmark": reader, **section}}
    raise UserError(f"--test {path}: {NOTHING}")


def _list_parts(path: Path) -> list[Path]:
    """Return what of a folder its name says is for tests, best first, and the path itself."""
    parts = []
    files = list_files(path) if path.is_dir() else []
    for split in TEST_SPLITS:
        split_tables = [file for file in files if file.name.startswith(split) and _is_table(file)]
        if (path / split) in files:
            parts.append(path / split)
        elif len(split_tables) == 1:
            parts += split_tables
    return [*parts, path]


def _is_table(path: Path) -> bool:
    return path.is_file() and tables.format_suffix(path) in tables.SUFFIXES


# --- test sets of one's own: each returns a section without `images`, or {} ---------------------------------------


def _read_pairs(path: Path) -> dict[str, Any]:
    """Recognise a table with a true and a false text; columns are named where `pairs` would take others."""
    file = data_section.first_table(path)
    names = tables.read_columns(file) if _is_table(file) else []
    usual_wrong = data_section.list_usual(names, pairs.WRONG_COLUMNS)[:1]
    wrong = [name for name in names if name in usual_wrong or WRONG.fullmatch(name.strip().lower())]
    if not wrong:
        return {}
    layout = data_section.find_columns(file, wrong)
    usual_caption = data_section.list_usual(names, tables.CAPTION_COLUMNS)[:1]
    right = [name for name in names if RIGHT.fullmatch(name.strip().lower())]
    options = {"picture": layout["picture"]} if _is_unusual_picture(file, names, layout["picture"]) else {}
    if not usual_caption:
        options["caption"] = (right or layout["captions"])[0]
    if wrong != usual_wrong:
        options["wrong"] = wrong
    return _make_section(path, options)


def _is_unusual_picture(file: Path, names: Sequence[str], column: str) -> bool:
    usual = [*tables.list_picture_columns(file), *data_section.list_usual(names, tables.PICTURE_COLUMNS)]
    return column not in usual[:1]


def _read_captions(path: Path) -> dict[str, Any]:
    """Recognise captions as `compclip init --data` does, but for texts beside pictures, which `retrieval` has not."""
    file = data_section.find_list(path)
    source = "" if (path / zeroshot.CLASSES).is_file() else data_section.find_source(file)
    if source in ("", "folder"):
        return {}
    if source == "karpathy":
        return _make_section(file, {}) | _choose_split(file)
    if file.suffix == ".tar":
        raise UserError(f"--test {file}: tars are read by their folder; give {file.parent}")
    if source not in data_section.COLUMNED:
        return _make_section(file, {})
    layout = data_section.find_columns(file)
    table = data_section.first_table(file)
    names = tables.read_columns(table)
    if not _is_unusual_picture(table, names, layout["picture"]):
        del layout["picture"]
    if layout["captions"] == data_section.list_usual(names, tables.CAPTION_COLUMNS)[:1]:
        del layout["captions"]
    return _make_section(file, {"layout": layout} if layout else {})


def _choose_split(file: Path) -> dict[str, str]:
    """Return the split of Karpathy's JSON that is to be read, where that is not `test`."""
    content = read_json(file)
    entries = content.get("images", []) if isinstance(content, dict) else []
    splits = {str(entry.get("split")) for entry in entries if isinstance(entry, dict)}
    chosen = next((split for split in (*TEST_SPLITS, *sorted(splits)) if split in splits), "test")
    return {} if chosen == "test" else {"split": chosen}


def _read_classes(path: Path) -> dict[str, Any]:
    """Recognise a folder with the names of classes, or with a folder of pictures for each class."""
    if (path / zeroshot.CLASSES).is_file():
        return _make_section(path, {})
    folders = _labelled.class_folders(path)
    if len(folders) < 2 or not all(_has_picture(path / folder) for folder in folders):
        return {}
    known_set = _class_sets.find_set(folders)
    return _make_section(path, {"classes": known_set} if known_set else {})


def _has_picture(folder: Path) -> bool:
    files = itertools.islice(folder.rglob("*"), CLASS_FILES)
    return any(file.suffix.lower() in ENDINGS for file in files)


def _make_section(path: Path, options: dict[str, Any]) -> dict[str, Any]:
    return {"path": os.path.abspath(path)} | ({"options": options} if options else {})


READERS = {"pairs": _read_pairs, "retrieval": _read_captions, "zeroshot": _read_classes}


# --- pictures --------------------------------------------------------------------------------------------------


def _shipped_sections(module: str, path: str) -> list[dict[str, Any]]:
    """Return what the package's grid of all benchmarks has of a module, or of a file of this name."""
    grid = yaml_text.read_yaml(project_files.find_source() / project_files.EVERY_BENCHMARK, "must hold a grid")
    sections = yaml_text.to_plain(grid, str(project_files.EVERY_BENCHMARK))["benchmarks"]
    by_module = [section for name, section in sections.items() if section.get("benchmark", name) == module]
    by_file = [section for section in sections.values() if Path(section["path"]).name == Path(path).name]
    return by_file or ([] if module in READERS else by_module)


def _list_places(name: str, section: dict[str, Any], path: Path, picture_folders: Sequence[str]) -> Iterator[str]:
    """Yield folders in which the pictures may be: as `compclip fetch` lays them out, beside the files, and others."""
    shipped = _shipped_sections(section.get("benchmark", name), section["path"])
    for entry in shipped:
        yield os.path.join(section["path"], os.path.relpath(entry["images"], entry["path"]))
    for folder in dict.fromkeys((_folder_of(Path(section["path"])), _folder_of(path))):
        for base in (folder, os.path.dirname(folder)):
            yield from (os.path.join(base, "images"), os.path.join(base, "Images"))
        yield folder
    yield from (entry["images"] for entry in shipped)
    yield from picture_folders


def _find_images(name: str, section: dict[str, Any], places: Iterable[str], root: str) -> dict[str, Any]:
    """Return a section with the first of `places` in which a picture is, or a folder below `root` ("": none).

    Raises UserError where no picture is there, and what the benchmark says of its files.
    """
    fault: UserError | None = None
    missing: list[str] = []
    images = ""
    for images in filter(os.path.isdir, dict.fromkeys(map(os.path.abspath, places))):
        try:
            missing = _list_missing(name, section | {"images": images})
        except UserError as error:  # perhaps of this folder alone
            fault = error
            continue
        if not missing:
            return section | {"images": images}
    names = [os.path.relpath(file, images) for file in missing]
    images = data_section.search_pictures(root, names) if root and names else ""
    if images and not _list_missing(name, section | {"images": images}):
        return section | {"images": images}
    if fault and not missing:
        raise fault
    raise _missing_error(section.get("benchmark", name), section["path"], missing)


def _list_missing(name: str, section: dict[str, Any]) -> list[str]:
    """Return the pictures of a benchmark where not one of them is there, else []. Raises UserError without items."""
    benchmark = _load(name, section)
    missing = sorted(find_missing(benchmark.images))
    if not benchmark.images:
        raise UserError(f"{section['path']}: holds no item that can be scored; correct the file")
    return missing if len(missing) == len(benchmark.images) else []


def _missing_error(module: str, path: str, missing: Sequence[str]) -> UserError:
    """Return the error that says which pictures are nowhere, and what brings them."""
    example = f", as {os.path.basename(missing[0])}," if missing else ""
    entries = [find_entry(section["images"]) for section in _shipped_sections(module, path)]
    fetch = "".join(f", or run `compclip fetch {entry}`" for entry in [*filter(None, entries)][:1])
    return UserError(f"{path}: {module}: its pictures{example} are nowhere; give their folder with --images{fetch}")


def find_entry(images: str) -> str:
    """Return the entry of the catalogue that brings a folder of pictures; "" where none does."""
    for offer in load_catalogue().values():
        for name, file in offer.files.items():
            if file.unpack and Path(images) == Path(offer.section.folder) / (file.into or Path(name).stem):
                return offer.name
    return ""


def _load(name: str, section: dict[str, Any]) -> Benchmark:
    return load_benchmark(name, load_section(BenchmarkSection, section, f"benchmarks.{name}"))


def describe_test(name: str, section: dict[str, Any]) -> str:
    """Return one line: the benchmark of a section, how many items and pictures it has, and what is missing of it."""
    benchmark = _load(name, section)
    missing = sorted(find_missing(benchmark.images))
    counts = [f"{count:,} {reason}" for reason, count in benchmark.dropped.items() if count]
    if missing:
        counts.insert(0, f"{len(missing):,} of them missing, as {os.path.basename(missing[0])}")
    items = f"{format_count(len(benchmark), 'item')} of {format_count(len(benchmark.images), 'picture')}"
    return ", ".join([f"{name}: {section.get('benchmark', name)}", items, *counts])
