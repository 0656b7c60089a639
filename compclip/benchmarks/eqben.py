"""EqBen (Wang et al., ICCV 2023, arXiv:2303.14465): two images of minimal visual change and their captions.

Winoground's text, image and group score (`<sub-task>_<score>`), ties wrong as in the authors' code. `eqbenkubric` pools
the three sub-tasks rendered by Kubric, and `text`, `image` and `group` are means over the five data sets: the numbers
that FSC-CLIP prints are means over five, not over the seven sub-tasks that it names. Like FSC-CLIP's, a sub-task has at
most 20,000 samples (`options: {cap: 0}`: all); it does not say which, so here they are evenly spread over the file's.

eqbenyoucook2 comes as NumPy arrays in BGR order. Its pictures are read from `.png` or `.jpg` files of the same name:
`Image.fromarray(numpy.load("x.npy")[:, :, ::-1]).save("x.png")`.

Source: github.com/Wangt-CN/EqBen, Apache-2.0. Compared: the 21 numbers of the sub-tasks with the authors' scoring
code, equal where no scores tie; annotations by video with its readers, read. Not compared: the light set's and the
data sets' own files, which were not at hand, nor numbers on the real pictures.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from compclip.base.errors import UserError
from compclip.base.files import read_json
from compclip.benchmarks import winoground
from compclip.benchmarks._files import (
    GROUPS,
    check_name,
    first_existing,
    images_folder,
    number_rows,
    read_choice,
    read_field,
    read_items,
    selected_names,
    spread_evenly,
)
from compclip.evaluate.benchmark import Benchmark, Record, by_subset, pool_items
from compclip.evaluate.embeddings import Embeddings
from compclip.runs.item_outcomes import COMPOSITION, Items

KUBRIC = ("eqbenkubric_attr", "eqbenkubric_cnt", "eqbenkubric_loc")
SUBTASKS = ("eqbenag", "eqbengebc", *KUBRIC, "eqbensd", "eqbenyoucook2")
SCORES = ("text", "image", "group")
DATA_SETS = ("eqbenag", "eqbengebc", "eqbenkubric", "eqbensd", "eqbenyoucook2")
MEANS = {score: tuple(f"{data_set}_{score}" for data_set in DATA_SETS) for score in SCORES}
METRICS = (*(f"{name}_{score}" for name in dict.fromkeys((*SUBTASKS, *DATA_SETS)) for score in SCORES), *MEANS)
MOST = 20_000  # samples of a sub-task, as FSC-CLIP has them
SUFFIXES = (".png", ".jpg")  # in whose place another may stand
PAIR = ("image0", "image1", "caption0", "caption1")
RECOGNISES = ("*.json",)
FILE_HEAD = r'"private_info"|"image0".*"caption0"|"caption0".*"image0"'
CROSSED = {"c0i0": ("caption0", "image0"), "c0i1": ("caption0", "image1"),
           "c1i0": ("caption1", "image0"), "c1i1": ("caption1", "image1")}  # fmt: skip


@dataclass(frozen=True)
class Config:
    """How many samples of a sub-task are scored."""

    cap: int = MOST  # evenly spread over the file's; 0: all of them

    def __post_init__(self) -> None:
        if self.cap < 0:
            raise UserError(f"cap={self.cap}: must be >= 0; 0 scores all samples")


def load(
    path: str | Path, images: str | Path | None = None, split: str = "", options: Config | None = None
) -> Benchmark:
    """Read an annotation file, or a folder of some; `split` names sub-tasks. Formats are distinguished by content:

    `ann_json_finegrained_random.json`: four records a sample, each an image, a caption and their `private_info`.
    `eqben_subset_10percent_final.json`, and the light set's `all_select.json`: one record a sample, `image0`, `image1`,
    `caption0`, `caption1`. The data sets' own files: such records in lists below their video, and below that its
    subject; of a list of captions the first counts. A picture is the file of its name, or one with .jpg in place of
    .png. Raises UserError for an unknown sub-task or one that stands in two files, a record without a field, or a
    sample that is not whole.
    """
    files: tuple[Path, ...] = (Path(path),)
    if Path(path).is_dir():
        files = tuple(sorted(p for p in Path(path).glob("*.json") if p.name != GROUPS))
    if not files:
        raise UserError(f"{path}: no *.json there; give the folder of the annotations, or their file")
    pictures = images_folder(files[0].parent, images)
    cap = (options or Config()).cap
    samples_of: dict[str, list[Record]] = {}
    file_of: dict[str, Path] = {}
    for file in files:
        for subset, samples in by_subset(_samples(file)).items():
            if subset in file_of:
                raise UserError(f"{file}: {subset} stands in {file_of[subset].name} too; give one of the two files")
            samples_of[subset] = samples
            file_of[subset] = file
    records = []
    dropped = {"over_the_cap": 0}
    for subset in selected_names(Path(path), list(samples_of), split):
        samples = samples_of[subset]
        capped_samples = spread_evenly(samples, cap or len(samples))
        dropped["over_the_cap"] += len(samples) - len(capped_samples)
        for record in capped_samples:
            paths = tuple(_picture(pictures, subset, name) for name in record.images)
            records.append(replace(record, images=paths))
    return Benchmark(tuple(records), files, evaluate, MEANS, dropped=dropped, folders_count=True, kind=COMPOSITION)


def _samples(file: Path) -> list[Record]:
    content = read_json(file)
    if isinstance(content, dict) and content:
        samples = list(_by_video(file, content))
    else:
        samples = read_items(file)
        _, first_row = samples[0]
        if isinstance(first_row, Mapping) and "private_info" in first_row:
            return _crossed(file, samples)
    return [_pair(file, key, row) for key, row in samples]


def _by_video(file: Path, content: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield each sample under its video, its subject where there is one, and its number."""
    for name, below in content.items():
        if isinstance(below, Mapping):
            lists = {f"{name}/{subject}": read_field(file, name, below, subject, list) for subject in below}
        else:
            lists = {name: read_field(file, "(whole file)", content, name, list)}
        for key, samples in lists.items():
            for number, row in number_rows(samples):
                yield f"{key}/{number}", row


