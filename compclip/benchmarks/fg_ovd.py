"""FG-OVD (Bianchi et al., CVPR 2024, arXiv:2311.17518): a part of a picture and its description, among wrong ones.

Written for detectors; here the part is cut out and chooses among up to eleven descriptions, as FG-CLIP 2
(arXiv:2510.10921) tests models without regions of their own. `hard`, `medium` and `easy` change one, two and three
attributes, `trivial` takes the descriptions of other objects; `color`, `material`, `pattern` and `transparency` change
that alone, with fewer wrong descriptions. A tie is wrong: so is it in the authors' ranks; FG-CLIP's program gives it to
the right description, as ours does where ties go to the first.

Not measured: the authors' mean average precision and ranks, which are of a detector's boxes. FG-CLIP's own numbers pool
the features of a region and cut nothing: another number for the same model.

Checklist. Source: github.com/lorebianchi98/FG-OVD, benchmarks/. Licence: as PACO's and LVIS' (no file of its own);
pictures: COCO 2017, train and val. Compared with the authors' code: the rule of ranks, and FG-CLIP 2's of a crop (its
first release's fgclip2/eval/fgovd.py, `--crop_resize`: whole pixels, descriptions in lower case; today's program cuts
nothing), read; the layout with `easy`, `pattern` and `transparency` as released (1,299, 467 and 409 parts, no wrong
description equal to the right one). FG-CLIP's copies have 3,545 parts of `hard`, 2,968 of `medium`, 1,299 of `easy`
and 3,545 of `trivial`. Not compared: scores of real pictures.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from compclip.base.errors import UserError
from compclip.benchmarks import _choice
from compclip.benchmarks._files import (
    first_existing,
    images_folder,
    number_rows,
    read_field,
    read_rows,
    subsets,
)
from compclip.evaluate.benchmark import Benchmark, Record, with_box
from compclip.runs.item_outcomes import COMPOSITION

FILES = {
    "hard": "1_attributes.json", "medium": "2_attributes.json", "easy": "3_attributes.json",
    "trivial": "shuffle_negatives.json", "color": "color.json", "material": "material.json",
    "pattern": "pattern.json", "transparency": "transparency.json",
}  # fmt: skip
METRICS = tuple(FILES)
RECOGNISES = FILES
FILE_HEAD = r"\A\s*\{"  # VL-CheckList has lists of the same names


def load(path: str | Path, images: str | Path | None = None, split: str = "") -> Benchmark:
    """Read the authors' folder `benchmarks`; `split` names some of FILES, all without it.

    Pictures are `val2017/000000239627.jpg` seen from `images`, or that name alone in it. Raises UserError for a missing
    file, a record without a field, a box that is none, or the number of a picture or description that is not there.
    """
    pictures = images_folder(Path(path), images)
    files = subsets(Path(path), FILES, split)
    records = []
    for name, file in files.items():
        records += _read_records(name, file, pictures)
    return Benchmark(tuple(records), tuple(files.values()), _choice.choose, kind=COMPOSITION)


def _read_records(name: str, file: Path, pictures: Path) -> list[Record]:
    """Read the annotations; the right description is before the wrong ones."""
    content = read_rows(file, dict)
    text_of = _read_names(file, content, "categories", "name")
    picture_of = _read_names(file, content, "images", "file_name")
    records = []
    for position, row in number_rows(read_field(file, "(whole file)", content, "annotations", list)):
        key = str(read_field(file, f"at place {position}", row, "id", int))
        right = read_field(file, key, row, "category_id", int)
        wrong = read_field(file, key, row, "neg_category_ids", list)
        texts = tuple(_look_up(file, key, text_of, number) for number in (right, *wrong))
        picture = _look_up(file, key, picture_of, read_field(file, key, row, "image_id", int))
        place = first_existing((pictures / picture, pictures / Path(picture).name))
        records.append(Record(name, key, (with_box(place, _read_box(file, key, row)),), texts))
    return records


def _read_names(file: Path, content: Mapping[str, Any], section: str, field: str) -> dict[int, str]:
    rows = read_field(file, "(whole file)", content, section, list)
    return {read_field(file, section, row, "id", int): read_field(file, section, row, field) for row in rows}


def _look_up(file: Path, key: str, names: Mapping[int, str], number: Any) -> str:
    if not isinstance(number, int) or number not in names:
        raise UserError(f"{file}: record {key}: {number!r} is no description's or picture's id; fetch it again")
    return names[number]


def _read_box(file: Path, key: str, row: Any) -> list[int]:
    """Read x, y, width and height in whole pixels: edges are cut down, as FG-CLIP 2 cuts them."""
    box = read_field(file, key, row, "bbox", list)
    if len(box) != 4 or not all(isinstance(number, (int, float)) and abs(number) < 1e9 for number in box):
        raise UserError(f"{file}: record {key}: field 'bbox' is {box!r}; fetch the official file")
    left, top, width, height = box
    return [int(left), int(top), int(left + width) - int(left), int(top + height) - int(top)]
