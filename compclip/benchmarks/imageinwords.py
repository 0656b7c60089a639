"""ImageInWords (Garg et al., EMNLP 2024, arXiv:2405.02793): human descriptions, split into sentences, for retrieval.

As FLAIR and C2LIP use it (`_captioned`): the 612 pictures of IIW-400, DOCCI-Test and DCI-Test and every sentence about
them in one pool, 6,204. Pieces of one or two characters, which FLAIR's file leaves out, are no sentences: there are 12.

Checklist. Source: github.com/google/imageinwords, datasets/; FLAIR's own sentences: github.com/ExplainableML/flair.
Licence: CC BY 4.0 (pictures of DCI: SA-1B's). Compared with the authors' files: the sentences that we make of the three
whole sets are those of FLAIR's file, picture by picture. Not compared: any picture.
"""

from __future__ import annotations

from pathlib import Path

from compclip.benchmarks import _captioned, retrieval
from compclip.benchmarks._files import images_folder, one_file, read_field, read_lines, selected_names, subsets
from compclip.evaluate.benchmark import Benchmark
from compclip.runs.item_outcomes import RETRIEVAL

SETS = {"IIW-400": "docci_aar", "DOCCI_Test": "docci", "DCI_Test": "dci"}  # and where its pictures lie
FILES = {name: f"{name}/data.jsonl" for name in SETS}
FLAIR = ("finegrained_annotations.json", "test_annotations.json")  # as its text and as its program call the file
SHORTEST = 3  # characters of a sentence
METRICS = (*retrieval.METRICS, *retrieval.BOTH_WAYS)
HEADLINE = retrieval.HEADLINE
BENCHMARK_GROUP = "long"
RECOGNISES = (*FILES.values(), *FLAIR)
FILE_HEAD = r'"IIW"|docci_aar|aar_test_'  # DOCCI has FLAIR's file too


def load(path: str | Path, images: str | Path | None = None, split: str = "") -> Benchmark:
    """Read the folder of `<set>/data.jsonl`; or FLAIR's file or its folder. `split` names some of SETS.

    A picture is `<image/key or image>.jpg` in `docci_aar`, `docci` or `dci` below `images`, below the folder `images`
    beside the files, or beside them. Raises UserError for a missing file, an unknown set, or a record without a field.
    """
    folder = Path(path)
    has_authors = any((folder / name).is_file() for name in FILES.values())
    released = folder if folder.suffix == ".json" else None
    if not has_authors and any((folder / name).is_file() for name in FLAIR):
        released = one_file(folder, *FLAIR)
    pictures = images_folder(released.parent if released else folder, images)
    if released:
        files: tuple[Path, ...] = (released,)
        captioned = _captioned.read_flair(released, pictures)
        folders = {SETS[name] for name in selected_names(released, SETS, split)}
        if split:  # pictures are in the sets' folders
            captioned = [entry for entry in captioned if Path(entry[1]).parent.name in folders]
    else:
        file_of = subsets(folder, FILES, split)
        files = tuple(file_of.values())
        captioned = []
        for name, file in file_of.items():
            captioned += _described(name, file, pictures / SETS[name])
    described = []
    short_sentences = 0
    for key, picture, texts in captioned:
        sentences = [text for text in texts if len(text) >= SHORTEST]
        short_sentences += len(texts) - len(sentences)
        described.append((key, picture, sentences))
    records, dropped = _captioned.make_records(folder, described)
    dropped["short_sentence"] = short_sentences
    return Benchmark(records, files, retrieval.evaluate, retrieval.BOTH_WAYS, dropped=dropped, kind=RETRIEVAL)


def _described(name: str, file: Path, pictures: Path) -> list[_captioned.Captioned]:
    """Read a set. A line's id is its number: two about one picture stay two, as in FLAIR's reader.

    The file of IIW-400 says `image/key`, the others `image`, with or without the suffix.
    """
    captioned: list[_captioned.Captioned] = []
    for number, row in read_lines(file):
        field = "image/key" if isinstance(row, dict) and "image/key" in row else "image"
        key = read_field(file, f"at line {number}", row, field).removesuffix(".jpg")
        sentences = _captioned.split_sentences(read_field(file, key, row, "IIW"))
        captioned.append((f"{name}/{number}", str(pictures / f"{key}.jpg"), sentences))
    return captioned
