"""Image-text retrieval: Recall@1, 5, 10 in both directions, several captions an image. Ties are wrong.

I images, T texts.

i2t: one of the image's captions is among the k nearest texts. t2i: the caption's image is among the k nearest images.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from compclip import metrics
from compclip.benchmark import Benchmark, Items, Record, ids, readable
from compclip.benchmarks._files import groups, images_folder, one_file, rows, unique, value
from compclip.embed import Embeddings
from compclip.errors import UserError, unknown
from compclip.files import read_text

KS = (1, 5, 10)
SUBSET = "all"
Entry = tuple[str, Path, list[str]]  # id, image, captions


def load(path: str | Path, images: str | Path | None = None, split: str = "") -> Benchmark:
    """A file, or the folder of one, in one of three formats, told apart by their content.

    Karpathy's dataset JSON (`split`, default test), COCO captions JSON (no splits), Flickr8k's captions.txt (`split`:
    a file beside it that lists image names). Empty captions are dropped and counted, and so are images without any.
    Raises UserError for another format, an unknown split, or a record without a field.
    """
    file = one_file(Path(path), "*.json", "captions.txt")
    pictures = images_folder(file.parent, images)
    entries = list(_entries(file, pictures, split))
    records = tuple(_record(entry) for entry in entries)
    kept = unique(file, [record for record in records if record.texts])
    lost = Counter(empty_caption=sum(len(e[2]) - len(r.texts) for e, r in zip(entries, records, strict=True)),
                   image_without_caption=len(records) - len(kept))  # fmt: skip
    chosen, sidecar = groups(file.parent, kept)
    return Benchmark(kept, (file, *sidecar), evaluate, groups=chosen, dropped=dict(lost))


def _record(entry: Entry) -> Record:
    key, image, captions = entry
    return Record(SUBSET, key, (str(image),), tuple(caption for caption in captions if caption.strip()))


def _entries(file: Path, pictures: Path, split: str) -> Iterable[Entry]:
    if file.suffix != ".json":
        return _flickr(file, pictures, split)
    content = rows(file, dict)
    listed = value(file, "(whole file)", content, "images", list)
    if "annotations" in content:
        return _coco(file, content, pictures, split)
    if listed and "sentences" in listed[0]:
        return _karpathy(file, listed, pictures, split or "test")
    raise UserError(f"{file}: neither COCO captions ('annotations') nor Karpathy's ('sentences'); give another file")


def _karpathy(file: Path, listed: list[Any], pictures: Path, split: str) -> Iterator[Entry]:
    names = [value(file, str(index), row, "split") for index, row in enumerate(listed)]
    if split not in names:
        raise unknown("split", split, set(names), str(file))
    for name, row in zip(names, listed, strict=True):
        if name == split:
            key = value(file, "?", row, "filename")
            captions = [value(file, key, s, "raw") for s in value(file, key, row, "sentences", list)]
            yield key, _karpathy_image(pictures, row.get("filepath", ""), key), captions


def _karpathy_image(pictures: Path, folder: str, name: str) -> Path:
    """COCO's images lie in `filepath` (val2014), unless all lie in one folder."""
    return pictures / folder / name if (pictures / folder).is_dir() else pictures / name


def _coco(file: Path, content: Mapping[str, Any], pictures: Path, split: str) -> Iterator[Entry]:
    if split:
        raise UserError(f"{file}: split={split!r}: COCO caption files have no splits; leave split out")
    captions: dict[Any, list[str]] = {}
    for index, row in enumerate(content["annotations"]):
        captions.setdefault(value(file, str(index), row, "image_id", (int, str)), []).append(
            value(file, f"of annotation {index}", row, "caption"))  # fmt: skip
    for index, row in enumerate(content["images"]):
        key = value(file, f"of image {index}", row, "id", (int, str))
        yield str(key), pictures / value(file, str(key), row, "file_name"), captions.get(key, [])


def _flickr(file: Path, pictures: Path, split: str) -> Iterator[Entry]:
    reader = csv.DictReader(io.StringIO(read_text(file), newline=""))
    if list(reader.fieldnames or []) != ["image", "caption"]:
        raise UserError(f"{file}: expected the header 'image,caption'; found {','.join(reader.fieldnames or [])!r}")
    chosen = set(read_text(file.parent / split).split()) if split else None
    captions: dict[str, list[str]] = {}
    for row in reader:
        if row["caption"] is None or None in row:
            raise UserError(f"{file}: line {reader.line_num}: expected image,caption; quote captions that hold a comma")
        captions.setdefault(row["image"], []).append(row["caption"])
    for name, own in captions.items():
        if chosen is None or name in chosen:
            yield name, pictures / name, own


def evaluate(records: Sequence[Record], embeddings: Embeddings) -> dict[str, Items]:
    """`i2t_recall_at_<k>` over images, `t2i_recall_at_<k>` over captions; unreadable images take theirs along."""
    part = readable(records, embeddings)
    if not part:
        return {}
    image_of_text_T = np.repeat(np.arange(len(part)), [len(record.texts) for record in part])
    texts = [text for record in part for text in record.texts]
    scores_IT = embeddings.table([record.images[0] for record in part], texts)
    outcomes = metrics.recall_at_outcomes(scores_IT, image_of_text_T, KS)
    image_ids, text_ids = ids(part), tuple(f"{r.id}#{i}" for r in part for i in range(len(r.texts)))
    found = {f"i2t_recall_at_{k}": Items(SUBSET, image_ids, outcomes[f"i2t_r{k}"]) for k in KS}
    return found | {f"t2i_recall_at_{k}": Items("captions", text_ids, outcomes[f"t2i_r{k}"]) for k in KS}
