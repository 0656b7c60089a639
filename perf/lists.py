"""A released list of captions at size: its index, then shards that look their pictures up in it.

    python perf/lists.py [--rows 1000000] [--shards 20]

A csv of so many rows, an address and a caption of 70 words each; shards of 10,000 addresses drawn from all of it, a
tenth of them unknown. Prints one JSON document: CPU seconds to index (once) and a shard, MiB on disk, and the memory of
this process above what it had: the most while it indexes, which is some 24 bytes a row besides a block, and while it
looks up, without the files that it maps. Exit code 1 where a known address was not found, or where that memory is after
the last shard more than a tenth above that after the first.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from compclip.base.errors import entry  # noqa: E402
from compclip.config.captions import Captions  # noqa: E402
from compclip.data import joined  # noqa: E402
from perf.processes import status  # noqa: E402

SHARD, GROWTH = 10_000, 1.1
WORDS = [
    "the",
    "a",
    "dog",
    "red",
    "large",
    "bridge",
    "stands",
    "near",
    "under",
    "green",
    "woman",
    "with",
    "holds",
    "two",
]


def write(path: Path, rows: int) -> None:
    """The list; made, and of the same rows the same."""
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS, 70)) for _ in range(1000)]
    with open(path, "w", encoding="utf-8") as file:
        file.write("url,caption\n")
        file.writelines(f"{address(n)},{n} {texts[n % 1000]}\n" for n in range(rows))


def address(number: int) -> str:
    """Of a row's picture."""
    return f"https://host-{number % 977}.example/pictures/{number * 7919}.jpg"


def mib(what: str) -> float:
    """Memory of this process: VmHWM the most there was, RssAnon what is no mapped file."""
    return int(status(os.getpid())[what].split()[0]) / 1024


def main(argv: list[str]) -> int:
    """Make the list, index it, look shards up."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--shards", type=int, default=20)
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        found = measured(Path(folder), args.rows, args.shards)
    print(json.dumps(found, indent=1))
    return 0 if found["found"] == found["known"] and found["growth"] <= GROWTH else 1


def measured(folder: Path, rows: int, count: int) -> dict:
    """What the docstring says."""
    write(folder / "list.csv", rows)
    rng, before, started = np.random.default_rng(1), mib("RssAnon"), time.process_time()
    resident = mib("VmRSS")
    with joined.opened(Captions(str(folder / "list.csv"), "url", ["caption"]), folder / "index") as captions:
        indexed, most, known, hits = time.process_time() - started, mib("VmHWM"), 0, 0
        started, memory = time.process_time(), []
        for _ in range(count):
            drawn = rng.integers(0, rows * 10 // 9, SHARD)
            known += int((drawn < rows).sum())
            hits += sum(texts is not None for texts in captions.of([address(int(n)) for n in drawn]))
            memory.append(mib("RssAnon"))
        spent = time.process_time() - started
    return {
        "rows": rows, "known": known, "found": hits,
        "index_s": round(indexed, 2), "shard_s": round(spent / count, 3),
        "list_mib": _mib(folder / "list.csv"), "index_mib": sum(map(_mib, (folder / "index").rglob("*.*"))),
        "indexing_mib": round(most - resident), "first_shard_mib": round(memory[0] - before),
        "last_shard_mib": round(memory[-1] - before), "growth": round(memory[-1] / memory[0], 3),
    }  # fmt: skip


def _mib(path: Path) -> int:
    return path.stat().st_size >> 20


if __name__ == "__main__":
    sys.exit(entry(main))
