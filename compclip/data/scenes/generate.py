"""Make the scenes world.

Pictures for fine-tuning in the Karpathy layout with their layouts beside, and every benchmark in its official file
format. A record depends on (seed, split, index) alone, so that the files are the same however many processes work.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np

from compclip.base import json_text
from compclip.base.errors import UserError
from compclip.base.files import read_text, write_atomic, write_json
from compclip.config.sections import World
from compclip.data.scenes import beside, grammar, layout, making, questions
from compclip.data.scenes.layout import Scene, Thing
from compclip.data.scenes.words import COLOURS, SYMBOLS

LAYOUTS = "layouts.jsonl"
CAPTIONS = 3  # of a retrieval picture
TRAIN, SUGARCREPE, WINOGROUND, HARD_POSITIVES, RETRIEVAL, SYMBOL, COLOUR = range(10, 17)
CLASS_TEMPLATES = {
    "symbols": ("a picture of a {c}", "{c}", "clip art with a {c}"),
    "colours": ("a {c} symbol", "{c} shapes"),
}


def generate(world: World, out: Path) -> dict[str, int]:
    """Write the whole world into a new folder; gives the number of pictures of each part.

    Raises UserError where `out` is a file or holds anything but a world.
    """
    _check(out)
    fresh = out.with_name(f".{out.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    counts = {
        part.__name__.strip("_"): part(world, fresh)
        for part in (_train, _sugarcrepe, _winoground, _hard_positives, _retrieval, _zeroshot)
    }
    if world.beside:
        counts["beside"] = beside.write(world, fresh, read_layouts(fresh / LAYOUTS))
    write_json(fresh / "counts.json", counts)
    shutil.rmtree(out, ignore_errors=True)
    fresh.rename(out)
    return counts


def _check(out: Path) -> None:
    """A world replaces a world alone: no file, no link, no folder of other things."""
    for place in (out, *out.parents):
        if (place.exists() and not place.is_dir()) or (place == out and place.is_symlink()):
            raise UserError(f"--out {out}: {place} is a file or a link; give a folder, which may be new")
    if out.is_dir() and any(out.iterdir()) and not (out / LAYOUTS).is_file():
        raise UserError(f"--out {out}: the folder holds other files than a world's; give a new one")


# --- fine-tuning ----------------------------------------------------------------------------------------------


def _train(world: World, out: Path) -> int:
    rows = making.parallel(world, partial(_train_row, world, out), range(world.train))
    images = [
        {
            "filename": r["id"] + ".png",
            "filepath": "",
            "imgid": i,
            "split": "train",
            "sentences": [{"raw": r["alt_text"]}],
        }
        for i, r in enumerate(rows)
    ]
    write_json(out / "train.json", {"dataset": "scenes", "images": images})
    lines = (json.dumps({"id": r["id"], "scene": asdict(r["scene"])}) for r in rows)
    write_atomic(out / LAYOUTS, "\n".join(lines) + "\n")
    return len(rows)


def _train_row(world: World, out: Path, index: int) -> dict:
    rng = making.rng(world, TRAIN, index)
    scene = layout.sample(rng, int(rng.choice((2, 3, 4), p=(0.5, 0.3, 0.2))), test=False)
    name = f"{index:06d}"
    making.picture(out / "train" / f"{name}.png", scene)
    return {"id": name, "alt_text": grammar.alt_text(rng, scene), "scene": scene}


def read_layouts(path: Path) -> dict[str, Scene]:
    """Scenes by sample id, from layouts.jsonl."""
    rows = (json_text.value(line, str(path), line=i) for i, line in enumerate(read_text(path).splitlines(), 1))
    return {row["id"]: _scene(row["scene"]) for row in rows}


def _scene(raw: dict) -> Scene:
    things = tuple(Thing(**{**t, "shift": tuple(t["shift"])}) for t in raw["things"])
    return Scene(things, raw["background"])


# --- benchmarks -----------------------------------------------------------------------------------------------


def _told(rng: np.random.Generator, unseen: bool) -> tuple[Scene, grammar.Statement]:
    """A test scene and a statement about it, of pairs all seen in training or with one that was held out."""
    held_out = layout.held_out()
    while True:
        scene = layout.sample(rng, int(rng.integers(2, 5)), test=True)
        fitting = [s for s in grammar.statements(scene) if unseen == (s.a.pair in held_out or s.b.pair in held_out)]
        if fitting:
            return scene, grammar.choose(rng, fitting)


def _sugarcrepe(world: World, out: Path) -> int:
    jobs = [(k, i) for k in range(len(questions.KINDS)) for i in range(world.records)]
    rows = making.parallel(world, partial(_sugarcrepe_row, world, out), jobs)
    groups: dict[str, dict] = {}
    for k, kind in enumerate(questions.KINDS):
        mine = [row for job, row in zip(jobs, rows, strict=True) if job[0] == k]
        records = {str(i): {f: r[f] for f in ("filename", "caption", "negative_caption")} for i, r in enumerate(mine)}
        write_json(out / "sugarcrepe" / f"{kind}.json", records)
        if not kind.startswith("add"):
            write_json(out / "sugarcrepe_pp" / f"{kind}.json", [{"id": i, **r} for i, r in enumerate(mine)])
        groups[kind] = {
            "seen_pairs": [str(i) for i in range(0, len(mine), 2)],
            "unseen_pairs": [str(i) for i in range(1, len(mine), 2)],
        }
    write_json(out / "sugarcrepe" / "groups.json", groups)
    return len(rows)


def _sugarcrepe_row(world: World, out: Path, job: tuple[int, int]) -> dict:
    kind = list(questions.KINDS)[job[0]]
    rng = making.rng(world, SUGARCREPE, *job)
    scene, statement = _told(rng, unseen=job[1] % 2 == 1)
    item = questions.item(rng, kind, scene, statement)
    filename = f"{kind}_{job[1]:05d}.png"
    making.picture(out / "test" / filename, scene)
    return {
        "filename": filename,
        "caption": item.caption,
        "caption2": item.paraphrase,
        "negative_caption": item.negative,
    }


def _winoground(world: World, out: Path) -> int:
    rows = making.parallel(world, partial(_winoground_row, world, out), range(world.records))
    write_atomic(out / "winoground" / "examples.jsonl", "\n".join(json.dumps(r) for r in rows) + "\n")
    return 2 * len(rows)


def _winoground_row(world: World, out: Path, index: int) -> dict:
    rng = making.rng(world, WINOGROUND, index)
    kind, change = (("swap_att", layout.swap_colours), ("swap_obj", layout.swap_places))[index % 2]
    while True:
        scene, statement = _told(rng, unseen=False)
        other = change(scene, statement.a, statement.b)
        if layout.is_test(other):
            break
    item = questions.item(rng, kind, scene, statement)
    names = [f"ex_{index}_img_{i}" for i in (0, 1)]
    for name, shown in zip(names, (scene, other), strict=True):
        making.picture(out / "winoground" / "images" / f"{name}.png", shown)
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
    jobs = [(k, i) for k in range(len(questions.HARD_POSITIVES)) for i in range(world.records)]
    rows = making.parallel(world, partial(_hard_positive_row, world, out), jobs)
    for k, kind in enumerate(questions.HARD_POSITIVES):
        mine = [row for job, row in zip(jobs, rows, strict=True) if job[0] == k]
        folder = out / "hard_positives"
        write_json(folder / f"{kind}.json", [original for original, _ in mine])
        write_json(folder / f"{kind}_hard_positive.json", [changed for _, changed in mine])
    return len(rows)


def _hard_positive_row(world: World, out: Path, job: tuple[int, int]) -> tuple[dict, dict]:
    kind = questions.HARD_POSITIVES[job[0]]
    rng = making.rng(world, HARD_POSITIVES, *job)
    scene, statement = _told(rng, unseen=False)
    item = questions.hard_positive(rng, kind, scene, statement)
    name = f"{kind}_hp_{job[1]:05d}"
    making.picture(out / "test" / f"{name}.png", scene)
    record = {
        "image_id": name,
        "true_caption": item.caption,
        "false_caption": item.negative,
        "image_path": f"{name}.png",
    }
    return record, {**record, "true_caption": item.paraphrase}


def _retrieval(world: World, out: Path) -> int:
    images = making.parallel(world, partial(_retrieval_row, world, out), range(world.retrieval))
    write_json(out / "retrieval" / "dataset.json", {"dataset": "scenes", "images": images})
    return len(images)


def _retrieval_row(world: World, out: Path, index: int) -> dict:
    rng = making.rng(world, RETRIEVAL, index)
    scene = layout.sample(rng, int(rng.integers(2, 5)), test=True)
    filename = f"retrieval_{index:05d}.png"
    making.picture(out / "test" / filename, scene)
    sentences = [{"raw": grammar.dense(rng, scene)} for _ in range(CAPTIONS)]
    return {"filename": filename, "filepath": "", "imgid": index, "split": "test", "sentences": sentences}


def _zeroshot(world: World, out: Path) -> int:
    return sum(
        _classes(world, out, name, split, names)
        for name, split, names in (("symbols", SYMBOL, SYMBOLS), ("colours", COLOUR, COLOURS))
    )


def _classes(world: World, out: Path, name: str, split: int, names: dict) -> int:
    folder = out / f"zeroshot_{name}"
    write_atomic(folder / "classnames.txt", "\n".join(names) + "\n")
    write_atomic(folder / "zeroshot_classification_templates.txt", "\n".join(CLASS_TEMPLATES[name]) + "\n")
    jobs = [(c, i) for c in range(len(names)) for i in range(world.per_class)]
    return len(making.parallel(world, partial(_class_row, world, folder, name, split, list(names)), jobs))


def _class_row(world: World, folder: Path, kind: str, split: int, names: list[str], job: tuple[int, int]) -> None:
    rng, wanted = making.rng(world, split, *job), names[job[0]]
    while True:
        scene = layout.sample(rng, 1, test=True)
        thing = scene.things[0]
        if wanted == (thing.symbol if kind == "symbols" else thing.colour):
            break
    making.picture(folder / wanted / f"{job[1]:05d}.png", scene)
