"""Whether the tree gives the numbers of the commit that its `numbers.json` is of: `make numbers`.

    python -m perf.numbers                  beside the commit that changed compclip/config/numbers.json last
    python -m perf.numbers --base v0.2.0    beside another one

Each side's code trains every method and variant of the field's grid (experiments/grids/field.yaml), six steps of a tiny
model on 64 drawings, each side by its own grid; a method that one side alone has is new. Equal bits, of the weights and
of all logged numbers: the tree's hashes are written, and runs keep their keys. Other bits: that method's version goes
up as well. What is not trained counts as other numbers.

Takes 2 minutes on two cores; needs the history of git.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from compclip.base.files import hash_file
from compclip.config import read
from perf.checkout import ROOT

FILE = "compclip/config/numbers.json"
GRID = "experiments/grids/field.yaml"
TINY = {
    "embed_dim": 16,
    "vision_cfg": {"image_size": 64, "patch_size": 16, "width": 32, "layers": 1, "head_width": 16},
    "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 16, "heads": 1, "layers": 1},
}
SMALLER = {
    "grid": {"seeds": [0], "backbones": ["tiny"]},
    "train": {"max_steps": 6, "batch_size": 16, "warmup_steps": 2, "log_every_steps": 1},
    "methods": {
        "mosaiclip": {"single_steps": 2},
        "released": {"path": "models/tiny"},
        "hybrid": {"negatives": "negclip+bigram", "place": "contrast+s_neg+global+local", "concepts": "pooled"},
        "il_clip": {"first_agent_step": 1, "cycle_steps": 2, "still_steps": 1, "rising_steps": 1},
    },
    "backbones": {"tiny": {"model": "tiny.json"}},
    "scenes": {"train": 64, "retrieval": 2, "records": 2, "per_class": 1},
}
STAGES = (
    "prepare --data scenes",
    "prepare --data scenes --annotate",
    "backbone --backbone tiny",
    "neighbours --data scenes --backbone tiny",
)
CHILD = """
import json, sys, traceback
from compclip import __main__ as command

for words in json.loads(sys.argv[1]):
    try:
        assert not command.main(words)
    except BaseException:
        print(words, traceback.format_exc(), file=sys.stderr)
"""


def git(*argv: str) -> str:
    """Run git and return what it prints."""
    return subprocess.run(["git", *argv], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


@contextmanager
def check_out(commit: str) -> Iterator[Path]:
    """A folder with the files of a commit, for as long as the context lasts."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "tree")
        git("worktree", "add", "-q", "--detach", str(tree), commit)
        try:
            yield tree
        finally:
            git("worktree", "remove", "--force", str(tree))


def make_project(project: Path, grid: Path) -> list[str]:
    """Write a small version of the field's grid; return its methods, variants among them."""
    params = OmegaConf.merge(read.read_with_overrides(grid, ()), SMALLER)
    params.grid.methods += ["hybrid", "released"]  # of no author: not in the field
    project.mkdir()
    (project / "params.yaml").write_text(OmegaConf.to_yaml(params))
    (project / "tiny.json").write_text(json.dumps(TINY))
    return list(params.grid.methods)


def train(tree: Path, project: Path, methods: Sequence[str]) -> None:
    """Train a project by the code of a tree; what fails is printed, and is not there afterwards."""
    inherited = {name: value for name, value in os.environ.items() if name != "COMPCLIP_STORE"}
    env = {**inherited, "PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1"}
    cells = [["train", "--cell", f"{method}-tiny-scenes-0"] for method in methods]
    commands = [["scenes", "--out", "data/scenes_world"], *map(str.split, STAGES), *cells]
    subprocess.run([sys.executable, "-c", CHILD, json.dumps(commands)], cwd=project, env=env, check=True)


def read_numbers(project: Path, method: str) -> list[Any] | None:
    """Return the logged numbers of a method's run and the hashes of its weights; None where it was not trained."""
    from compclip.runs.progress import CLOCK

    folder = project / "runs" / method / "tiny-scenes-0"
    if not (folder / "environment.json").is_file():
        return None
    rows = map(json.loads, (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    logged = [{name: value for name, value in row.items() if name not in CLOCK} for row in rows]
    return [*logged, *map(hash_file, sorted(folder.glob("checkpoint/*.safetensors")))]


def renew(
    numbers: dict[str, Any], modules: dict[str, list[str]], changed: Sequence[str], methods: Sequence[str]
) -> dict[str, Any]:
    """Return the contents of the file: the tree's hashes, and a further version of the methods that changed.

    A new method begins with version 0.
    """
    versions = {name: numbers["versions"].get(name, 0) + (name in changed) for name in methods}
    older = {name: code for name, code in numbers["older"].items() if name not in changed}
    return {"versions": versions, "modules": modules, "older": older}


def main(argv: Sequence[str]) -> int:
    """Compare, say which methods' numbers differ, and write the file."""
    from compclip.base import plugins
    from compclip.base.files import read_mapping, write_json
    from compclip.config import training_code

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", help="the commit to compare with")
    args = parser.parse_args(argv)
    methods = plugins.list_plugins(plugins.METHODS)
    base = args.base or git("log", "-1", "--format=%H", "--", FILE)
    with check_out(base) as tree, tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor() as pool:
        sides = [Path(folder, "base"), Path(folder, "here")]
        of_sides = [make_project(side, code / GRID) for side, code in zip(sides, (tree, ROOT), strict=True)]
        rows = [row for row in of_sides[0] if row in of_sides[1]]
        list(pool.map(train, (tree, ROOT), sides, (rows, rows)))
        failed = [row for row in rows if read_numbers(sides[0], row) is None]
        if failed:  # the commit of before trains on every machine that has what it needs
            raise SystemExit(
                f"{len(failed)} runs of {base} failed here, as {failed[0]} (see above); nothing is written"
            )
        equal_rows = {row for row in rows if read_numbers(sides[0], row) == read_numbers(sides[1], row) is not None}
    changed = sorted({row.partition(".")[0] for row in rows if row not in equal_rows})
    hashes = {pair for name in methods for pair in training_code.hash_training_modules(name).items()}
    modules: dict[str, list[str]] = {}
    for module, digest in sorted(hashes):
        modules.setdefault(module, []).append(digest)
    write_json(ROOT / FILE, renew(read_mapping(ROOT / FILE), modules, changed, methods))
    print(f"{len(equal_rows)} of {len(rows)} runs are equal; a new version of: {', '.join(changed) or 'no method'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
