"""Read a table of pictures and captions: CSV, TSV, JSON lines, Parquet or Arrow, as open_clip and the hub have them.

    source: table
    path: data/train.csv      a table, a folder of tables, or several (`base.path_lists`)
    images: data/images       a picture's path begins here, or where the table lies, or where the command runs
    layout: {picture: filepath, captions: [title]}      what the columns are called; the usual names are found

Rows of one picture are one sample, wherever they are in the table: those of one name, and of pictures inside those of
one content as well. Pictures inside a table are trained from where they lie: each such table is a shard, and `images`
is its folder.
"""

from __future__ import annotations

import itertools
import os
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import numpy as np

from compclip.base import messages
from compclip.base.errors import UserError
from compclip.base.path_lists import expand_paths
from compclip.config.grid import source_config
from compclip.config.released_lists import Column, Columns
from compclip.config.sections import Data
from compclip.data import parquet_cells, tables
from compclip.data.caption_files import MERGED
from compclip.data.sample import ENDINGS, ImageLocation, Sample
from compclip.data.tables import RowFaults, TableForm, TablePicture
from compclip.prepare import caption_join
from compclip.prepare.image_folder import check_files

FIRST_ROWS = 100  # that say whether pictures are inside a table
LARGE_GROUP = 4 << 20  # bytes of a row group whose decoding takes longer than a picture's


@dataclass(frozen=True)
class Config(TableForm):
    """What a table's columns are called, and how it is written."""

    picture: Column = ""  # default: one with pictures inside, or the first usual name
    captions: Columns = field(default_factory=list)  # one, or several whose texts are all captions; default: usual name
    id: Column = ""  # default: the picture's path below `images` without its ending
    split: Column = ""  # whose rows are left out where they name another split than the section
    lists: bool = False  # whether each text is a list of texts, as JSON or Python writes it


class PictureRow(NamedTuple):
    """A row of a table: what its picture is called, where it is or by which name to look for it, and its captions."""

    folder: str  # of the table
    name: str
    picture: TablePicture | str
    captions: list[str]

    @property
    def key(self) -> str:
        """A text that is equal for rows of one picture."""
        picture = self.picture
        return f"{self.name}\n{picture if isinstance(picture, str) else picture.content.hex()}"


def parts(cfg: Data) -> list[str]:
    """Return the tables if pictures are inside them; none where they name pictures."""
    return list_parts(tables.list_tables(cfg.path), source_config(cfg))


def records(cfg: Data, counts: Counter, part: str = "") -> Iterator[Sample]:
    """Give samples in the order of their first rows. Counted: rows that cannot be used, with the place of the first."""
    paths = [Path(part)] if part else tables.list_tables(cfg.path)
    return read_samples(cfg, source_config(cfg), paths, counts, is_part=bool(part))


def list_parts(paths: Sequence[Path], config: Config) -> list[str]:
    """Return the tables if pictures are inside the first one with rows. Raises UserError where it has no such column.

    Notes one whose row groups are so large that reading in random order will be slow.
    """
    path, values = paths[0], list[object]()
    for path in paths:
        column = _choose_columns(path, config)[0]
        rows = tables.read_rows(path, [column], Counter(), config)
        values = [row.values[column] for row in itertools.islice(rows, FIRST_ROWS)]
        if values:
            break
    inside = [value for value in values if isinstance(value, TablePicture)]
    if inside and parquet_cells.is_cell(inside[0].path):
        size = parquet_cells.measure_group(inside[0].path)
        if size > LARGE_GROUP:
            messages.note(
                f"{path}: a row group of {size >> 20} MiB is decoded for each picture in training, about half "
                "a millisecond a MiB; set short_side, or write the table as Arrow or with small row groups"
            )
    return [str(path) for path in paths] if inside else []


