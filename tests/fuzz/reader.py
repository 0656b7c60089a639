"""What a reader is tried with: files that it takes, and what is done with them."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import ROOT

Make = Callable[[Path], None]


@dataclass(frozen=True)
class Reader:
    """`make` writes valid files into a folder; `read` reads those of the current folder, some of them changed."""

    name: str
    make: Make
    read: Callable[[random.Random], object]
    changed: tuple[str, ...] = ("**/*",)


def copied(*names: str) -> Make:
    """Makes a folder with these files and folders of the project."""

    def make(folder: Path) -> None:
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            source = ROOT / name
            (shutil.copytree if source.is_dir() else shutil.copyfile)(source, folder / name)

    return make
