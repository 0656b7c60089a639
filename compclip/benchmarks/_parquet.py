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
from compclip.benchmarks._files import read_lines
from compclip.evaluate import picture_references

SUFFIXES = (".parquet", ".arrow")


def tables(path: Path, split: str = "") -> list[Path]:
    """Return the table, or those at any depth of a folder, in order; of a split those in `<split>/` or `<split>-….`

    *.arrow, which the package datasets saves, where there are no *.parquet.
    """
    if path.is_file():
        return [path] if path.suffix in SUFFIXES else []
    files_by_suffix = ([p for p in sorted(path.rglob(f"*{suffix}")) if p.is_file()] for suffix in SUFFIXES)
    of_split = ([p for p in files if not split or split in (p.parent.name, p.stem, p.name.partition("-")[0])]
            for files in files_by_suffix)  # fmt: skip
    return next(filter(None, of_split), [])


def rows(path: str | Path, pictures: str | Path | None = None, split: str = "") -> list[dict[str, Any]]:
    """Read all rows of tables; a picture becomes a reference that `embed` can open, or a name.

    `pictures`: the folder for unpacked pictures, without it that of each table; `picture` makes a path of a name.
    Raises UserError where there is no table, for one that cannot be read, and where pictures cannot be unpacked.
    """
    table_files = tables(Path(path), split)
    if not table_files:
        raise UserError(
            f"{path}: no *.parquet{f' of split {split!r}' if split else ''} there; fetch the official files"
        )
    from compclip.benchmarks import _unpacked  # and with it Arrow, which nobody needs who has no tables

    return [row for table in table_files for row in _unpacked.rows(table, Path(pictures) if pictures else table.parent)]


def class_names(table: Path, column: str) -> list[str]:
    """Return the names of a column's class numbers that the table's schema has (Hugging Face's ClassLabel), or []."""
    from compclip.benchmarks import _unpacked

    return _unpacked.class_names(table, column)


def lines_or_rows(
    path: Path, name: str, images: str | Path | None
) -> tuple[tuple[Path, ...], Sequence[tuple[int, Any]]]:
    """Read the JSON lines of file `name` in a folder with their numbers; where it is absent, tables and their rows.

    Raises UserError for neither.
    """
    table_files = tables(path) if not (path / name).is_file() else []
    if not table_files:
        return (path / name,), read_lines(path / name)
    return tuple(table_files), list(enumerate(rows(path, images), 1))


def picture(pictures: Path, name: str, suffix: str) -> str:
    """Return the picture of a row: a reference, or a file in `pictures`, with `suffix` where its name has none."""
    if is_reference(name):
        return name
    return str(pictures / (name if Path(name).suffix else f"{name}{suffix}"))


def is_reference(name: str) -> bool:
    """Return whether the value of a picture column is a reference already, and not the name of a file."""
    return picture_references.BYTES in name
