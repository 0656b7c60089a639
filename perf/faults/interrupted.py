"""Kill what stands around training at random moments, run it again, and compare with what nobody disturbed.

    python -m perf.faults.interrupted --kills 200 [--seed 0]

A tiny project, trained and scored. `prepare.shard_stages`, `evaluate`, `report` and `track` take turns: the files that
they made are taken away, and the command is killed by SIGKILL, in two ways:

    call      before one of its calls that change the disk: Python tells of each that it is about to make
    moment    after a part of the time that it takes: SQLite writes in between

Half of them are killed once more on their way back. Then the command must come to its end by itself, with the files of
a project that nobody disturbed, but for what the clock says; and MLflow must show the same runs. Commands run in copies
of this process, which has imported all that they need: a kill meets work and no imports. The last line printed is a
JSON document; exit code 1 where something differs.

Takes 20 minutes for 200 kills; needs nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import random
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from compclip.base import links
from compclip.base.files import CHECKSUMS, LEFTOVER
from compclip.evaluate import __main__ as evaluate_command
from compclip.prepare import shard_stages
from compclip.report import __main__ as report_command
from compclip.track import __main__ as track_command
from compclip.track import sync, tracking_store
from perf.checkout import OUTSIDE
from tests import tiny_project
from tests.tiny_project import METHODS

CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.truncate", "sqlite3.connect"}
WAYS = ("call", "moment")
AGAIN = 0.5  # how many kills are followed by another one
STEPS = 4
IDS = ("mlflow.log-model.history", "mlflow.parentRunId")  # tags that hold what MLflow drew
SAID = "said.log"


@dataclass(frozen=True)
class Stage:
    """A command, the files that it makes, as patterns, and what two runs of it must have in common."""

    run: Callable[[], object]
    makes: tuple[str, ...]
    outcome: Callable[[Stage], dict[str, Any]]

    @property
    def paths(self) -> list[Path]:
        """What there is of its files and folders."""
        return [path for pattern in self.makes for path in sorted(Path().glob(pattern))]


def _prepare() -> None:
    for options in ((), ("--annotate",)):
        _checked(shard_stages.main(["--data", "scenes", *options]))


def _evaluate() -> None:
    for method in METHODS:
        _checked(evaluate_command.main(["--method", method]))


def _checked(code: int) -> None:
    if code:
        sys.exit(code)


def files(stage: Stage) -> dict[str, Any]:
    """Every file and its bytes, without the time that an evaluation took, and checksums of what has that."""
    paths = [p for path in stage.paths for p in (path.rglob("*") if path.is_dir() else [path]) if p.is_file()]
    paths = [p for p in paths if p.name != CHECKSUMS]
    return {str(p): _content(p) for p in paths if not LEFTOVER.fullmatch(p.name) and not _inside_left(p)}


def _inside_left(path: Path) -> bool:
    return any(LEFTOVER.fullmatch(name) for name in path.parts)


def _content(path: Path) -> Any:
    raw = path.read_bytes()
    content = json.loads(raw) if path.suffix == ".json" else raw
    return {k: v for k, v in content.items() if k != "seconds"} if isinstance(content, dict) else content


def in_mlflow(stage: Stage) -> dict[str, Any]:
    """Every run that MLflow shows, by experiment and name: its rows, its files and those of its model."""
    with contextlib.closing(sqlite3.connect("mlflow/mlflow.db")) as database:
        ask = database.execute
        runs = ask("SELECT e.name, r.name, r.run_uuid, r.artifact_uri, r.status FROM runs r JOIN experiments e "
                   "USING (experiment_id) WHERE r.lifecycle_stage = 'active'").fetchall()  # fmt: skip
        by_run = {f"{experiment}/{name}": _run(ask, run, uri) | {"status": status}
                 for experiment, name, run, uri, status in runs}  # fmt: skip
    return by_run | {
        "runs": len(runs),
        "synced": json.loads(Path("mlflow/synced.json").read_text()),
        "beside": sorted(p.name for p in Path("mlflow").iterdir()),
    }


def _run(ask: Callable, run: str, uri: str) -> dict[str, Any]:
    models = ask("SELECT artifact_location FROM logged_models WHERE source_run_id = ? AND lifecycle_stage = 'active'",
                 [run])  # fmt: skip
    tags = ask("SELECT key, value FROM tags WHERE run_uuid = ?", [run])
    return {
        "metrics": sorted(ask("SELECT key, value, timestamp, step FROM metrics WHERE run_uuid = ?", [run])),
        "params": sorted(ask("SELECT key, value FROM params WHERE run_uuid = ?", [run])),
        "tags": sorted((key, value) for key, value in tags if key not in IDS),
        "files": [
            _names(tracking_store.path_of_uri(location)) for location in (uri, *(location for (location,) in models))
        ],
    }


def _names(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


STAGES = {
    "prepare": Stage(_prepare, ("data",), files),
    "evaluate": Stage(_evaluate, ("results", "store/*/scores"), files),
    "report": Stage(lambda: _checked(report_command.main([])), ("reports",), files),
    "track": Stage(lambda: _checked(track_command.main([])), ("mlflow",), in_mlflow),
}


def changes(event: str, args: tuple) -> bool:
    """Whether an event of Python's is a call that changes the disk."""
    writes = event == "open" and isinstance(args[2], int) and bool(args[2] & (os.O_WRONLY | os.O_RDWR))
    return writes or event in CHANGES


