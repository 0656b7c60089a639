"""Recognise a data set: its source, columns, pictures and captions, for `data` of params.yaml."""

from __future__ import annotations

import itertools
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from compclip.base import path_lists, plugins
from compclip.base.errors import UserError, one_line
from compclip.base.files import read_json
from compclip.base.messages import format_count
from compclip.base.safe_names import SafeName
from compclip.config.sections import Data
from compclip.config.validation import load_section
from compclip.data import tables
from compclip.data.sample import CAPTION_ENDINGS, ENDINGS, PictureFinder, Sample
from compclip.prepare.image_folder import ImageFolder

FILES = 20_000  # of a folder whose names are looked at
FOLDERS = 1_000  # in which pictures are looked for
PICTURES = 10_000  # by which their folder is told
LOOKED = 100_000  # pictures that are counted, and of which a test set is drawn
ROWS = 100  # of a table, by which its columns are told
SHOWN = 2  # samples
OUTSIDE = "pictures outside of the folder, which repro refuses (correct their names, or give --images)"
OFFICIAL_LISTS = (
    *("captions.txt", "Flickr8k.token.txt", "results_*.token"),
    *("dataset_*.json", "captions_*.json", "annotations/captions_*.json"),
)
SAVED = ("dataset_info.json", "dataset_dict.json")  # beside what `save_to_disk` wrote
COLUMNED = ("table", "huggingface")  # sources whose layout names columns


def make_name(path: str | Path, kind: str) -> SafeName:
    """Return the name of a file or folder for a section of this kind, which YAML must not take for a number.

    Several files by a pattern or braces are called as their folder.
    """
    full_path = Path(os.path.abspath(path))
    plain = full_path.parent if re.search(r"[{*?]", full_path.name) else full_path
    name = re.sub(r"[^\w+-]+", "_", plain.name.partition(".")[0]).strip("_")
    return SafeName(name if name[:1].isalpha() else f"{kind}_{name}".rstrip("_"), kind)


def find_section(text: str, images: str) -> dict[str, Any]:
    """Return the section of `data` that reads a file, a folder, or several (`base.path_lists`).

    `images`: where its pictures are ("": looked for). Raises UserError where no source reads it, and for a table
    without captions.
    """
    paths = [Path(path) for path in path_lists.expand_paths(text)]
    absent = [path for path in paths if not path.exists()]
    if absent:
        raise UserError(f"{absent[0]}: no such file or folder; correct the path")
    path = paths[0]
    file = find_list(path)
    source = find_source(file)
    if not source:
        raise UserError(
            f"{path}: no table, no tars and no texts beside pictures there; give the file with the captions"
        )
    folders = dict.fromkeys(os.path.abspath(path if path.is_dir() else path.parent) for path in paths)
    source_path = str(file) if paths == [Path(text)] else text
    section: dict[str, Any] = {"source": source}
    section["path"] = path_lists.SEPARATOR.join(map(os.path.abspath, source_path.split(path_lists.SEPARATOR)))
    section["images"] = os.path.abspath(images) if images else path_lists.SEPARATOR.join(folders)
    if source in COLUMNED:
        section["layout"] = find_columns(file)
    section["captioner"] = "none"
    if not images and source != "webdataset":
        section["images"] = _find_images(section)
    return section


def find_list(path: Path) -> Path:
    """Return the list of captions that a folder has under an official name; else the path itself."""
    lists = itertools.chain.from_iterable(sorted(path.glob(pattern)) for pattern in OFFICIAL_LISTS)
    return path if path.is_file() else next((file for file in lists if file.name not in SAVED), path)


