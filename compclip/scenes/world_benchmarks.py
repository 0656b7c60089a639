"""The world's benchmarks, each in its official file format.

All show the symbols and colours of fine-tuning, as COCO's do; zero-shot naming also has those of the web,
which fine-tuning does not show, as ImageNet has.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from compclip.base.files import write_atomic, write_json
from compclip.config.sections import World
from compclip.scenes import benchmark_sentences, grammar, layout, world_files
from compclip.scenes.layout import Scene
from compclip.scenes.world_words import EVERY_COLOUR, EVERY_SYMBOL

CAPTIONS = 2  # of a retrieval picture
SUGARCREPE, WINOGROUND, HARD_POSITIVES, RETRIEVAL, SYMBOL, COLOUR = range(11, 17)
CLASS_TEMPLATES = {
    "symbols": ("a picture of a {c}", "{c}", "clip art with a {c}"),
    "colours": ("a {c} symbol", "{c} shapes"),
}


def _draw_statement(rng: np.random.Generator, unseen: bool) -> tuple[Scene, grammar.Statement]:
    """Draw a test scene and a statement about it, whose pairs are all seen in training, or one is `unseen`."""
    held_out = layout.held_out()
    while True:
        scene = layout.sample(rng, int(rng.integers(2, 5)), test=True)
        fitting = [s for s in grammar.statements(scene) if unseen == (s.a.pair in held_out or s.b.pair in held_out)]
        if fitting:
            return scene, grammar.choose(rng, fitting)


def _sugarcrepe(world: World, out: Path) -> int:
    """Write SugarCrepe and SugarCrepe++: a record of each subset about each picture."""
    rows = world_files.parallel(world, partial(_sugarcrepe_row, world, out), range(world.records))
    fields = ("filename", "caption", "negative_caption")
    for kind in benchmark_sentences.KINDS:
        records = {str(i): {f: row[kind][f] for f in fields} for i, row in enumerate(rows)}
        write_json(out / "sugarcrepe" / f"{kind}.json", records)
        if not kind.startswith("add"):
            write_json(out / "sugarcrepe_pp" / f"{kind}.json", [{"id": i, **row[kind]} for i, row in enumerate(rows)])
    seen_ids, unseen = ([str(i) for i in range(start, len(rows), 2)] for start in (0, 1))
    groups = {kind: {"seen_pairs": seen_ids, "unseen_pairs": unseen} for kind in benchmark_sentences.KINDS}
    write_json(out / "sugarcrepe" / "groups.json", groups)
    return len(rows)


def _sugarcrepe_row(world: World, out: Path, index: int) -> dict[str, dict]:
    rng = world_files.record_rng(world, SUGARCREPE, index)
    scene, statement = _draw_statement(rng, unseen=index % 2 == 1)
    filename = f"sugarcrepe_{index:05d}.png"
    world_files.write_picture(out / "test" / filename, scene)
    items = benchmark_sentences.make_items(rng, scene, statement)
    return {
        kind: {"filename": filename, "caption": i.caption, "caption2": i.paraphrase, "negative_caption": i.negative}
        for kind, i in items.items()
    }


def _winoground(world: World, out: Path) -> int:
    rows = world_files.parallel(world, partial(_winoground_row, world, out), range(world.records))
    write_atomic(out / "winoground" / "examples.jsonl", "\n".join(json.dumps(r) for r in rows) + "\n")
    return 2 * len(rows)


def _winoground_row(world: World, out: Path, index: int) -> dict:
    """Make two pictures that differ in all that the captions do not say, as two photographs do."""
    rng = world_files.record_rng(world, WINOGROUND, index)
    kind, change = (("swap_att", layout.swap_colours), ("swap_obj", layout.swap_places))[index % 2]
    while True:
        scene, statement = _draw_statement(rng, unseen=False)
        changed = change(scene, statement.a, statement.b)
        second_scene = replace(changed, things=tuple(layout.redrawn(rng, thing) for thing in changed.things))
        if layout.is_test(second_scene):
            break
    item = benchmark_sentences.make_item(rng, kind, scene, statement)
    names = [f"ex_{index}_img_{i}" for i in (0, 1)]
    for name, pictured in zip(names, (scene, second_scene), strict=True):
        world_files.write_picture(out / "winoground" / "images" / f"{name}.png", pictured)
    return {
        "id": index,
        "image_0": names[0],
        "image_1": names[1],
        "caption_0": item.caption,
        "caption_1": item.negative,
        "tag": kind,
        "secondary_tag": "",
        "num_main_preds": 1,
        "collapsed_tag": "Object" if kind == "swap_obj" else "Both",
    }


def _hard_positives(world: World, out: Path) -> int:
    rows = world_files.parallel(world, partial(_hard_positive_row, world, out), range(world.records))
    folder = out / "hard_positives"
    for kind in benchmark_sentences.HARD_POSITIVES:
        write_json(folder / f"{kind}.json", [row[kind][0] for row in rows])
        write_json(folder / f"{kind}_hard_positive.json", [row[kind][1] for row in rows])
    return len(rows)


def _hard_positive_row(world: World, out: Path, index: int) -> dict[str, tuple[dict, dict]]:
    """Make the record of each kind, and the one whose true caption is a hard positive."""
    rng = world_files.record_rng(world, HARD_POSITIVES, index)
    scene, statement = _draw_statement(rng, unseen=False)
    name = f"hard_positives_{index:05d}"
    world_files.write_picture(out / "test" / f"{name}.png", scene)
    captions = {}
    for kind in benchmark_sentences.HARD_POSITIVES:
        item = benchmark_sentences.hard_positive(rng, kind, scene, statement)
        record = {
            "image_id": name,
            "true_caption": item.caption,
            "false_caption": item.negative,
            "image_path": f"{name}.png",
        }
        captions[kind] = record, {**record, "true_caption": item.paraphrase}
    return captions


def _retrieval(world: World, out: Path) -> int:
    images = world_files.parallel(world, partial(_retrieval_row, world, out), range(world.retrieval))
    write_json(out / "retrieval" / "dataset.json", {"dataset": "scenes", "images": images})
    return len(images)


def _retrieval_row(world: World, out: Path, index: int) -> dict:
    rng = world_files.record_rng(world, RETRIEVAL, index)
    scene = layout.sample(rng, int(rng.integers(2, 5)), test=True)
    filename = f"retrieval_{index:05d}.png"
    world_files.write_picture(out / "test" / filename, scene)
    sentences = [{"raw": grammar.dense(rng, scene)} for _ in range(CAPTIONS)]
    return {"filename": filename, "filepath": "", "imgid": index, "split": "test", "sentences": sentences}


def _zeroshot(world: World, out: Path) -> int:
    return sum(
        _classes(world, out, name, split, names)
        for name, split, names in (("symbols", SYMBOL, EVERY_SYMBOL), ("colours", COLOUR, EVERY_COLOUR))
    )


def _classes(world: World, out: Path, name: str, split: int, names: dict) -> int:
    folder = out / f"zeroshot_{name}"
    write_atomic(folder / "classnames.txt", "\n".join(names) + "\n")
    write_atomic(folder / "zeroshot_classification_templates.txt", "\n".join(CLASS_TEMPLATES[name]) + "\n")
    jobs = [(c, i) for c in range(len(names)) for i in range(world.per_class)]
    return len(world_files.parallel(world, partial(_class_row, world, folder, name, split, list(names)), jobs))


def _class_row(world: World, folder: Path, kind: str, split: int, names: list[str], job: tuple[int, int]) -> None:
    rng, class_name = world_files.record_rng(world, split, *job), names[job[0]]
    while True:
        scene = layout.sample(rng, 1, test=True, rare=True)
        thing = scene.things[0]
        if class_name == (thing.symbol if kind == "symbols" else thing.colour):
            break
    world_files.write_picture(folder / class_name / f"{class_name}_{job[1]:05d}.png", scene)


PARTS = (_sugarcrepe, _winoground, _hard_positives, _retrieval, _zeroshot)
