"""DOCCI (Onoe et al., ECCV 2024, arXiv:2404.19753): long human descriptions, split into sentences, for retrieval.

As FLAIR and C2LIP use it (`_sentences`): the 5,000 test pictures and every sentence about them.

Checklist. Source: google.github.io/docci, hf.co/datasets/google/docci; FLAIR's own sentences:
github.com/ExplainableML/flair. Licence: CC BY 4.0. Compared with the authors' code: FLAIR's rule of sentences and its
tree, read. Not compared: any real file; FLAIR's file of sentences may leave out the shortest, as that of ImageInWords.
"""

from __future__ import annotations

from pathlib import Path

from compclip.base.errors import unknown
from compclip.benchmarks import _flair, _parquet, _sentences, _table, retrieval
from compclip.benchmarks._files import lines, one_file, value
from compclip.evaluate.benchmark import Benchmark
from compclip.runs.items import RETRIEVAL

FILES = (
    "docci_descriptions.jsonlines",
    "docci_descriptions.csv",
    "docci.csv",
    "test_annotations.json",  # FLAIR's
    f"{_flair.ANNOTATIONS}/test_annotations.json",
)
SPLITS = ("train", "test", "qual_dev", "qual_test")
METRICS = _sentences.METRICS


def load(path: str | Path, images: str | Path | None = None, split: str = "") -> Benchmark:
    """One of FILES, or the folder of one; or the hub's rows, `<split>.csv` or *.parquet of that split. `split`: test
    unless told.

    Pictures are `<image_file>` in `images`, in the folder `images` beside the file or, in FLAIR's tree, beside its
    folder. Raises UserError for a missing file, two of them, an unknown split, or a record without a field.
    """
    folder, split = Path(path), split or "test"
    if split not in SPLITS:
        raise unknown("split", split, SPLITS, str(folder))
    by_split = folder.is_dir() and ((folder / f"{split}.csv").is_file() or bool(_parquet.tables(folder, split)))
    file = folder if by_split else one_file(folder, *FILES)
    if file.suffix == ".json":
        files, captioned = (file,), _flair.captioned(file, _flair.pictures_folder(file, images))
    else:
        files, rows = _rows(file, split, images)
        captioned = _described(files[0], rows, _flair.pictures_folder(files[0], images), split)
    records, dropped = _sentences.records(file, captioned)
    return Benchmark(records, files, retrieval.evaluate, _sentences.MEANS, dropped=dropped, kind=RETRIEVAL)


def _rows(file: Path, split: str, images: str | Path | None) -> tuple[tuple[Path, ...], list[_table.Row]]:
    if file.suffix == ".jsonlines":
        return (file,), [(f"at line {number}", row) for number, row in lines(file)]
    return _table.listed(file, split, images)


def _described(file: Path, rows: list[_table.Row], pictures: Path, split: str) -> list[_flair.Captioned]:
    """The pictures of a split: the authors' lines say of which they are, tables where they have the column."""
    captions = []
    for where, row in rows:
        key = value(file, where, row, "example_id")
        if split == (value(file, key, row, "split") if file.suffix == ".jsonlines" else row.get("split", split)):
            image = value(file, key, row, "image" if "image" in row else "image_file")
            sentences = _sentences.split(value(file, key, row, "description"))
            captions.append((key, _table.picture(pictures, image), sentences))
    return captions
