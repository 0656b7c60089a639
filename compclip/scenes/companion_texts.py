"""Make what methods need beside a picture and its caption, from the exact layouts.

For each picture for fine-tuning two edited pictures with captions (hard negatives), a caption with a negation and a
picture of which it is true, three paraphrases, and single sentences. The caption is that of the captioner
`scenes`. A record depends on (seed, split, index) alone.

Cost: three PNGs of 2 KiB and 1.3 KB of text a picture; 16,000 pictures take half a minute of two cores, 99 MB of
pictures (200 MB in blocks of 4 KiB) and 20 MB of text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from compclip.base.files import write_atomic
from compclip.config.sections import World
from compclip.scenes import grammar, scene_edits, world_files
from compclip.scenes.layout import Scene

PICTURES = "train_edits"
EDITS, NEGATIONS, PARAPHRASES, DENSE = range(17, 21)  # splits, beside those of the world
NEGATIVES = 2  # edits of a picture
OTHERS = 3  # paraphrases of a caption


def write_companions(world: World, out: Path, layouts: Mapping[str, Scene]) -> int:
    """Write the pictures into `train_edits` and a JSONL file for each kind; return the number of pictures."""
    rows = world_files.parallel(world, partial(_companion_row, world, out), enumerate(layouts.items()))
    for kind in ("edits", "negations", "paraphrases", "dense"):
        write_atomic(out / f"train_{kind}.jsonl", "".join(json.dumps(row[kind]) + "\n" for row in rows))
    return sum(len(row["edits"]["negative_image"]) + 1 for row in rows)


def _companion_row(world: World, out: Path, job: tuple[int, tuple[str, Scene]]) -> dict[str, dict]:
    index, (name, scene) = job
    sentences, image = grammar.dense_caption(name, scene), {"image": f"{name}.png"}
    edited_statement = next(s for _, s in sentences if s)
    edited = scene_edits.make_edits(world_files.record_rng(world, EDITS, index), scene, edited_statement, NEGATIVES)
    denial, without = scene_edits.make_denial(world_files.record_rng(world, NEGATIONS, index), scene)
    edited_scenes = {f"{name}_{i}.png": e.scene for i, e in enumerate(edited)}
    for file, picture in (*edited_scenes.items(), (f"{name}_without.png", without)):
        world_files.write_picture(out / PICTURES / file, picture)
    negatives = [scene_edits.reword(grammar.join_sentences(sentences), e.words) for e in edited]
    paraphrases = scene_edits.make_paraphrases(world_files.record_rng(world, PARAPHRASES, index), sentences, OTHERS)
    return {
        "edits": {**image, "negative_caption": negatives, "negative_image": list(edited_scenes)},
        "negations": {**image, "negated_caption": denial, "distractor": f"{name}_without.png"},
        "paraphrases": {**image, "paraphrase": paraphrases},
        "dense": {**image, "dense": scene_edits.single_sentences(world_files.record_rng(world, DENSE, index), scene)},
    }
