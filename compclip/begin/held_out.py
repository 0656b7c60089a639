"""Hold a test set out of a data set before anything is trained: its captions, and pairs that rules make of them.

data/held_out/<data>/captions.jsonl   a line a picture: its file in `pictures` and its captions (benchmark `retrieval`)
data/held_out/<data>/pairs.jsonl      a line a pair: a caption, what a rule made wrong of it, the rule (`made_pairs`)
data/held_out/<data>/pictures         links to the data's pictures where the file system has them, else copies

A test or validation split that the data has is taken as it is. Otherwise a tenth of the pictures is drawn, 100 to 1,000
and never more than half, by a hash of their ids: pictures that are added later move none of the others. The test set is
a fixed list, and `exclude` keeps its pictures out of training by their content, whatever they are called there.
"""

from __future__ import annotations

import hashlib
import heapq
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from compclip.base import links
from compclip.base.errors import UserError
from compclip.base.files import write_atomic
from compclip.begin.data_section import COLUMNED, read_samples
from compclip.data import images
from compclip.data.sample import ENDINGS, Sample
from compclip.prepare.benchmark_overlap import NO_NUMBER, coco_number
from compclip.prepare.sample_cleaning import clean_captions
from compclip.text import replace as replace_rules
from compclip.text import swap

FOLDER = Path("data/held_out")
SPLITS = ("test", "validation", "val")  # the first that the data has
SHARE = 10  # one of so many pictures
LEAST = 100
MOST = 1_000
ANNOTATED = 2_000  # captions of which pairs are made, of each picture the first few
CAPTIONS_EACH = 5
SEED = 0  # of the rules' draws
RULES = {"swap": swap.negclip, "replace": replace_rules.wordnet}


@dataclass(frozen=True)
class HeldOut:
    """What a test set holds, and where it came from: a split of the data, or "" for pictures drawn from it."""

    split: str
    pictures: int
    captions: int
    pairs: Mapping[str, int]  # by rule
    unreadable: int = 0


class PictureDraw:
    """Draws test pictures from a stream of samples; it holds as many as can be drawn, however many there are."""

    def __init__(self) -> None:
        self.total = 0
        self._heap: list[tuple[int, int, Sample]] = []  # the largest hash first

    def add(self, sample: Sample) -> None:
        """Take a sample with captions into the draw."""
        self.total += 1
        number = int.from_bytes(hashlib.sha256(sample.id.encode("utf-8", "surrogatepass")).digest()[:8], "big")
        candidate = (-number, -self.total, sample)
        if len(self._heap) < MOST:
            heapq.heappush(self._heap, candidate)
        else:
            heapq.heappushpop(self._heap, candidate)

    def samples(self) -> list[Sample]:
        """Return the test pictures, in the order of the data."""
        smallest = heapq.nlargest(count_held_out(self.total), self._heap)
        return [sample for _, _, sample in sorted(smallest, key=lambda candidate: -candidate[1])]


def count_held_out(pictures: int) -> int:
    """Return how many of so many pictures are a test set."""
    return min(MOST, max(LEAST, pictures // SHARE), pictures // 2)


def read_test_split(section: Mapping[str, Any]) -> tuple[str, list[Sample]]:
    """Return the name and the samples of the data's own test or validation split; "" and none where it has neither."""
    is_file = section["source"] in COLUMNED and Path(section["path"]).is_file()
    is_divided = section["source"] in ("karpathy", *COLUMNED) and not (is_file or section["source"] == "table")
    if not is_divided and "split" not in section.get("layout", {}):
        return "", []
    for split in SPLITS:
        try:
            samples = list(read_samples({**section, "split": split}, Counter()))
        except UserError:  # the source has no such split
            continue
        if samples:
            return split, samples
    return "", []


def write_test_set(folder: Path, split: str, samples: Iterable[Sample]) -> HeldOut:
    """Write the test set of some samples into a folder, and return what it holds.

    Raises UserError where no picture can be read, or where spaCy's model or WordNet is missing.
    """
    sample_by_file: dict[str, Sample] = {}  # by the file of the picture: equal pictures are one
    unreadable = 0
    for sample in clean_captions(samples, Counter()):
        try:
            name = _store_picture(folder / "pictures", sample)
        except images.ImageError:
            unreadable += 1
            continue
        earlier = sample_by_file[name].captions if name in sample_by_file else ()
        sample_by_file[name] = replace(sample, captions=(*earlier, *sample.captions))
    sample_by_file = {name: sample for name, sample in sample_by_file.items() if sample.captions}
    if not sample_by_file:
        raise UserError(f"{folder}: no picture with a caption could be read; give a test set with --test")
    rows = [{"image": name, "captions": list(sample.captions)} for name, sample in sample_by_file.items()]
    pairs = list(make_pairs({name: sample.captions for name, sample in sample_by_file.items()}))
    _write_lines(folder / "captions.jsonl", rows)
    if pairs:
        _write_lines(folder / "pairs.jsonl", pairs)
    captions = sum(len(row["captions"]) for row in rows)
    return HeldOut(split, len(rows), captions, Counter(pair["group"] for pair in pairs), unreadable)


def _store_picture(folder: Path, sample: Sample) -> str:
    """Store a sample's picture by its content, one of COCO by its number, and return its name. Raises ImageError."""
    content = images.read_bytes(sample.picture)
    images.read_size(sample.picture, content)  # what is no picture is no test
    path = PurePath(sample.image)
    ending = path.suffix.lower() if path.suffix.lower() in ENDINGS and not sample.length else ".jpg"
    is_numbered = not sample.length and coco_number(path.name) != NO_NUMBER
    name = path.name if is_numbered else f"{hashlib.sha256(content).hexdigest()[:16]}{ending}"
    folder.mkdir(parents=True, exist_ok=True)
    if sample.length:
        write_atomic(folder / name, content)
    else:
        links.link_or_copy(Path(sample.image), folder / name)
    return name


def make_pairs(captions_of: Mapping[str, Sequence[str]]) -> Iterator[dict[str, str]]:
    """Give a pair for each rule that makes another text of a caption, by the names of the pictures.

    A text that is a caption of the same picture is none. Raises UserError as `spacy_parser.annotate`.
    """
    from compclip.text import spacy_parser

    each = max(1, min(CAPTIONS_EACH, ANNOTATED // len(captions_of)))
    pictures = [(name, text) for name, captions in captions_of.items() for text in captions[:each]]
    annotations = spacy_parser.annotate([text for _, text in pictures])
    for number, ((name, caption), annotation) in enumerate(zip(pictures, annotations, strict=True)):
        true_texts = {text.casefold() for text in captions_of[name]}
        for group, rule in RULES.items():
            negative = rule(annotation, np.random.default_rng((SEED, number)))
            if negative and negative.casefold() not in true_texts:
                yield {"image": name, "caption": caption, "negative": negative, "group": group}


def _write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    write_atomic(path, "\n".join(lines) + "\n")


def benchmark_sections(name: str, held_out: HeldOut) -> dict[str, dict[str, Any]]:
    """Return the sections of `benchmarks` that read a test set, by name."""
    folder = FOLDER / name
    pictures = str(folder / "pictures")
    sections = {f"{name}_test": {"benchmark": "retrieval", "path": str(folder / "captions.jsonl"), "images": pictures}}
    if held_out.pairs:
        sections[f"{name}_pairs"] = {
            "benchmark": "made_pairs",
            "path": str(folder / "pairs.jsonl"),
            "images": pictures,
        }
    return sections
