"""The files of a run: every path is spelled here and nowhere else.

In the store, store/<run key>/:

    run.yaml params.yaml job.json job.log       what a job reads, where it runs, what it said
    told.json                                   whose failure was posted last
    rungs.json intermediate.jsonl               where a sweep's pruner looks, and what was found there
    lock lease.*.json lives/*.json              who holds the run, and how long anybody worked on it
    kept users/*.json                           a mark: is not to be removed; the projects that published the run
    metrics.jsonl step_*.safetensors            the training so far
    final/                                      the training when it is finished; environment.json comes last
    scores/<identity>/*.json scored.json        results by what they depend on; which ones the last job left

Beside it, by a cell's name: runs/<method>/<backbone-data-seed>/ and results/<method>/<backbone-data-seed>/, which hold
links to the store, and results/_wise_ft/<method>/<backbone-data-seed>.json.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from compclip.base.errors import UserError
from compclip.base.files import fingerprint, read_mapping
from compclip.base.safe_names import SafeName
from compclip.base.shared_folders import check_plain, make_folder, share_with_group

if TYPE_CHECKING:
    from compclip.config.grid import Cell

RUNS, RESULTS = "runs", "results"
LINES = "_wise_ft"  # below results; no method has a name that begins with _
SUMMARY = "summary.json"
WEIGHTS = "open_clip_model.safetensors"  # the name that open_clip gives them
NEIGHBOURS = Path("data/neighbours")
NEIGHBOURS_RECORD = NEIGHBOURS / "made.json"  # of what each file there was made
SHARE = "share/"  # in metrics.jsonl: before a part's name its share of the samples (`train.view_shares`)
LEASE = re.compile(r"lease\.(\d+)\.json")


class Trained(NamedTuple):
    """What training leaves: a folder of the store's, or a published one."""

    path: Path

    @property
    def config(self) -> Path:
        """All parameters, resolved."""
        return self.path / "config.yaml"

    @property
    def checkpoint(self) -> Path:
        """The model, in open_clip's format."""
        return self.path / "checkpoint"

    @property
    def weights(self) -> Path:
        """The model's tensors."""
        return self.checkpoint / WEIGHTS

    @property
    def metrics(self) -> Path:
        """One line a logged step."""
        return self.path / "metrics.jsonl"

    @property
    def environment(self) -> Path:
        """Versions, machine, times and the run key."""
        return self.path / "environment.json"

    def facts(self) -> dict[str, Any]:
        """What environment.json says; empty where there is none. Raises UserError for a file that is no mapping."""
        return read_mapping(self.environment) if self.environment.is_file() else {}

    @property
    def run_key(self) -> str:
        """The run key that environment.json names; empty where none does. Raises UserError as `facts`."""
        return str(self.facts().get("run_key", ""))

    @property
    def published_files(self) -> tuple[Path, ...]:
        """What is published; environment.json last, which marks the rest as complete."""
        return (self.config, self.checkpoint, self.metrics, self.environment)

    @property
    def fingerprint(self) -> str:
        """Another for any other run or training of this one: environment.json has times and that of the weights."""
        return fingerprint(*(path for path in self.published_files if path.is_file()))


