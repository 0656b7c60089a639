"""What FLAIR (Xiao et al., CVPR 2025, arXiv:2412.03561) made of long captions: its trees, and retrieval by sentences.

A tree (github.com/ExplainableML/flair, datasets/) is one JSON of captions, in `annotations` or at the top, and pictures
in folders beside it: {"annotations": [{"image", "caption", "image_id"}]}, a caption a record.

DOCCI and ImageInWords are cut into sentences, each a caption of its picture: Recall@1, 5, 10 both ways over all
sentences and pictures, ties wrong, and `mean_recall_at_<k>`, the mean of both ways. C2LIP reports Recall@5.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from compclip.base.files import read_json
from compclip.benchmarks import retrieval
from compclip.benchmarks._files import check_unique, first_existing, images_folder, read_field
from compclip.evaluate.benchmark import Record

ANNOTATIONS = "annotations"
Captioned = tuple[str, str, list[str]]  # id, picture, what is said about it
ENDS = re.compile(r"[.\n]|</s>")  # FLAIR's rule: "1.5 m" is two pieces, "What? No!" is one
MEANS = {f"mean_recall_at_{k}": (f"i2t_recall_at_{k}", f"t2i_recall_at_{k}") for k in retrieval.KS}
METRICS = (*retrieval.METRICS, *MEANS)


def root(file: Path) -> Path:
    """Return the folder in which the folders of pictures stand."""
    return file.parent.parent if file.parent.name == ANNOTATIONS else file.parent


def pictures_folder(file: Path, images: str | Path | None) -> Path:
    """Return the folder that the names of pictures begin in."""
    return images_folder(root(file), images)


def captioned(file: Path, pictures: Path) -> list[Captioned]:
    """Return each picture with its captions in the file's order. Raises UserError for a record without a field."""
    captions: dict[str, Captioned] = {}
    for position, row in enumerate(read_field(file, "(whole file)", read_json(file), "annotations", list)):
        key = str(read_field(file, f"at place {position}", row, "image_id", (int, str)))
        name = read_field(file, key, row, "image")
        picture = first_existing((pictures / name, pictures / "images" / name))
        captions.setdefault(key, (key, picture, []))[2].append(read_field(file, key, row, "caption"))
    return list(captions.values())


def split_sentences(text: str) -> list[str]:
    """Split a caption into sentences, without their full stops and the spaces around them."""
    return [piece for piece in (raw.strip() for raw in ENDS.split(text)) if piece]


def make_records(file: Path, captioned: Iterable[Captioned]) -> tuple[tuple[Record, ...], dict[str, int]]:
    """Return one record for each picture with a caption, and how many have none.

    Raises UserError naming an id that stands twice.
    """
    read = [Record(retrieval.SUBSET, key, (picture,), tuple(t for t in texts if t.strip()))
            for key, picture, texts in captioned]  # fmt: skip
    captioned_records = check_unique(file, [record for record in read if record.texts])
    return captioned_records, {"image_without_caption": len(read) - len(captioned_records)}
