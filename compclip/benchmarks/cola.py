"""Cola (Ray et al., NeurIPS 2023, arXiv:2305.03689), the multi-object setting: attributes of two objects exchanged.

Two pictures of Visual Genome, each with its caption. The authors' accuracy, that each caption chooses its own picture,
is `image`; Winoground's `text` and `group` are beside it. Ties are wrong, as in the authors' code.

Checklist. Source: github.com/arijitray1993/COLA, data/COLA_multiobjects_matching_benchmark.json. Licence: MIT.
Compared with the authors' code: the rule, read. Not compared: any real file. The single-object setting is left out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from compclip.base.errors import UserError
from compclip.benchmarks import winoground
from compclip.benchmarks._files import are_texts, images_folder, one_file, read_items, refuse_split
from compclip.evaluate.benchmark import Benchmark, Record
from compclip.runs.item_outcomes import COMPOSITION

FILE = "COLA_multiobjects_matching_benchmark.json"
METRICS = winoground.METRICS
RECOGNISES = (FILE,)


def load(path: str | Path, images: str | Path | None = None, split: str = "") -> Benchmark:
    """Read the authors' file or its folder: a list of [picture, caption, picture, caption]. There are no splits.

    The pictures are addresses; each is looked for by its last part, `<Visual Genome id>.jpg`, in `images`. Raises
    UserError for a missing file or a record of another form.
    """
    refuse_split("cola", split)
    file = one_file(Path(path), FILE)
    pictures = images_folder(file.parent, images)
    records = tuple(_record(file, key, row, pictures) for key, row in read_items(file))
    return Benchmark(records, (file,), winoground.evaluate, kind=COMPOSITION)


def _record(file: Path, key: str, row: Any, pictures: Path) -> Record:
    """Read a record. Its id is its position, since the file has no ids."""
    is_row = isinstance(row, list) and len(row) == 4 and are_texts(row)
    names = [address.rpartition("/")[2] for address in row[::2]] if is_row else []
    if not all(names) or not names:
        raise UserError(f"{file}: record {key}: expected [picture, caption] twice, not {row}; fetch the official file")
    return Record(winoground.SUBSET, key, tuple(str(pictures / name) for name in names), tuple(row[1::2]))
