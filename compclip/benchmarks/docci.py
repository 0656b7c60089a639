"""DOCCI (Onoe et al., ECCV 2024, arXiv:2404.19753): long human descriptions, split into sentences, for retrieval.

As FLAIR and C2LIP use it (`_captioned`): the 5,000 test pictures and every sentence about them.

Checklist. Source: google.github.io/docci, hf.co/datasets/google/docci; FLAIR's own sentences:
github.com/ExplainableML/flair. Licence: CC BY 4.0. Compared with the authors' code: FLAIR's rule of sentences and its
tree, read. Not compared: any real file; FLAIR's file of sentences may leave out the shortest, as that of ImageInWords.
"""

from __future__ import annotations

from pathlib import Path

from compclip.benchmarks import _captioned, retrieval
from compclip.benchmarks._files import images_folder, one_file, read_field, read_lines, select_split
from compclip.benchmarks._tables import KeyedRow, find_picture, list_tables, read_table
from compclip.evaluate.benchmark import Benchmark
from compclip.runs.item_outcomes import RETRIEVAL

FLAIR_FILES = ("test_annotations.json", f"{_captioned.FLAIR_FOLDER}/test_annotations.json")
FILES = ("docci_descriptions.jsonlines", "docci_descriptions.csv", "docci.csv", *FLAIR_FILES)
SPLITS = ("test", "train", "qual_dev", "qual_test")
METRICS = (*retrieval.METRICS, *retrieval.BOTH_WAYS)
HEADLINE = retrieval.HEADLINE
BENCHMARK_GROUP = "long"
RECOGNISES = (*FILES[:3], "test*.parquet", "test.csv", "test_annotations.json")
FILE_HEAD = r"\A(?!.*(docci_aar|aar_test_))(?=.*(example_id|\btest_\d+\.jpg))"  # ImageInWords has FLAIR's file too


def load(path: str | Path, images: str | Path | None = None, split: str = "") -> Benchmark:
    """Read one of FILES, or its folder; or the hub's rows, `<split>.csv` or *.parquet. `split`: test by default.

    Pictures are `<image_file>` in `images`, in the folder `images` beside the file or, in FLAIR's tree, beside its
    folder. Raises UserError for a missing file, two of them, an unknown split, or a record without a field.
    """
    folder = Path(path)
    split = select_split(folder, split, SPLITS)
    by_split = folder.is_dir() and ((folder / f"{split}.csv").is_file() or bool(list_tables(folder, split)))
    file = folder if by_split else one_file(folder, *FILES)
    files: tuple[Path, ...] = (file,)
    if file.suffix == ".json":
        captioned = _captioned.read_flair(file, images_folder(_captioned.flair_root(file), images))
    else:
        if file.suffix == ".jsonlines":
            rows = [(f"at line {number}", row) for number, row in read_lines(file)]
        else:
            files, rows = read_table(file, split)
        pictures = images_folder(_captioned.flair_root(files[0]), images)
        captioned = _described(files[0], rows, pictures, split)
    records, dropped = _captioned.make_records(file, captioned)
    return Benchmark(records, files, retrieval.evaluate, retrieval.BOTH_WAYS, dropped=dropped, kind=RETRIEVAL)


def _described(file: Path, rows: list[KeyedRow], pictures: Path, split: str) -> list[_captioned.Captioned]:
    """Read the pictures of a split: the authors' lines say which one, tables where they have the column."""
    captioned: list[_captioned.Captioned] = []
    for where, row in rows:
        key = read_field(file, where, row, "example_id")
        if split == (read_field(file, key, row, "split") if file.suffix == ".jsonlines" else row.get("split", split)):
            image = read_field(file, key, row, "image" if "image" in row else "image_file")
            sentences = _captioned.split_sentences(read_field(file, key, row, "description"))
            captioned.append((key, find_picture(pictures, image), sentences))
    return captioned
