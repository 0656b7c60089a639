"""Half-Truths (Kargi et al., 2026, arXiv:2602.23906): a right caption, and the same with a wrong detail added.

`<set>`: the picture is nearer to the short caption (`anchor`) than to the one with the wrong detail (`half_truth`).
`<set>_ordered`: the one with the right detail (`full_truth`) is above the short one, and that above the wrong one. Both
also over the details that are things (`_entity`) and relations (`_relation`). Ties are wrong, as in the authors' code.

Checklist. Source: hf.co/datasets/kbora/Half-Truths, github.com/kargibora/CS-CLIP scripts/evaluate_half_truth.py.
Licence: CC BY 4.0 (texts), pictures each their own. Compared with the authors' code: the rules, read. Not compared: any
real file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from compclip.benchmarks import _choice, _tables
from compclip.benchmarks._files import check_unique, images_folder, read_choice, read_field, read_fields, selected_names
from compclip.evaluate import metrics
from compclip.evaluate.benchmark import Benchmark, Record
from compclip.evaluate.embeddings import Embeddings
from compclip.runs.item_outcomes import COMPOSITION, Items

SETS = ("coco_qwen", "coco_mistral", "cc3m_qwen")
KINDS = ("entity", "relation")
TEXTS = ("anchor", "half_truth", "full_truth")
METRICS = tuple(
    f"{name}{order}{kind}" for name in SETS for order in ("", "_ordered") for kind in ("", *(f"_{k}" for k in KINDS))
)
RECOGNISES = {name: f"{name}.*" for name in SETS}
FILE_HEAD = r"\bhalf_truth\b"
NEGATIVE_FAMILIES = ("cs_clip",)  # of the same paper, whose foils are wrong details too
Kinds = Mapping[tuple[str, str], str]  # set and id -> what the detail is


def load(path: str | Path, images: str | Path | None = None, split: str = "") -> Benchmark:
    """Read the folder of the hub's `<set>.parquet` or of `<set>.jsonl`; `split` names sets.

    Without `split` it is coco_qwen alone, as in the authors' script.

    Pictures are `<image>` in `images`. Raises UserError for a missing file, an unknown set or kind, or a record without
    a field.
    """
    folder = Path(path)
    names = selected_names(Path(path), SETS, split or SETS[0])
    pictures = images_folder(folder, images)
    kinds: dict[tuple[str, str], str] = {}
    records: list[Record] = []
    all_files: list[Path] = []
    for name in names:
        files, rows = _tables.read_table(folder, name)
        all_files += files
        for position, row in rows:
            key = str(read_field(files[0], f"at place {position}", row, "id", (int, str)))
            image = _tables.find_picture(pictures, read_field(files[0], key, row, "image"))
            records.append(Record(name, key, (image,), read_fields(files[0], key, row, TEXTS)))
            kinds[name, key] = read_choice(files[0], key, row, "triplet_type", KINDS)
    return Benchmark(check_unique(folder, records), tuple(all_files), partial(evaluate, kinds), kind=COMPOSITION)


def evaluate(kinds: Kinds, records: Sequence[Record], embeddings: Embeddings) -> dict[str, Items]:
    """Return both outcomes of each set, whole and by kind."""
    items = {}
    for (name, ending), set_items in _choice.compare_texts(records, embeddings, outcomes, len(TEXTS)).items():
        items[f"{name}{ending}"] = set_items
        items |= _choice.split_by_kind(f"{name}{ending}", set_items, kinds, KINDS)
    return items


def outcomes(
    short_N: np.ndarray, half_N: np.ndarray, full_N: np.ndarray, *, beats: metrics.Beats = np.greater
) -> metrics.PerItem:
    """Return whether the wrong detail costs, and with `_ordered` whether the right one also pays."""
    right_N = beats(short_N, half_N)
    return {"": right_N.astype(np.float64), "_ordered": (right_N & beats(full_N, short_N)).astype(np.float64)}
