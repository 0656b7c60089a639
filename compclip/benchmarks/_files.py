"""Reading benchmark files: required fields, folders of images, groups of records, and tars of pictures."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from compclip.base import files
from compclip.base.errors import UserError, unknown
from compclip.base.files import check_regular, read_json, read_text
from compclip.base.files import read_field as read_field  # benchmarks take it from here
from compclip.data import tar_members
from compclip.evaluate import benchmark
from compclip.evaluate.benchmark import Groups, Record

GROUPS = "groups.json"
T = TypeVar("T")


def check_name(kind: str, name: str, names: Collection[str], where: object) -> str:
    """Return the name. Raises UserError with near ones where it is none of `names`."""
    if name not in names:
        raise unknown(kind, name, names, str(where))
    return name


def read_choice(file: Path, record: str, row: Any, name: str, choices: Collection[str]) -> str:
    """Return field `name` of one record, one of `choices`. Raises UserError for any other value."""
    return check_name(name, read_field(file, record, row, name), choices, f"{file}: record {record}")


def read_fields(file: Path, record: str, row: Any, names: Sequence[str], kind: Any = str) -> tuple[Any, ...]:
    """Return several fields of one record, texts unless told. Raises UserError as `read_field`."""
    return tuple(read_field(file, record, row, name, kind) for name in names)


def are_texts(values: Iterable[Any]) -> bool:
    """Return whether all values are texts."""
    return all(isinstance(value, str) for value in values)


def drop_empty(texts: Iterable[str]) -> list[str]:
    """Return the texts that hold more than spaces."""
    return [text for text in texts if text.strip()]


def read_texts(file: Path, record: str, row: Any, name: str) -> tuple[str, ...]:
    """Return field `name`, a list to choose from. Raises UserError where it is not a list of two texts or more."""
    texts = read_field(file, record, row, name, list)
    if len(texts) < 2 or not are_texts(texts):
        raise UserError(
            f"{file}: record {record}: field {name!r} is {texts!r}, not two texts or more; fetch the official file"
        )
    return tuple(texts)


def read_rows(file: Path, kind: type) -> Any:
    """Read the list or object of a JSON file. Raises UserError where the file holds the other or is empty."""
    content = read_json(file)
    if not isinstance(content, kind):
        expected = "a list" if kind is list else "an object"
        raise UserError(
            f"{file}: expected {expected} of records, not {type(content).__name__}; fetch the official file"
        )
    return require_records(file, content)


def require_records(file: Path, records: T) -> T:
    """Return the records of a file. Raises UserError where there are none."""
    if not records:
        raise UserError(f"{file}: holds no records; fetch the official file")
    return records


def read_items(file: Path) -> list[tuple[str, Any]]:
    """Read the records of a JSON list, each behind its position. Raises UserError for what is no list, or empty."""
    return number_rows(read_rows(file, list))


def number_rows(rows: Iterable[T]) -> list[tuple[str, T]]:
    """Return each row behind its position, counted from 0: the id of a record in a file without ids."""
    return [(str(position), row) for position, row in enumerate(rows)]


def read_lines(file: Path) -> list[tuple[int, Any]]:
    """Read line numbers and values of a JSON-lines file. Raises UserError for a line that is not JSON, or no line."""
    rows = []
    lines = read_text(file).split("\n")  # splitlines also ends lines inside of JSON strings, at U+2028
    for number, line in enumerate(lines, 1):
        if line.strip():
            rows.append((number, files.parse_json(line, str(file), "fetch the official file", number)))
    return require_records(file, rows)


def check_unique(file: Path, records: Sequence[Record]) -> tuple[Record, ...]:
    """Return the records. Raises UserError for an id that occurs twice in its subset."""
    identities: set[tuple[str, str]] = set()
    for record in records:
        if (record.subset, record.id) in identities:
            raise UserError(f"{file}: id {record.id!r} stands twice; remove one of the records")
        identities.add((record.subset, record.id))
    return tuple(records)


def images_folder(folder: Path, images: str | Path | None, *names: str) -> Path:
    """Return the folder given; or the first of `names`, `images` and `Images` in the annotations' folder, or that."""
    return Path(images) if images else first_folder(folder, *names, "images", "Images")


def first_folder(base: Path, *names: str) -> Path:
    """Return the first of these folders of `base` that is there; `base` where none is."""
    return next((base / name for name in names if (base / name).is_dir()), base)


def first_existing(places: Iterable[Path | str]) -> str:
    """Return the first place where there is a file; the first place where there is none."""
    candidates = list(map(str, places))
    return next(filter(os.path.isfile, candidates), candidates[0])


def subsets(folder: Path, names: Sequence[str] | Mapping[str, str], split: str) -> dict[str, Path]:
    """Return the files of the subsets: all, or those that `split` names, separated by commas.

    Raises UserError for an unknown subset and for a file that is not there.
    """
    files = subset_files(folder, names, split)
    return {name: existing_file(file) for name, file in files.items()}


