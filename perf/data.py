"""Data sets of any size: what training's start and memory, a stage with nothing to do, tars and kills show.

    python perf/data.py scale --samples 10000 100000 1000000
    python perf/data.py rows --shards 1200
    python perf/data.py batches
    python perf/data.py recaption
    python perf/data.py kills

scale      a project over tars of 10,000 samples with 70-word captions: recaption (captioner `none`) and annotate
           through `dvc repro`, of which one shard is really analysed and the others are made of its columns with other
           texts; then the same with nothing to do; then in fresh processes the seconds until a first batch, for three
           kinds of views, and memory above the model
rows       12 million samples without pictures: links to one shard under 1,200 names, what they have in common written
batches    batches a second of two workers: from tars, from loose files, by open_clip's own loader (`webdataset` must be
           importable, else a stand-in)
recaption  a tar's CPU seconds, memory over 1 and 10 tars, two processes against one
kills      recaption with a chat server, and annotate, killed twenty times each

The last line printed is a JSON document; exit code 1 where a bound is broken. `--folder` keeps made data there.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from compclip.base.errors import entry  # noqa: E402
from perf import data_batches, data_kills, data_made, data_recaption, data_scale  # noqa: E402


def scale(folder: Path, args: argparse.Namespace) -> dict[str, Any]:
    """Every size in turn."""
    found: dict[str, Any] = {"sizes": []}
    for samples in args.samples:
        found["sizes"].append(data_scale.scale(folder / str(samples), samples, args.rows))
        print(json.dumps(found["sizes"][-1]), file=sys.stderr, flush=True)
    return found | {"broken": [f"{one['samples']}: {fault}" for one in found["sizes"] for fault in one["broken"]]}


def rows(folder: Path, args: argparse.Namespace) -> dict[str, Any]:
    """Many rows."""
    return data_scale.repeated(folder / "rows", args.rows, args.shards)


def batches(folder: Path, args: argparse.Namespace) -> dict[str, Any]:
    """Tars, files and another loader."""
    return data_batches.measure(folder, args.pictures, args.batches, args.rounds)


def recaption(folder: Path, args: argparse.Namespace) -> dict[str, Any]:
    """A tar and ten."""
    return data_recaption.measure(folder, args.rows, (2, args.tars), args.rounds)


def kills(folder: Path, args: argparse.Namespace) -> dict[str, Any]:
    """Both stages."""
    return data_kills.measure(folder, args.kills, args.seed)


WAYS: dict[str, Callable[[Path, argparse.Namespace], dict[str, Any]]] = {
    f.__name__: f for f in (scale, rows, batches, recaption, kills)
}


@contextlib.contextmanager
def place(given: str) -> Iterator[Path]:
    """The folder that is given, or one that goes in the end."""
    if given:
        yield Path(given).absolute()
        return
    with tempfile.TemporaryDirectory(prefix="data-") as folder:
        yield Path(folder)


def parse(argv: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python perf/data.py", description=__doc__.splitlines()[0])
    parser.add_argument("way", choices=WAYS)
    parser.add_argument("--folder", default="", help="an empty one, which stays")
    parser.add_argument("--samples", type=int, nargs="+", default=[10**4, 10**5, 10**6])
    parser.add_argument("--rows", type=int, default=data_made.ROWS, help="samples of a tar")
    parser.add_argument("--shards", type=int, default=1200)
    parser.add_argument("--tars", type=int, default=10)
    parser.add_argument("--pictures", type=int, default=1154)
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kills", type=int, default=20, help="of each stage")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    return parser.parse_args(argv)


def main(argv: list[str]) -> int:
    """Measure, print, say which bounds are broken."""
    args = parse(argv)
    with place(args.folder) as folder:
        found = WAYS[args.way](folder, args)
    print(json.dumps(found), flush=True)
    return 1 if found["broken"] else 0


if __name__ == "__main__":
    sys.exit(entry(main))
