"""The files of a run: every path is spelled here and nowhere else.

In the store, store/<run key>/:

    run.yaml params.yaml job.json job.log       what a job reads, where it runs, what it said
    rungs.json intermediate.jsonl               where a sweep's pruner looks, and what was found there
    lock lease.*.json lives/*.json              who holds the run, and how long anybody worked on it
    seen.*.json                                 since when a machine sees a lease stand still
    kept users/*.json                           a mark: is not to be removed; the projects that published the run
    code.json                                   what its key was made of
    metrics.jsonl step_*.safetensors            the training so far
    final/                                      the training when it is finished; environment.json comes last
    snapshots/<share>/final/ scores/            the weights at a share of the training, a run's folder each
    again/                                      a second training, for snapshots that a finished run lacks
    scores/<identity>/*.json scored.json        results by what they depend on; which ones the last job left

Beside it, by a cell's name: runs/<method>/<backbone-data-seed>/ and results/<method>/<backbone-data-seed>/, which hold
links to the store, as does results/<method>/_snapshots/<backbone-data-seed>/<share>/;
results/_wise_ft/<method>/<backbone-data-seed>.json and results/_blind/<data>/<row>/*.json.
"""

from __future__ import annotations

import json
import os
import re
import stat
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compclip.base.files import fingerprint, read_mapping, read_sealed
from compclip.base.safe_names import SafeName
from compclip.base.shared_folders import check_plain, make_folder, share_with_group

if TYPE_CHECKING:
    from compclip.config.cell import Cell


RUNS = "runs"
RESULTS = "results"
# below results; no method has a name that begins with _
LINES = "_wise_ft"
BLIND = "_blind"
SNAPSHOTS = "_snapshots"  # below a method's results
END = 1.0  # the share of a training at its end
SUMMARY = "summary.json"
METRICS_HASH = "metrics_sha256"  # in environment.json: of metrics.jsonl
WEIGHTS = "open_clip_model.safetensors"  # the name that open_clip gives them
NEIGHBOURS = Path("data/neighbours")
NEIGHBOURS_RECORD = NEIGHBOURS / "made.json"  # of what each file there was made
CUT = "cut/"  # before the name of texts: the share that the model reads as another, being cut (`train.view_shares`)
REPLACED = "replaced/pictures"  # the share of samples in whose place the next one was trained, as no picture was read
FAULTS = (CUT, REPLACED)  # shares that are recorded only where there are any, and that no method asks for
SHARE = "share/"  # in metrics.jsonl: before a part's name its share of the samples (`train.view_shares`)
VALIDATION = "validation/"  # in metrics.jsonl: before the name of what was measured of held-out pictures
LEASE = re.compile(r"lease\.(\d+)\.json")


@dataclass(unsafe_hash=True)
class _Folder:
    """A folder whose files have names; never changed."""

    path: Path


class Trained(_Folder):
    """What training leaves: a folder of the store's, or a published one."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.config = path / "config.yaml"  # all parameters, resolved
        self.checkpoint = path / "checkpoint"  # the model, in open_clip's format
        self.weights = self.checkpoint / WEIGHTS
        self.metrics = path / "metrics.jsonl"  # one line a logged step
        self.environment = path / "environment.json"  # versions, machine, times and the run key
        # What is published; environment.json last, which marks the rest as complete.
        self.published_files = (self.config, self.checkpoint, self.metrics, self.environment)

    def facts(self) -> dict[str, Any]:
        """Read environment.json; empty where there is none. Raises UserError for a damaged file."""
        remedy = "remove the run and train it again"
        return read_sealed(self.environment, remedy) if self.environment.is_file() else {}

    @property
    def run_key(self) -> str:
        """The run key that environment.json names; empty where none does. Raises UserError as `facts`."""
        return str(self.facts().get("run_key", ""))

    @property
    def published_name(self) -> str:
        """The cell's name, of a published folder."""
        return f"{self.path.parent.name}-{self.path.name}"

    @property
    def fingerprint(self) -> str:
        """Another for any other run or training of this one: environment.json has times and that of the weights."""
        return fingerprint(*(path for path in self.published_files if path.is_file()))


