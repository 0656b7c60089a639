"""VALSE (Parcalabescu et al., ACL 2022, arXiv:2112.07566): the caption against its foil, eleven pieces.

Only the records count that at least two of three annotators found valid (`mturk.caption` >= 2), as in the paper. Right
where the image is nearer to the caption than to the foil; a tie is wrong, the authors' code compares strictly as well.
`average` weighs every piece the same. `average_phenomena` is FSC-CLIP's number and weighs the seven phenomena the same:
counting (three pieces), actions and coreference (two each) are averaged first.

Source: github.com/Heidelberg-NLP/VALSE, MIT. Compared: the eleven pieces with the authors' scoring code, equal where no
scores tie; `average_phenomena` with 202 published models. Not compared: numbers on all the real pictures.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from compclip.benchmarks import _choice
from compclip.benchmarks._files import (
    first_existing,
    images_folder,
    read_field,
    read_fields,
    read_rows,
    subsets,
)
from compclip.evaluate.benchmark import Benchmark, Record
from compclip.runs.item_outcomes import COMPOSITION

PIECES = (
    "existence", "plurals", "counting-hard", "counting-small-quant", "counting-adversarial", "relations",
    "action-replacement", "actant-swap", "coreference-standard", "coreference-hard", "foil-it",
)  # fmt: skip
PHENOMENA = {  # those of several pieces
    "counting": ("counting-hard", "counting-small-quant", "counting-adversarial"),
    "actions": ("action-replacement", "actant-swap"),
    "coreference": ("coreference-standard", "coreference-hard"),
}
SINGLE = tuple(piece for piece in PIECES if not any(piece in pieces for pieces in PHENOMENA.values()))
MEANS = {**PHENOMENA, "average": PIECES, "average_phenomena": (*SINGLE, *PHENOMENA)}
METRICS = (*PIECES, *MEANS)
HEADLINE = ("average_phenomena",)
RECOGNISES = {piece: f"{piece}.json" for piece in PIECES}
FILE_HEAD = r'"foil"'
VALID = 2
# Of each `dataset`, where the authors' programs look, and what the original data sets call their folders.
FOLDERS = {
    "visual7w": ("visual7w/images", "images"),
    "SWiG": ("actions/images_512", "images_512"),
    "VisDial_v1.0": (
        "coref/release_too_many_is_this_in_color/images",
        "coref/release_v18/test_images",
        "VisualDialog_val2018",
        "train2014",
    ),
    "FOIL dataset": ("COCO/val2014", "val2014"),
    "coco2017": ("plurals/test_images", "coco_2017", "val2017"),
    "coco_2017": ("relations/test_images", "coco2017", "val2017"),
}


def load(path: str | Path, images: str | Path | None = None, split: str = "") -> Benchmark:
    """Read the folder of `<piece>.json`; `split` names some of the pieces, all without it.

    A picture is `<image_file>` in `images`, or in its folder `<dataset>` or one of FOLDERS. Raises UserError for a
    missing file, or a record without a field.
    """
    pictures = images_folder(Path(path), images)
    files = subsets(Path(path), PIECES, split)
    records = []
    dropped = {"invalid": 0}
    for piece, file in files.items():
        for key, row in read_rows(file, dict).items():
            record, is_valid = _read_record(piece, file, key, row, pictures)
            if is_valid:
                records.append(record)
            else:
                dropped["invalid"] += 1
    evaluate = partial(_choice.choose, strict=True)
    return Benchmark(tuple(records), tuple(files.values()), evaluate, MEANS, dropped=dropped, kind=COMPOSITION)


def _read_record(piece: str, file: Path, key: str, row: Any, pictures: Path) -> tuple[Record, bool]:
    """Read a record, and whether the annotators found it valid."""
    name, source = read_fields(file, key, row, ("image_file", "dataset"))
    image = first_existing(pictures / folder / name for folder in (source, "", *FOLDERS.get(source, ())))
    votes = read_field(file, key, read_field(file, key, row, "mturk", Mapping), "caption", int)
    return Record(piece, key, (image,), read_fields(file, key, row, ("caption", "foil"))), votes >= VALID
