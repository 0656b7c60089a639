"""SVO-Probes (Hendricks and Nematzadeh, Findings of ACL 2021, arXiv:2106.09141): a sentence and two pictures.

Right where the sentence is nearer to its picture than to one with another subject, verb or object. `average` weighs the
three kinds the same. The paper itself classifies each picture by a threshold; the choice between the two is what
FSC-CLIP (arXiv:2410.05210) reports, whose code was not at hand: a tie is wrong, however ties are counted elsewhere.
Rows whose pictures do not differ in exactly one part of the three are left out, as in the authors' notebook, and
counted as `not_one_kind`.

Source: github.com/google-deepmind/svo_probes, Apache-2.0 as FSC-CLIP lists it. Compared: `average` with 202 published
models. Not compared: scores of pictures, of which many are gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from compclip.benchmarks import _choice, _tables
from compclip.benchmarks._files import check_name, images_folder, selected_names
from compclip.evaluate.benchmark import Benchmark, Record
from compclip.runs.item_outcomes import COMPOSITION

FILE = "svo_probes.csv"
KINDS = ("subj_neg", "verb_neg", "obj_neg")
MEANS = {"average": KINDS}
METRICS = (*KINDS, *MEANS)
HEADLINE = ("average",)
RECOGNISES = (FILE,)
IMAGES = ("pos_image_id", "neg_image_id")
Row = Mapping[str, str]


def load(path: str | Path, images: str | Path | None = None, split: str = "") -> Benchmark:
    """Read the folder of `svo_probes.csv`; `split` names some of subj_neg, verb_neg and obj_neg, all without it.

    A picture is `<pos_image_id>.jpg` or `<neg_image_id>.jpg` in `images`. The file gives URLs only, many of them dead:
    img2dataset numbers what it fetches by itself, so its files are to be renamed to the ids. Raises UserError for a
    missing file, an unknown kind, or a row without a column or with an unreadable one.
    """
    folder = Path(path)
    pictures = images_folder(folder, images)
    file = folder / FILE
    kinds = selected_names(folder, KINDS, split)
    records = []
    dropped = {"not_one_kind": 0}
    for key, row in _tables.read_columns(file, ("sentence", *IMAGES, *KINDS)):
        kind = _kind(file, key, row)
        dropped["not_one_kind"] += not kind
        if kind in kinds:
            records.append(_record(file, kind, key, row, pictures))
    return Benchmark(
        tuple(records), (file,), partial(_choice.choose, strict=True), MEANS, dropped=dropped,
        first_picture=True, kind=COMPOSITION,
    )  # fmt: skip


def reads(path: str | Path, split: str = "") -> list[Path]:
    """List the files beside pictures that `load` reads."""
    return [Path(path) / FILE]


def _kind(file: Path, key: str, row: Row) -> str:
    """Return the part in which the pictures differ, "" unless it is exactly one."""
    kinds = []
    for name in KINDS:
        if check_name(name, row[name].lower(), ("true", "false"), f"{file}: record {key}") == "true":
            kinds.append(name)
    return kinds[0] if len(kinds) == 1 else ""


def _record(file: Path, kind: str, key: str, row: Row, pictures: Path) -> Record:
    # an id such as 12.0, in a table that was saved again, would find no picture
    images = tuple(str(pictures / f"{_tables.whole_number(file, key, row, name)}.jpg") for name in IMAGES)
    return Record(kind, key, images, (row["sentence"],))