class RunFolder(_Folder):
    """One run in the store."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.key = path.name
        self.run = path / "run.yaml"  # the run that a job trains, resolved
        self.params = path / "params.yaml"  # as it was when the job was sent
        self.job = path / "job.json"  # where the job that was sent last runs
        self.log = path / "job.log"  # what the job says
        self.lock = path / "lock"  # held by whoever works on the run
        self.keep_mark = path / "kept"  # the run is not to be removed, whoever uses it
        self.lives = path / "lives"  # a file for each process that worked on the run
        self.users = path / "users"  # in a shared store, a file for each project that published the run
        self.code = path / "code.json"  # what its key was made of: data, backbone, and each module's hash
        self.again = path / "again"  # where a finished run is trained once more, for its snapshots
        self.rungs = path / "rungs.json"  # where a sweep's pruner wants scores on the way
        self.intermediate = path / "intermediate.jsonl"  # scores on the way
        self.metrics = path / "metrics.jsonl"  # the logged steps so far
        self.final = Trained(path / "final")  # the finished training
        self.scored = path / "scored.json"  # names the results that the last job left; gone while a job is on its way

    def check(self) -> None:
        """Look whether all of it is the run's own. Raises UserError for a link or a pipe, which others may leave."""
        check_plain(self.path)

    def make(self) -> None:
        """Make the folder, writable for whoever may write the store. Raises UserError as `check`."""
        self.check()
        make_folder(self.path)
        share_with_group(self.path, stat.S_IWGRP)

    def log_of(self, rank: int) -> Path:
        """Return what one of several processes says; the first one's is the job's."""
        return self.path / f"job.{rank}.log" if rank else self.log

    def lease(self, number: int) -> Path:
        """Return the sign of life of one holder; the highest number is the last one's."""
        return self.path / f"lease.{number}.json"

    def sighting(self, machine: str) -> Path:
        """Return what a machine has seen of the last lease."""
        return self.path / f"seen.{machine}.json"

    def sightings(self) -> list[Path]:
        """List what machines have seen of leases."""
        return list(self.path.glob("seen.*.json"))

    def leases(self) -> list[int]:
        """List the numbers of the leases, sorted. Raises OSError where the folder cannot be read."""
        matches = map(LEASE.fullmatch, os.listdir(self.path))
        return sorted(int(match[1]) for match in matches if match)

    @property
    def progress(self) -> Path | None:
        """The logged steps, finished or not; None before the first."""
        return next((p for p in (self.metrics, self.final.metrics) if p.is_file()), None)

    @property
    def finished(self) -> bool:
        """Whether training is through and its files complete."""
        return self.final.environment.is_file()

    def checkpoints(self) -> list[Path]:
        """List what an unfinished training goes on from."""
        return sorted(self.path.glob("step_*.safetensors"))

    def snapshot(self, share: float) -> RunFolder:
        """Return the folder of the weights at a share of the training; the run's own at its end."""
        return self if share == END else RunFolder(self.path / "snapshots" / str(float(share)))

    def half_written(self) -> list[Path]:
        """List what a trainer that was killed inside a write left."""
        patterns = (".step_*.tmp", ".metrics.jsonl.*.tmp", "final/.*.tmp", "final/checkpoint/**/.*.tmp")
        return [path for pattern in patterns for path in self.path.glob(pattern)]

    def scores(self, identity: str) -> Path:
        """Return the results of one evaluation; the folder is there when they are complete."""
        return self.path / "scores" / identity

    @property
    def results(self) -> Path | None:
        """The results that the last job left; None where it did not come to them."""
        if not self.scored.is_file():
            return None
        return self.scores(SafeName(read_mapping(self.scored).get("identity"), f"{self.scored}: identity"))