def copied(run: Callable[[], object], at: int = 0, count: Path | None = None) -> int:
    """A copy of this process that runs a command: its number. It is killed before its change `at`, or counts them."""

    def body() -> None:
        change_count = 0

        def count_change(event: str, args: tuple) -> None:
            nonlocal change_count
            if changes(event, args):
                change_count += 1
                if change_count == at:
                    os.kill(os.getpid(), signal.SIGKILL)

        with open(SAID, "a") as log:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
        sys.addaudithook(count_change)
        run()
        if count:
            count.write_text(str(change_count))

    return tiny_project.fork(body)


@dataclass(frozen=True)
class Calm:
    """What an undisturbed command made, how often it changed the disk, and for how long it worked."""

    outcome: dict[str, Any]
    changes: int
    seconds: float


def calm(stage: Stage) -> Calm:
    """Run a command on cleared ground."""
    for path in stage.paths:
        links.remove(path)
    count, start = Path("count"), time.perf_counter()
    if tiny_project.ended(copied(stage.run, count=count)):
        sys.exit(f"an undisturbed command failed: {Path(SAID).read_text()[-2000:]}")
    return Calm(stage.outcome(stage), int(count.read_text()), time.perf_counter() - start)


def kill(stage: Stage, usual: Calm, way: str, rng: random.Random) -> bool:
    """Start a command and kill it; whether it was still at work."""
    pid = copied(stage.run, rng.randint(1, usual.changes) if way == "call" else 0)
    if way == "moment":
        time.sleep(rng.uniform(0, usual.seconds))
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return tiny_project.ended(pid) == -signal.SIGKILL


@contextlib.contextmanager
def aside(stage: Stage) -> Iterator[None]:
    """A stage's files out of the way, and back in the end: others read them, and the clock stands in them."""
    with tempfile.TemporaryDirectory(dir=Path().absolute()) as folder:
        moved_to = {path: Path(folder) / str(number) for number, path in enumerate(stage.paths)}
        for path, target in moved_to.items():
            path.rename(target)
        yield
        for path in stage.paths:
            links.remove(path)
        for path, target in moved_to.items():
            target.rename(path)


def experiment(root: Path, kills: int, seed: int, kinds: Sequence[str] = WAYS) -> dict[str, Any]:
    """Kill, run again and compare, in a project that is trained, in whole rounds; its files end as they were."""
    rng, start, killed, ways = random.Random(seed), time.time(), Counter[str](), Counter[str]()
    differing, stuck, leftovers = [], [], list[str]()
    with inside(root):
        usual = {name: calm(stage) for name, stage in STAGES.items()}
        for turn, (name, stage) in enumerate(itertools.cycle(STAGES.items())):
            if killed.total() >= kills and turn % len(STAGES) == 0:
                break
            with aside(stage):
                for way in rng.choices(kinds, k=1 + (rng.random() < AGAIN)):
                    hit = kill(stage, usual[name], way, rng)
                    killed[name] += hit
                    ways[way] += hit
                where = f"{name} after {killed.total()} kills"
                if tiny_project.ended(copied(stage.run)):
                    stuck.append(f"{where}: {Path(SAID).read_text()[-500:]}")
                elif stage.outcome(stage) != usual[name].outcome:
                    differing.append(where)
                leftovers += [p.name for path in stage.paths for p in path.rglob(".*") if LEFTOVER.fullmatch(p.name)]
                print(f"{where}, {len(differing)} differ, {len(stuck)} stuck", file=sys.stderr, flush=True)
    return {
        "kills": killed.total(), "of": dict(sorted(killed.items())), "ways": dict(sorted(ways.items())),
        "differing": differing, "needed_a_person": stuck, "left_for_an_hour": len(leftovers),
        "changes": {name: calm_run.changes for name, calm_run in usual.items()}, "seconds": round(time.time() - start),
    }  # fmt: skip


@contextlib.contextmanager
def inside(root: Path) -> Iterator[None]:
    """The folder as the current one, and all that MLflow imports late: it logs into a store that nobody looks at.

    The project's name lies with the files that are taken away, and would be another one each time.
    """
    project = mock.patch.dict(os.environ, {sync.PROJECT: "interrupted"})
    with (
        contextlib.chdir(root),
        project,
        tempfile.TemporaryDirectory() as other_store,
        open(os.devnull, "w") as nowhere,
    ):
        tiny_project.plan()
        with contextlib.redirect_stdout(nowhere):
            track_command.main(["--uri", f"sqlite:///{other_store}/mlflow.db"])
        yield


def main() -> int:
    """Print what became of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0, help="of the moments and ways")
    args = parser.parse_args()
    for name in OUTSIDE:
        os.environ.pop(name, None)
    with tempfile.TemporaryDirectory(prefix="interrupted-") as folder:
        root = tiny_project.finish(tiny_project.make(Path(folder) / "project", STEPS))
        summary = experiment(root, args.kills, args.seed)
        shutil.rmtree(root)
    print(json.dumps(summary), flush=True)
    return 1 if summary["differing"] or summary["needed_a_person"] else 0


if __name__ == "__main__":
    sys.exit(main())
