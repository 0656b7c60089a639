"""FLAIR's trees (github.com/ExplainableML/flair, datasets/): one JSON of captions, and pictures in folders beside it.

{"annotations": [{"image", "caption", "image_id"}]}, a caption a record; the file stands in `annotations` or at the top.
"""

from __future__ import annotations

from pathlib import Path

from compclip.base.files import read_json
from compclip.benchmarks._files import first_there, images_folder, value

ANNOTATIONS = "annotations"
Captioned = tuple[str, str, list[str]]  # id, picture, what is said about it


def root(file: Path) -> Path:
    """Return the folder in which the folders of pictures stand."""
    return file.parent.parent if file.parent.name == ANNOTATIONS else file.parent


def pictures_folder(file: Path, images: str | Path | None) -> Path:
    """Return the folder that the names of pictures begin in."""
    return images_folder(root(file), images)


def captioned(file: Path, pictures: Path) -> list[Captioned]:
    """Return each picture with its captions in the file's order. Raises UserError for a record without a field."""
    captions: dict[str, Captioned] = {}
    for position, row in enumerate(value(file, "(whole file)", read_json(file), "annotations", list)):
        key = str(value(file, f"at place {position}", row, "image_id", (int, str)))
        name = value(file, key, row, "image")
        picture = first_there((pictures / name, pictures / "images" / name))
        captions.setdefault(key, (key, picture, []))[2].append(value(file, key, row, "caption"))
    return list(captions.values())
