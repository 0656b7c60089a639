"""Made inputs against every reader of what comes from outside; exit code 1 where one is not refused as it should be.

    python -m perf.faults.made_inputs --inputs 10000 --seed 0                      all readers in turn
    python -m perf.faults.made_inputs --inputs 500 --readers checkpoint benchmark  those whose names begin so
    python -m perf.faults.made_inputs --again benchmark:aro/1234                   one input, its words printed

An input is a reader's valid files with a few changes that a person, a broken disk or a stranger could have made. A
reader may accept it or refuse it in one line; a traceback, a hang, the end of the process and a file outside its folder
are defects. The same reader and number give the same input. Input 0 is the valid files: it must be accepted. `hang` is
an input that took longer than the deadline. One that ends the process ends the command, which has written the stack of
the reader then. perf/faults/fuzz/readers has each reader with its files.

Takes 4 minutes; needs nothing.
"""

import argparse
import contextlib
import faulthandler
import io
import itertools
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from huggingface_hub import constants

from compclip.base.errors import UserError, one_line
from perf.faults.fuzz import mutate
from perf.faults.fuzz.reader import Reader
from perf.faults.fuzz.readers import list_readers

ACCEPTED, REFUSED, TRACEBACK, OUTSIDE, HANG = "accepted", "refused", "traceback", "outside", "hang"
VALID_REFUSED = "valid input refused"
DEADLINE_S = 10.0
MEMORY = 8 << 30  # of addresses beside those that the process has: what an input may not make it take
LONGEST = 2000  # characters of a refusal
SHOWN = 40  # different defects
Input = tuple[str, int]


class Outcome(NamedTuple):
    """What became of an input, and the words for it."""

    kind: str
    message: str = ""


class TookTooLong(BaseException):
    """The deadline of an input; no reader catches it with its own errors."""


def main(argv: list[str]) -> int:
    """Try the inputs, print the counts and every different defect with the first input that showed it."""
    args = _arguments(argv)
    readers = [r for r in list_readers() if not args.readers or r.name.startswith(tuple(args.readers))]
    names = [reader.name for reader in readers]
    inputs = list_inputs(names, args.inputs, args.seed)
    if args.again:
        name, _, number = args.again.rpartition("/")
        inputs = [(name, int(number))]
    counts: Counter[str] = Counter()
    defects: dict[str, Input] = {}
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder, _bounded(folder):
        tries = Tries(Path(folder), list_readers(), args.deadline)
        for name, number in inputs:
            outcome = tries.try_input(name, number)
            counts[outcome.kind] += 1
            if outcome.kind not in (ACCEPTED, REFUSED):
                defects.setdefault(f"{outcome.kind}: {name}: {outcome.message}", (name, number))
            if args.again:
                print(f"{outcome.kind}: {outcome.message}")
    _tell(counts, defects)
    return 1 if defects else 0


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m perf.faults.made_inputs",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--deadline", type=float, default=DEADLINE_S, metavar="SECONDS", help="later is a hang")
    parser.add_argument("--readers", nargs="*", default=[], metavar="PREFIX")
    parser.add_argument("--again", default="", metavar="READER/NUMBER")
    return parser.parse_args(argv)


def list_inputs(names: list[str], inputs: int, seed: int) -> list[Input]:
    """So many inputs, every reader in turn, the valid one of each first; another seed gives other numbers."""
    first = 1 + seed * 1_000_000
    rounds = -(-(inputs - len(names)) // len(names))
    changed = [(name, first + n) for n in range(max(0, rounds)) for name in names]
    return [(name, 0) for name in names] + changed[: max(0, inputs - len(names))]


def _tell(counts: Counter[str], defects: dict[str, Input]) -> None:
    kinds = (ACCEPTED, REFUSED, TRACEBACK, OUTSIDE, HANG, VALID_REFUSED)
    print(f"{counts.total()} inputs: {', '.join(f'{counts[kind]} {kind}' for kind in kinds)}")
    for words, (name, number) in itertools.islice(defects.items(), SHOWN):
        print(f"  {name}/{number}  {words}")
    if len(defects) > SHOWN:
        print(f"  and {len(defects) - SHOWN} more")


class Tries:
    """The readers' valid files, made once below `root`, and a folder for one input at a time."""

    def __init__(self, root: Path, readers: Sequence[Reader], deadline_s: float = DEADLINE_S) -> None:
        self._root, self._readers = root, {reader.name: reader for reader in readers}
        self._deadline_s = deadline_s

    def try_input(self, name: str, number: int) -> Outcome:
        """Try input `number` of a reader; 0 is the valid files as they are."""
        reader, rng = self._readers[name], random.Random(f"{name} {number}")
        tried_folder = self._root / "tried" / "inner"
        shutil.rmtree(tried_folder.parent, ignore_errors=True)
        tried_folder.parent.mkdir(parents=True)
        if number:
            mutate.folder(self._valid(reader), tried_folder, reader.changed, rng)
        else:
            shutil.copytree(self._valid(reader), tried_folder, symlinks=True)
        outcome = self._read(reader, rng, tried_folder)
        strays = [path.name for path in tried_folder.parent.iterdir() if path != tried_folder]
        if strays:
            return Outcome(OUTSIDE, ", ".join(strays))
        if outcome.kind == REFUSED and not number and reader.changed:
            return Outcome(VALID_REFUSED, outcome.message)
        return outcome

    def _valid(self, reader: Reader) -> Path:
        folder = self._root / "valid" / reader.name.replace(":", "-")
        if not folder.is_dir():
            folder.mkdir(parents=True)
            reader.make(folder)
        return folder

    def _read(self, reader: Reader, rng: random.Random, tried_folder: Path) -> Outcome:
        try:
            with contextlib.chdir(tried_folder), silence(), set_deadline(self._deadline_s):
                reader.read(rng)
        except UserError as error:
            message = one_line(str(error))
            return Outcome(REFUSED if len(message) <= LONGEST else TRACEBACK, message)
        except SystemExit as error:  # argparse's
            return Outcome(REFUSED if error.code else ACCEPTED, str(error.code))
        except TookTooLong:
            return Outcome(HANG, f"more than {self._deadline_s:g} s")
        except BaseException as error:
            return Outcome(TRACEBACK, place_error(error))
        return Outcome(ACCEPTED)


def place_error(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f"{Path(f.filename).name}:{f.lineno}" for f in frames if f"{os.sep}compclip{os.sep}" in f.filename]
    return f"{type(error).__name__} in {' > '.join(ours[-3:])}: {one_line(ascii(str(error)))[:200]}"


@contextlib.contextmanager
def silence() -> Iterator[io.StringIO]:
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()):
        yield out


@contextlib.contextmanager
def set_deadline(seconds: float) -> Iterator[None]:
    """Raise after so long; where a library does not return to Python, end the process a minute later."""

    def stop(*_: object) -> None:
        raise TookTooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    faulthandler.dump_traceback_later(seconds + 60, exit=True, file=sys.__stderr__)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def _bounded(folder: str) -> Iterator[None]:
    """No network for the hub's library, bounded memory, and temporary files below the folder."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY, limits[1]))
    try:
        with (
            mock.patch.object(tempfile, "tempdir", folder),
            mock.patch.object(constants, "HF_HUB_OFFLINE", True),
            mock.patch.dict(os.environ, HF_HUB_OFFLINE="1"),
        ):
            yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
