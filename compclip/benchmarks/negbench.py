"""NegBench (Alhamoud et al., CVPR 2025, arXiv:2501.09425): captions that say what a picture does not show.

Multiple choice (`coco_mcq`, `voc2007_mcq`, `synthetic_mcq`): a picture chooses among four captions; the share that is
right, and the same over the questions whose right answer affirms (`_positive`), negates (`_negative`) or does both
(`_hybrid`). Retrieval (`coco_retrieval`, `coco_negated_retrieval`, `synthetic_retrieval`,
`synthetic_negated_retrieval`): Recall@1, 5, 10 both ways, `<name>_t2i_recall_at_5` being the paper's. Ties are wrong.
Where they go to the first, multiple choice is as the authors count it (argmax); their retrieval takes any of equals
(topk), which cannot be repeated.

`<name>_template` are the tables before a language model rephrased them, the authors' second experiment.
`chexpert_binary_mcq` asks whether a chest X-ray shows a finding or not, `chexpert_binary_mcq_control` which of two it
shows: two captions, no templates.

Checklist. Source: github.com/m1k2zoo/negbench, datasets.md (its tables). Licence: MIT; pictures: each set's own.
Compared with the authors' code: multiple choice, read; recall, run beside ours on made scores without equals. Not
compared: any real file. Left out: videos (MSR-VTT), and the sets that its program names and no table is published of
(HAM10000, CheXpert with four captions).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from compclip.base.errors import UserError
from compclip.benchmarks import _choice, _tables, retrieval
from compclip.benchmarks._files import drop_empty, first_existing, images_folder, read_choice, subset_files, subsets
from compclip.evaluate.benchmark import Benchmark, Record, by_subset
from compclip.evaluate.embeddings import Embeddings
from compclip.prepare import caption_join
from compclip.runs.item_outcomes import COMPOSITION, Items

CHOICES = {
    "coco_mcq": "COCO_val_mcq_llama3.1_rephrased.csv",
    "voc2007_mcq": "VOC2007_mcq_llama3.1_rephrased.csv",
    "synthetic_mcq": "synthetic_mcq_llama3.1_rephrased.csv",
    "coco_mcq_template": "COCO_val_mcq.csv",
    "voc2007_mcq_template": "VOC2007_mcq.csv",
    "synthetic_mcq_template": "synthetic_mcq.csv",
}
BINARY = {  # two captions, and no template of the answer
    "chexpert_binary_mcq": "chexpert_binary_mcq.csv",
    "chexpert_binary_mcq_control": "chexpert_binary_mcq_control.csv",
}
RETRIEVALS = {
    "coco_retrieval": "COCO_val_retrieval.csv",
    "coco_negated_retrieval": "COCO_val_negated_retrieval_llama3.1_rephrased_affneg_true.csv",
    "synthetic_retrieval": "synthetic_retrieval_v1.csv",
    "synthetic_negated_retrieval": "synthetic_retrieval_v2.csv",
    "coco_negated_retrieval_template": "COCO_val_negated_retrieval.csv",
}
FILES = CHOICES | BINARY | RETRIEVALS
USUAL = "coco_mcq, voc2007_mcq, coco_retrieval, coco_negated_retrieval"  # whose pictures anyone can have
TEMPLATES = ("positive", "negative", "hybrid")
METRICS = (
    *(f"{name}{template}" for name in CHOICES for template in ("", *(f"_{t}" for t in TEMPLATES))),
    *BINARY,
    *(f"{name}_{metric}" for name in RETRIEVALS for metric in retrieval.METRICS),
)
RECOGNISES = FILES
CAPTIONS = tuple(f"caption_{i}" for i in range(4))
TEMPLATE = "correct_answer_template"
FOLDERS = ("val2017", "VOC2007/JPEGImages", "VOCdevkit/VOC2007/JPEGImages")  # as COCO's and VOC's archives unpack
Kinds = Mapping[tuple[str, str], str]  # subset and id of a question -> the template of its answer


def load(path: str | Path, images: str | Path | None = None, split: str = "") -> Benchmark:
    """Read the authors' folder of tables (`data/images`); `split` names some of FILES, by default COCO's and VOC's.

    Their paths begin in the authors' folders: a picture is looked for at the end of its path in `images`, and by its
    name in FOLDERS there. Raises UserError for a missing file or column, an answer that is none, or captions that are
    no list.
    """
    pictures = images_folder(Path(path), images)
    files = subsets(Path(path), FILES, split or USUAL)
    questions = []
    kinds = {}
    pools = []
    for name, file in files.items():
        if name in RETRIEVALS:
            pools += _captioned(name, file, pictures)
        else:
            for record, kind in _questions(name, file, pictures):
                questions.append(record)
                kinds[name, record.id] = kind
    captioned = [record for record in pools if record.texts]
    dropped = {"image_without_caption": len(pools) - len(captioned)}
    return Benchmark(
        (*questions, *captioned), tuple(files.values()), partial(evaluate, kinds), dropped=dropped, kind=COMPOSITION
    )


def reads(path: str | Path, split: str = "") -> list[Path]:
    """List the files beside pictures that `load` reads."""
    return list(subset_files(Path(path), FILES, split or USUAL).values())


def _questions(name: str, file: Path, pictures: Path) -> list[tuple[Record, str]]:
    """Read questions and the templates of their answers, "" without; the answer is before the other captions.

    Ids are positions, since the tables have none.
    """
    captions, template = (CAPTIONS[:2], ()) if name in BINARY else (CAPTIONS, (TEMPLATE,))
    questions = []
    for key, row in _tables.read_columns(file, ("image_path", *captions, "correct_answer", *template)):
        answer = _tables.whole_number(file, key, row, "correct_answer", len(captions))
        texts = _choice.match_first([row[caption] for caption in captions], answer)
        record = Record(name, key, (_picture(pictures, row["image_path"]),), texts, ahead=answer)
        questions.append((record, read_choice(file, key, row, TEMPLATE, TEMPLATES) if template else ""))
    return questions


def _picture(pictures: Path, name: str) -> str:
    in_archives = [pictures / folder / Path(name).name for folder in FOLDERS]
    return first_existing((_tables.find_picture(pictures, name), *in_archives))


def _captioned(name: str, file: Path, pictures: Path) -> list[Record]:
    """Read pictures with their captions, a Python list as text, which is parsed without evaluating it."""
    records = []
    for key, row in _tables.read_columns(file, ("filepath", "captions")):
        try:
            captions = caption_join.parse_texts(row["captions"])
        except ValueError as error:
            raise UserError(f"{file}: record {key}: field 'captions' is {error}; fetch the official file") from error
        records.append(Record(name, key, (_picture(pictures, row["filepath"]),), tuple(drop_empty(captions))))
    return records


def evaluate(kinds: Kinds, records: Sequence[Record], embeddings: Embeddings) -> dict[str, Items]:
    """Return the choices, whole and by template, and the retrievals, each within its own pool."""
    items_of = {}
    for name, subset_records in by_subset(records).items():
        if name in RETRIEVALS:
            for metric, items in retrieval.evaluate(subset_records, embeddings).items():
                items_of[f"{name}_{metric}"] = items
        else:
            for items in _choice.choose(subset_records, embeddings).values():
                items_of[name] = items
                items_of |= _choice.split_by_kind(name, items, kinds, TEMPLATES if name in CHOICES else ())
    return items_of
