"""Densely Captioned Images (Urbanek et al., CVPR 2024, arXiv:2312.08578): 7,805 pictures with long human descriptions.

Retrieval among all of them as LoTLIP (NeurIPS 2024, arXiv:2410.05249) does it: a picture's short caption and what its
annotator added behind it, cut into sentences and joined again, one text a picture. Recall@1, 5, 10 both ways; ties are
wrong. What the authors themselves test, summaries of these descriptions, is `sdci`.

Checklist. Source: github.com/facebookresearch/DCI (dci.tar.gz); LoTLIP's rule: github.com/wuw2019/LoTLIP,
dataloaders/dci_retrieval.py. Licence: CC BY-NC 4.0; pictures: SA-1B's (sa_000138.tar). Compared with the authors' code:
LoTLIP's rule, read; its function that cuts, run beside ours. Not compared: any real file. Long-DCI (7,602 pictures) has
another list and is left out.
"""

from __future__ import annotations

from itertools import chain
from pathlib import Path

from compclip.base.errors import UserError
from compclip.base.files import read_json
from compclip.benchmarks import _captioned, retrieval
from compclip.benchmarks._files import check_name, existing_file, first_existing, images_folder, read_field, read_fields
from compclip.evaluate.benchmark import Benchmark
from compclip.runs.item_outcomes import RETRIEVAL

SPLITS_FILE = "splits.json"
FOLDERS = ("annotations", "complete")
PHOTOS = "photos"
SPLITS = ("train", "valid", "test")
LONGEST_NAME = 100  # characters of an annotation file's name
METRICS = retrieval.METRICS
HEADLINE = retrieval.HEADLINE
BENCHMARK_GROUP = "long"
RECOGNISES = (SPLITS_FILE,)
FILE_HEAD = r'"(train|valid|test)"\s*:\s*\[\s*("[^"]*\.json"|\])'


def load(path: str | Path, images: str | Path | None = None, split: str = "") -> Benchmark:
    """Read the authors' folder `densely_captioned_images`: `splits.json` and a file a picture in `annotations`.

    `split` names one of SPLITS, all together without it. Pictures are in `images`, or in `photos` there. Raises
    UserError for a missing file, an unknown split, or a record without a field.
    """
    folder = Path(path)
    names = read_names(folder, split)
    pictures = images_folder(folder, images, PHOTOS)
    captioned = [_read_description(folder, name, pictures) for name in names]
    records, dropped = _captioned.make_records(folder, captioned)
    files = (folder / SPLITS_FILE, *(find_annotation(folder, name) for name in names))
    return Benchmark(records, files, retrieval.evaluate, dropped=dropped, long_texts=True, kind=RETRIEVAL)


def reads(path: str | Path, split: str = "") -> list[Path]:
    """List the files beside pictures that `load` reads."""
    return [Path(path) / SPLITS_FILE]


def read_names(folder: Path, split: str) -> list[str]:
    """Return the names of a split's annotation files; those of all splits where `split` is empty."""
    file = existing_file(folder / SPLITS_FILE)
    splits = [check_name("split", split, SPLITS, file)] if split else SPLITS
    content = read_json(file)
    names = []
    for name in chain.from_iterable(read_fields(file, "(whole file)", content, splits, list)):
        if not isinstance(name, str) or len(name) > LONGEST_NAME:
            raise UserError(f"{file}: {name!r} is no file's name; fetch the official file")
        names.append(name)
    return names


def find_annotation(folder: Path, name: str, folders: tuple[str, ...] = FOLDERS) -> Path:
    """Return the file of one picture; `complete` holds what `annotations` has, and summaries."""
    return Path(first_existing(folder / place / Path(name).name for place in folders))


def _read_description(folder: Path, name: str, pictures: Path) -> _captioned.Captioned:
    file = find_annotation(folder, name)
    row = read_json(existing_file(file))
    captions = read_fields(file, name, row, ("short_caption", "extra_caption"))
    picture = pictures / read_field(file, name, row, "image")
    return Path(name).stem, picture, [". ".join(_captioned.split_sentences("\n".join(captions)))]
