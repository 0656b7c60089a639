"""SugarCrepe (Hsieh et al., NeurIPS 2023, arXiv:2306.14610): the caption against one hard negative, seven subsets.

Correct where the image is closer to the caption than to the negative; a tie is wrong, the authors' code compares
strictly as well. `add`, `replace` and `swap` are means over their subsets, `average` is the mean of all seven, each
subset weighing the same. `average_kinds` is FSC-CLIP's number: the mean of add, replace and swap, each over all its
records together (`add_pooled`, `replace_pooled`, `swap_pooled`).

Source: github.com/RAIVNLab/sugar-crepe, MIT. Compared: the seven subsets with the authors' scoring code, equal where no
scores tie; `average_kinds` with 202 published models. Not compared: numbers on all the real pictures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from compclip.benchmarks import _choice
from compclip.benchmarks._files import (
    images_folder,
    read_field,
    read_fields,
    read_groups,
    read_rows,
    subsets,
)
from compclip.evaluate import metrics
from compclip.evaluate.benchmark import Benchmark, Record, pool_items
from compclip.evaluate.embeddings import Embeddings
from compclip.runs.item_outcomes import COMPOSITION, Items

SUBSETS = ("add_att", "add_obj", "replace_att", "replace_obj", "replace_rel", "swap_att", "swap_obj")
KINDS = {kind: tuple(s for s in SUBSETS if s.startswith(kind)) for kind in ("add", "replace", "swap")}
MEANS = {**KINDS, "average": SUBSETS, "average_kinds": tuple(f"{kind}_pooled" for kind in KINDS)}
METRICS = (*SUBSETS, *MEANS, *MEANS["average_kinds"])
HEADLINE = ("average_kinds",)
RECOGNISES = {name: f"{name}.json" for name in SUBSETS}
FILE_HEAD = r"\A\s*\{"  # SugarCrepe++ has lists of the same names
TEXTS = ("caption", "negative_caption")


def load(path: str | Path, images: str | Path | None = None, split: str = "") -> Benchmark:
    """Read the folder of `<subset>.json`; `split` names some of the subsets (`swap_att,swap_obj`), all without it.

    Raises UserError for a missing file, or a record without a field.
    """
    pictures = images_folder(Path(path), images)
    files = subsets(Path(path), SUBSETS, split)
    records = []
    for subset, file in files.items():
        for key, row in read_rows(file, dict).items():  # `swap_obj` has a gap at 108
            picture = pictures / read_field(file, key, row, "filename")
            records.append(Record(subset, key, (str(picture),), read_fields(file, key, row, TEXTS)))
    groups, sidecar = read_groups(Path(path), records)
    return Benchmark(tuple(records), (*files.values(), *sidecar), evaluate, MEANS, groups, kind=COMPOSITION)


def evaluate(records: Sequence[Record], embeddings: Embeddings) -> dict[str, Items]:
    """Return 1 for each record whose caption wins, by subset, and by kind where all its subsets were scored."""
    by_name = _choice.compare_texts(records, embeddings, metrics.sugarcrepe_outcomes, len(TEXTS))
    items = {subset: subset_items for (subset, _), subset_items in by_name.items()}
    return items | by_kind(items)


def by_kind(items: Mapping[str, Items]) -> dict[str, Items]:
    """Return `<kind>_pooled` over the records of all subsets of a kind; absent where one was not scored."""
    pooled: dict[str, Items] = {}
    for kind, subset_names in KINDS.items():
        pooled |= pool_items(f"{kind}_pooled", items, subset_names, kind)
    return pooled
