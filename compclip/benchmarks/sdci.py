"""sDCI (Urbanek et al., CVPR 2024, arXiv:2312.08578): parts of pictures and summaries that fit into CLIP's context.

Two tasks of each test. `<test>_match` (subcrop-caption matching): a part is nearer to its summary than to those of the
seven others of its batch, eight consecutive parts in the order of the authors' files. `<test>_negative`: nearer to its
summary than to a wrong one. Tests: `all_swaps`, whole pictures and parts with their first summary; `all_swaps_pick5`,
where the worst of a part's first five summaries must win; `base_swaps`, whole pictures alone; `all_hardest`, where the
wrong summary is the one that CLIP takes for nearest. Ties are wrong: the authors compare the second strictly and take
the first by `max`, which of equals takes any.

A part is cut out with 15 % of its size around it, within the picture. A picture that lacks a summary, a wrong one or
CLIP's scores of them is left out whole and counted, as their program does.

Checklist. Source: github.com/facebookresearch/DCI, dataset/densely_captioned_images/dataset (impl.py, dense_image.py,
scripts/run_clip_dense_cap_eval.py). Licence: CC BY-NC 4.0; pictures: SA-1B's (sa_000138.tar). Compared with the
authors' code: the scoring of a batch, run beside ours on made scores without equals; the choice of parts and texts,
run beside ours on made pictures. Not compared: any real file.
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from compclip.base.errors import UserError
from compclip.base.files import read_json
from compclip.benchmarks import dci
from compclip.benchmarks._files import are_texts, existing_file, images_folder, read_field, selected_names
from compclip.evaluate.benchmark import Benchmark, Record, by_subset, flagged_ids, ids, readable, with_box
from compclip.evaluate.embeddings import Embeddings
from compclip.runs.item_outcomes import COMPOSITION, Items

TESTS = ("all_swaps", "all_swaps_pick5", "base_swaps", "all_hardest")
TASKS = ("match", "negative")
METRICS = tuple(f"{test}_{task}" for test in TESTS for task in TASKS)
RECOGNISES = ("complete/*.json",)  # beside `dci`, whose folder it is
FILE_HEAD = r'"(image|mask_data|summaries|short_caption)"'
BATCH = 8  # parts among whose summaries each part chooses
PICK = 5  # summaries of a part in `all_swaps_pick5`
LEAST_SIDE = 224  # pixels of a part
AROUND = 0.15  # of a part's width and height
WHOLE = "base"  # key of the whole picture's texts
FARTHEST = 1e9  # pixels of a mask's corner from the picture's
PNG = b"\x89PNG\r\n\x1a\n"
Batches = Mapping[tuple[str, str], int]  # test and id of a record -> its batch
Part = tuple[str, list[float] | None]  # key of its texts, box


class IncompletePicture(Exception):
    """A picture lacks what a test needs of it."""


def load(path: str | Path, images: str | Path | None = None, split: str = "") -> Benchmark:
    """Read the test pictures of the authors' folder `densely_captioned_images`; `split` names some of TESTS.

    Their summaries stand in `complete`, pictures in `images` or in `photos` there. Raises UserError for a missing file,
    or a record whose picture or mask is of another form.
    """
    folder = Path(path)
    tests = selected_names(folder, TESTS, split)
    pictures = images_folder(folder, images, dci.PHOTOS)
    files = [existing_file(dci.find_annotation(folder, name, ("complete",))) for name in dci.read_names(folder, "test")]
    records: list[Record] = []
    dropped = dict.fromkeys((f"incomplete_picture_{test}" for test in tests), 0)
    for file in files:
        row = read_json(file)
        for test in tests:
            try:
                records += _read_picture(test, file, row, pictures)
            except IncompletePicture:
                dropped[f"incomplete_picture_{test}"] += 1
    batches = number_batches(records)
    all_files = (folder / dci.SPLITS_FILE, *files)
    return Benchmark(tuple(records), all_files, partial(evaluate, batches), dropped=dropped, kind=COMPOSITION)


def reads(path: str | Path, split: str = "") -> list[Path]:
    """List the files beside pictures that `load` reads."""
    return [Path(path) / dci.SPLITS_FILE]


def _read_picture(test: str, file: Path, row: Any, pictures: Path) -> list[Record]:
    """Read the parts of a picture for a test, their wrong text behind the right ones.

    Raises IncompletePicture where the authors' program leaves the picture out.
    """
    picture = str(pictures / read_field(file, file.stem, row, "image"))
    summaries = _lookup(row, "summaries", dict)
    negatives = _lookup(row, "negatives", dict)
    parts: list[Part] = [(WHOLE, None)]
    if test != "base_swaps":
        _require(len(negatives) > 1)
        parts += _list_parts(file, row)
    records = []
    for key, box in parts:
        summary = _lookup(summaries, key, (str, list))
        negative = _choose_negative(test, row, key, _lookup(negatives, key, dict))
        if test == "all_swaps_pick5" and (isinstance(summary, str) or len(summary) < PICK):
            continue
        captions = [summary] if isinstance(summary, str) else list(summary)[: PICK if test == "all_swaps_pick5" else 1]
        texts = (*captions, negative)
        _require(are_texts(texts))
        records.append(Record(test, f"{file.stem}/{key}", (with_box(picture, box),), texts))
    return records


def _lookup(row: Mapping[str, Any], key: str, kind: type | tuple[type, ...]) -> Any:
    _require(bool(row.get(key)) and isinstance(row[key], kind))
    return row[key]


def _require(is_complete: bool) -> None:
    if not is_complete:
        raise IncompletePicture


def _list_parts(file: Path, row: Any) -> Iterator[Part]:
    """Yield the masks that are large enough, with the keys of their texts and their boxes."""
    for name, mask in read_field(file, file.stem, row, "mask_data", dict).items():
        bounds = read_field(file, name, mask, "bounds", dict)
        left, top = _read_corner(file, name, bounds, "topLeft")
        right, bottom = _read_corner(file, name, bounds, "bottomRight")
        if right - left < LEAST_SIDE or bottom - top < LEAST_SIDE:
            continue
        _require("label" in mask and "caption" in mask)
        width, height = read_mask_size(file, name, read_field(file, name, mask, "outer_mask"))
        around_x = int((right - left) * AROUND)
        around_y = int((bottom - top) * AROUND)
        left = max(left - around_x, 0)
        top = max(top - around_y, 0)
        right = min(right + around_x, width)
        bottom = min(bottom + around_y, height)
        yield f"m-{mask.get('idx', name)}-sc", [left, top, right - left, bottom - top]


def _read_corner(file: Path, name: str, bounds: Any, corner: str) -> list[float]:
    axes = read_field(file, name, bounds, corner, dict)
    place = []
    for axis in "xy":
        place.append(read_field(file, name, axes, axis, (int, float)))
        if not abs(place[-1]) < FARTHEST:
            raise UserError(f"{file}: record {name}: field {axis!r} is no place in a picture; fetch the official file")
    return place


def read_mask_size(file: Path, name: str, mask: str) -> tuple[int, int]:
    """Return the width and height of a mask, which is as large as its picture, from the head of a PNG in base64."""
    try:
        head = base64.b64decode(mask[:32], validate=True)
        if head[:8] != PNG:
            raise ValueError
        return struct.unpack(">II", head[16:24])
    except (ValueError, binascii.Error, struct.error):
        raise UserError(f"{file}: record {name}: field 'outer_mask' is no picture; fetch the official file") from None


def _choose_negative(test: str, row: Any, key: str, negatives: Any) -> Any:
    """Return the first text with exchanged words, or of all wrong ones the one that CLIP scored highest."""
    scores = _lookup(_lookup(row, "clip_scores", dict), key, dict)  # whatever the test
    if test != "all_hardest":
        return _lookup(negatives, "swaps", list)[0]
    candidates = []
    for kind, texts in negatives.items():
        if isinstance(texts, list):
            candidates += [(scores.get(f"{kind}_{i}"), text) for i, text in enumerate(texts)]
    _require(bool(candidates) and all(isinstance(score, (int, float)) for score, _ in candidates))
    candidates.sort(key=itemgetter(0))  # equals stay in their order, of which the last is taken
    return candidates[-1][1]


def number_batches(records: Sequence[Record]) -> Batches:
    """Return the batch of each record: eight consecutive ones of a test."""
    batches = {}
    for test, of_test in by_subset(records).items():
        for number, record in enumerate(of_test):
            batches[test, record.id] = number // BATCH
    return batches


def evaluate(batches: Batches, records: Sequence[Record], embeddings: Embeddings) -> dict[str, Items]:
    """Return both tasks of each test. Pictures that are missing leave their batches smaller."""
    items_of = {}
    for test, scored in by_subset(readable(records, embeddings)).items():
        batch_N = np.array([batches[test, record.id] for record in scored])
        own_N = _scores(embeddings, scored, slice(-1)).min(axis=1)
        negative_N = _scores(embeddings, scored, slice(-1, None)).max(axis=1)
        best_other_N = np.array([_best_other(embeddings, scored, batch_N, row) for row in range(len(scored))])
        keys = ids(scored)
        for task, rival_N in zip(TASKS, (best_other_N, negative_N), strict=True):
            tied = flagged_ids(keys, own_N == rival_N)
            items_of[f"{test}_{task}"] = Items(keys, (own_N > rival_N).astype(np.float64), test, tied)
    return items_of


def _scores(embeddings: Embeddings, records: Sequence[Record], selected: slice) -> np.ndarray:
    """Return the cosines of each record's part with some of its texts, the same number for each, [N, K]."""
    refs: list[str] = []
    texts: list[str] = []
    for record in records:
        refs += record.images[:1] * len(record.texts[selected])
        texts += record.texts[selected]
    return embeddings.matches(refs, texts).reshape(len(records), -1)


def _best_other(embeddings: Embeddings, records: Sequence[Record], batch_N: np.ndarray, row: int) -> float:
    """Return the highest cosine of a part with a right text of another part of its batch; -inf where it is alone."""
    texts: list[str] = []
    for other_row in np.flatnonzero(batch_N == batch_N[row]).tolist():
        if other_row != row:
            texts += records[other_row].texts[:-1]
    if not texts:
        return float(-np.inf)
    return float(embeddings.matches([records[row].images[0]] * len(texts), texts).max())
