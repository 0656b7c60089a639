"""DOCCI (Onoe et al., ECCV 2024, arXiv:2404.19753): long human descriptions, split into sentences, for retrieval.

As FLAIR and C2LIP use it (`_sentences`): the 5,000 test pictures and every sentence about them.

Checklist. Source: google.github.io/docci; FLAIR's own sentences: github.com/ExplainableML/flair. Licence: CC BY 4.0.
Compared with the authors' code: FLAIR's rule of sentences, read. Not compared: any real file; FLAIR's file of sentences
may differ from what the rule makes of the descriptions.
"""

from __future__ import annotations

from pathlib import Path

from compclip.base.errors import unknown
from compclip.benchmarks import _sentences, retrieval
from compclip.benchmarks._files import images_folder, lines, one_file, value
from compclip.evaluate.benchmark import Benchmark
from compclip.runs.items import RETRIEVAL

FILES = ("docci_descriptions.jsonlines", "test_annotations.json")  # the authors', and FLAIR's
SPLITS = ("train", "test", "qual_dev", "qual_test")
METRICS = _sentences.METRICS


def load(path: str | Path, images: str | Path | None = None, split: str = "") -> Benchmark:
    """`docci_descriptions.jsonlines` or FLAIR's `test_annotations.json`, or the folder of one; pictures are
    `<image_file>` in `images`. `split`: test unless told.

    Raises UserError for a missing file, an unknown split, or a record without a field.
    """
    file = one_file(Path(path), *FILES)
    if split and split not in SPLITS:
        raise unknown("split", split, SPLITS, str(file))
    pictures = images_folder(file.parent, images)
    read = _sentences.released(file, pictures) if file.suffix == ".json" else _described(file, pictures, split)
    records, dropped = _sentences.records(file, read)
    return Benchmark(records, (file,), retrieval.evaluate, _sentences.MEANS, dropped=dropped, kind=RETRIEVAL)


def _described(file: Path, pictures: Path, split: str) -> list[_sentences.Captioned]:
    found = []
    for number, row in lines(file):
        key = value(file, f"at line {number}", row, "example_id")
        if value(file, key, row, "split") == (split or "test"):
            picture = str(pictures / value(file, key, row, "image_file"))
            found.append((key, picture, _sentences.split(value(file, key, row, "description"))))
    return found
