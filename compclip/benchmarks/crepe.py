"""CREPE, productivity (Ma et al., CVPR 2023, arXiv:2212.07796): the caption against five wrong ones, three ways of it.

atom: an object, an attribute or a relation is replaced; swap: it changes places with another; negate: it is denied.
Right where the picture, cropped to the record's box, is nearer to the caption than to every wrong one (Recall@1); a tie
is wrong. Where ties go to the first the caption, which stands first, is ahead of its equals. The authors call torch's
argsort, which promises no order of equals; on a CPU it keeps that of six candidates.

The paper shows one value a complexity (4 to 12 objects, attributes and relations): here `<type>/complexity_<n>`. The
value of a type is over the records of all complexities together, of which each has its own number. So are the values
published with FSC-CLIP's evaluation package: multiples of 1/17698 (atom), 1/7405 (swap) and 1/17303 (negate). `average`
weighs the three types the same. A wrong caption that repeats the right one is left out and counted (swap has such),
unless ties go to the first.

Source: github.com/RAIVNLab/CREPE, licence unspecified. Compared: the 27 files with the authors' scoring code, equal
where no scores tie. Not compared: numbers on the real pictures.
"""

from __future__ import annotations

import ast
import csv
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from compclip.base.errors import UserError
from compclip.base.files import read_text
from compclip.benchmarks import _choice
from compclip.benchmarks._files import chosen, images_folder, present, value
from compclip.evaluate.benchmark import Benchmark, Groups, Record, by_subset
from compclip.evaluate.boxes import boxed
from compclip.runs.items import COMPOSITION

TYPES = ("atom", "swap", "negate")
MEANS = {"average": TYPES}
METRICS = (*TYPES, *MEANS)
COMPLEXITIES = range(4, 13)
BOX = ("x", "y", "width", "height")
COLUMNS = ("image_id", "caption", "hard_negs", *BOX)
FOLDERS = ("VG_100K", "VG_100K_2")  # of Visual Genome's pictures


def load(path: str | Path, images: str | Path | None = None, split: str = "") -> Benchmark:
    """The folder `prod_hard_negatives` of `<type>/prod_vg_hard_negs_<type>_complexity_<n>.csv`; `split` names types.

    A picture is `<image_id>.jpg` in `images`, or in VG_100K or VG_100K_2 there. Raises UserError for an unknown type, a
    missing file, or a row without a value.
    """
    folder, pictures = Path(path), images_folder(Path(path), images)
    files = _files(folder, split)
    found = [_record(kind, n, file, i, row, pictures) for (kind, n), file in files.items() for i, row in _rows(file)]
    authors = Benchmark(
        tuple(found), tuple(files.values()), _choice.of_texts, MEANS, _by_complexity(found), kind=COMPOSITION
    )
    return _choice.without_repeats(authors)


def _files(folder: Path, split: str) -> dict[tuple[str, int], Path]:
    stem = "prod_vg_hard_negs_{}_complexity_{}.csv"
    return {(kind, n): present(folder / kind / stem.format(kind, n))
            for kind in chosen(folder, TYPES, split) for n in COMPLEXITIES}  # fmt: skip


def _rows(file: Path) -> list[tuple[int, Mapping[str, str]]]:
    """The rows and their numbers, from 0."""
    reader = csv.DictReader(io.StringIO(read_text(file), newline=""))
    try:
        found = list(enumerate(reader))
    except csv.Error as error:
        raise UserError(f"{file}: not CSV after line {reader.line_num}: {error}; fetch the official file") from error
    names = list(reader.fieldnames or [])
    if lacking := [name for name in COLUMNS if name not in names]:
        raise UserError(f"{file}: no column {lacking[0]!r}; found {', '.join(names)}; fetch the official file")
    if not found:
        raise UserError(f"{file}: holds no records; fetch the official file")
    return found


def _record(kind: str, n: int, file: Path, index: int, row: Mapping[str, str], pictures: Path) -> Record:
    """Ids are complexity and row: one picture has several records."""
    key = str(index)
    image = boxed(_image(pictures, value(file, key, row, "image_id")), [_number(file, key, row, name) for name in BOX])
    return Record(kind, f"{n}-{key}", (image,), (value(file, key, row, "caption"), *_foils(file, key, row)))


def _foils(file: Path, key: str, row: Mapping[str, str]) -> list[str]:
    """`hard_negs` is a Python list, or in some rows a set: sorted, since the order of a set differs from run to run."""
    text = value(file, key, row, "hard_negs")
    try:
        found = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        found = None
    if not isinstance(found, (list, set)) or not found or not all(isinstance(foil, str) for foil in found):
        raise UserError(f"{file}: record {key}: field 'hard_negs' is {text[:80]!r}, no list of texts; fetch it again")
    return sorted(found) if isinstance(found, set) else found


def _number(file: Path, key: str, row: Mapping[str, str], name: str) -> float:
    text = value(file, key, row, name)
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise UserError(f"{file}: record {key}: field {name!r} is {text!r}, not a number; fetch the official file")
    return number


def _image(pictures: Path, name: str) -> str:
    places = [pictures / folder / f"{name}.jpg" for folder in FOLDERS]
    return str(next((place for place in places if place.is_file()), pictures / f"{name}.jpg"))


def _by_complexity(records: Sequence[Record]) -> Groups:
    return {
        kind: {f"complexity_{n}": frozenset(r.id for r in part if r.id.startswith(f"{n}-")) for n in COMPLEXITIES}
        for kind, part in by_subset(records).items()
    }
