"""What reading a tar takes where its captions are kept: seconds, and memory that does not grow with tars."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from compclip.base import links
from compclip.base.names import Name
from compclip.config.sections import Data
from compclip.data import prepare
from compclip.data.work import RECAPTION
from perf import data_memory  # and no more: who measures imports what the stage does

GROWTH, PROCESSES = 1.1, 1.8
NAME = Name("big", "data")


def made(folder: str, tars: int, processes: int) -> dict[str, Any]:
    """In this process: captions of some tars kept, by so many processes."""
    os.chdir(folder)
    for left in ("data", ".work"):
        links.remove(Path(left))
    cfg = Data("webdataset", f"tars{tars}", f"tars{tars}", captioner="none")
    with data_memory.spent() as found:
        work = prepare.asked(RECAPTION, NAME, cfg)
        work.complete(processes)
        told = prepare.collect(work, Path("data", NAME))
    return found | {"tars": tars, "processes": processes, "samples": told["samples"]}


def measure(folder: Path, rows: int, tars: tuple[int, int], rounds: int) -> dict[str, Any]:
    """One process over few and many tars, then two; the best of some rounds."""
    from perf import data_made

    few, many = tars
    data_made.tars(folder / f"tars{many}", many, rows)
    (folder / f"tars{few}").mkdir()
    for path in sorted((folder / f"tars{many}").iterdir())[:few]:
        (folder / f"tars{few}" / path.name).hardlink_to(path)
    asked = ((few, 1), (many, 1), (few, 2), (many, 2))
    turns = [[data_memory.fresh(made, str(folder), *one) for one in asked] for _ in range(rounds)]
    best = [min(runs, key=lambda run: run["wall_s"]) for runs in zip(*turns, strict=True)]
    found = {"runs": best, "cpu_s_a_tar": round(best[1]["cpu_s"] / many, 2)}
    found["two_times_one"] = round(best[1]["wall_s"] / best[3]["wall_s"], 2)
    return found | {"broken": list(broken(found))}


def broken(found: dict[str, Any]) -> Iterator[str]:
    """The bounds that do not hold."""
    one_few, one_many, two_few, two_many = found["runs"]
    for few, many in ((one_few, one_many), (two_few, two_many)):
        for name in ("driver_mib", "worker_mib"):
            if many[name] > GROWTH * few[name]:
                yield f"{name}, {many['processes']} processes"
    if found["two_times_one"] < PROCESSES:
        yield "two_times_one"
