"""Make the scenes world: pictures for fine-tuning in the Karpathy layout, their layouts beside, and the benchmarks.

A record depends on (seed, split, index) alone, so that the files are the same however many processes work.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from functools import partial
from pathlib import Path

from compclip.base import json_text
from compclip.base.errors import UserError
from compclip.base.files import read_text, write_atomic, write_json
from compclip.config.sections import World
from compclip.data.scenes import beside, grammar, layout, making, official
from compclip.data.scenes.layout import Scene, Thing

LAYOUTS = "layouts.jsonl"
TRAIN = 10  # split, before those of the benchmarks


def generate(world: World, out: Path) -> dict[str, int]:
    """Write the whole world into a new folder; gives the number of pictures of each part.

    Raises UserError where `out` is a file or holds anything but a world.
    """
    _check(out)
    fresh = out.with_name(f".{out.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    counts = {part.__name__.strip("_"): part(world, fresh) for part in (_train, *official.PARTS)}
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
