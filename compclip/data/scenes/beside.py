"""What the field's methods ask for beside a picture and its caption, made from the exact layouts.

For each picture for fine-tuning two edited pictures with captions (hard negatives), a caption with a negation and a
picture of which it is true, three paraphrases, and single sentences. The caption is the one that the captioner
`scenes` tells. A record depends on (seed, split, index) alone.

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
from compclip.data.scenes import edits, grammar, making
from compclip.data.scenes.layout import Scene

PICTURES = "train_edits"
EDITS, NEGATIONS, PARAPHRASES, DENSE = range(17, 21)  # splits, beside those of the world
NEGATIVES = 2  # edits of a picture
OTHERS = 3  # paraphrases of a caption


def write(world: World, out: Path, layouts: Mapping[str, Scene]) -> int:
    """Write the pictures into `train_edits` and a file of lines for each kind; gives the number of pictures."""
    rows = making.parallel(world, partial(_row, world, out), enumerate(layouts.items()))
    for kind in ("edits", "negations", "paraphrases", "dense"):
        write_atomic(out / f"train_{kind}.jsonl", "".join(json.dumps(row[kind]) + "\n" for row in rows))
    return sum(len(row["edits"]["negative_image"]) + 1 for row in rows)


def _row(world: World, out: Path, job: tuple[int, tuple[str, Scene]]) -> dict[str, dict]:
    index, (name, scene) = job
    told, image = grammar.captioned(name, scene), {"image": f"{name}.png"}
    said = next(s for _, s in told if s)
    edited = edits.edits(making.rng(world, EDITS, index), scene, said, NEGATIVES)
    denial, without = edits.denial(making.rng(world, NEGATIONS, index), scene)
    shown = {f"{name}_{i}.png": e.scene for i, e in enumerate(edited)}
    for file, other in (*shown.items(), (f"{name}_without.png", without)):
        making.picture(out / PICTURES / file, other)
    negatives = [edits.reworded(grammar.joined(told), e.words) for e in edited]
    others = edits.paraphrases(making.rng(world, PARAPHRASES, index), told, OTHERS)
    return {
        "edits": {**image, "negative_caption": negatives, "negative_image": list(shown)},
        "negations": {**image, "negated_caption": denial, "distractor": f"{name}_without.png"},
        "paraphrases": {**image, "paraphrase": others},
        "dense": {**image, "dense": edits.single(making.rng(world, DENSE, index), scene)},
    }
