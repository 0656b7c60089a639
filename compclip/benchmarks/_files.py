"""Reading benchmark files: required fields, folders of images, groups of records, and tars of pictures."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
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


def read_choice(file: Path, record: str, row: Any, name: str, choices: Collection[str]) -> str:
    """Return field `name` of one record, one of `choices`. Raises UserError for any other value."""
    choice: str = read_field(file, record, row, name)
    if choice not in choices:
        raise unknown(name, choice, choices, f"{file}: record {record}")
    return choice


def read_texts(file: Path, record: str, row: Any, name: str) -> tuple[str, ...]:
    """Return field `name`, a list to choose from. Raises UserError where it is not a list of two texts or more."""
    texts = read_field(file, record, row, name, list)
    if len(texts) < 2 or not all(isinstance(text, str) for text in texts):
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
    if not content:
        raise UserError(f"{file}: holds no records; fetch the official file")
    return content


def read_lines(file: Path) -> list[tuple[int, Any]]:
    """Read line numbers and values of a JSON-lines file. Raises UserError for a line that is not JSON, or no line."""
    numbered = enumerate(read_text(file).split("\n"), 1)  # splitlines also ends lines inside of JSON strings, at U+2028
    advice = "fetch the official file"
    parsed = [(n, files.parse_json(line, str(file), advice, n)) for n, line in numbered if line.strip()]
    if not parsed:
        raise UserError(f"{file}: holds no records; {advice}")
    return parsed


def check_unique(file: Path, records: Sequence[Record]) -> tuple[Record, ...]:
    """Return the records. Raises UserError for an id that occurs twice in its subset."""
    identities: set[tuple[str, str]] = set()
    for record in records:
        if (record.subset, record.id) in identities:
            raise UserError(f"{file}: id {record.id!r} stands twice; remove one of the records")
        identities.add((record.subset, record.id))
    return tuple(records)


def images_folder(folder: Path, images: str | Path | None) -> Path:
    """Return the folder given, `images` or `Images` beside the annotations, or the folder of the annotations."""
    if images:
        return Path(images)
    return next((folder / name for name in ("images", "Images") if (folder / name).is_dir()), folder)


def first_existing(places: Iterable[Path | str]) -> str:
    """Return the first place where there is a file; the first place where there is none."""
    candidates = list(map(str, places))
    return next(filter(os.path.isfile, candidates), candidates[0])


def subsets(folder: Path, names: Sequence[str], split: str) -> dict[str, Path]:
    """Return the files of the subsets: all, or those that `split` names, separated by commas.

    Raises UserError for an unknown subset and for a file that is not there.
    """
    return {name: existing_file(folder / f"{name}.json") for name in selected_names(folder, names, split)}


def selected_names(folder: Path, names: Collection[str], split: str) -> list[str]:
    """Return the names in `split`, separated by commas, or all names. Raises UserError for an unknown one."""
    selected = dict.fromkeys(name.strip() for name in split.split(",") if name.strip())
    for name in selected:
        if name not in names:
            raise unknown("subset", name, names, str(folder))
    return list(selected or names)


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
    matches = sorted(p for pattern in patterns for p in path.glob(pattern) if p.name != GROUPS)
    if len(matches) != 1:
        names = ", ".join(p.name for p in matches) or "none"
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
    ids_of: dict[str, set[str]] = {}
    for record in records:
        ids_of.setdefault(record.subset, set()).add(record.id)
    content = read_rows(file, dict)
    groups: dict[str, dict[str, frozenset[str]]] = {}
    for subset in content:
        if subset not in ids_of:
            raise unknown("subset", subset, ids_of, str(file))
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
