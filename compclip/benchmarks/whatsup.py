"""What's Up (Kamath et al., EMNLP 2023, arXiv:2310.19785): which preposition fits, six subsets.

Right where the image is nearer to the right caption than to every other one (three in Controlled_Images, one
elsewhere); a tie is wrong. The authors choose the first of equals, and the right caption stands first: right where ties
go to the first. `average` weighs every subset the same. `<subset>_pair` and `<subset>_set` of the two
Controlled_Images are the paper's accuracies over the two pictures of the same objects in opposite places, and over all
four: right where each of its pictures is. Those count whose pictures were all read (the authors' files have them all).

Source: github.com/amitakamath/whatsup_vlms, MIT. Compared: the six accuracies, the pairs and the sets with the authors'
scoring code, equal where no scores tie. Not compared: numbers on the real pictures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from compclip.base.errors import UserError
from compclip.benchmarks import _choice
from compclip.benchmarks._files import chosen, images_folder, present, rows, value
from compclip.evaluate.benchmark import Benchmark, Items, Record
from compclip.evaluate.embeddings import Embeddings
from compclip.runs.items import COMPOSITION

FILES = {  # the subset as the authors call it, and its file
    "Controlled_Images_A": "controlled_images_dataset.json",
    "Controlled_Images_B": "controlled_clevr_dataset.json",
    "COCO_QA_one_obj": "coco_qa_one_obj.json",
    "COCO_QA_two_obj": "coco_qa_two_obj.json",
    "VG_QA_one_obj": "vg_qa_one_obj.json",
    "VG_QA_two_obj": "vg_qa_two_obj.json",
}
# The opposite places of an object, as the names of the pictures have them: mug_left_of_table.jpeg.
PLACES = {
    "Controlled_Images_A": (("left", "right"), ("on", "under")),
    "Controlled_Images_B": (("left", "right"), ("in-front", "behind")),
}
MEANS = {"average": tuple(FILES)}
METRICS = (*FILES, *(f"{subset}_{kind}" for subset in PLACES for kind in ("pair", "set")), *MEANS)


def load(path: str | Path, images: str | Path | None = None, split: str = "") -> Benchmark:
    """The authors' `data` folder with the six files; `split` names some of the subsets, all without it.

    Pictures lie in `controlled_images`, `controlled_clevr`, `val2017` (COCO) and `vg_images` below `images`. Raises
    UserError for a missing file, an unknown subset, or a record of another form.
    """
    folder, pictures = Path(path), images_folder(Path(path), images)
    files = {subset: present(folder / FILES[subset]) for subset in chosen(folder, FILES, split)}
    records = tuple(record for subset, file in files.items() for record in _records(subset, file, pictures))
    return Benchmark(records, tuple(files.values()), evaluate, MEANS, kind=COMPOSITION)


def evaluate(records: Sequence[Record], embeddings: Embeddings) -> dict[str, Items]:
    """Outcomes of single pictures, and of their pairs and sets in Controlled_Images."""
    found = _choice.of_texts(records, embeddings)
    name_of = {(record.subset, record.id): Path(record.images[0]).stem for record in records if record.subset in PLACES}
    together = {}
    for subset in (subset for subset in PLACES if subset in found):
        right = _by_objects(found[subset], [name_of[subset, key] for key in found[subset].ids])
        pairs = PLACES[subset]
        together[f"{subset}_pair"] = _all_right(right, pairs, f"{subset}_pair")
        together[f"{subset}_set"] = _all_right(right, (pairs[0] + pairs[1],), f"{subset}_set")
    return found | together


def _by_objects(items: Items, names: Sequence[str]) -> dict[str, dict[str, float]]:
    """Outcomes by the two objects of a picture and the place of one of them, all in its file's name."""
    found: dict[str, dict[str, float]] = {}
    for name, outcome in zip(names, items.values.tolist(), strict=True):
        parts = name.split("_")
        if len(parts) > 2:
            found.setdefault(f"{parts[0]}_{parts[-1]}", {})[parts[1]] = outcome
    return found


def _all_right(right: Mapping[str, Mapping[str, float]], groups: Sequence[tuple[str, ...]], subset: str) -> Items:
    """1 for each group of places of the same objects whose pictures are all right."""
    whole = {
        f"{objects}/{'+'.join(group)}": float(all(own[place] for place in group))
        for objects, own in right.items()
        for group in groups
        if all(place in own for place in group)
    }
    return Items(tuple(whole), np.array(list(whole.values())), subset)


def _records(subset: str, file: Path, pictures: Path) -> list[Record]:
    """The files have no ids, so the id is the place in the file."""
    read = _controlled if subset.startswith("Controlled") else _question
    found = []
    for index, row in enumerate(rows(file, list)):
        image, texts = read(file, str(index), row)
        found.append(Record(subset, str(index), (str(pictures / image),), _checked(file, str(index), texts)))
    return found


def _controlled(file: Path, key: str, row: Any) -> tuple[Path, list[Any]]:
    """The paths start at the authors' working folder (`data/controlled_images/x.jpeg`): the last two parts count."""
    name = Path(value(file, key, row, "image_path"))
    return Path(*name.parts[-2:]), value(file, key, row, "caption_options", list)


def _question(file: Path, key: str, row: Any) -> tuple[Path, list[Any]]:
    """[number of the picture, right caption, wrong caption]; COCO's file names have twelve digits."""
    if not isinstance(row, list) or len(row) != 3 or not str(row[0]).isdigit():
        raise UserError(f"{file}: record {key}: expected [image id, right, wrong], not {row}; fetch the official file")
    coco = file.name.startswith("coco")
    return Path(f"val2017/{row[0]:0>12}.jpg" if coco else f"vg_images/{row[0]}.jpg"), row[1:]


def _checked(file: Path, key: str, texts: list[Any]) -> tuple[str, ...]:
    if len(texts) < 2 or not all(isinstance(text, str) for text in texts):
        raise UserError(f"{file}: record {key}: expected two captions or more, not {texts}; fetch the official file")
    return tuple(texts)
