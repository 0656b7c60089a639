"""ImageCoDe (Krojer et al., ACL 2022, arXiv:2203.15867): a description chooses its picture among ten similar ones.

`static` sets are pictures of Open Images, `video` sets are frames of one video; a tie is wrong. Where ties go to the
first, the first of equals is chosen in the order of the set: so does the authors' program for fine-tuned models
(argmax); the one for zero-shot models sorts with NumPy, whose order of equals is undefined. `average` is over all
descriptions, so that the video sets, four in five, weigh by their size: the authors report it so, and the numbers
FSC-CLIP prints are this one, though its text speaks of an average of sub-tasks. That one is `macro_average`.

Source: github.com/McGill-NLP/imagecode, MIT. Compared: both kinds of set with the authors' scoring code, equal where
no scores tie. Not compared: numbers on the real pictures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from compclip.base.errors import UserError
from compclip.benchmarks import _choice
from compclip.benchmarks._files import check_name, images_folder, read_field, read_rows, select_split
from compclip.evaluate.benchmark import Benchmark, Record, pool_items
from compclip.evaluate.embeddings import Embeddings
from compclip.runs.item_outcomes import COMPOSITION, Items

SPLITS = ("valid", "train", "test")
KINDS = ("static", "video")
METRICS = (*KINDS, "average", "macro_average")
HEADLINE = ("average",)
RECOGNISES = ("valid_data.json",)
STATIC = "open-images"  # in the names of static sets
NUMBERS = tuple("0123456789")  # of the pictures in a set
HELD_BACK = (
    "the authors publish the test descriptions (test_data_unlabeled.json) without the pictures that they describe, and "
    "score them on their own server; use split: valid"
)


def load(path: str | Path, images: str | Path | None = None, split: str = "") -> Benchmark:
    """Read the folder of `<split>_data.json`, valid unless told: the labels of the test split are held back.

    Picture i of a set is `<set>/img<i>.jpg` in `images`, or in `image-sets` beside the descriptions. Raises UserError
    for an unknown split, a missing file, the unlabelled test split, or a description of another picture than 0 to 9.
    """
    folder = Path(path)
    split = select_split(folder, split, SPLITS)
    file = folder / f"{split}_data.json"
    if split == "test" and not file.is_file():
        raise UserError(f"{file}: {HELD_BACK}")
    pictures = images_folder(folder, images, "image-sets")
    content = read_rows(file, dict)
    records = []
    for name in content:
        records += _records(file, name, content, pictures)
    return Benchmark(tuple(records), (file,), evaluate, {"macro_average": KINDS}, folders_count=True, kind=COMPOSITION)


def reads(path: str | Path, split: str = "") -> list[Path]:
    """List the files beside pictures that `load` reads."""
    return [Path(path) / f"{select_split(path, split, SPLITS)}_data.json"]


def _records(file: Path, name: str, content: Mapping[str, Any], pictures: Path) -> list[Record]:
    """Read the descriptions of one set, the described picture before the others."""
    row = read_field(file, name, content, name, dict)
    kind = "static" if STATIC in name else "video"
    paths = [str(pictures / name / f"img{i}.jpg") for i in NUMBERS]
    records = []
    for key in row:
        number = int(check_name("picture", key, NUMBERS, f"{file}: record {name}"))
        text = read_field(file, name, row, key).strip()
        images = _choice.match_first(paths, number)
        records.append(Record(kind, f"{name}/{key}", images, (text,), ahead=number))
    return records


def evaluate(records: Sequence[Record], embeddings: Embeddings) -> dict[str, Items]:
    """Return top-1 of each kind of set, and over all descriptions where both kinds were scored."""
    items = _choice.choose(records, embeddings)
    return items | overall(items)


def overall(items: Mapping[str, Items]) -> dict[str, Items]:
    """Return `average` over the descriptions of both kinds; {} where one was not scored."""
    return pool_items("average", items, KINDS, "all")
