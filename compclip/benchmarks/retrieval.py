"""Image-text retrieval: Recall@1, 5, 10 in both directions, several captions an image. Ties are wrong.

Where ties go to the first, equals are in the order of the file. CLIP_benchmark's topk, FLAIR's and CLIC's argsort
take any of them: what depends on equal scores cannot be repeated.

I images, T texts.

i2t: one of the image's captions is among the k nearest texts. t2i: the caption's image is among the k nearest images.
A table of one's own, also with pictures inside, is read as the source `table` reads it; its columns are named in
`options: {layout: {captions: title}}`. The first five captions of each image and their scores are kept with the
results, for `compclip items` and the report.

`options: {clean: clic}` prepares the captions as the released evaluation of CLIC (arXiv:2505.24424) does, after ARO's;
compared with that program's function on its own. What is empty afterwards is left out here and an empty text there.

Source: cs.stanford.edu/people/karpathy/deepimagesent, cocodataset.org, github.com/mehdidc/retrieval_annotations,
LAVIS; pictures under their own licences. Compared: recall with CLIP_benchmark's code, equal where no scores tie. Not
compared: CLIP_benchmark's and LAVIS' own files, which were not at hand.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from compclip.benchmarks import _captioned
from compclip.benchmarks._files import check_name, images_folder, one_file, read_groups, tar_files
from compclip.data import tables
from compclip.evaluate import metrics
from compclip.evaluate.benchmark import Benchmark, Record, flagged_ids, ids, pictures, readable
from compclip.evaluate.embeddings import Embeddings
from compclip.prepare.sources import table
from compclip.runs.item_outcomes import RETRIEVAL, RETRIEVED, Items, Retrieved

KS = (1, 5, 10)
FIRST_CAPTIONS = 5  # of an image, kept with the results
METRICS = tuple(f"{way}_recall_at_{k}" for way in ("i2t", "t2i") for k in KS)
BOTH_WAYS = {f"mean_recall_at_{k}": (f"i2t_recall_at_{k}", f"t2i_recall_at_{k}") for k in KS}  # where a paper has them
HEADLINE = ("i2t_recall_at_1", "t2i_recall_at_1")
BENCHMARK_GROUP = "retrieval"
RECOGNISES = ()  # captions of all kinds: known by their readers (begin.benchmark_section)


@dataclass(frozen=True)
class Config:
    """What may be asked for: the captions as they are written, or as a paper's program prepares them."""

    clean: str = ""  # clic: lower case, without . ! " ( ) * # : ; ~, cut at 30 words
    layout: table.Config = field(default_factory=table.Config)  # what the columns of a table are called

    def __post_init__(self) -> None:
        if self.clean:
            check_name("cleaning", self.clean, CLEANINGS, "clean")


def load(
    path: str | Path, images: str | Path | None = None, split: str = "", options: Config | None = None
) -> Benchmark:
    """Read a file, or the folder of one, in one of the formats of `_captioned`; a folder of tars; or a table.

    `split`: of Karpathy's dataset JSON (default test); for Flickr8k's captions.txt and token.txt a file beside it that
    lists image names; the folder of the tars; of a table whose layout names a column of splits; the others have none.
    Empty captions are dropped and counted, and so are images without any, captions of no image and a split file's names
    without a caption.
    Raises UserError for another format, an unknown split, a record without a field, a caption with a line break.
    """
    lost = Counter[str]()
    cfg = options or Config()
    clean = CLEANINGS[cfg.clean]
    folder = Path(path)
    files: tuple[Path, ...] = ()
    if tar_files(folder / split):
        captioned: Iterable[_captioned.Captioned] = _captioned.read_tars(folder / split, lost)
    elif _captioned.is_table(folder):
        files = tuple(tables.list_tables(str(folder)))
        captioned = _captioned.read_tables(files, images_folder(files[0].parent, images), split, cfg.layout, lost)
    else:
        files = (one_file(folder, *_captioned.PATTERNS),)
        folder = files[0].parent
        captioned = _captioned.read_captioned(files[0], images_folder(folder, images), split, lost)
    entries = [(key, picture, list(map(clean, captions))) for key, picture, captions in captioned]
    records, dropped = _captioned.make_records(Path(path), entries)
    lost["empty_caption"] = sum(len(texts) for *_, texts in entries) - sum(len(record.texts) for record in records)
    group_ids, sidecar = read_groups(folder, records)
    lost.update(dropped)
    return Benchmark(records, (*files, *sidecar), evaluate, groups=group_ids, dropped=dict(lost), kind=RETRIEVAL)


CLIC_DROPS = re.compile(r'[.!"()*#:;~]')
CLIC_WORDS = 30


def _clic(caption: str) -> str:
    """Prepare a caption as CLIC's program does: lower case, spaces for some marks, at most 30 words."""
    plain = re.sub(r"\s{2,}", " ", CLIC_DROPS.sub(" ", caption.lower()))
    return " ".join(plain.rstrip("\n").strip(" ").split(" ")[:CLIC_WORDS])


CLEANINGS: dict[str, Callable[[str], str]] = {"": str, "clic": _clic}


def evaluate(records: Sequence[Record], embeddings: Embeddings) -> dict[str, Items]:
    """Return `i2t_recall_at_<k>` over images and `t2i_recall_at_<k>` over captions, without unreadable images."""
    readable_records = readable(records, embeddings)
    if not readable_records:
        return {}
    texts = []
    text_ids = []
    image_of_text = []
    for image, record in enumerate(readable_records):
        for number, text in enumerate(record.texts):
            texts.append(text)
            text_ids.append(f"{record.id}#{number}")
            image_of_text.append(image)
    ranks = embeddings.ranks(pictures(readable_records), texts, np.array(image_of_text), FIRST_CAPTIONS)
    outcomes = metrics.recall_at_ranks(ranks.i2t_I3, ranks.t2i_T3, KS, embeddings.ties)
    items: dict[str, Items] = {}
    for way, keys, subset in (("i2t", ids(readable_records), _captioned.SUBSET), ("t2i", tuple(text_ids), "captions")):
        tied = flagged_ids(keys, outcomes[f"{way}_tied"])
        for k in KS:
            items[f"{way}_recall_at_{k}"] = Items(keys, outcomes[f"{way}_r{k}"], subset, tied)
    first = Retrieved(tuple(text_ids), ranks.first_IK, ranks.score_IK)
    return items | {RETRIEVED[0]: replace(items[RETRIEVED[0]], retrieved=first)}