def subset_files(folder: Path, names: Sequence[str] | Mapping[str, str], split: str) -> dict[str, Path]:
    """Return where the files of the subsets belong, whether they are there or not.

    `names` may give the files' names by subset; else they are `<subset>.json`. Raises UserError for an unknown subset.
    """
    paths = {}
    for name in selected_names(folder, names, split):
        paths[name] = folder / (names[name] if isinstance(names, Mapping) else f"{name}.json")
    return paths


def selected_names(folder: Path, names: Collection[str], split: str) -> list[str]:
    """Return the names in `split`, separated by commas, or all names. Raises UserError for an unknown one."""
    selected = dict.fromkeys(drop_empty(map(str.strip, split.split(","))))
    for name in selected:
        check_name("subset", name, names, folder)
    return list(selected or names)


def select_split(path: str | Path, split: str, splits: Sequence[str]) -> str:
    """Return the split, the first of `splits` unless one is named. Raises UserError for an unknown one."""
    return check_name("split", split or splits[0], splits, path)


def refuse_split(name: str, split: str) -> None:
    """Raise UserError where a split is given for the benchmark `name`, which has none."""
    if split:
        raise UserError(f"benchmark {name}: split={split!r}: it has no splits; leave split out")


def existing_file(file: Path) -> Path:
    """Return the file of a subset. Raises UserError where it does not exist."""
    if not file.is_file():
        raise UserError(f"{file}: no such file; fetch it, or name the subsets to read in split")
    return file


def one_file(path: Path, *patterns: str) -> Path:
    """Return the file, or the only one of a folder that fits a pattern, GROUPS aside. Raises UserError otherwise."""
    if not path.is_dir():
        return path
    matches = sorted(set[Path]().union(*map(path.glob, patterns)) - {path / GROUPS})
    if len(matches) != 1:
        names = ", ".join(match.name for match in matches) or "none"
        raise UserError(f"{path}: expected one file ({' or '.join(patterns)}), found {names}; give the file")
    return matches[0]


def spread_evenly(values: Sequence[T], count: int) -> list[T]:
    """Return `count` of the values, evenly spread in their order; all where there are no more."""
    return [values[i * len(values) // count] for i in range(count)] if count < len(values) else list(values)


def read_groups(folder: Path, records: Sequence[Record]) -> tuple[Groups, tuple[Path, ...]]:
    """Read `groups.json` beside the annotations, {subset: {group: [record ids]}}; return it and its path, if any.

    Raises UserError for a subset or an id that no record has.
    """
    file = folder / GROUPS
    if not file.is_file():
        return {}, ()
    ids_of = {subset: set(benchmark.ids(group)) for subset, group in benchmark.by_subset(records).items()}
    content = read_rows(file, dict)
    groups: dict[str, dict[str, frozenset[str]]] = {}
    for subset in content:
        check_name("subset", subset, ids_of, file)
        subset_content = read_field(file, subset, content, subset, dict)
        groups[subset] = {}
        for group in subset_content:
            members = frozenset(map(str, read_field(file, subset, subset_content, group, list)))
            stray = sorted(members - ids_of[subset])
            if stray:
                raise UserError(f"{file}: {subset}/{group}: no record has id {stray[0]!r}; write the file again")
            groups[subset][group] = members
    return groups, (file,)


# --- tars -----------------------------------------------------------------------------------------------------


def tar_files(folder: Path) -> list[Path]:
    """Return the tars of a folder sorted by number: 2.tar before 10.tar."""
    return sorted(folder.glob("*.tar"), key=lambda tar: (len(tar.name), tar.name))


def read_tar_pairs(
    folder: Path, endings: Sequence[str], most: int, missing_count: str, lost: Counter[str]
) -> Iterator[tuple[str, str, bytes]]:
    """Yield key, reference of the picture, and bytes of the member with one of `endings`, for each key with both.

    The tars are webdatasets, as CLIP_benchmark's program writes them; pictures are read where they lie. Other keys are
    counted as `no_picture`, or by `missing_count`. A text of more than `most` bytes is none. Raises UserError for a tar
    that is compressed or damaged, and a key that comes twice in it.
    """
    for tar in tar_files(folder):
        try:
            samples = list(tar_members.iterate_samples(check_regular(tar)))
        except tar_members.DamagedTar as error:
            raise UserError(f"{error}; an uncompressed tar belongs there: fetch it again") from error
        keys = set[str]()
        for sample in samples:
            picture = sample.picture
            text = sample.first_of(endings)
            if picture is None or text is None or not picture.size:
                lost["no_picture" if text else missing_count] += 1
                continue
            if sample.key in keys:
                raise UserError(f"{tar}: key {sample.key!r} comes twice; fetch the tar again")
            keys.add(sample.key)
            ref = benchmark.bytes_of_file(str(tar), picture.offset, picture.size)
            yield f"{tar.stem}/{sample.key}", ref, tar_members.read_member(str(tar), text, most) or b""