def read_samples(
    cfg: Data, config: Config, paths: Sequence[Path], counts: Counter, is_part: bool = False
) -> Iterator[Sample]:
    """Give the samples of some tables; of a part pictures are inside, and rows of one picture follow each other.

    Raises UserError for a table of the section's folder that lies elsewhere.
    """
    check_files(paths, cfg)
    scattered = {} if is_part else _find_scattered(cfg, config, paths)
    folders = [*expand_paths(cfg.images), ""]
    prefixes = [os.path.join(folder, "") for folder in folders if folder]
    for key, group in itertools.groupby(_read_pictures(cfg, config, paths, counts), attrgetter("key")):
        rows = list(group)
        captions = [caption for row in rows for caption in row.captions]
        if key in scattered:
            captions = scattered[key]
            scattered[key] = []
            if not captions:
                continue
        place = _locate_picture(rows[0].picture, [*folders, rows[0].folder])
        sample_id = _make_id(rows[0].name, prefixes)
        yield Sample(sample_id, place.path, tuple(captions), cfg.split, offset=place.offset, length=place.length)


def _find_scattered(cfg: Data, config: Config, paths: Sequence[Path]) -> dict[str, list[str]]:
    """Return the captions of each picture whose rows do not follow each other: memory grows with these alone."""
    hashes = array("q")
    for key, _ in itertools.groupby(row.key for row in _read_pictures(cfg, config, paths, Counter())):
        hashes.append(hash(key))
    values, numbers = np.unique(np.frombuffer(hashes, np.int64), return_counts=True)
    repeated = set(values[numbers > 1].tolist())
    captions: dict[str, list[str]] = {}
    for row in _read_pictures(cfg, config, paths, Counter()) if repeated else ():
        if hash(row.key) in repeated:
            captions.setdefault(row.key, []).extend(row.captions)
    return captions


def _read_pictures(cfg: Data, config: Config, paths: Sequence[Path], counts: Counter) -> Iterator[PictureRow]:
    """Give the rows of the section's split that name a picture, or have one inside."""
    splits = MERGED.get(cfg.split, (cfg.split,))
    for path in paths:
        picture_column, caption_columns = _choose_columns(path, config)
        columns = dict.fromkeys([picture_column, *caption_columns, *filter(None, [config.id, config.split])])
        faults = RowFaults(path)
        folder = str(path.parent)
        for number, values in tables.read_rows(path, list(columns), counts, config):
            picture = values[picture_column]
            if config.split and values[config.split] not in splits:
                counts["rows_of_other_splits"] += 1
                continue
            if not picture or isinstance(picture, list):
                faults.add("no_picture", number)
                continue
            try:
                texts = list[str]()
                for column in caption_columns:
                    value = values[column]
                    written = [value] if isinstance(value, str) else value
                    texts += caption_join.parse_lists(written) if config.lists else written
            except ValueError:
                faults.add("damaged_lists", number)
                continue
            name_inside = picture if isinstance(picture, str) else picture.name
            name = (values[config.id] if config.id else name_inside) or f"{path.stem}/{number}"
            yield PictureRow(folder, name, picture, texts)
        faults.move_to(counts)


def _choose_columns(path: Path, config: Config) -> tuple[str, list[str]]:
    """Return the columns of the picture and of its captions. Raises UserError for one that the table does not have."""
    names = tables.read_columns(path, config)
    inside = tables.list_picture_columns(path)
    picture = config.picture or (inside[0] if inside else "")
    picture = tables.choose_column(names, picture, tables.PICTURE_COLUMNS, "layout.picture", path)
    captions = [
        tables.choose_column(names, name, tables.CAPTION_COLUMNS, "layout.captions", path, config)
        for name in config.captions or [""]
    ]
    for name in captions:
        if name in inside:
            raise UserError(f"{path}: column {name!r} holds bytes, no texts; name another one in layout.captions")
    return picture, captions


def _locate_picture(picture: TablePicture | str, folders: Sequence[str]) -> ImageLocation:
    """Return where a picture is; of a name the first path below one of the folders, where none exists the first."""
    if isinstance(picture, TablePicture):
        return picture
    paths = [os.path.join(folder, picture) for folder in folders]
    return ImageLocation(next(filter(os.path.lexists, paths), paths[0]))


def _make_id(name: str, prefixes: Sequence[str]) -> str:
    """Return a name without a picture's ending, and without the folder of pictures before it."""
    stem, ending = os.path.splitext(name.replace("\\", "/"))
    sample_id = stem if ending.lower() in ENDINGS else stem + ending
    for prefix in prefixes:
        sample_id = sample_id.removeprefix(prefix)
    return sample_id
