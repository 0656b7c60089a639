"""BiVLC (Miranda et al., NeurIPS 2024, arXiv:2406.09952): SugarCrepe's pairs of captions with a picture made for each.

A record is a picture of COCO with its caption, and a generated picture with SugarCrepe's negative. `i2t`: each picture
is nearer to its own caption; `t2i`: each caption is nearer to its own picture; `group`: both. Then the four choices
one by one: `image_pos` and `image_neg` of the pictures, `text_pos` and `text_neg` of the captions. Each is a mean over
all records, as the authors print them, and `<type>_i2t` and so on over those of add, replace and swap. Ties are wrong,
as in the authors' code.

Checklist. Source: hf.co/datasets/imirandam/BiVLC, github.com/IMirandaM/BiVLC. Licence: MIT (pictures of COCO: each its
own). Compared with the authors' code: the seven rules, read. Not compared: any real file.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from compclip.benchmarks import winoground
from compclip.benchmarks._files import check_name, images_folder, read_field, read_fields, selected_names
from compclip.benchmarks._tables import find_pictures, read_table
from compclip.evaluate import metrics
from compclip.evaluate.benchmark import Benchmark, Record, pool_items
from compclip.evaluate.embeddings import Embeddings
from compclip.runs.item_outcomes import COMPOSITION, Items

TYPES = ("add", "replace", "swap")
NAMES = {"i2t": "text", "t2i": "image", "group": "group"}  # the authors' name, Winoground's
CHOICES = {  # (caption, picture) that must be above (caption, picture)
    "image_pos": (0, 0, 1, 0), "image_neg": (1, 1, 0, 1), "text_pos": (0, 0, 0, 1), "text_neg": (1, 1, 1, 0),
}  # fmt: skip
METRICS = tuple(f"{kind}{name}" for kind in ("", *(f"{t}_" for t in TYPES)) for name in (*NAMES, *CHOICES))
RECOGNISES = ("test*.parquet", "test.jsonl", "test.json", "test.csv")
FILE_HEAD = r"\A(?=.*\bnegative_image\b).*\bnegative_caption\b"


def load(path: str | Path, images: str | Path | None = None, split: str = "") -> Benchmark:
    """Read the folder of the hub's tables, or the same columns as `test.jsonl`, `.json` or `.csv` with picture paths.

    `split` names some of add, replace and swap, all without it. Raises UserError for a missing file, an unknown type,
    or a record without a field.
    """
    files, rows = read_table(Path(path), "test")
    pictures = images_folder(files[0].parent, images)
    types = selected_names(files[0], TYPES, split)
    records = []
    for key, row in rows:
        record = _record(files[0], key, row, pictures)
        if record.subset in types:
            records.append(record)
    return Benchmark(tuple(records), files, evaluate, kind=COMPOSITION)


def _record(file: Path, key: str, row: Any, pictures: Path) -> Record:
    kind = check_name("type", read_field(file, key, row, "type").lower(), TYPES, f"{file}: record {key}")
    images = find_pictures(pictures, read_fields(file, key, row, ("image", "negative_image")))
    return Record(kind, key, images, read_fields(file, key, row, ("caption", "negative_caption")))


def evaluate(records: Sequence[Record], embeddings: Embeddings) -> dict[str, Items]:
    """Return seven outcomes of each type, and of all types together."""
    items = winoground.items_by_subset(records, embeddings, outcomes)
    types = dict.fromkeys(type_items.subset for type_items in items.values())
    for name in (*NAMES, *CHOICES) if types else ():
        items |= pool_items(name, items, [f"{kind}_{name}" for kind in types], "all")
    return items


def outcomes(scores_N22: np.ndarray, beats: metrics.Beats = np.greater) -> metrics.PerItem:
    """Return the seven outcomes from scores [record, caption, picture]; caption c belongs to picture c."""
    groups = metrics.winoground_outcomes(scores_N22, beats)
    seven = {name: groups[theirs] for name, theirs in NAMES.items()}
    for name, (c, i, other_c, other_i) in CHOICES.items():
        choice = metrics.sugarcrepe_outcomes(scores_N22[:, c, i], scores_N22[:, other_c, other_i], beats)
        seven[name] = choice["accuracy"]
    return seven
