"""Make the scenes world: pictures for fine-tuning in the Karpathy layout, their layouts beside, and the benchmarks.

A record depends on (seed, split, index) alone, so that the files are the same however many processes work.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np

from compclip.base import files
from compclip.base.errors import UserError
from compclip.base.files import read_text, write_atomic, write_json
from compclip.config.sections import World
from compclip.scenes import companion_texts, grammar, layout, world_benchmarks
from compclip.scenes.layout import Scene, Thing
from compclip.scenes.render import parallel, write_picture

LAYOUTS = "layouts.jsonl"
TRAIN = 10  # split, before those of the benchmarks
JOINED = 21  # split: which captions begin with a sentence that joins by "and"


def generate(world: World, out: Path) -> dict[str, int]:
    """Write the whole world into a new folder and return the number of pictures of each part.

    Raises UserError where `out` is a file or holds anything but a world.
    """
    _check_target(out)
    new_folder = out.with_name(f".{out.name}.new")
    shutil.rmtree(new_folder, ignore_errors=True)
    counts = {"train": _train(world, new_folder)}
    counts |= {name: write_files(world, new_folder) for name, write_files in world_benchmarks.PARTS.items()}
    if world.beside:
        layouts = new_folder / LAYOUTS
        joined = read_joined(layouts)
        counts["beside"] = companion_texts.write_companions(world, new_folder, read_layouts(layouts), joined)
    write_json(new_folder / "counts.json", counts)
    shutil.rmtree(out, ignore_errors=True)
    new_folder.rename(out)
    return counts


def _check_target(out: Path) -> None:
    """Raise UserError where `out` is a file, a link, or a folder of other files: a world replaces only a world."""
    for folder in (out, *out.parents):
        if (folder.exists() and not folder.is_dir()) or (folder == out and folder.is_symlink()):
            raise UserError(f"--out {out}: {folder} is a file or a link; give a folder, which may be new")
    if out.is_dir() and any(out.iterdir()) and not (out / LAYOUTS).is_file():
        raise UserError(f"--out {out}: the folder holds other files than a world's; give a new one")


def _train(world: World, out: Path) -> int:
    rows = parallel(world, partial(_train_row, world, out), range(world.train))
    images = []
    for index, row in enumerate(rows):
        image = {"filename": f"{row['id']}.png", "filepath": "", "imgid": index, "split": "train"}
        images.append({**image, "sentences": [{"raw": row["alt_text"]}]})
    write_json(out / "train.json", {"dataset": "scenes", "images": images})
    lines = (json.dumps({"id": r["id"], "scene": asdict(r["scene"])} | r["joined"]) for r in rows)
    write_atomic(out / LAYOUTS, "\n".join(lines) + "\n")
    return len(rows)


def _train_row(world: World, out: Path, index: int) -> dict:
    rng = np.random.default_rng((world.seed, TRAIN, index))
    scene = layout.sample(rng, int(rng.choice((2, 3, 4), p=(0.5, 0.3, 0.2))), test=False)
    name = f"{index:06d}"
    write_picture(out / "train" / f"{name}.png", scene)
    is_joined = world.joined and np.random.default_rng((world.seed, JOINED, index)).random() < world.joined
    joined = {"joined": True} if is_joined else {}
    return {"id": name, "alt_text": grammar.alt_text(rng, scene), "scene": scene, "joined": joined}


def read_joined(path: Path) -> frozenset[str]:
    """Read the ids of layouts.jsonl whose captions begin with a sentence that joins by "and"."""
    return frozenset(row["id"] for row in _read_rows(path) if row.get("joined"))


def _read_rows(path: Path) -> Iterator[dict]:
    lines = enumerate(read_text(path).splitlines(), 1)
    return (files.parse_json(line, str(path), line=number) for number, line in lines)


def read_layouts(path: Path) -> dict[str, Scene]:
    """Read the scenes of layouts.jsonl, by sample id."""
    scenes = {}
    for row in _read_rows(path):
        things = tuple(Thing(**{**t, "shift": tuple(t["shift"])}) for t in row["scene"]["things"])
        scenes[row["id"]] = Scene(things, row["scene"]["background"])
    return scenes
