"""Read what docs/install.md asks the reader to type in the first hour, and what it says that the reader will see."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

HEADING = "## A first hour with real data on a GPU"
BLOCK = re.compile(r"^```\n(.*?)^```", re.M | re.S)
BESIDE = "in a second terminal"
PRINTS = re.compile(r"`([^`]+)` prints `([^`]+)`")
REPORT_TEXT = re.compile(r"[Tt]he fold `([^`]+)`|([▲▼‡])")
CODE = re.compile(r"`([^`\n]+)`")
FILE_PATH = re.compile(r"(?:[\w-]+/)+[\w-]+\.\w+")
NUMBERS = {
    "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10, "twelve": 12,
    "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50,
}  # fmt: skip
# The numbers of the text, each by the words around it.
COUNTS = {
    "methods": r"compares (\w+) ways",
    "pictures": r"on ([\d,]+) pictures",
    "seeds": r"(\w+) seeds each",
    "GiB to fetch": r"(\d+) GiB",
    "batch": r"a batch of (\d+)",
    "steps to try": r"Try (\w+) steps",
    "steps between two lines": r"every (\w+) steps",
    "trained cells": r"The (\w+) cells train",
    "pictures a cell": r"sees ([\d,]+) pictures",
    "steps a cell": r"in ([\d,]+) steps",
}


@dataclass(frozen=True)
class PageCommand:
    """A line of a code block; `in_parallel`: while the line above it runs, until that ends."""

    line: str
    in_parallel: bool


@dataclass(frozen=True)
class Page:
    """The section of the first hour."""

    text: str

    @property
    def commands(self) -> list[PageCommand]:
        """All commands in the page's order."""
        lines = [line.partition("#") for block in BLOCK.findall(self.text) for line in block.splitlines()]
        return [PageCommand(line.strip(), BESIDE in comment) for line, _, comment in lines if line.strip()]

    @property
    def outputs(self) -> list[tuple[str, str]]:
        """Each command of which the page says what it prints, and that."""
        return PRINTS.findall(self.text)

    @property
    def paths(self) -> list[str]:
        """The files that the page names, in code."""
        return list(dict.fromkeys(path for code in CODE.findall(self.text) for path in FILE_PATH.findall(code)))

    @property
    def report_texts(self) -> list[str]:
        """The folds of the report that the page names, and the marks that it explains."""
        return list(dict.fromkeys(fold or mark for fold, mark in REPORT_TEXT.findall(self.text)))

    @property
    def counts(self) -> dict[str, int]:
        """The numbers of the text. Raises ValueError naming one whose sentence is no longer there."""
        return {name: self._count(name, pattern) for name, pattern in COUNTS.items()}

    def _count(self, name: str, pattern: str) -> int:
        match = re.search(pattern, " ".join(self.text.split()))
        if match is None:
            raise ValueError(
                f"docs/install.md: no {name} as in {pattern!r}; renew COUNTS in perf/{Path(__file__).name}"
            )
        word = match[1].replace(",", "")
        return NUMBERS[word] if word in NUMBERS else int(word)


def read_page(path: Path) -> Page:
    """Read the section. Raises ValueError where the page has no such heading."""
    _, heading, rest = path.read_text(encoding="utf-8").partition(HEADING)
    if not heading:
        raise ValueError(f"{path}: no heading {HEADING!r}; renew HEADING in perf/{Path(__file__).name}")
    return Page(re.split(r"^## ", rest, maxsplit=1, flags=re.M)[0])
