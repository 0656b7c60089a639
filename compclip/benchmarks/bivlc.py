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

from compclip.base.errors import unknown
from compclip.benchmarks import _table, winoground
from compclip.benchmarks._files import chosen, images_folder, value
from compclip.evaluate import metrics
from compclip.evaluate.benchmark import Benchmark, Items, Record, by_subset, ids, pooled, readable, those
from compclip.evaluate.embeddings import Embeddings
from compclip.runs.items import COMPOSITION

TYPES = ("add", "replace", "swap")
NAMES = {"i2t": "text", "t2i": "image", "group": "group"}  # the authors' name, Winoground's
CHOICES = {  # (caption, picture) that must be above (caption, picture)
    "image_pos": (0, 0, 1, 0), "image_neg": (1, 1, 0, 1), "text_pos": (0, 0, 0, 1), "text_neg": (1, 1, 1, 0),
}  # fmt: skip
METRICS = tuple(f"{kind}{name}" for kind in ("", *(f"{t}_" for t in TYPES)) for name in (*NAMES, *CHOICES))


def load(path: str | Path, images: str | Path | None = None, split: str = "") -> Benchmark:
    """The folder of the hub's tables; or the same columns as `test.jsonl`, `.json` or `.csv`, pictures by their paths.

    `split` names some of add, replace and swap, all without it. Raises UserError for a missing file, an unknown type,
    or a record without a field.
    """
    files, rows = _table.listed(Path(path), "test", images)
    pictures, wanted = images_folder(files[0].parent, images), chosen(files[0], TYPES, split)
    records = tuple(_record(files[0], key, row, pictures) for key, row in rows)
    kept = tuple(record for record in records if record.subset in wanted)
    return Benchmark(kept, files, evaluate, kind=COMPOSITION)


def _record(file: Path, key: str, row: Any, pictures: Path) -> Record:
    kind = value(file, key, row, "type").lower()
    if kind not in TYPES:
        raise unknown("type", kind, TYPES, f"{file}: record {key}")
    shown = tuple(_table.picture(pictures, value(file, key, row, name)) for name in ("image", "negative_image"))
    return Record(kind, key, shown, tuple(value(file, key, row, name) for name in ("caption", "negative_caption")))


def evaluate(records: Sequence[Record], embeddings: Embeddings) -> dict[str, Items]:
    """Seven outcomes of each type, and of all types together."""
    parts = by_subset(readable(records, embeddings))
    found = {
        f"{kind}_{name}": items
        for kind, part in parts.items()
        for name, items in _items(kind, part, embeddings).items()
    }
    names = (*NAMES, *CHOICES) if parts else ()
    return found | {name: pooled("all", [found[f"{kind}_{name}"] for kind in parts]) for name in names}


def _items(kind: str, part: Sequence[Record], embeddings: Embeddings) -> dict[str, Items]:
    scores_N22, keys = winoground.scores(part, embeddings), ids(part)
    tied = those(keys, metrics.tied(outcomes, scores_N22))
    return {name: Items(keys, outcome_N, kind, tied) for name, outcome_N in outcomes(scores_N22).items()}


def outcomes(scores_N22: np.ndarray, beats: metrics.Beats = np.greater) -> metrics.PerItem:
    """The seven outcomes from scores [record, caption, picture]; caption c belongs to picture c."""
    whole = metrics.winoground_outcomes(scores_N22, beats)
    single = {
        name: metrics.sugarcrepe_outcomes(scores_N22[:, c, i], scores_N22[:, other_c, other_i], beats)["accuracy"]
        for name, (c, i, other_c, other_i) in CHOICES.items()
    }
    return {name: whole[theirs] for name, theirs in NAMES.items()} | single
