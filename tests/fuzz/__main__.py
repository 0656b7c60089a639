"""Made inputs against every reader; exit code 1 where one is not refused as it should be.

    python -m tests.fuzz --inputs 10000 --seed 0                      all readers in turn
    python -m tests.fuzz --inputs 500 --readers checkpoint benchmark  those whose names begin so
    python -m tests.fuzz --again benchmark:aro/1234                   one input, its words printed

Input 0 of a reader is its valid files: it must be accepted. `hang` is an input that took longer than the
deadline of ten seconds, `crash` one that ended the process.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import multiprocessing
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from tests.fuzz import worker
from tests.fuzz.reader import Reader
from tests.fuzz.readers import every
from tests.fuzz.worker import Outcome

DEADLINE_S = 10.0
STARTING_S = 120.0  # the imports, and a reader's valid files
BAD = (worker.TRACEBACK, worker.OUTSIDE, "hang", "crash", "valid input refused")
SHOWN = 40  # different defects
Input = tuple[str, int]


def main(argv: list[str]) -> int:
    """Try the inputs, print the counts and every different defect with the first input that showed it."""
    args = _arguments(argv)
    names = [r.name for r in every() if not args.readers or r.name.startswith(tuple(args.readers))]
    inputs = [_parsed(args.again)] if args.again else list_inputs(names, args.inputs, args.seed)
    counts: Counter[str] = Counter()
    defects: dict[str, Input] = {}
    for tried, outcome in outcomes(inputs, args.processes, args.deadline):
        kind = _judged(tried, outcome)
        counts[kind] += 1
        if kind in BAD:
            defects.setdefault(f"{kind}: {tried[0]}: {outcome.message}", tried)
        if args.again:
            print(f"{kind}: {outcome.message}")
    _tell(counts, defects)
    return 1 if defects else 0


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=multiprocessing.cpu_count())
    parser.add_argument("--deadline", type=float, default=DEADLINE_S, metavar="SECONDS", help="later is a hang")
    parser.add_argument("--readers", nargs="*", default=[], metavar="PREFIX")
    parser.add_argument("--again", default="", metavar="READER/NUMBER")
    return parser.parse_args(argv)


def _parsed(text: str) -> Input:
    name, _, number = text.rpartition("/")
    return name, int(number)


def list_inputs(names: list[str], inputs: int, seed: int) -> list[Input]:
    """So many inputs, every reader in turn, the valid one of each first; another seed gives other numbers."""
    first = 1 + seed * 1_000_000
    rounds = -(-(inputs - len(names)) // len(names))
    changed = [(name, first + n) for n in range(max(0, rounds)) for name in names]
    return [(name, 0) for name in names] + changed[: max(0, inputs - len(names))]


def _judged(tried: Input, outcome: Outcome) -> str:
    valid = not tried[1] and tried[0] in {reader.name for reader in every() if reader.changed}
    return "valid input refused" if valid and outcome.kind == worker.REFUSED else outcome.kind


def _tell(counts: Counter[str], defects: dict[str, Input]) -> None:
    outcome_counts = [
        f"{n} {kind}" for kind in (worker.ACCEPTED, worker.REFUSED, *BAD) if (n := counts[kind]) or kind in BAD[:4]
    ]
    print(f"{counts.total()} inputs: {', '.join(outcome_counts)}")
    for words, (name, number) in itertools.islice(defects.items(), SHOWN):
        print(f"  {name}/{number}  {words}")
    if len(defects) > SHOWN:
        print(f"  and {len(defects) - SHOWN} more")


class Process:
    """A worker that is ended and started again where an input takes too long or takes it along."""

    def __init__(self, readers: Callable[[], Sequence[Reader]] = every, deadline_s: float = DEADLINE_S) -> None:
        self._readers, self._deadline_s = readers, deadline_s
        self.pipe: Connection
        self._process: BaseProcess
        self.start()

    def start(self) -> None:
        """A fresh one, with a folder that outlives it: a killed process removes nothing."""
        context = multiprocessing.get_context("spawn")
        self._folder = tempfile.TemporaryDirectory(prefix="fuzz-")
        self.pipe, theirs = context.Pipe()
        arguments = (theirs, self._folder.name, self._readers)
        self._process = context.Process(target=worker.serve, args=arguments, daemon=True)
        self._process.start()
        theirs.close()
        self._known: set[str] = set()

    def outcome(self, tried: Input) -> Outcome:
        """What becomes of an input, whatever it does."""
        patience = self._deadline_s if tried[0] in self._known else self._deadline_s + STARTING_S
        self._known.add(tried[0])
        try:
            self.pipe.send(tried)
            if wait([self.pipe], patience):
                return Outcome(*self.pipe.recv())
            failure = Outcome("hang", f"more than {patience:g} s")
        except (EOFError, OSError):
            self._process.join()
            failure = Outcome("crash", f"exit code {self._process.exitcode}")
        self.stop()
        self.start()
        return failure

    def stop(self) -> None:
        """End it."""
        self._process.kill()
        self._process.join()
        self.pipe.close()
        self._folder.cleanup()


def outcomes(
    inputs: Iterable[Input], processes: int, deadline_s: float = DEADLINE_S
) -> Iterator[tuple[Input, Outcome]]:
    """Each input with what became of it, as they end; a reader's inputs stay with one process, which made its files."""
    from concurrent.futures import ThreadPoolExecutor

    waiting: dict[str, list[Input]] = {}
    for tried in inputs:
        waiting.setdefault(tried[0], []).append(tried)
    reader_inputs = sorted(waiting.values(), key=len, reverse=True)
    with ThreadPoolExecutor(max(1, min(processes, len(reader_inputs)))) as pool:
        shares = (reader_inputs[i::processes] for i in range(min(processes, len(reader_inputs))))
        for group_outcomes in pool.map(functools.partial(_all, deadline_s=deadline_s), shares):
            yield from group_outcomes


def _all(reader_inputs: list[list[Input]], deadline_s: float) -> list[tuple[Input, Outcome]]:
    process = Process(deadline_s=deadline_s)
    try:
        return [(tried, process.outcome(tried)) for inputs in reader_inputs for tried in inputs]
    finally:
        process.stop()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
