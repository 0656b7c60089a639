"""ImageInWords (Garg et al., EMNLP 2024, arXiv:2405.02793): human descriptions, split into sentences, for retrieval.

As FLAIR and C2LIP use it (`_flair`): the 612 pictures of IIW-400, DOCCI-Test and DCI-Test and every sentence about
them in one pool, 6,204. Pieces of one or two characters, which FLAIR's file leaves out, are no sentences: there are 12.

Checklist. Source: github.com/google/imageinwords, datasets/; FLAIR's own sentences: github.com/ExplainableML/flair.
Licence: CC BY 4.0 (pictures of DCI: SA-1B's). Compared with the authors' files: the sentences that we make of the three
whole sets are those of FLAIR's file, picture by picture. Not compared: any picture.
"""

from __future__ import annotations

from pathlib import Path

from compclip.benchmarks import _flair, retrieval
from compclip.benchmarks._files import existing_file, images_folder, one_file, read_field, read_lines, selected_names
from compclip.evaluate.benchmark import Benchmark
from compclip.runs.item_outcomes import RETRIEVAL

SETS = {"IIW-400": "docci_aar", "DOCCI_Test": "docci", "DCI_Test": "dci"}  # and where its pictures lie
FLAIR = ("finegrained_annotations.json", "test_annotations.json")  # as its text and as its program call the file
SHORTEST = 3  # characters of a sentence
METRICS = _flair.METRICS
HEADLINE = retrieval.HEADLINE
Read = tuple[tuple[Path, ...], list[_flair.Captioned]]


def load(path: str | Path, images: str | Path | None = None, split: str = "") -> Benchmark:
    """Read the folder of `<set>/data.jsonl`; or FLAIR's file or its folder. `split` names some of SETS.

    A picture is `<image/key or image>.jpg` in `docci_aar`, `docci` or `dci` below `images`, below the folder `images`
    beside the files, or beside them. Raises UserError for a missing file, an unknown set, or a record without a field.
    """
    folder = Path(path)
    released = folder if folder.suffix == ".json" else _released(folder)
    pictures = images_folder(released.parent if released else folder, images)
    files, read = _selected_sets(released, pictures, split) if released else _authors(folder, pictures, split)
    texts = [(key, picture, [s for s in sentences if len(s) >= SHORTEST]) for key, picture, sentences in read]
    records, dropped = _flair.make_records(folder, texts)
    dropped["short_sentence"] = sum(len(a[2]) - len(b[2]) for a, b in zip(read, texts, strict=True))
    return Benchmark(records, files, retrieval.evaluate, _flair.MEANS, dropped=dropped, kind=RETRIEVAL)


def _released(folder: Path) -> Path | None:
    """Return FLAIR's file in a folder that has none of the authors', or None."""
    has_authors = any((folder / name / "data.jsonl").is_file() for name in SETS)
    return one_file(folder, *FLAIR) if not has_authors and any((folder / name).is_file() for name in FLAIR) else None


def _selected_sets(file: Path, pictures: Path, split: str) -> Read:
    """Read the pictures of some sets, which are in the sets' folders."""
    folders = [SETS[name] for name in selected_names(file, SETS, split)]
    read = _flair.captioned(file, pictures)
    return (file,), [entry for entry in read if not split or Path(entry[1]).parent.name in folders]


def _authors(folder: Path, pictures: Path, split: str) -> Read:
    files = {name: existing_file(folder / name / "data.jsonl") for name in selected_names(folder, SETS, split)}
    read = [entry for name, file in files.items() for entry in _described(name, file, pictures / SETS[name])]
    return tuple(files.values()), read


def _described(name: str, file: Path, pictures: Path) -> list[_flair.Captioned]:
    """Read a set. A line's id is its number: two about one picture stay two, as in FLAIR's reader.

    The file of IIW-400 says `image/key`, the others `image`, with or without the suffix.
    """
    captioned = []
    for number, row in read_lines(file):
        field = "image/key" if isinstance(row, dict) and "image/key" in row else "image"
        key = read_field(file, f"at line {number}", row, field).removesuffix(".jpg")
        texts = _flair.split_sentences(read_field(file, key, row, "IIW"))
        captioned.append((f"{name}/{number}", str(pictures / f"{key}.jpg"), texts))
    return captioned
