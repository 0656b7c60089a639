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
from compclip.benchmarks._files import (
    are_texts,
    images_folder,
    read_field,
    read_items,
    read_texts,
    subsets,
)
from compclip.evaluate.benchmark import Benchmark, Record
from compclip.evaluate.embeddings import Embeddings
from compclip.runs.item_outcomes import COMPOSITION, Items

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
HEADLINE = ("average",)
RECOGNISES = FILES


def load(path: str | Path, images: str | Path | None = None, split: str = "") -> Benchmark:
    """Read the authors' `data` folder with the six files; `split` names some of the subsets, all without it.

    Pictures lie in `controlled_images`, `controlled_clevr`, `val2017` (COCO) and `vg_images` below `images`. Raises
    UserError for a missing file, an unknown subset, or a record of another form.
    """
    pictures = images_folder(Path(path), images)
    files = subsets(Path(path), FILES, split)
    records = []
    for subset, file in files.items():
        read_row = _controlled if subset in PLACES else _question
        for key, row in read_items(file):
            image, texts = read_row(file, key, row)
            records.append(Record(subset, key, (str(pictures / image),), texts))
    return Benchmark(tuple(records), tuple(files.values()), evaluate, MEANS, kind=COMPOSITION)


def evaluate(records: Sequence[Record], embeddings: Embeddings) -> dict[str, Items]:
    """Return outcomes of single pictures, and of their pairs and sets in Controlled_Images."""
    items = _choice.choose(records, embeddings)
    name_of = {(record.subset, record.id): Path(record.images[0]).stem for record in records if record.subset in PLACES}
    together = {}
    for subset, pairs in PLACES.items():
        if subset in items:
            right = _by_objects(items[subset], [name_of[subset, key] for key in items[subset].ids])
            together[f"{subset}_pair"] = _all_right(right, pairs, f"{subset}_pair")
            together[f"{subset}_set"] = _all_right(right, (pairs[0] + pairs[1],), f"{subset}_set")
    return items | together


def _by_objects(items: Items, names: Sequence[str]) -> dict[str, dict[str, float]]:
    """Group outcomes by the two objects of a picture and the place of one, all in its file's name."""
    outcomes: dict[str, dict[str, float]] = {}
    for name, outcome in zip(names, items.values.tolist(), strict=True):
        words = name.split("_")
        if len(words) > 2:
            outcomes.setdefault(f"{words[0]}_{words[-1]}", {})[words[1]] = outcome
    return outcomes


def _all_right(right: Mapping[str, Mapping[str, float]], groups: Sequence[tuple[str, ...]], subset: str) -> Items:
    """Return 1 for each group of places of the same objects whose pictures are all right."""
    group_outcomes = {}
    for objects, outcome_at in right.items():
        for group in groups:
            if outcome_at.keys() >= set(group):
                group_outcomes[f"{objects}/{'+'.join(group)}"] = min(outcome_at[preposition] for preposition in group)
    return Items(tuple(group_outcomes), np.array(list(group_outcomes.values())), subset)


def _controlled(file: Path, key: str, row: Any) -> tuple[Path, tuple[str, ...]]:
    """Read a record whose path starts at the authors' working folder: its last two parts count."""
    name = Path(read_field(file, key, row, "image_path"))
    return Path(*name.parts[-2:]), read_texts(file, key, row, "caption_options")


def _question(file: Path, key: str, row: Any) -> tuple[Path, tuple[str, ...]]:
    """Read [number of the picture, right caption, wrong caption]; COCO's file names have twelve digits."""
    if not (isinstance(row, list) and len(row) == 3 and str(row[0]).isdigit() and are_texts(row[1:])):
        raise UserError(f"{file}: record {key}: expected [image id, right, wrong], not {row}; fetch the official file")
    coco = file.name.startswith("coco")
    return Path(f"val2017/{row[0]:0>12}.jpg" if coco else f"vg_images/{row[0]}.jpg"), (row[1], row[2])
