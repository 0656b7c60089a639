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

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from compclip.base.errors import UserError
from compclip.benchmarks import _choice
from compclip.benchmarks._files import (
    existing_file,
    first_existing,
    images_folder,
    read_field,
    read_rows,
    selected_names,
)
from compclip.evaluate.benchmark import Benchmark, Record, with_box
from compclip.evaluate.embeddings import Embeddings
from compclip.runs.item_outcomes import COMPOSITION, Items

FILES = {
    "hard": "1_attributes.json", "medium": "2_attributes.json", "easy": "3_attributes.json",
    "trivial": "shuffle_negatives.json", "color": "color.json", "material": "material.json",
    "pattern": "pattern.json", "transparency": "transparency.json",
}  # fmt: skip
METRICS = tuple(FILES)


def load(path: str | Path, images: str | Path | None = None, split: str = "") -> Benchmark:
    """Read the authors' folder `benchmarks`; `split` names some of FILES, all without it.

    Pictures are `val2017/000000239627.jpg` seen from `images`, or that name alone in it. Raises UserError for a missing
    file, a record without a field, a box that is none, or the number of a picture or description that is not there.
    """
    folder = Path(path)
    pictures = images_folder(folder, images)
    files = {name: existing_file(folder / FILES[name]) for name in selected_names(folder, FILES, split)}
    records = tuple(record for name, file in files.items() for record in _read_records(name, file, pictures))
    return Benchmark(records, tuple(files.values()), evaluate, kind=COMPOSITION)


def _read_records(name: str, file: Path, pictures: Path) -> list[Record]:
    content = read_rows(file, dict)
    text_of = _read_names(file, content, "categories", "name")
    picture_of = _read_names(file, content, "images", "file_name")
    return [
        _read_record(name, file, row, position, text_of, picture_of, pictures)
        for position, row in enumerate(read_field(file, "(whole file)", content, "annotations", list))
    ]


def _read_names(file: Path, content: Mapping[str, Any], section: str, field: str) -> dict[int, str]:
    rows = read_field(file, "(whole file)", content, section, list)
    return {read_field(file, section, row, "id", int): read_field(file, section, row, field) for row in rows}


def _read_record(
    name: str, file: Path, row: Any, position: int, text_of: Mapping[int, str], picture_of: Mapping[int, str],
    pictures: Path,
) -> Record:  # fmt: skip
    """Read an annotation; the right description is before the wrong ones."""
    key = str(read_field(file, f"at place {position}", row, "id", int))
    numbers = [read_field(file, key, row, "category_id", int), *read_field(file, key, row, "neg_category_ids", list)]
    image_number = read_field(file, key, row, "image_id", int)
    absent = [number for number in numbers if not isinstance(number, int) or number not in text_of]
    absent += [image_number] * (image_number not in picture_of)
    if absent:
        raise UserError(f"{file}: record {key}: {absent[0]!r} is no description's or picture's id; fetch it again")
    picture = picture_of[image_number]
    place = first_existing((pictures / picture, pictures / Path(picture).name))
    return Record(name, key, (with_box(place, _read_box(file, key, row)),), tuple(text_of[n] for n in numbers))


def _read_box(file: Path, key: str, row: Any) -> list[int]:
    """Read x, y, width and height in whole pixels: edges are cut down, as FG-CLIP 2 cuts them."""
    box = read_field(file, key, row, "bbox", list)
    if len(box) != 4 or not all(isinstance(number, (int, float)) and abs(number) < 1e9 for number in box):
        raise UserError(f"{file}: record {key}: field 'bbox' is {box!r}; fetch the official file")
    left, top, width, height = box
    return [int(left), int(top), int(left + width) - int(left), int(top + height) - int(top)]


def evaluate(records: Sequence[Record], embeddings: Embeddings) -> dict[str, Items]:
    """Return whether each part chooses its own description, by file."""
    return _choice.choose_texts(records, embeddings)
