"""What `perf.faults.made_inputs` tries a reader with: files that it takes, and what is done with them."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

Make = Callable[[Path], None]


@dataclass(frozen=True)
class Reader:
    """`make` writes valid files into a folder; `read` reads those of the current folder, some of them changed."""

    name: str
    make: Make
    read: Callable[[random.Random], object]
    changed: tuple[str, ...] = ("**/*",)
