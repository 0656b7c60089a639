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

import math
import os
from collections.abc import Mapping
from pathlib import Path

from compclip.base.errors import UserError
from compclip.benchmarks import _choice, _tables
from compclip.benchmarks._files import are_texts, existing_file, images_folder, selected_names
from compclip.evaluate.benchmark import Benchmark, Record, ids, with_box
from compclip.prepare import caption_join
from compclip.runs.item_outcomes import COMPOSITION

TYPES = ("atom", "swap", "negate")
MEANS = {"average": TYPES}
METRICS = (*TYPES, *MEANS)
HEADLINE = ("average",)
RECOGNISES = {kind: f"{kind}/prod_vg_hard_negs_{kind}_complexity_4.csv" for kind in TYPES}
COMPLEXITIES = range(4, 13)
BOX = ("x", "y", "width", "height")
COLUMNS = ("image_id", "caption", "hard_negs", *BOX)
FOLDERS = ("VG_100K", "VG_100K_2")  # of Visual Genome's pictures


def load(path: str | Path, images: str | Path | None = None, split: str = "") -> Benchmark:
    """Read the folder `prod_hard_negatives` of `<type>/prod_vg_hard_negs_<type>_complexity_<n>.csv`; `split`: types.

    A picture is `<image_id>.jpg` in `images`, or in VG_100K or VG_100K_2 there. Raises UserError for an unknown type, a
    missing file, or a row without a value.
    """
    folder = Path(path)
    pictures = images_folder(Path(path), images)
    files = []
    records = []
    groups: dict[str, dict[str, frozenset[str]]] = {}
    for kind in selected_names(folder, TYPES, split):
        groups[kind] = {}
        for n in COMPLEXITIES:
            file = existing_file(folder / kind / f"prod_vg_hard_negs_{kind}_complexity_{n}.csv")
            rows = _tables.read_columns(file, COLUMNS)
            of_complexity = [_record(kind, n, file, key, row, pictures) for key, row in rows]
            groups[kind][f"complexity_{n}"] = frozenset(ids(of_complexity))
            records += of_complexity
            files.append(file)
    authors = Benchmark(tuple(records), tuple(files), _choice.choose, MEANS, groups, kind=COMPOSITION)
    return _choice.without_repeats(authors)


def reads(path: str | Path, split: str = "") -> list[Path]:
    """List the files beside pictures that `load` reads."""
    files = []
    for kind in selected_names(Path(path), TYPES, split):
        files += [Path(path) / kind / f"prod_vg_hard_negs_{kind}_complexity_{n}.csv" for n in COMPLEXITIES]
    return files


def _record(kind: str, n: int, file: Path, key: str, row: Mapping[str, str], pictures: Path) -> Record:
    """Read a record. Its id is complexity and row, since one picture has several records."""
    paths = [pictures / folder / f"{row['image_id']}.jpg" for folder in (*FOLDERS, "")]
    image = str(next(filter(os.path.isfile, paths), paths[-1]))
    box = [_number(file, key, row, column) for column in BOX]
    return Record(kind, f"{n}-{key}", (with_box(image, box),), (row["caption"], *_foils(file, key, row)))


def _foils(file: Path, key: str, row: Mapping[str, str]) -> list[str]:
    """Parse `hard_negs`, a Python list, or in some rows a set: sorted, since its order differs from run to run."""
    text = row["hard_negs"]
    foils = caption_join.parse_literal(text)
    if not isinstance(foils, (list, set)) or not foils or not are_texts(foils):
        raise UserError(f"{file}: record {key}: field 'hard_negs' is {text[:80]!r}, no list of texts; fetch it again")
    return sorted(foils) if isinstance(foils, set) else foils


def _number(file: Path, key: str, row: Mapping[str, str], name: str) -> float:
    text = row[name]
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise UserError(f"{file}: record {key}: field {name!r} is {text!r}, not a number; fetch the official file")
    return number
