"""Labelled pictures as the field keeps them: folders of classes, ELEVATER's index files, tars, parquet.

Each gives a picture's id, its reference and its classes by number. The numbers are ours: a release's own are mapped by
the names that it ships (`_class_sets`). An id holds the class where the files of the benchmark do not tell it, so
that another label makes another fingerprint.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compclip.base.errors import UserError, unknown
from compclip.base.files import read_text
from compclip.benchmarks import _class_sets, _tables
from compclip.benchmarks._class_sets import ClassSet, class_numbers, find_labels
from compclip.benchmarks._files import (
    first_existing,
    read_field,
    read_fields,
    read_rows,
    read_tar_pairs,
    require_records,
)
from compclip.data.sample import ENDINGS

LONGEST = 32  # bytes of a label
# columns
PICTURES = ("image", "img", "jpg", "png", "webp")
LABELS = ("label", "fine_label", "labels", "cls")


@dataclass(frozen=True)
class Labelled:
    """A picture and the numbers of its classes; one but where a picture may show several."""

    id: str
    ref: str
    classes: tuple[int, ...]


# --- folders --------------------------------------------------------------------------------------------------


def in_folders(pictures: Path, class_set: ClassSet, lost: Counter[str]) -> list[Labelled]:
    """Read a folder of pictures for each class, by its name, its number from 0, its synset, or in sorted order.

    Pictures beside these folders are counted. Raises UserError for folders that fit no class or leave two readings.
    """
    lost["not_an_image"] = 0
    labelled = []
    for name, label in _classes(pictures, class_set).items():
        for file in sorted((pictures / name).rglob("*")):
            if _is_picture(file):
                labelled.append(Labelled(str(file.relative_to(pictures)), str(file), (label,)))
            elif file.is_file():
                lost["not_an_image"] += 1
    loose = sum(map(_is_picture, pictures.iterdir()))
    if loose:
        lost["no_class"] = loose
    return labelled


def _is_picture(file: Path) -> bool:
    return file.suffix.lower() in ENDINGS and file.is_file()


def class_folders(pictures: Path) -> list[str]:
    """Return the names of the folders of a folder in their order; [] where there is none."""
    if not pictures.is_dir():
        return []
    return sorted(path.name for path in pictures.iterdir() if path.is_dir() and not path.name.startswith("."))


def _classes(pictures: Path, class_set: ClassSet) -> dict[str, int]:
    """Return the class number of each folder."""
    folders = class_folders(pictures)
    if not folders:
        raise UserError(f"{pictures}: holds no folder for each class, no *.tar and no *.parquet; sort pictures into "
                        "folders of their classes, as valprep.sh does for ImageNet")  # fmt: skip
    if class_set.synsets.keys() >= set(folders):
        return {folder: class_set.synsets[folder] for folder in folders}
    underscored = [name.replace(" ", "_") for name in class_set.names]
    order = range(len(class_set.names))
    exact = dict(zip(class_set.names, order, strict=True)) | dict(zip(underscored, order, strict=True))
    plain = _class_sets.class_positions(class_set)
    matched = {}
    numbers = {}
    for folder in folders:
        number = exact.get(folder, plain.get(_class_sets.plain_name(folder)))
        if number is not None:
            matched[folder] = number
        if folder.isdecimal():
            numbers[folder] = int(folder)
    if len(numbers) == len(folders) and (_from_zero(numbers, class_set.names) or not matched):
        return _numbered(pictures, numbers, matched, class_set.names)
    ordered = dict(zip(folders, order, strict=False))
    as_written = not exact.keys().isdisjoint(folders)
    if len(folders) == len(class_set.names) > len(matched) and not as_written and matched.items() <= ordered.items():
        return ordered
    _check_names(pictures, folders, matched, class_set.names)
    return matched


def _check_names(pictures: Path, folders: Sequence[str], matched: Mapping[str, int], names: Sequence[str]) -> None:
    """Raise UserError for a folder without a class, two folders of a class, and a class name that occurs twice."""
    for folder in folders:
        if folder not in matched:
            raise unknown("class folder", folder, names, str(pictures))
    name, count = Counter(names).most_common(1)[0]
    if count > 1:
        raise UserError(f"{pictures}: class {name!r} stands twice among the names; name the folders by number")
    folder_of: dict[int, str] = {}
    for folder in folders:
        earlier_folder = folder_of.setdefault(matched[folder], folder)
        if earlier_folder != folder:
            raise UserError(f"{pictures}: folders {earlier_folder!r} and {folder!r} are one class; put them together")


def _from_zero(numbers: Mapping[str, int], names: Sequence[str]) -> bool:
    return 0 in numbers.values() and max(numbers.values()) < len(names)


def _numbered(
    pictures: Path, numbers: dict[str, int], matched: Mapping[str, int], names: Sequence[str]
) -> dict[str, int]:
    """Return the classes of numbered folders: they count from 0, or are as many as the classes, in their order.

    Raises UserError for other numbers, and where the folders' names are classes in another order.
    """
    if _from_zero(numbers, names):
        if len(matched) == len(numbers) and matched != numbers:
            folder = next(folder for folder in numbers if matched[folder] != numbers[folder])
            raise UserError(f"{pictures}: folder {folder!r} is the name of class {matched[folder]} and the number "
                            "of another; number the folders from 0 with a leading 0")  # fmt: skip
        return numbers
    ordered = sorted(numbers, key=numbers.__getitem__)
    if len(set(numbers.values())) == len(names) == len(ordered):
        return dict(zip(ordered, range(len(ordered)), strict=True))
    raise UserError(f"{pictures}: {len(ordered)} folders numbered {ordered[0]} to {ordered[-1]}, but "
                    f"{len(names)} classes; number them 0 to {len(names) - 1} (folder 0 may be empty) or name them by "
                    "class")  # fmt: skip


# --- index files ----------------------------------------------------------------------------------------------


def in_index(file: Path, pictures: Path, class_set: ClassSet) -> tuple[list[Labelled], tuple[Path, ...]]:
    """Read ELEVATER's index files: `test.zip@path/1.jpg 3`, `3,7` for several classes; or JSON like COCO's.

    What a number means says `labels.txt` beside the index, or the names of the JSON's categories. The archives are
    unpacked by hand, into `pictures` or into folders of their own there (`test/path/1.jpg`). Also returns the files
    that were read. Raises UserError for a line of another form, an archive that is still packed, and a class that there
    is not or whose name fits none.
    """
    packed = {p.name for p in pictures.glob("*.zip")}
    if file.suffix == ".json":
        return _in_json(file, pictures, packed, class_set), (file,)
    labels, release = find_labels(file.parent)
    needed = f"put the release's {_class_sets.LABELS[0]} beside it"
    classes = class_numbers(labels or file, release, class_set, class_set.in_elevater_order, needed)
    labelled = []
    for number, line in enumerate(read_text(file).split("\n"), 1):
        name, space, label_text = line.strip().rpartition(" ")
        if not line.strip():
            continue
        texts = label_text.split(",")
        if not (space and name) or not all(text.isdecimal() and len(text) < LONGEST for text in texts):
            raise UserError(f"{file}: line {number}: expected archive.zip@picture and class numbers; fetch it again")
        picture_classes = tuple(_class_of(file, f"line {number}", int(text), classes) for text in texts)
        labelled.append(Labelled(name, _unpacked(file, pictures, packed, name), picture_classes))
    return require_records(file, labelled), (file, labels) if labels else (file,)


def _in_json(file: Path, pictures: Path, packed: set[str], class_set: ClassSet) -> list[Labelled]:
    """Read pictures by `file_name`, which is in `zip_file`, and their classes by annotations."""
    content = read_rows(file, dict)
    labels = _annotated(file, content, class_set)
    labelled = []
    for row in read_field(file, "(whole file)", content, "images", list):
        key = read_field(file, "of an image", row, "id", (int, str))
        name = read_field(file, "of an image", row, "file_name")
        name = f"{read_field(file, str(key), row, 'zip_file')}@{name}" if "zip_file" in row else name
        if key not in labels:
            raise UserError(f"{file}: image {key}: has no annotation; fetch the official file")
        labelled.append(Labelled(name, _unpacked(file, pictures, packed, name), tuple(labels[key])))
    return labelled


def _annotated(file: Path, content: Mapping[str, Any], class_set: ClassSet) -> dict[Any, dict[int, None]]:
    """Return the classes of each image: its categories by name, or else by position in the order of their ids."""
    kinds, annotations = read_fields(file, "(whole file)", content, ("categories", "annotations"), list)
    name_of = {read_field(file, "of a category", kind, "id", int): str(kind.get("name", "")) for kind in kinds}
    order = sorted(name_of)
    if len(order) != len(class_set.names):
        raise UserError(
            f"{file}: {len(order)} categories for {len(class_set.names)} classes; give the set's class names"
        )
    release = [name_of[key] for key in order] if any(name_of.values()) else ()
    numbers = class_numbers(file, release, class_set, class_set.in_elevater_order, "fetch the official file")
    class_of = dict(zip(order, numbers, strict=True))
    labels: dict[Any, dict[int, None]] = {}
    for row in annotations:
        kind = read_field(file, "of an annotation", row, "category_id", int)
        if kind not in class_of:
            raise UserError(f"{file}: category_id {kind}: is none of the categories; fetch the official file")
        labels.setdefault(read_field(file, "of an annotation", row, "image_id", (int, str)), {})[class_of[kind]] = None
    return labels


def _unpacked(file: Path, pictures: Path, packed: set[str], name: str) -> str:
    archive, mark, inside = name.rpartition("@")
    places = [pictures / inside] if not mark else [pictures / Path(archive).stem / inside, pictures / inside]
    ref = first_existing(places)
    if mark and Path(archive).name in packed and not Path(ref).is_file():
        raise UserError(f"{file}: {pictures / Path(archive).name}: is packed; unpack it into {places[0].parent}")
    return ref


# --- tars and tables ------------------------------------------------------------------------------------------


def in_tars(
    folder: Path, names: Path, class_set: ClassSet, lost: Counter[str]
) -> tuple[list[Labelled], tuple[Path, ...]]:
    """Read CLIP_benchmark's webdatasets: for each key of a tar a picture and its class in `.cls`, counted from 0.

    For a known set the classnames.txt that its builder writes into the folder `names` says what a number means. Also
    returns that file. Raises UserError for a tar that is compressed or damaged, a key that comes twice, and a class
    that there is not.
    """
    labels, release = find_labels(names, "classnames.txt") if class_set.title else (None, [])
    numbers = class_numbers(labels or folder, release, class_set, True, "")
    labelled = []
    for key, ref, raw in read_tar_pairs(folder, (".cls",), LONGEST, "no_label", lost):
        label = raw.strip()
        number = _class_of(folder, f"{key}.cls", int(label) if label.isdigit() else label, numbers)
        labelled.append(Labelled(f"{number}/{key}", ref, (number,)))
    return labelled, (labels,) if labels else ()


def in_tables(path: Path, pictures: Path, split: str, class_set: ClassSet) -> tuple[list[Labelled], tuple[Path, ...]]:
    """Read Hugging Face's parquet with a picture and a class number in each row.

    What a number means says `labels.txt` beside the tables, or the ClassLabel of their schema. Also returns the files
    that were read. Raises UserError for a table without such columns, and a class that there is not or whose name fits
    none.
    """
    tables = _tables.list_tables(path, split)
    rows = _tables.read_rows(path, split)
    labels, release = find_labels(path if path.is_dir() else path.parent)
    numbers: Sequence[int] = ()
    labelled = []
    for number, row in enumerate(rows):
        image = _column(path, row, PICTURES)
        label = _column(path, row, LABELS)
        if not numbers:
            needed = f"write them, a line each, into {_class_sets.LABELS[0]} in {path}"
            names = release if labels else _names_of_tables(tables, label)
            numbers = class_numbers(labels or tables[0], names, class_set, class_set.in_every_order, needed)
        key = _class_of(path, f"row {number}: {label}", row[label], numbers)
        name = read_field(path, str(number), row, image)
        labelled.append(Labelled(f"{key}/{number}", _tables.named_picture(pictures, name, ""), (key,)))
    return labelled, (*tables, labels) if labels else tuple(tables)


def _names_of_tables(tables: Sequence[Path], column: str) -> list[str]:
    """Return the names of the numbers in a column. Raises UserError where two tables name them differently."""
    names = _tables.class_names(tables[0], column)
    for table in tables[1:]:
        if _tables.class_names(table, column) != names:
            raise UserError(f"{table}: names its classes otherwise than {tables[0].name}; fetch both again")
    return names


def _column(path: Path, row: Mapping[str, object], names: Sequence[str]) -> str:
    for name in names:
        if name in row:
            return name
    raise UserError(f"{path}: no column {' or '.join(names)}; found {', '.join(row)}; fetch the files again")


def _class_of(file: Path, where: str, number: object, classes: Sequence[int]) -> int:
    """Return the class that a release's number means. Raises UserError for what is none, or a number that none has."""
    if type(number) is not int or not 0 <= number < len(classes):
        fault = f"class {number!r} of {len(classes)}, which count from 0"
        raise UserError(f"{file}: {where}: {fault}; give the set's class names, or fetch the files again")
    return classes[number]
