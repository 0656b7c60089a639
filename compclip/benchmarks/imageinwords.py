"""ImageInWords (Garg et al., EMNLP 2024, arXiv:2405.02793): human descriptions, split into sentences, for retrieval.

As FLAIR and C2LIP use it (`_sentences`): the 612 pictures of IIW-400, DOCCI-Test and DCI-Test and every sentence about
them in one pool, 6,204. Pieces of one or two characters, which FLAIR's file leaves out, are no sentences: there are 12.

Checklist. Source: github.com/google/imageinwords, datasets/; FLAIR's own sentences: github.com/ExplainableML/flair.
Licence: CC BY 4.0 (pictures of DCI: SA-1B's). Compared with the authors' files: the sentences that we make of the three
whole sets are those of FLAIR's file, picture by picture. Not compared: any picture.
"""

from __future__ import annotations

from pathlib import Path

from compclip.benchmarks import _flair, _sentences, retrieval
from compclip.benchmarks._files import chosen, images_folder, lines, one_file, present, value
from compclip.evaluate.benchmark import Benchmark
from compclip.runs.items import RETRIEVAL

SETS = {"IIW-400": "docci_aar", "DOCCI_Test": "docci", "DCI_Test": "dci"}  # and where its pictures lie
FLAIR = ("finegrained_annotations.json", "test_annotations.json")  # as its text and as its program call the file
SHORTEST = 3  # characters of a sentence
METRICS = _sentences.METRICS
Read = tuple[tuple[Path, ...], list[_flair.Captioned]]


def load(path: str | Path, images: str | Path | None = None, split: str = "") -> Benchmark:
    """The folder of `<set>/data.jsonl`; or FLAIR's file or its folder. `split` names some of SETS.

    A picture is `<image/key or image>.jpg` in `docci_aar`, `docci` or `dci` below `images`, below the folder `images`
    beside the files, or beside them. Raises UserError for a missing file, an unknown set, or a record without a field.
    """
    folder = Path(path)
    released = folder if folder.suffix == ".json" else _released(folder)
    pictures = images_folder(released.parent if released else folder, images)
    files, read = _chosen(released, pictures, split) if released else _authors(folder, pictures, split)
    texts = [(key, picture, [s for s in sentences if len(s) >= SHORTEST]) for key, picture, sentences in read]
    records, dropped = _sentences.records(folder, texts)
    dropped["short_sentence"] = sum(len(a[2]) - len(b[2]) for a, b in zip(read, texts, strict=True))
    return Benchmark(records, files, retrieval.evaluate, _sentences.MEANS, dropped=dropped, kind=RETRIEVAL)


def _released(folder: Path) -> Path | None:
    """FLAIR's file in a folder that has none of the authors'."""
    has_authors = any((folder / name / "data.jsonl").is_file() for name in SETS)
    return one_file(folder, *FLAIR) if not has_authors and any((folder / name).is_file() for name in FLAIR) else None


def _chosen(file: Path, pictures: Path, split: str) -> Read:
    """The pictures of some sets, which lie in the sets' folders."""
    folders = [SETS[name] for name in chosen(file, SETS, split)]
    read = _flair.captioned(file, pictures)
    return (file,), [entry for entry in read if not split or Path(entry[1]).parent.name in folders]


def _authors(folder: Path, pictures: Path, split: str) -> Read:
    files = {name: present(folder / name / "data.jsonl") for name in chosen(folder, SETS, split)}
    read = [one for name, file in files.items() for one in _described(name, file, pictures / SETS[name])]
    return tuple(files.values()), read


def _described(name: str, file: Path, pictures: Path) -> list[_flair.Captioned]:
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
