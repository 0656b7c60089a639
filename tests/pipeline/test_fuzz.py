"""Made inputs against every reader; `python -m tests.fuzz` tries as many as there is time for."""

from __future__ import annotations

import os
import random
import threading
from pathlib import Path

from compclip.base.errors import UserError
from tests.fuzz import __main__ as fuzz
from tests.fuzz import worker
from tests.fuzz.reader import Reader
from tests.fuzz.readers import every


def test_no_input_traces_back_hangs_or_leaves_its_folder(capsys):
    """Every reader takes its valid files, and two hundred others end as they should."""
    patiently = ["--processes", "1", "--deadline", "600"]  # other tests may have the cores
    assert fuzz.main(["--inputs", "200", "--seed", "0", *patiently]) == 0, capsys.readouterr().out


def defects() -> list[Reader]:
    """Readers that do what none may, and one that refuses."""
    return [Reader(name, lambda folder: None, action, ()) for name, action in WAYS.items()]


def _fails(_: random.Random) -> None:
    raise KeyError("x")


def _refuses(_: random.Random) -> None:
    raise UserError("a: b; repair it")


def _writes_outside(_: random.Random) -> None:
    Path("../stray").touch()


WAYS = {
    "accepted": lambda _: None, "refused": _refuses, "traceback": _fails, "outside": _writes_outside,
    "hang": lambda _: threading.Event().wait(), "crash": lambda _: os.abort(),
}  # fmt: skip


def test_each_kind_of_end_is_told_apart():
    """What the command counts, of inputs that do it; the process goes on after one that ended it."""
    process = fuzz.Process(defects, deadline_s=3)
    try:
        assert process.outcome(("accepted", 1)).kind == "accepted"
        process._known |= WAYS.keys()  # so that the hang need not wait for imports
        assert [process.outcome((kind, 1)).kind for kind in WAYS if kind != "accepted"] == list(WAYS)[1:]
        assert process.outcome(("refused", 2)).message == "a: b; repair it"
    finally:
        process.stop()


def test_the_same_number_is_the_same_input(tmp_path):
    """On any day, whatever was tried before."""
    readers = [reader for reader in every() if reader.name == "list:jsonl"]
    first_tries, second_tries = (worker.Tries(tmp_path / name, readers) for name in "ab")
    assert [first_tries.one("list:jsonl", n) for n in (1, 2, 3)] == [
        second_tries.one("list:jsonl", n) for n in (3, 2, 1)
    ][::-1]
