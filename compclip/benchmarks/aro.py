"""ARO (Yuksekgonul et al., ICLR 2023, arXiv:2210.01936): the caption against its words in another order, four tasks.

N cases.

Right where the picture is nearer to the caption than to every wrong one; a tie is wrong. The authors choose the first
of equals: the wrong caption in the two tasks on Visual Genome, where it stands first, and the caption in the two order
tasks; so do ours where ties go to the first. The two tasks on Visual
Genome are macro accuracies, as the authors' notebook computes them: every relation, and every pair of attributes,
weighs the same; relations that hold both ways and pairs with fewer than 25 cases are left out. (The paper also lacks
`leaning against`, `pulled by` and `pulling`; the notebook has them, and so have we.) The two order tasks are plain
accuracies. `average` weighs every task the same.

The pictures of Visual Genome are cropped to the case's box. The wrong captions of the order tasks are shuffled anew by
the authors' code at every start and are in no published file. Write them down once, after seeding `random` and `numpy`:
`json.dump(COCO_Order(root_dir=...).test_cases, file)` as coco_order.json, Flickr30k_Order as flickr30k_order.json. A
wrong caption that reads like the right one is left out and counted, and so is a case of such alone, unless ties go to
the first: then all cases of the authors count.

Source: github.com/mertyg/vision-language-models-are-bows, MIT. Compared: the four tasks with the authors' scoring code,
equal where no scores tie. Not compared: numbers on the real pictures.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from compclip.benchmarks import _choice
from compclip.benchmarks._files import (
    images_folder,
    read_field,
    read_fields,
    read_items,
    read_texts,
    subsets,
)
from compclip.evaluate.benchmark import Benchmark, Record, with_box
from compclip.evaluate.embeddings import Embeddings
from compclip.runs.item_outcomes import COMPOSITION, Items

RELATION = "visual_genome_relation"
ATTRIBUTION = "visual_genome_attribution"
TASKS = (RELATION, ATTRIBUTION, "flickr30k_order", "coco_order")
MEANS = {"average": TASKS}
METRICS = (*TASKS, *MEANS)
HEADLINE = ("average",)
RECOGNISES = {task: f"{task}.json" for task in TASKS}
NEGATIVE_FAMILIES = ("negclip",)  # of the same paper, which trains on captions with exchanged words too
BOX = ("bbox_x", "bbox_y", "bbox_w", "bbox_h")
MIN_CASES = 25  # of a pair of attributes
# `relation_name`s that the authors' notebook leaves out: those that hold both ways, and rare ones.
_LISTED = """
    adjusting, around, attached to, beside, between, bigger than, biting, boarding, brushing, by, chewing, cleaning,
    climbing, close to, coming from, coming out of, contain, crossing, dragging, draped over, drinking, drinking
    from, driving, driving down, driving on, eating from, eating in, enclosing, exiting, facing, filled with,
    floating in, floating on, flying, flying above, flying in, flying over, flying through, full of, going down,
    going into, going through, grazing in, growing in, growing on, guiding, hanging from, hanging in, hanging off,
    hanging over, higher than, holding onto, hugging, in between, jumping off, jumping on, jumping over, kept in,
    larger than, leading, leaning over, leaving, licking, longer than, looking in, looking into, looking out,
    looking over, looking through, lying next to, lying on top of, making, mixed with, mounted on, moving, near,
    next to, of, on the back of, on the edge of, on the front of, on the other side of, on the side of, opening,
    painted on, parked at, parked beside, parked by, parked in, parked in front of, parked near, parked next to,
    perched on, petting, piled on, playing, playing in, playing on, playing with, pouring, reaching for, reading,
    reflected on, riding on, running in, running on, running through, seen through, sitting behind, sitting beside,
    sitting by, sitting in front of, sitting near, sitting next to, sitting under, skiing down, skiing on, sleeping
    in, sleeping on, smiling at, sniffing, splashing, sprinkled on, stacked on, standing against, standing around,
    standing behind, standing beside, standing in front of, standing near, standing next to, staring at, stuck in,
    surrounding, swimming in, swinging, talking to, topped with, touching, traveling down, traveling on, tying,
    typing on, underneath, wading in, waiting for, walking across, walking by, walking down, walking next to,
    walking through, with, working in, working on, worn on, wrapped around, wrapped in
