"""Tables with pictures inside, as Hugging Face keeps data sets: *.parquet, or *.arrow, with columns of {bytes, path}.

Parquet compresses its pages, so that no picture can be read where it lies. A table's pictures are unpacked once, into
one file in the folder of pictures, `<table>.<its hash>.pictures`, and a picture is bytes of that file; its other
columns stand in `<table>.<its hash>.rows`. That costs about the table's size on disk and the time to write it; later
reading costs nothing of either. Both files may be removed: the next reading makes them again.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from compclip.base.errors import UserError
from compclip.benchmarks._files import lines
from compclip.evaluate import boxes

SUFFIXES = (".parquet", ".arrow")


def tables(path: Path, split: str = "") -> list[Path]:
    """The table itself, or those at any depth of a folder, in order; of a split those in `<split>/` or `<split>-….`

    *.arrow, which the package datasets saves, where there are no *.parquet.
    """
    if path.is_file():
        return [path] if path.suffix in SUFFIXES else []
    every = ([p for p in sorted(path.rglob(f"*{suffix}")) if p.is_file()] for suffix in SUFFIXES)
    kept = ([p for p in found if not split or split in (p.parent.name, p.stem, p.name.partition("-")[0])]
            for found in every)  # fmt: skip
    return next(filter(None, kept), [])


def rows(path: str | Path, pictures: str | Path | None = None, split: str = "") -> list[dict[str, Any]]:
    """Every row of one or several tables by its columns; a picture is a reference that `embed` can open, or a name.

    `pictures`: the folder for unpacked pictures, without it that of each table; `picture` makes a path of a name.
    Raises UserError where there is no table, for one that cannot be read, and where pictures cannot be unpacked.
    """
    listed = tables(Path(path), split)
    if not listed:
        raise UserError(
            f"{path}: no *.parquet{f' of split {split!r}' if split else ''} there; fetch the official files"
        )
    from compclip.benchmarks import _unpacked  # and with it Arrow, which nobody needs who has no tables

    return [row for table in listed for row in _unpacked.rows(table, Path(pictures) if pictures else table.parent)]


def class_names(table: Path, column: str) -> list[str]:
    """Return the names of a column's class numbers that the table's schema has (Hugging Face's ClassLabel), or []."""
    from compclip.benchmarks import _unpacked

    return _unpacked.class_names(table, column)


def listed(path: Path, name: str, images: str | Path | None) -> tuple[tuple[Path, ...], Sequence[tuple[int, Any]]]:
    """The file of JSON lines `name` in a folder and its numbered lines; where it is not there, tables and their rows.

    Raises UserError for neither.
    """
    found = tables(path) if not (path / name).is_file() else []
    if not found:
        return (path / name,), lines(path / name)
    return tuple(found), list(enumerate(rows(path, images), 1))


def picture(pictures: Path, name: str, suffix: str) -> str:
    """The picture of a row: a reference as it is, or a file in `pictures`, with `suffix` where its name has none."""
    if is_reference(name):
        return name
    return str(pictures / (name if Path(name).suffix else f"{name}{suffix}"))


def is_reference(name: str) -> bool:
    """Whether the value of a picture column is a reference already, and no name of a file."""
    return boxes.WITHIN in name
