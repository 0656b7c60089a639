"""SPEC (Peng et al., CVPR 2024, arXiv:2312.00081): a query and candidates that differ in one property, six subsets.

An image chooses among texts (`<subset>_i2t`) and a text among images (`<subset>_t2i`); a tie is wrong. The authors
choose the first of equals in the order of the candidates, and so do ours where ties go to the first. `<subset>` is the
mean of both ways, `i2t` and `t2i` are the authors' means over the subsets, `average` is the mean of all twelve. The
`spatial` subsets are those that the paper calls position.

Source: github.com/wjpoom/SPEC, licence unspecified. Compared: the twelve parts with the authors' scoring code, equal
where no scores tie. Not compared: numbers on the real pictures, and FSC-CLIP's average.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from compclip.benchmarks import _choice
from compclip.benchmarks._files import existing_file, read_field, read_items, read_texts, selected_names
from compclip.benchmarks._tables import whole_number
from compclip.evaluate.benchmark import Benchmark, Record
from compclip.runs.item_outcomes import COMPOSITION

SUBSETS = ("absolute_size", "absolute_spatial", "count", "existence", "relative_size", "relative_spatial")
FILES = {"i2t": "image2text.json", "t2i": "text2image.json"}
MEANS = {
    **{subset: tuple(f"{subset}_{way}" for way in FILES) for subset in SUBSETS},
    **{way: tuple(f"{subset}_{way}" for subset in SUBSETS) for way in FILES},
    "average": tuple(f"{subset}_{way}" for subset in SUBSETS for way in FILES),
}
METRICS = (*MEANS["average"], *MEANS)
HEADLINE = ("average",)
RECOGNISES = {subset: f"{subset}/{FILES['i2t']}" for subset in SUBSETS}


def load(path: str | Path, images: str | Path | None = None, split: str = "") -> Benchmark:
    """Read the folder of `<subset>/image2text.json` and `<subset>/text2image.json`; `split` names some subsets.

    Pictures lie where the files say, seen from `<subset>` in the same folder, or in `images` where it is given. Raises
    UserError for a missing file, a record without a field, or a label that is none of the candidates.
    """
    folder = Path(path)
    files = []
    records = []
    for subset in selected_names(folder, SUBSETS, split):
        pictures = Path(images or folder) / subset
        for way, name in FILES.items():
            file = existing_file(folder / subset / name)
            files.append(file)
            records += [_record(f"{subset}_{way}", file, key, row, pictures) for key, row in read_items(file)]
    return Benchmark(tuple(records), tuple(files), _choice.choose, MEANS, kind=COMPOSITION)


def reads(path: str | Path, split: str = "") -> list[Path]:
    """List the files beside pictures that `load` reads."""
    subsets = selected_names(Path(path), SUBSETS, split)
    return [Path(path) / subset / name for subset in subsets for name in FILES.values()]


def _record(subset_way: str, file: Path, key: str, row: Any, pictures: Path) -> Record:
    """Read a record, the match first; the files have no ids. Raises UserError where there is no choice."""
    query = read_field(file, key, row, "query")
    texts = read_texts(file, key, row, "keys")
    label = whole_number(file, key, row, "label", len(texts))
    candidates = _choice.match_first(texts, label)
    if subset_way.endswith("i2t"):
        return Record(subset_way, key, (str(pictures / query),), candidates, ahead=label)
    return Record(subset_way, key, tuple(str(pictures / name) for name in candidates), (query,), ahead=label)
