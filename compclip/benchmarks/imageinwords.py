"""ImageInWords (Garg et al., EMNLP 2024, arXiv:2405.02793): human descriptions, split into sentences, for retrieval.

As FLAIR and C2LIP use it (`_sentences`): the 612 pictures of IIW-400, DOCCI-Test and DCI-Test and every sentence about
them in one pool.

Checklist. Source: github.com/google/imageinwords, datasets/; FLAIR's own sentences: github.com/ExplainableML/flair.
Licence: CC BY 4.0 (pictures of DCI: SA-1B's). Compared with the authors' code: FLAIR's rule of sentences and its
places of pictures, read; the form of real lines of DOCCI_Test. Not compared: any whole file.
"""

from __future__ import annotations

from pathlib import Path

from compclip.benchmarks import _sentences, retrieval
from compclip.benchmarks._files import chosen, images_folder, lines, present, value
from compclip.evaluate.benchmark import Benchmark
from compclip.runs.items import RETRIEVAL

SETS = {"IIW-400": "docci_aar", "DOCCI_Test": "docci", "DCI_Test": "dci"}  # and where its pictures lie
METRICS = _sentences.METRICS
Read = tuple[tuple[Path, ...], list[_sentences.Captioned]]


def load(path: str | Path, images: str | Path | None = None, split: str = "") -> Benchmark:
    """The folder of `<set>/data.jsonl`, or FLAIR's `finegrained_annotations.json`; `split` names some of SETS.

    A picture is `<image/key or image>.jpg` in `docci_aar`, `docci` or `dci` below `images`. Raises UserError for a
    missing file, an unknown set, or a record without a field.
    """
    place = Path(path)
    pictures = images_folder(place if place.is_dir() else place.parent, images)
    files, read = _released(place, pictures) if place.suffix == ".json" else _authors(place, pictures, split)
    records, dropped = _sentences.records(place, read)
    return Benchmark(records, files, retrieval.evaluate, _sentences.MEANS, dropped=dropped, kind=RETRIEVAL)


def _released(file: Path, pictures: Path) -> Read:
    return (file,), _sentences.released(file, pictures)


def _authors(folder: Path, pictures: Path, split: str) -> Read:
    files = {name: present(folder / name / "data.jsonl") for name in chosen(folder, SETS, split)}
    read = [one for name, file in files.items() for one in _described(name, file, pictures / SETS[name])]
    return tuple(files.values()), read


def _described(name: str, file: Path, pictures: Path) -> list[_sentences.Captioned]:
    """A line is known by its number: two that are about one picture stay two, as in FLAIR's reader.

    The file of IIW-400 says `image/key`, the others `image`, with or without the suffix.
    """
    found = []
    for number, row in lines(file):
        field = "image/key" if isinstance(row, dict) and "image/key" in row else "image"
        key = value(file, f"at line {number}", row, field).removesuffix(".jpg")
        texts = _sentences.split(value(file, key, row, "IIW"))
        found.append((f"{name}/{number}", str(pictures / f"{key}.jpg"), texts))
    return found
