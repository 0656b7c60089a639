"""Read a data set as Hugging Face keeps it: saved by `save_to_disk`, shards, an imagefolder, or by its name on the hub.

    source: huggingface
    path: data/flickr30k      a folder; or name/of_a_data_set, which the package datasets then brings into `images`
    images: data/flickr30k    pictures inside the files are trained from where they lie
    split: train
    layout: {captions: caption, revision: 1a2b3c}      columns as of the source `table`

Shards are the files of one format that are named after the split, as train-00000-of-00010.parquet or train/0.parquet;
an imagefolder has a metadata.csv or metadata.jsonl beside its pictures.
"""

from __future__ import annotations

import importlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from compclip.base.errors import UserError, one_line, unknown
from compclip.base.files import read_field, read_mapping
from compclip.config.grid import source_config
from compclip.config.sections import Data
from compclip.data import tables
from compclip.data.sample import Sample
from compclip.prepare.sources import folder, table

STATE = "state.json"  # beside the files of a saved data set
SPLITS = "dataset_dict.json"  # beside the folders of several
REPOSITORY = re.compile(r"[\w.-]+(/[\w.-]+)?", re.ASCII)
FORMATS = (tables.PARQUET, tables.ARROW, tables.JSON_LINES, tables.SEPARATED)  # the first of which there are files
USUAL_SPLITS = ("train", "training", "validation", "valid", "val", "dev", "test", "testing", "eval", "evaluation")


@dataclass(frozen=True)
class Config(table.Config):
    """What columns are called, and which version of a hub's data set is read."""

    revision: str = ""  # a commit, a tag or a branch of the hub's
    subset: str = ""  # of a hub's data set that has several


def is_remote(cfg: Data) -> bool:
    """Return whether `path` can only be a name on the hub: `images`, where it is brought, is then made."""
    owner, _, name = cfg.path.partition("/")
    is_name = bool(REPOSITORY.fullmatch(cfg.path)) and tables.format_suffix(Path(cfg.path)) not in tables.SUFFIXES
    return is_name and not (name and owner in ("data", "models")) and not Path(owner).exists()


def parts(cfg: Data) -> list[str]:
    """Return the files if pictures are inside them; none where they name pictures."""
    return table.list_parts(_list_files(cfg), source_config(cfg))


def records(cfg: Data, counts: Counter, part: str = "") -> Iterator[Sample]:
    """Give samples in the order of the data set."""
    paths = [Path(part)] if part else _list_files(cfg)
    return table.read_samples(cfg, source_config(cfg), paths, counts, is_part=bool(part))


def _list_files(cfg: Data) -> list[Path]:
    """Return the files of a split. Raises UserError where there is no such data set, or split."""
    path = Path(cfg.path)
    if not path.is_dir():
        is_table = tables.format_suffix(path) in tables.SUFFIXES
        return tables.list_tables(cfg.path) if is_table else _load_from_hub(cfg)
    if (path / SPLITS).is_file():
        splits = read_field(path / SPLITS, "(whole file)", read_mapping(path / SPLITS), "splits", list)
        if cfg.split not in splits:
            raise unknown("split", cfg.split, map(str, splits), str(path))
        path = path / cfg.split
    if (path / STATE).is_file():
        files = read_field(path / STATE, "(whole file)", read_mapping(path / STATE), "_data_files", list)
        if not files:
            raise UserError(f"{path / STATE}: names no file: the data set was saved without a row; correct the path")
        return [path / read_field(path / STATE, "_data_files", file, "filename") for file in files]
    metadata = folder.find_metadata(path)
    return _choose_split(path, metadata or _find_shards(path), cfg.split)


def _find_shards(path: Path) -> list[Path]:
    files = [file for file in sorted(path.rglob("*")) if file.is_file()]
    for suffixes in FORMATS:
        shards = [file for file in files if tables.format_suffix(file) in suffixes]
        if shards:
            return shards
    raise UserError(f"{path}: no saved data set, no metadata file and no shards there; correct the path")


def _choose_split(path: Path, files: Sequence[Path], split: str) -> list[Path]:
    """Return the files named after a split; all, as train, where no file is named after any."""
    names = [str(file.relative_to(path)) for file in files]
    chosen = [file for file, name in zip(files, names, strict=True) if _is_named(name, split)]
    has_splits = any(_is_named(name, other) for name in names for other in USUAL_SPLITS)
    if not chosen and (has_splits or split != "train"):
        raise UserError(f"{path}: no file of split {split!r} among {', '.join(names[:5])}; correct `split`")
    return chosen or list(files)


def _is_named(name: str, split: str) -> bool:
    """Return whether a path has the name of a split between other marks than letters."""
    return bool(re.search(rf"(?<![A-Za-z]){re.escape(split)}(?![A-Za-z])", name, re.IGNORECASE))


def _load_from_hub(cfg: Data) -> list[Path]:
    """Return the files into which the package datasets brings a data set, below `images`."""
    config = source_config(cfg)
    try:
        datasets = importlib.import_module("datasets")
    except ImportError as error:
        fix = "name a folder, or install what reads the hub: pip install 'compclip[huggingface]'"
        raise UserError(f"{cfg.path}: no such folder; {fix}") from error
    try:
        subset = config.subset or None
        revision = config.revision or None
        loaded = datasets.load_dataset(cfg.path, subset, split=cfg.split, revision=revision, cache_dir=cfg.images)
    except Exception as error:  # the package, the hub and the network raise anything
        reason = one_line(f"{type(error).__name__}: {error}")[:300]
        raise UserError(f"{cfg.path}: {reason}; correct its name, split, revision or subset") from error
    return [Path(file["filename"]) for file in loaded.cache_files]
