"""Annotating a shard against spaCy's own parse of its captions, two processes against one, and what a row costs.

    python -m perf.speed.annotation [captions file] [--captions 1000] [--rounds 3] [--shards 4]

Captions of 70 words and more, joined of the lines of a file as `text_rules.py` takes them; without one of the shared
data's (COMPCLIP_SHARED_DATA, or ../shared/data), and where there are none of the scenes' sentences. "spaCy" is its own
`pipe` over the texts, with the same model and components and batches. Both are measured by turns in one process, in its
CPU seconds; "first" is a process's first shard, for which WordNet is read. Then one process annotates a shard while
nothing else is done, and two do so side by side, a shard each. Prints one JSON document; exit code 1 where annotating
is slower than 0.8 of spaCy, two processes than 1.8 of one, a caption takes more than 3 KB or, to become an
`Annotation`, more than three times as long as to be unpickled, or memory grows by more than a tenth over the later
shards.

Takes some 3 minutes; needs captions (the shared data's, else the scenes' sentences).
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import pickle
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pyarrow as pa

from compclip.base.errors import UserError, entry
from compclip.scenes import grammar, layout
from compclip.text import spacy_parser as stage
from compclip.text.annotation_columns import AnnotationRows
from perf.processes import status
from perf.speed import text_rules

WORDS = 70
SPACY, PROCESSES, BYTES, ROW, GROWTH = 0.8, 1.8, 3000, 3, 1.1


def lines(file: str | None) -> list[str]:
    """What captions are joined of."""
    try:
        return text_rules.captions(file, 1 << 20)
    except UserError:
        if file:
            raise
    rng = np.random.default_rng(0)
    return [grammar.dense(rng, layout.sample(rng, 4, test=False)) for _ in range(5000)]


def captions(pool: list[str], count: int, seed: int) -> list[str]:
    """Captions of at least 70 words; of the same seed the same."""
    rng = np.random.default_rng(seed)

    def caption() -> str:
        words: list[str] = []
        while len(words) < WORDS:
            words += pool[rng.integers(len(pool))].split()
        return " ".join(words)

    return [caption() for _ in range(count)]


def cpu_s(work: Callable[[], object]) -> float:
    """Of this process."""
    start = time.process_time()
    work()
    return time.process_time() - start


def spacy(texts: list[str]) -> None:
    """The parse alone, which keeps nothing."""
    for _ in stage._load_model().pipe(texts, batch_size=stage.BATCH_SIZE):
        pass


def to_columns(texts: list[str]) -> object:
    """The columns of a shard of captions."""
    return stage.annotate_columns(texts, Counter()).array()


def against_spacy(pool: list[str], count: int, rounds: int) -> dict[str, float]:
    """Captions a second: of spaCy and of a shard's columns; new captions in every round."""
    first, spacys, ours = captions(pool, count, 0), [], []
    spacy(first[:10])
    cold = cpu_s(partial(to_columns, first))
    for texts in (captions(pool, count, seed) for seed in range(1, rounds + 1)):
        spacys.append(cpu_s(partial(spacy, texts)))
        ours.append(cpu_s(partial(to_columns, texts)))
    ratios = [a / b for a, b in zip(spacys, ours, strict=True)]
    return {
        "spacy_per_s": count / min(spacys),
        "columns_per_s": count / min(ours),
        "columns_times_spacy": float(np.median(ratios)),
        "first_shard_times_spacy": float(np.median(spacys) / cold),
    }


def annotating(pipe: Connection, pool: list[str], count: int, seed: int) -> None:
    """A process: ready, then a shard for each word to go on; says its seconds and MiB each time."""
    stage.annotate_columns(captions(pool, count, seed), Counter())
    pipe.send(None)
    for number in itertools.count(1):
        if not pipe.recv():
            return
        texts, start = captions(pool, count, seed + 1000 * number), time.perf_counter()
        stage.annotate_columns(texts, Counter()).array()
        pipe.send((time.perf_counter() - start, int(status_kib() / 1024)))