class RunFolder(NamedTuple):
    """One run in the store."""

    path: Path

    @property
    def key(self) -> str:
        """The run key."""
        return self.path.name

    def check(self) -> None:
        """Look whether all of it is the run's own. Raises UserError for a link or a pipe, which others may leave."""
        check_plain(self.path)

    def make(self) -> None:
        """Make the folder, writable for whoever may write the store. Raises UserError as `check`."""
        self.check()
        make_folder(self.path)
        share_with_group(self.path, stat.S_IWGRP)

    @property
    def run(self) -> Path:
        """The run that a job trains, resolved."""
        return self.path / "run.yaml"

    @property
    def params(self) -> Path:
        """The params.yaml as it was when the job was sent."""
        return self.path / "params.yaml"

    @property
    def job(self) -> Path:
        """Where the job that was sent last runs."""
        return self.path / "job.json"

    @property
    def log(self) -> Path:
        """What the job says."""
        return self.path / "job.log"

    @property
    def posted_failure(self) -> Path:
        """Names the job whose failure was posted last."""
        return self.path / "told.json"

    def log_of(self, rank: int) -> Path:
        """What one of several processes says; the first one's is the job's."""
        return self.path / f"job.{rank}.log" if rank else self.log

    @property
    def lock(self) -> Path:
        """Held by whoever works on the run."""
        return self.path / "lock"

    def lease(self, number: int) -> Path:
        """The sign of life of one holder; the highest number is the last one's."""
        return self.path / f"lease.{number}.json"

    def leases(self) -> list[int]:
        """The numbers of the leases, sorted. Raises OSError where the folder cannot be read."""
        matches = (LEASE.fullmatch(name) for name in os.listdir(self.path))
        return sorted(int(match[1]) for match in matches if match)

    @property
    def keep_mark(self) -> Path:
        """A mark: the run is not to be removed, whoever uses it."""
        return self.path / "kept"

    @property
    def lives(self) -> Path:
        """A file for each process that worked on the run."""
        return self.path / "lives"

    @property
    def users(self) -> Path:
        """In a shared store, a file for each project that published the run."""
        return self.path / "users"

    @property
    def rungs(self) -> Path:
        """Where a sweep's pruner wants scores on the way."""
        return self.path / "rungs.json"

    @property
    def intermediate(self) -> Path:
        """Scores on the way."""
        return self.path / "intermediate.jsonl"

    @property
    def metrics(self) -> Path:
        """The logged steps so far."""
        return self.path / "metrics.jsonl"

    @property
    def progress(self) -> Path | None:
        """The logged steps, finished or not; None before the first."""
        return next((p for p in (self.metrics, self.final.metrics) if p.is_file()), None)

    @property
    def final(self) -> Trained:
        """The finished training."""
        return Trained(self.path / "final")

    @property
    def finished(self) -> bool:
        """Whether training is through and its files complete."""
        return self.final.environment.is_file()

    def checkpoints(self) -> list[Path]:
        """What an unfinished training goes on from."""
        return sorted(self.path.glob("step_*.safetensors"))

    def scores(self, identity: str) -> Path:
        """The results of one evaluation; the folder is there when they are complete."""
        return self.path / "scores" / identity

    @property
    def scored(self) -> Path:
        """Names the results that the last job left; gone while a job is on its way to them."""
        return self.path / "scored.json"

    @property
    def results(self) -> Path | None:
        """The results that the last job left; None where it did not come to them."""
        if not self.scored.is_file():
            return None
        return self.scores(SafeName(read_mapping(self.scored).get("identity"), f"{self.scored}: identity"))

    def half_written(self) -> Iterator[Path]:
        """What a trainer that was killed inside a write left."""
        for pattern in (".step_*.tmp", ".metrics.jsonl.*.tmp", "final/.*.tmp", "final/checkpoint/**/.*.tmp"):
            yield from self.path.glob(pattern)


class Inputs(NamedTuple):
    """What a cell's training reads, in a project."""

    root: Path
    cell: Cell

    @property
    def data(self) -> Path:
        """The annotated samples."""
        return self.root / "data" / self.cell.data

    @property
    def manifest(self) -> Path:
        """What stands for all of them."""
        return self.data / "manifest.json"

    @property
    def backbone(self) -> Path:
        """The pretrained model, in open_clip's format."""
        return self.root / "models" / self.cell.backbone

    @property
    def pair(self) -> str:
        """Data and backbone, as the record of neighbours calls them."""
        return f"{self.cell.data}/{self.cell.backbone}"

    @property
    def neighbours(self) -> Path:
        """Of each picture of the data the nearest ones by the backbone, for methods that ask for them."""
        return self.root / NEIGHBOURS / self.cell.data / f"{self.cell.backbone}.npy"


def read_neighbours_record(root: Path) -> dict[str, dict[str, Any]]:
    """Read what the neighbours of each pair of data and backbone were made of.

    Raises UserError for a damaged record.
    """
    path = root / NEIGHBOURS_RECORD
    record = read_mapping(path) if path.is_file() else {}
    if not all(isinstance(identity, dict) for identity in record.values()):
        raise UserError(f"{path}: damaged; remove it and run `dvc repro neighbours`")
    return record


class Published(NamedTuple):
    """One cell's files, by its name."""

    root: Path
    cell: Cell

    @property
    def trained(self) -> Trained:
        """runs/<method>/<backbone-data-seed>/."""
        return Trained(self.root / RUNS / self.cell.folder)

    @property
    def results(self) -> Path:
        """results/<method>/<backbone-data-seed>/."""
        return self.root / RESULTS / self.cell.folder

    @property
    def line(self) -> Path:
        """results/_wise_ft/<method>/<backbone-data-seed>.json."""
        return self.root / RESULTS / LINES / f"{self.cell.folder}.json"


def result_path(folder: Path, benchmark: SafeName) -> Path:
    """Return the path of one benchmark's results."""
    return folder / f"{benchmark}.json"


def result_paths(folder: Path) -> list[Path]:
    """List the result files of a folder, one a benchmark; summary.json repeats their metrics."""
    return sorted(p for p in folder.glob("*.json") if p.name != SUMMARY)


def published_folders(runs: Path) -> list[Path]:
    """List the run folders below `runs`, sorted; one without config.yaml is no run yet."""
    return sorted(p.parent for p in runs.glob("*/*/config.yaml"))
