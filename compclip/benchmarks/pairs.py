"""A test set of one's own in a table: pictures, the right caption of each, and wrong ones. A tie is wrong.

    benchmark: pairs
    path: data/mine.csv       CSV, TSV, JSON lines, Parquet or Arrow, or a folder of such tables
    images: data/pictures     a picture is found at its path from here, or at an end of it; or inside of the table
    options: {caption: right, wrong: [wrong_1, wrong_2], group: kind}    columns; the usual names are found

Right where the picture is nearer to its caption than to every wrong one. `accuracy` is over all rows, and
`accuracy/<group>` over those of a group. Wrong captions are in one column or several, each a text or a list of texts;
empty ones are none. A wrong caption that repeats the right one is left out and counted, and so is a row without any.

Source: a table of one's own, under its own licence. Compared: the rule is `cc_neg`'s. Not compared: it has no authors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from compclip.base.errors import UserError
from compclip.benchmarks import _choice, _tables
from compclip.benchmarks._files import drop_empty, images_folder, refuse_split
from compclip.config.released_lists import Column, Columns
from compclip.data import tables
from compclip.data.tables import TableForm
from compclip.evaluate.benchmark import Benchmark, Record
from compclip.runs.item_outcomes import COMPOSITION

METRIC = "accuracy"
METRICS = (METRIC,)
HEADLINE = (METRIC,)
RECOGNISES = ()  # a table of one's own has no name: known by its columns (begin.benchmark_section)
WRONG_COLUMNS = (
    *("negative_caption", "negative_captions", "negative", "negatives", "hard_negative", "hard_negatives"),
    *("wrong", "wrong_caption", "wrong_captions", "false_caption", "foil", "foils"),
)
GROUP_COLUMN = "group"


@dataclass(frozen=True)
class Config(TableForm):
    """What the columns are called, and how a CSV is written."""

    picture: Column = ""  # default: one with pictures inside, or the first usual name
    caption: Column = ""  # of the right caption; default: the first usual name
    wrong: Columns = field(default_factory=list)  # one, or several; default: the first usual name
    group: Column = ""  # default: `group`, where there is such a column


class PairColumns(NamedTuple):
    """The columns of a table; `group` is "" where it has none."""

    picture: str
    caption: str
    wrong: list[str]
    group: str

    @property
    def names(self) -> list[str]:
        """Each column once."""
        return list(dict.fromkeys(filter(None, [self.picture, self.caption, *self.wrong, self.group])))


def load(
    path: str | Path, images: str | Path | None = None, split: str = "", options: Config | None = None
) -> Benchmark:
    """Read a table, or all tables of a folder. A record's id is its line, or its row from 1, in its table.

    Raises UserError for a table without such columns, and for a row that cannot be read.
    """
    refuse_split("pairs", split)
    cfg = options or Config()
    files = tables.list_tables(str(path))
    pictures = images_folder(files[0].parent, images)
    counts = Counter[str]()
    records = []
    group_of = {}
    for file in files:
        columns = _choose_columns(file, cfg)
        prefix = f"{file.stem}/" if len(files) > 1 else ""
        for number, values in tables.read_rows(file, columns.names, counts, cfg):
            key = f"{prefix}{number}"
            name = _tables.refer_to(values[columns.picture])
            reference = name and _tables.find_picture(pictures, name)
            texts = _read_texts(file, number, values, columns)
            if reference:
                records.append(Record(METRIC, key, (reference,), texts))
                group_of[key] = values[columns.group] if columns.group else ""
            counts["no_picture"] += not reference
    dropped = _tables.require_whole_rows(path, counts)
    with_wrong, repeats = _choice.with_foils(records)
    members: dict[str, set[str]] = {}
    for record in with_wrong:
        members.setdefault(str(group_of[record.id]), set()).add(record.id)
    groups = {METRIC: {name: frozenset(ids) for name, ids in members.items() if name}}
    return Benchmark(
        with_wrong, tuple(files), _choice.choose, groups=groups, dropped=dropped | repeats, kind=COMPOSITION
    )


def _choose_columns(file: Path, cfg: Config) -> PairColumns:
    """Return the declared columns, or the usual ones. Raises UserError for one that the table does not have."""
    names = tables.read_columns(file, cfg)
    picture = cfg.picture or next(iter(tables.list_picture_columns(file)), "")
    wrong = [tables.choose_column(names, name, WRONG_COLUMNS, "options.wrong", file) for name in cfg.wrong or [""]]
    has_groups = cfg.group or GROUP_COLUMN in names
    return PairColumns(
        tables.choose_column(names, picture, tables.PICTURE_COLUMNS, "options.picture", file),
        tables.choose_column(names, cfg.caption, tables.CAPTION_COLUMNS, "options.caption", file),
        wrong,
        tables.choose_column(names, cfg.group or GROUP_COLUMN, (), "options.group", file) if has_groups else "",
    )


def _read_texts(file: Path, number: int, values: Mapping[str, Any], columns: PairColumns) -> tuple[str, ...]:
    """Return the right caption and the wrong ones, without empty ones of these."""
    caption = values[columns.caption]
    if not isinstance(caption, str):
        fault = f"{columns.caption!r} is no single caption"
        raise UserError(f"{file}: row {number}: {fault}; name the right caption in options.caption")
    wrong: list[str] = []
    for column in columns.wrong:
        value = values[column]
        wrong += [value] if isinstance(value, str) else value
    return (caption, *drop_empty(wrong))
