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
from compclip.benchmarks._files import images_folder, one_file, rows
from compclip.evaluate.benchmark import Benchmark, Record
from compclip.runs.items import COMPOSITION

FILE = "COLA_multiobjects_matching_benchmark.json"
METRICS = winoground.METRICS


def load(path: str | Path, images: str | Path | None = None, split: str = "") -> Benchmark:
    """The authors' file or its folder: a list of [picture, caption, picture, caption]. There are no splits.

    The pictures are addresses; each is looked for by its last part, `<Visual Genome id>.jpg`, in `images`. Raises
    UserError for a missing file or a record of another form.
    """
    if split:
        raise UserError(f"benchmark cola: split={split!r}: it has no splits; leave split out")
    file = one_file(Path(path), FILE)
    pictures = images_folder(file.parent, images)
    records = tuple(_record(file, str(index), row, pictures) for index, row in enumerate(rows(file, list)))
    return Benchmark(records, (file,), winoground.evaluate, kind=COMPOSITION)


def _record(file: Path, key: str, row: Any, pictures: Path) -> Record:
    """The file has no ids, so the id is the place in it."""
    if not isinstance(row, list) or len(row) != 4 or not all(isinstance(part, str) for part in row):
        raise UserError(f"{file}: record {key}: expected [picture, caption] twice, not {row}; fetch the official file")
    shown = tuple(str(pictures / _name(file, key, address)) for address in row[::2])
    return Record(winoground.SUBSET, key, shown, tuple(row[1::2]))


def _name(file: Path, key: str, address: str) -> str:
    name = address.rpartition("/")[2]
    if not name:
        raise UserError(f"{file}: record {key}: {address!r} names no picture; fetch the official file")
    return name
