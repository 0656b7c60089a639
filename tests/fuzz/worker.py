"""One process that tries inputs, each in a fresh folder, and says what became of them."""

from __future__ import annotations

import contextlib
import io
import os
import random
import resource
import shutil
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

from compclip.base.errors import UserError, one_line
from tests.fuzz import mutate
from tests.fuzz.reader import Reader

ACCEPTED, REFUSED, TRACEBACK, OUTSIDE = "accepted", "refused", "traceback", "outside"
MEMORY = 8 << 30  # of addresses: what an input may not make a process take
LONGEST = 2000  # characters of a refusal


class Outcome(NamedTuple):
    """What became of an input, and the words for it."""

    kind: str
    message: str = ""


class Tries:
    """The readers' valid files, made once below `root`, and a folder for one input at a time."""

    def __init__(self, root: Path, readers: Sequence[Reader]) -> None:
        self._root, self._readers = root, {reader.name: reader for reader in readers}

    def one(self, name: str, number: int) -> Outcome:
        """Try input `number` of a reader; 0 is the valid files as they are."""
        reader, rng = self._readers[name], random.Random(f"{name} {number}")
        place = self._root / "tried" / "inner"
        shutil.rmtree(place.parent, ignore_errors=True)
        place.parent.mkdir(parents=True)
        if number:
            mutate.folder(self._valid(reader), place, reader.changed, rng)
        else:
            shutil.copytree(self._valid(reader), place, symlinks=True)
        outcome = _outcome(reader, rng, place)
        strays = [path.name for path in place.parent.iterdir() if path != place]
        return Outcome(OUTSIDE, ", ".join(strays)) if strays else outcome

    def _valid(self, reader: Reader) -> Path:
        folder = self._root / "valid" / reader.name.replace(":", "-")
        if not folder.is_dir():
            folder.mkdir(parents=True)
            reader.make(folder)
        return folder


def _outcome(reader: Reader, rng: random.Random, place: Path) -> Outcome:
    try:
        with _inside(place), _silenced():
            reader.read(rng)
    except UserError as error:
        message = one_line(str(error))
        return Outcome(REFUSED if len(message) <= LONGEST else TRACEBACK, message)
    except SystemExit as error:  # argparse's
        return Outcome(REFUSED if error.code else ACCEPTED, str(error.code))
    except BaseException as error:
        return Outcome(TRACEBACK, _where(error))
    return Outcome(ACCEPTED)


def _where(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f"{Path(f.filename).name}:{f.lineno}" for f in frames if f"{os.sep}compclip{os.sep}" in f.filename]
    return f"{type(error).__name__} in {' > '.join(ours[-3:])}: {one_line(ascii(str(error)))[:200]}"


@contextlib.contextmanager
def _inside(place: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(place)
    try:
        yield
    finally:
        os.chdir(before)


@contextlib.contextmanager
def _silenced() -> Iterator[None]:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


def serve(pipe: Connection, folder: str, readers: Callable[[], Sequence[Reader]]) -> None:
    """Answer (reader, number) with (kind, words) until there is no more; all that it writes is below the folder."""
    import torch

    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    os.environ["HF_HUB_OFFLINE"] = "1"
    sys.stdin.close()
    tempfile.tempdir = folder
    tries = Tries(Path(folder), readers())
    with contextlib.suppress(EOFError):
        while True:
            pipe.send(tries.one(*pipe.recv()))
