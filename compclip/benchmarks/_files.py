"""Reading benchmark files: fields that must be there, where the images are, which groups are asked for."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from compclip.base import json_text
from compclip.base.errors import UserError, unknown
from compclip.base.files import read_json, read_text
from compclip.evaluate.benchmark import Groups, Record

GROUPS = "groups.json"
T = TypeVar("T")


def value(file: Path, record: str, row: Any, name: str, kind: type | tuple[type, ...] = str) -> Any:
    """Field `name` of one record. Raises UserError naming all three where it is absent or of another kind."""
    if not isinstance(row, Mapping):
        raise UserError(f"{file}: record {record}: expected an object, not {type(row).__name__}; fetch the file again")
    if name not in row:
        raise UserError(f"{file}: record {record}: no field {name!r}; found {', '.join(row)}; fetch the official file")
    if not isinstance(row[name], kind):
        raise UserError(f"{file}: record {record}: field {name!r} is {row[name]!r}; fetch the official file")
    return row[name]


def rows(file: Path, kind: type) -> Any:
    """The list or object of a JSON file. Raises UserError where the file holds the other or is empty."""
    content = read_json(file)
    if not isinstance(content, kind):
        wanted = "a list" if kind is list else "an object"
        raise UserError(f"{file}: expected {wanted} of records, not {type(content).__name__}; fetch the official file")
    if not content:
        raise UserError(f"{file}: holds no records; fetch the official file")
    return content


def lines(file: Path) -> list[tuple[int, Any]]:
    """Line numbers and values of a file of JSON lines. Raises UserError for a line that is not JSON, or no line."""
    numbered = enumerate(read_text(file).split("\n"), 1)  # splitlines also ends lines inside of JSON strings, at U+2028
    found = [(number, _parsed(file, number, line)) for number, line in numbered if line.strip()]
    if not found:
        raise UserError(f"{file}: holds no records; fetch the official file")
    return found


def _parsed(file: Path, number: int, line: str) -> Any:
    return json_text.value(line, str(file), "fetch the official file", number)


def unique(file: Path, records: Sequence[Record]) -> tuple[Record, ...]:
    """The records, each id once in its subset. Raises UserError naming an id that stands twice."""
    seen: set[tuple[str, str]] = set()
    for record in records:
        if (record.subset, record.id) in seen:
            raise UserError(f"{file}: id {record.id!r} stands twice; remove one of the records")
        seen.add((record.subset, record.id))
    return tuple(records)


def images_folder(folder: Path, images: str | Path | None) -> Path:
    """The folder given, or `images` or `Images` beside the annotations, or the folder of the annotations itself."""
    if images:
        return Path(images)
    return next((folder / name for name in ("images", "Images") if (folder / name).is_dir()), folder)


def first_there(places: Iterable[Path | str]) -> str:
    """The first of the places where there is a file; the first one of all where there is none."""
    listed = list(map(str, places))
    return next(filter(os.path.isfile, listed), listed[0])


def subsets(folder: Path, names: Sequence[str], split: str) -> dict[str, Path]:
    """The files of the subsets asked for: all, or those that `split` names with commas between.

    Raises UserError for an unknown subset and for a file that is not there.
    """
    return {name: present(folder / f"{name}.json") for name in chosen(folder, names, split)}


def chosen(folder: Path, names: Collection[str], split: str) -> list[str]:
    """The names in `split`, which has commas between them, or all names. Raises UserError for an unknown one."""
    wanted = dict.fromkeys(name.strip() for name in split.split(",") if name.strip())
    for name in wanted:
        if name not in names:
            raise unknown("subset", name, names, str(folder))
    return list(wanted or names)


def present(file: Path) -> Path:
    """The file of a subset. Raises UserError where it is not there."""
    if not file.is_file():
        raise UserError(f"{file}: no such file; fetch it, or name the subsets to read in split")
    return file


def one_file(path: Path, *patterns: str) -> Path:
    """The file itself, or the only one of a folder that fits a pattern, GROUPS aside. Raises UserError for others."""
    if not path.is_dir():
        return path
    found = sorted(p for pattern in patterns for p in path.glob(pattern) if p.name != GROUPS)
    if len(found) != 1:
        names = ", ".join(p.name for p in found) or "none"
        raise UserError(f"{path}: expected one file ({' or '.join(patterns)}), found {names}; give the file")
    return found[0]


def spread(values: Sequence[T], count: int) -> list[T]:
    """`count` of the values, evenly spread over them in their order; all where there are no more."""
    return [values[i * len(values) // count] for i in range(count)] if count < len(values) else list(values)


def groups(folder: Path, records: Sequence[Record]) -> tuple[Groups, tuple[Path, ...]]:
    """`groups.json` beside the annotations, {subset: {group: [record ids]}}, and its path; nothing where there is none.

    Raises UserError for a subset or an id that no record has.
    """
    file = folder / GROUPS
    if not file.is_file():
        return {}, ()
    known: dict[str, set[str]] = {}
    for record in records:
        known.setdefault(record.subset, set()).add(record.id)
    content = rows(file, dict)
    for subset in content:
        if subset not in known:
            raise unknown("subset", subset, known, str(file))
    return {s: _members(file, s, value(file, s, content, s, dict), known[s]) for s in content}, (file,)


def _members(file: Path, subset: str, content: Mapping[str, Any], known: set[str]) -> dict[str, frozenset[str]]:
    found = {}
    for group in content:
        members = frozenset(map(str, value(file, subset, content, group, list)))
        if stray := sorted(members - known):
            raise UserError(f"{file}: {subset}/{group}: no record has id {stray[0]!r}; write the file again")
        found[group] = members
    return found