def find_source(path: Path) -> str:
    """Return the source that reads a file or a folder, by the names of its files; "" where there is none."""
    if path.suffix in (".txt", ".token"):
        return "flickr8k"
    if path.suffix == ".json":
        content = read_json(path)
        return "coco" if isinstance(content, dict) and "annotations" in content else "karpathy"
    if path.is_file():
        return "webdataset" if path.suffix == ".tar" else "table"
    files = list(itertools.islice(filter(Path.is_file, path.rglob("*")), FILES))
    endings = set(map(tables.format_suffix, files))
    if ".tar" in endings:
        return "webdataset"
    if endings & {*tables.PARQUET, *tables.ARROW} or any(file.stem == "metadata" for file in files):
        return "huggingface"
    if endings & {*tables.SUFFIXES}:
        return "table"
    if endings & {*CAPTION_ENDINGS, ".json"}:
        return "folder"
    return ""


def first_table(path: Path) -> Path:
    """Return a table, or the first one of a folder; the path itself where there is none."""
    return _list_tables(path)[0]


def _list_tables(path: Path) -> list[Path]:
    """Return a table, or those of a folder; the path itself where there is none."""
    files = [path] if path.is_file() else sorted(path.rglob("*"))
    return [file for file in files if tables.format_suffix(file) in tables.SUFFIXES] or [path]


def find_columns(path: Path, ignored: Collection[str] = ()) -> dict[str, Any]:
    """Return the layout of a table, or of the first one of a folder: usual names, or else columns that look like it.

    Raises UserError for a table without pictures or captions beside the columns `ignored`.
    """
    file, rows = _first_rows(path)
    names = [name for name in tables.read_columns(file) if name not in ignored]
    inside = tables.list_picture_columns(file)
    pictures = [*inside, *list_usual(names, tables.PICTURE_COLUMNS)]
    lengths = dict[str, int]()  # of columns of texts
    for name in names:
        values = [row.get(name) for row in rows]
        if all(map(_names_picture, values)):
            pictures.append(name)
        elif name not in inside and not {str, list}.isdisjoint(map(type, values)):
            lengths[name] = sum(map(len, map(str, values)))
    picture = next(iter(pictures), "")
    lengths.pop(picture, None)
    numbered = [name for name in lengths if re.fullmatch(r"(caption|title|text|sentence)s?[ _-]?\d+", name.lower())]
    longest = sorted(lengths, key=lengths.__getitem__, reverse=True)
    captions = list_usual(names, tables.CAPTION_COLUMNS)[:1] or numbered or longest[:1]
    if not picture or not captions:
        missing = "captions" if picture else "pictures"
        raise UserError(f"{file}: no column of {missing} among {', '.join(names[:20])}; name it in the first line")
    layout: dict[str, Any] = {"picture": picture, "captions": captions}
    if rows and all(isinstance(row[captions[0]], str) and row[captions[0]].startswith("[") for row in rows):
        layout["lists"] = True
    if "train" in [row.get("split") for row in rows]:
        layout["split"] = "split"
    return layout


def _first_rows(path: Path) -> tuple[Path, list[dict[str, Any]]]:
    """Return the first table of a path that has rows, or the last one, and its first rows."""
    rows: list[dict[str, Any]] = []
    for file in _list_tables(path):
        if tables.format_suffix(file) in tables.PARQUET + tables.ARROW:
            records = tables.read_records(file)
        else:
            records = (row.values for row in tables.read_rows(file, tables.read_columns(file), Counter()))
        rows = list(itertools.islice(records, ROWS))
        if rows:
            break
    return file, rows


def list_usual(names: Sequence[str], usual: Sequence[str]) -> list[str]:
    """Return the names that are usual ones in any case, in the order of these."""
    by_lower_case = {name.strip().lower(): name for name in reversed(names)}
    return list(filter(None, map(by_lower_case.get, usual)))


def _names_picture(value: Any) -> bool:
    return isinstance(value, str) and value.lower().endswith(ENDINGS)


