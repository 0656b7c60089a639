"""From a run key to the files of a cell: what is in flight in .work/<run key>/, what is finished in runs/<cell>/."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from compclip.base import plugins
from compclip.base.errors import UserError
from compclip.base.files import fingerprint, read_json, write_atomic, write_json
from compclip.config import grid, read
from compclip.config.sections import Run
from compclip.data import images, store
from compclip.model import lora
from compclip.model.backbone import Model
from compclip.runs import key as runs_key
from compclip.text import annotation
from compclip.train import optimiser
from compclip.train.views import TrainSet

FILES = ("config.yaml", "checkpoint", "metrics.jsonl", "environment.json")
DATA = ("samples.parquet", "annotations.parquet")
# What a trainer that was killed inside a write leaves in its folder.
HALF_WRITTEN = (".step_*.tmp", ".metrics.jsonl.*.tmp", "final/.*.tmp", "final/checkpoint/**/.*.tmp")
POLL_S = 0.2


@dataclass(frozen=True)
class Publisher:
    """The folders of one run."""

    run: Run
    key: str
    data_folder: Path
    backbone_folder: Path
    work: Path
    target: Path

    @classmethod
    def of(cls, params_path: str, overrides: list[str], cell: str, root: Path = Path(".")) -> Publisher:
        """Resolve a cell of the grid. Raises UserError for an unknown cell or inputs that were not made yet."""
        return cls.of_run(grid.resolve(read.load(params_path, overrides), cell), root)

    @classmethod
    def of_run(cls, run: Run, root: Path = Path(".")) -> Publisher:
        """The folders of any run, in the grid or not. Raises UserError for inputs that were not made yet."""
        data, base = root / "data" / run.cell.data, root / "models" / run.cell.backbone
        for path, stage in ((data / "annotations.parquet", "annotate"), (base, "backbone")):
            if not path.exists():
                raise UserError(f"{path}: not there; run `dvc repro {stage}` first")
        key = runs_key.of(run, _inputs(*(data / name for name in DATA), base))
        return cls(run, key, data, base, root / ".work" / key, root / "runs" / run.cell.name)

    @contextlib.contextmanager
    def lock(self, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Hold the run key; a second process waits here, calling `waiting` now and then, and finds the run finished."""
        with _opened(self.work / "lock") as file:
            _acquire(file, self.work, waiting)
            for path in [p for pattern in HALF_WRITTEN for p in self.work.glob(pattern)]:
                path.unlink()
            try:
                yield
            finally:
                fcntl.flock(file, fcntl.LOCK_UN)

    def finished(self) -> bool:
        """Whether the run key's files are complete."""
        return (self.work / "final" / "environment.json").is_file()

    def train_set(self) -> TrainSet:
        """The annotated samples of the run's data."""
        samples = store.load(self.data_folder / "samples.parquet")
        annotations = annotation.load(self.data_folder / "annotations.parquet")
        return TrainSet(tuple(samples), grouped(samples, annotations), images.load)

    def finish(self, model: Model, facts: dict) -> None:
        """Write the run's files; environment.json comes last and marks them complete."""
        final = self.work / "final"
        facts = self._parameters(model) | facts
        lora.finish(model.clip, final / "checkpoint" / lora.FOLDER)
        model.save(final / "checkpoint")
        write_atomic(final / "config.yaml", read.to_yaml(self.run))
        log = self.work / "metrics.jsonl"
        write_atomic(final / "metrics.jsonl", log.read_bytes() if log.exists() else b"")
        data = _inputs(*(self.data_folder / name for name in DATA))
        write_json(final / "environment.json", {"run_key": self.key, "data_fingerprint": data, **facts})
        for path in self.work.glob("step_*.safetensors"):
            path.unlink()

    def _parameters(self, model: Model) -> dict[str, int]:
        trains = getattr(plugins.find(plugins.METHODS, self.run.method_name), "TRAINS", True)
        return optimiser.counts(model.clip) if trains else optimiser.counts(model.clip) | {"trained_parameters": 0}

    def publish(self) -> None:
        """Copy the finished files to runs/<cell>/: a folder or file is replaced whole."""
        try:
            self.target.mkdir(parents=True, exist_ok=True)
            for name in FILES:
                _replace(self.work / "final" / name, self.target / name)
        except OSError as error:
            why = error.strerror or error
            raise UserError(f"{self.target}: cannot write: {why}; free space or make it writable") from error

    def environment(self) -> dict:
        """The facts stored with the finished run."""
        return read_json(self.work / "final" / "environment.json")


def _inputs(*paths: Path) -> str:
    """Their fingerprint; read once for all runs of a process that share them, as long as they do not change."""
    files = [f for path in paths for f in (sorted(path.rglob("*")) if path.is_dir() else [path])]
    return _fingerprint(paths, tuple((f, s.st_mtime_ns, s.st_size) for f in files if (s := f.stat())))


@functools.lru_cache
def _fingerprint(paths: tuple[Path, ...], _stamp: tuple) -> str:
    return fingerprint(*paths)


def holder(work: Path) -> int | None:
    """The process that holds the run key of a folder; 0 where it did not say which."""
    try:
        with open(work / "lock", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return None
    except BlockingIOError:
        pid = (work / "lock").read_text(encoding="utf-8").strip()
        return int(pid) if pid.isdigit() else 0
    return None


def grouped(samples, annotations) -> tuple[tuple, ...]:
    """Annotations of all captions in order, as one tuple a sample."""
    rows, start = [], 0
    for sample in samples:
        rows.append(tuple(annotations[start : start + len(sample.captions)]))
        start += len(sample.captions)
    if start != len(annotations):
        raise UserError(f"annotations: {len(annotations)} for {start} captions; run `dvc repro annotate` again")
    return tuple(rows)


def _opened(path: Path) -> IO[str]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return open(path, "a+", encoding="utf-8")
    except OSError as error:
        why = error.strerror or error
        raise UserError(f"{path}: cannot write: {why}; free space or make the folder writable") from error


def _acquire(file: IO[str], work: Path, waiting: Callable[[], None]) -> None:
    if not _locked(file) and not _locked_soon(file):
        file.seek(0)
        print(f"{work}: process {file.read().strip() or '?'} is training this run; waiting for it", flush=True)
        while not _locked(file):
            waiting()
            time.sleep(POLL_S)
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()


def _locked_soon(file: IO[str]) -> bool:
    """Try once more: someone may only have looked whether the lock is held."""
    time.sleep(POLL_S)
    return _locked(file)


def _locked(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _replace(source: Path, target: Path) -> None:
    """Copy beside the target, then swap: a reader never sees half of it."""
    fresh = target.with_name(f".{target.name}.new")
    _remove(fresh)
    shutil.copytree(source, fresh) if source.is_dir() else shutil.copyfile(source, fresh)
    _remove(target)
    os.replace(fresh, target)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