def _pair(file: Path, key: str, row: Any) -> Record:
    """Read a sample whose two pictures and captions are in one record; of a list of captions the first counts."""
    sample = {}
    for name in PAIR:
        text = read_field(file, key, row, name, (str, list))
        if isinstance(text, list):
            if not (name.startswith("caption") and text and isinstance(text[0], str)):
                raise UserError(f"{file}: record {key}: field {name!r} is {text!r}; fetch the official file")
            text = text[0]
        sample[name] = str(text)
    return _record(file, _subtask(file, key, sample["image0"]), key, sample)


def _subtask(file: Path, key: str, image: str) -> str:
    """Return the first folder of the picture's path, or else the sub-task in the file's name."""
    folder = image.split("/")[0]
    if folder in SUBTASKS:
        return folder
    matches = [subset for subset in SUBTASKS if subset in file.name]
    return matches[0] if len(matches) == 1 else check_name("sub-task", folder, SUBTASKS, f"{file}: record {key}")


def _crossed(file: Path, rows: Sequence[tuple[str, Any]]) -> list[Record]:
    """Collect samples in the order of their numbers: the file shuffles its records."""
    samples: dict[tuple[int, str], dict[str, str]] = {}
    for key, row in rows:
        info = read_field(file, key, row, "private_info", dict)
        number = read_field(file, key, info, "sample_cnt", int)
        subset = check_name("sub-task", read_field(file, key, info, "dataset"), SUBTASKS, f"{file}: record {key}")
        name = read_choice(file, key, info, "name", CROSSED)
        sample = samples.setdefault((number, subset), {})
        for field, slot in zip(("caption", "image"), CROSSED[name], strict=True):
            text = read_field(file, key, row, field)
            if sample.setdefault(slot, text) != text:
                fault = f"{field} {text!r} differs from its sample's"
                raise UserError(f"{file}: record {key}: {fault}; fetch the file again")
    return [_record(file, subset, str(number), samples[number, subset]) for number, subset in sorted(samples)]


def _record(file: Path, subset: str, key: str, sample: Mapping[str, str]) -> Record:
    absent = [name for name in PAIR if name not in sample]
    if absent:
        raise UserError(f"{file}: sample {key} of {subset}: no {absent[0]}; fetch the file again")
    return Record(subset, key, (sample["image0"], sample["image1"]), (sample["caption0"], sample["caption1"]))


def _picture(pictures: Path, subset: str, name: str) -> str:
    """Find the picture, or one of another format: an array is a picture here, and the light set says .png for .jpg."""
    stem, suffix = os.path.splitext(name)
    suffixes = SUFFIXES if suffix == ".npy" else (suffix, *SUFFIXES)
    paths = []
    for folder in (pictures, pictures / subset):
        paths += [folder / f"{stem}{alternative}" for alternative in suffixes]
    return first_existing(paths)


def evaluate(records: Sequence[Record], embeddings: Embeddings) -> dict[str, Items]:
    """Return three scores for each sub-task, and over Kubric's three together where all were scored."""
    items = winoground.items_by_subset(records, embeddings)
    return items | kubric(items)


def kubric(items: Mapping[str, Items]) -> dict[str, Items]:
    """Return `eqbenkubric_<score>` over the records of its three sub-tasks; {} where one was not scored."""
    pooled: dict[str, Items] = {}
    for score in SCORES:
        members = [f"{subset}_{score}" for subset in KUBRIC]
        pooled |= pool_items(f"eqbenkubric_{score}", items, members, "eqbenkubric")
    return pooled