def status_kib() -> int:
    """Memory of this process, as the kernel tells."""
    return int(status(multiprocessing.current_process().pid or 0)["VmRSS"].split()[0])


def together(pipes: list[Connection]) -> tuple[float, int]:
    """Wall seconds until each of some processes has made a shard, and the MiB of the largest."""
    start = time.perf_counter()
    for pipe in pipes:
        pipe.send(True)
    mib = max(pipe.recv()[1] for pipe in pipes)
    return time.perf_counter() - start, mib


def of_processes(pool: list[str], count: int, rounds: int) -> dict[str, object]:
    """How many times a process's captions two make; memory after each shard of the first."""
    context = multiprocessing.get_context("spawn")
    pairs = [context.Pipe() for _ in range(2)]
    arguments = [(child_end, pool, count, seed) for seed, (_, child_end) in enumerate(pairs)]
    processes = [context.Process(target=annotating, args=args, daemon=True) for args in arguments]
    for process in processes:
        process.start()
    pipes = [parent_end for parent_end, _ in pairs]
    for pipe in pipes:
        pipe.recv()
    alone, both = zip(*((together(pipes[:1]), together(pipes)) for _ in range(rounds)), strict=True)
    for pipe in pipes:
        pipe.send(False)
    for process in processes:
        process.join()
    ratio = float(np.median([2 * single[0] / joint[0] for single, joint in zip(alone, both, strict=True)]))
    return {
        "two_times_one": ratio,
        "mib": [m for single, joint in zip(alone, both, strict=True) for m in (single[1], joint[1])],
    }


def of_rows(pool: list[str], count: int) -> dict[str, float]:
    """Bytes of a caption in its mapped file, and how long it takes to be an `Annotation`, in an order by chance."""
    batch = pa.RecordBatch.from_struct_array(stage.annotate_columns(captions(pool, count, 0), Counter()).array())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "00000.arrow")
        with pa.ipc.new_file(str(path), batch.schema) as writer:
            writer.write_batch(batch)
        rows = AnnotationRows(pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0))
        order = np.random.default_rng(0).permutation(count).tolist()
        pickled = [pickle.dumps(rows[i]) for i in order]
        row_seconds = [cpu_s(lambda: [rows[i] and None for i in order]) for _ in range(5)]
        unpickling_seconds = [cpu_s(lambda: [pickle.loads(raw) and None for raw in pickled]) for _ in range(5)]
        ratio = min(row_seconds) / min(unpickling_seconds)
        return {
            "bytes": path.stat().st_size / count,
            "bytes_pickled": sum(map(len, pickled)) / count,
            "row_us": 1e6 * min(row_seconds) / count,
            "row_times_unpickling": ratio,
        }


def broken(figures: dict) -> Iterator[str]:
    """The bounds that do not hold."""
    if figures["columns_times_spacy"] < SPACY:
        yield "columns_times_spacy"
    if figures["two_times_one"] < PROCESSES:
        yield "two_times_one"
    if figures["bytes"] > BYTES:
        yield "bytes"
    if figures["row_times_unpickling"] > ROW:
        yield "row_times_unpickling"
    if figures["mib"][-1] > GROWTH * figures["mib"][len(figures["mib"]) // 2]:
        yield "mib"


def main(argv: list[str]) -> int:
    """Measure, print, compare with the bounds."""
    parser = argparse.ArgumentParser(prog="python -m perf.speed.annotation", description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?")
    parser.add_argument("--captions", type=int, default=1000, help="of a shard")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--shards", type=int, default=4, help="that each of two processes makes")
    args = parser.parse_args(argv)
    pool = lines(args.file)
    figures = {"captions": args.captions} | against_spacy(pool, args.captions, args.rounds)
    figures |= of_processes(pool, args.captions, args.shards) | of_rows(pool, args.captions)
    figures["broken"] = list(broken(figures))
    print(json.dumps(figures, indent=1))
    return 1 if figures["broken"] else 0


if __name__ == "__main__":
    sys.exit(entry(main))