def _find_images(section: dict[str, Any]) -> str:
    """Return the folder at which the names of pictures begin: the one that the section has, or one below it.

    A table never chooses a folder above its own. Raises UserError where no picture is there.
    """
    root = section["images"]
    samples = list(itertools.islice(read_samples(section, Counter()), PICTURES))
    folder = ImageFolder(root)
    inside = [sample for sample in samples if folder.contains(sample.image)]
    if any(sample.length or os.path.exists(sample.image) for sample in inside):
        return root
    images = search_pictures(root, [os.path.relpath(sample.image, root) for sample in inside])
    if images:
        return images
    name = os.path.basename(inside[0].image) if inside else next((sample.image for sample in samples), "")
    raise UserError(f"{section['path']}: picture {name!a} is nowhere below {root}; give its folder with --images")


def search_pictures(root: str, names: Sequence[str]) -> str:
    """Return the folder at or below `root` at which the names of pictures begin; "" where none is there."""
    path_of = {os.path.basename(name): name for name in names}
    for folder, _, files in itertools.islice(os.walk(root), FOLDERS):
        name = next(filter(path_of.__contains__, files), "")
        start = folder.removesuffix(os.path.dirname(path_of[name])).rstrip("/") if name else ""
        if start and Path(start).is_relative_to(root):  # without the folders that stand in the picture's name as well
            return start
    return ""


def read_samples(section: Mapping[str, Any], counts: Counter) -> Iterator[Sample]:
    """Give the samples of a section of `data`, as its source reads them."""
    cfg = load_section(Data, section, "data")
    source = plugins.load_plugin(plugins.SOURCES, cfg.source)
    parts = source.parts(cfg) if hasattr(source, "parts") else []
    if not parts:
        yield from source.records(cfg, counts)
    for part in parts:
        yield from source.records(cfg, counts, part)


@dataclass
class DataSurvey:
    """What was seen of a data set: numbers of pictures and captions, the first few, and what is wrong."""

    pictures: int = 0
    captions: int = 0
    missing: list[str] = field(default_factory=list)  # files that are not there
    outside: list[str] = field(default_factory=list)  # files outside of the folder of pictures
    examples: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)  # what the source drops, by reason

    @property
    def usable(self) -> int:
        """The pictures that are there."""
        return self.pictures - len(self.missing) - len(self.outside)

    def describe(self, shown: int = SHOWN) -> list[str]:
        """Return lines: how many pictures and captions, the first ones, what is missing or damaged."""
        first = "the first " if self.pictures == LOOKED else ""
        lines = [f"{first}{format_count(self.pictures, 'picture')}, {format_count(self.captions, 'caption')}"]
        lines += [f"  {example}" for example in self.examples[:shown]]
        for fault, files in (("missing pictures", self.missing), (OUTSIDE, self.outside)):
            lines += [f"  {fault}: {len(files)}, the first {files[0]!a}"] if files else []
        dropped = [f"{reason}: {count}" for reason, count in self.counts.items() if count and reason != "images"]
        return [*lines, *([one_line(f"  {', '.join(dropped)}")] if dropped else [])]


def survey_data(section: Mapping[str, Any], take: Callable[[Sample], None]) -> DataSurvey:
    """Read a data set once, at most its first `LOOKED` pictures, and give each one that is there to `take`.

    Raises UserError where no picture is there.
    """
    survey = DataSurvey()
    finder = PictureFinder(section["images"])
    folder = ImageFolder(section["images"])
    for sample in itertools.islice(read_samples(section, survey.counts), LOOKED):
        survey.pictures += 1
        survey.captions += len(sample.captions)
        if len(survey.examples) < SHOWN:
            survey.examples.append(one_line(f"{sample.id}: {next(iter(sample.captions), '(no caption)'):.90}"))
        file = sample.image if sample.length else finder.find(sample.image)
        if not folder.contains(file):
            survey.outside.append(file)
        elif sample.length or os.path.isfile(file):
            take(replace(sample, image=file))
        else:
            survey.missing.append(file)
    if not survey.usable:
        example = "".join(f", as {file!a}" for file in (survey.missing + survey.outside)[:1])
        where = f"below {section['images']}{example}"
        raise UserError(f"{section['path']}: no picture is {where}; give their folder with --images")
    return survey