"""
UNCOUNTED = frozenset(" ".join(name.split()) for name in _LISTED.split(","))
Case = tuple[Record, str]  # with its relation or pair of attributes; "" in the order tasks
Kinds = Mapping[tuple[str, str], str]  # task and id of a record -> the same


def load(path: str | Path, images: str | Path | None = None, split: str = "") -> Benchmark:
    """Read the folder of `<task>.json`; `split` names some of the tasks, all without it.

    A picture is `<image_path>` (Visual Genome) or `<image>` (order) in `images`, with its folders (`val2014`,
    `flickr30k-images`) or without. Raises UserError for a missing file, or a case without a field.
    """
    pictures = images_folder(Path(path), images)
    files = subsets(Path(path), TASKS, split)
    records = []
    kinds = {}
    uncounted = 0
    for task, file in files.items():
        cases = [_read_case(task, file, key, row, pictures) for key, row in read_items(file)]
        counted = _counted(task, cases)
        uncounted += len(cases) - len(counted)
        for record, kind in counted:
            records.append(record)
            kinds[task, record.id] = kind
    authors = Benchmark(
        tuple(records), tuple(files.values()), partial(evaluate, kinds), MEANS, dropped={"uncounted_kind": uncounted},
        kind=COMPOSITION,
    )  # fmt: skip
    return _choice.without_repeats(authors)


def _read_case(task: str, file: Path, key: str, row: Any, pictures: Path) -> Case:
    """Read a case: of an order task the first option is the caption; else the wrong caption is before the right."""
    if task not in (RELATION, ATTRIBUTION):
        image = _image(pictures, read_field(file, key, row, "image"))
        return Record(task, key, (image,), read_texts(file, key, row, "caption_options")), ""
    box = read_fields(file, key, row, BOX, (int, float))
    image = with_box(_image(pictures, read_field(file, key, row, "image_path")), box)
    texts = read_fields(file, key, row, ("true_caption", "false_caption"))
    if task == RELATION:
        kind = read_field(file, key, row, "relation_name")
    else:
        kind = "_".join(read_texts(file, key, row, "attributes"))
    return Record(task, key, (image,), texts, ahead=1), kind


def _image(pictures: Path, name: str) -> str:
    flat = pictures / Path(name).name
    return str(flat if os.path.isfile(flat) else pictures / name)


def _counted(task: str, cases: Sequence[Case]) -> list[Case]:
    """Return the cases of the relations and pairs of attributes that the authors count."""
    size = Counter(kind for _, kind in cases)
    rare = {kind for kind in size if size[kind] < MIN_CASES} if task == ATTRIBUTION else set()
    uncounted = rare | (UNCOUNTED if task == RELATION else set())
    return [(record, kind) for record, kind in cases if kind not in uncounted]


def evaluate(kinds: Kinds, records: Sequence[Record], embeddings: Embeddings) -> dict[str, Items]:
    """Return whether each caption wins, times its weight: 1 in the order tasks."""
    return {task: _balanced(items, kinds) for task, items in _choice.choose(records, embeddings).items()}


def _balanced(items: Items, kinds: Kinds) -> Items:
    """Weight the cases so that their mean is the mean of the accuracies of their kinds."""
    case_kinds = [kinds[items.subset, key] for key in items.ids]
    size = Counter(case_kinds)
    weight_N = np.array([len(case_kinds) / (len(size) * size[kind]) for kind in case_kinds])
    return replace(items, values=items.values * weight_N)
