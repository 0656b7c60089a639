"""Which metric of ours each column of the papers' tables is, and what differs: a table of coverage.md.

The transcribed columns bear our names; `columns.yaml` beside them says how each is printed, what its number is that
ours is not, and which are no metric of ours.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from compclip.base import yaml_text
from compclip.base.errors import UserError
from compclip.report.published import Number
from compclip.report.tables import SUMMARIES, SUMMARY

FILE = "columns.yaml"
PARTS = ("printed", "differs", "none")
HEAD = ["| paper | tables | its column | our metric | what differs |", "|---|---|---|---|---|"]
Key = tuple[str, str]  # paper and column


@dataclass(frozen=True)
class Told:
    """How columns are printed by paper and column; what differs, and why a column is none of ours, by pattern.

    A pattern is `paper: column`, in which * stands for anything.
    """

    printed: Mapping[str, Mapping[str, str]]
    differs: Mapping[str, str]
    none: Mapping[str, str]


def read(path: Path) -> Told:
    """The facts about columns. Raises UserError for a file of another form."""
    form = f"must hold the mappings {', '.join(PARTS)}"
    raw = yaml_text.plain(yaml_text.read(path, form), str(path))
    if not isinstance(raw, dict) or sorted(raw) != sorted(PARTS) or not all(isinstance(v, dict) for v in raw.values()):
        raise UserError(f"{path}: {form}, and nothing else")
    if wrong := next((paper for paper, own in raw["printed"].items() if not isinstance(own, dict)), None):
        raise UserError(f"{path}: printed.{wrong}: must be a mapping of columns to how they are printed")
    printed = {str(paper): _texts(own) for paper, own in raw["printed"].items()}
    return Told(printed, _texts(raw["differs"]), _texts(raw["none"]))


def _texts(raw: Mapping[Any, Any]) -> dict[str, str]:
    return {str(name): str(text) for name, text in raw.items()}


def table(numbers: Sequence[Number], told: Told, benchmarks: Collection[str]) -> list[str]:
    """A line for each column of each paper, those of one paper together, in the order of the transcription.

    Raises UserError for a column whose print is not told, and for one that is no metric of ours without a reason.
    """
    places: dict[Key, dict[str, None]] = {}
    for n in numbers:
        places.setdefault((n.paper, n.column), {})[n.table] = None
    return HEAD + [_line(key, list(tables), told, benchmarks) for key, tables in places.items()]


def _line(key: Key, tables: Sequence[str], told: Told, benchmarks: Collection[str]) -> str:
    paper, column = key
    printed = told.printed.get(paper, {}).get(column)
    if printed is None:
        raise UserError(f"{paper}: {column}: no word of how it is printed; give it one in {FILE}: printed")
    return f"| {paper} | {', '.join(tables)} | {printed} | {_ours(key, told, benchmarks)} | {_differs(key, told)} |"


def _ours(key: Key, told: Told, benchmarks: Collection[str]) -> str:
    if reasons := matching(told.none, key):
        return f"none: {reasons[0]}"
    if not module(key[1], benchmarks):
        raise UserError(f"{key[0]}: {key[1]}: is no metric of ours; say why in {FILE}: none, or add the benchmark")
    return f"`{key[1]}`"


def _differs(key: Key, told: Told) -> str:
    return "; ".join(matching(told.differs, key))


def matching(told: Mapping[str, str], key: Key) -> list[str]:
    """What is told under the patterns that fit a paper's column."""
    return [text for pattern, text in told.items() if fnmatchcase(": ".join(key), pattern)]


def module(column: str, benchmarks: Collection[str]) -> str:
    """The module that measures a column: of its benchmark's name or the longest beginning of it; empty for none.

    Several sections of params.yaml may use one module: `retrieval_coco`. The report's own means are `summary`.
    """
    name, _, metric = column.partition("/")
    if name == SUMMARY:
        return SUMMARY if metric in SUMMARIES else ""
    return max((b for b in benchmarks if name == b or name.startswith(f"{b}_")), key=len, default="")