class Inputs:
    """What a cell's training reads, in a project."""

    def __init__(self, root: Path, cell: Cell) -> None:
        self.root = root
        self.cell = cell
        self.data = root / "data" / cell.data  # the annotated samples
        self.manifest = self.data / "manifest.json"  # what stands for all of them
        self.backbone = root / "models" / cell.backbone  # the pretrained model, in open_clip's format
        self.pair = f"{cell.data}/{cell.backbone}"  # as the record of neighbours calls them
        # Of each picture of the data the nearest ones by the backbone, for methods that ask for them.
        self.neighbours = root / NEIGHBOURS / cell.data / f"{cell.backbone}.npy"


class SnapshotResults(_Folder):
    """What is published of a cell's snapshots, beside the cell's results."""

    def __init__(self, results: Path) -> None:
        super().__init__(results.parent / SNAPSHOTS / results.name)
        self.record = self.path / "snapshots.json"  # steps, and which one the cell's results are of
        self.checkpoint = self.path / "checkpoint"  # that one's, where it was chosen

    def at(self, share: float) -> Path:
        """Return the folder of the results at a share of the training."""
        return self.path / str(float(share))


class Published:
    """One cell's files, by its name."""

    def __init__(self, root: Path, cell: Cell) -> None:
        self.root = root
        self.cell = cell
        self.trained = Trained(root / RUNS / cell.folder)
        self.results = root / RESULTS / cell.folder
        self.line = root / RESULTS / LINES / f"{cell.folder}.json"
        self.snapshots = SnapshotResults(self.results)


def read_neighbours_record(root: Path) -> dict[str, dict[str, Any]]:
    """Read what the neighbours of each pair of data and backbone were made of; empty where there is no record."""
    path = root / NEIGHBOURS_RECORD
    return read_mapping(path) if path.is_file() else {}


def find_shown_checkpoint(trained: Trained, results: Path) -> Path:
    """Return the checkpoint that a cell's results are of: the chosen snapshot's where one was chosen, else the last."""
    chosen = SnapshotResults(results).checkpoint
    return chosen if chosen.is_dir() and not trained.checkpoint.is_dir() else trained.checkpoint


def blind_folder(root: Path, data: SafeName) -> Path:
    """Return the folder of a data set's blind rows, a folder of results each."""
    return root / RESULTS / BLIND / data


def result_path(folder: Path, benchmark: SafeName) -> Path:
    """Return the path of one benchmark's results."""
    return folder / f"{benchmark}.json"


def result_paths(folder: Path) -> list[Path]:
    """List the result files of a folder, one a benchmark; summary.json repeats their metrics."""
    return sorted(p for p in folder.glob("[!.]*.json") if p.name != SUMMARY)


def published_folders(runs: Path) -> list[Path]:
    """List the run folders below `runs`, sorted; one without config.yaml is no run yet."""
    return sorted(p.parent for p in runs.glob("*/*/config.yaml"))


# --- the checksum of a state ----------------------------------------------------------------------------------------
# The checksum inside a training's checkpoint: `crc32` in a safetensors file's metadata, over all its other bytes.
#
# It is in the first bytes of the file, before what it is of: they are written with zeros in its place.


NAME = "crc32"
UNKNOWN = "00000000"
LENGTH = 8  # bytes in front of the description, which say how long that is
CHUNK = 1 << 24  # bytes that are read at once


def find_place(description: bytes) -> int:
    """Return where the checksum is in a description that was made with UNKNOWN; it begins with it."""
    return description.index(UNKNOWN.encode())


def check_file(path: Path) -> None:
    """Raise ValueError where a checkpoint's bytes are not those that were written, KeyError without a checksum."""
    with open(path, "rb") as file:
        description = file.read(int.from_bytes(file.read(LENGTH), "little"))
        recorded = json.loads(description)["__metadata__"][NAME]
        checksum = zlib.crc32(description.replace(recorded.encode(), UNKNOWN.encode(), 1))
        for content in iter(lambda: file.read(CHUNK), b""):
            checksum = zlib.crc32(content, checksum)
    if f"{checksum:08x}" != recorded:
        raise ValueError("its bytes are not those that were written")
