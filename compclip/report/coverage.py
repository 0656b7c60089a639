"""Which published numbers have a method in the grids and a metric of ours: `compclip report published`.

Writes coverage.md beside the papers' tables (experiments/published). A number has a home where its method, variant
included, stands in a grid of experiments/grids or in params.yaml; reasons.yaml says why a row cannot have one, and
columns.yaml what a column is and how it differs from ours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from compclip.base import plugins, yaml_text
from compclip.base.errors import UserError
from compclip.base.files import write_atomic
from compclip.report import columns, published
from compclip.report.published import Number

FOLDER, GRIDS, PARAMS = Path("experiments/published"), Path("experiments/grids"), Path("params.yaml")
FILE, REASONS = "coverage.md", "reasons.yaml"
COLUMNS = """## By column

What each column of the tables is among our metrics (`columns.yaml`). Where nothing is told, no difference is known. A
tie is wrong here, or the first candidate's by `evaluate.ties: first`.
"""
HEAD = """# Which published numbers have a method in the grids

Written by `python -m compclip report published`; not by hand. A method is trained by its file in `compclip/methods`;
`released.*` are the authors' own checkpoints, which are scored (docs/released.md).
"""


def main(argv: Sequence[str]) -> int:
    """Write the tables anew. Raises UserError for a row or column that has neither a match nor a reason."""
    if argv:
        raise UserError(f"report published: {argv[0]!r}: takes no arguments; leave it out")
    write_atomic(FOLDER / FILE, page(FOLDER, known()).encode())
    print(FOLDER / FILE)
    return 0


def page(folder: Path, methods: Collection[str]) -> str:
    """The whole file. Raises UserError for a row that has neither a method nor a reason, and such a column."""
    numbers, told = published.read(folder), columns.read(folder / columns.FILE)
    matched = columns.table(numbers, told, plugins.names(plugins.BENCHMARKS))
    return text(numbers, methods, reasons(folder / REASONS)) + "\n".join(["", COLUMNS, *matched]) + "\n"


def known(grids: Path = GRIDS, params: Path = PARAMS) -> set[str]:
    """Methods and variants that a grid declares."""
    found = set()
    for path in [*sorted(grids.glob("*.yaml")), params]:
        declared = yaml_text.plain(yaml_text.read(path, "must hold a grid"), str(path)).get("methods")
        for name, raw in (declared if isinstance(declared, dict) else {}).items():
            variants = raw.get("variants") if isinstance(raw, dict) else None
            found |= {str(name), *(f"{name}.{variant}" for variant in variants or {})}
    return found


def reasons(path: Path) -> dict[str, str]:
    """Why a row, or a method, is in no grid, by its name."""
    raw = yaml_text.plain(yaml_text.read(path, "must hold reasons, as `name: reason`"), str(path))
    return {str(name): str(reason) for name, reason in raw.items()}


def text(numbers: Sequence[Number], methods: Collection[str], why: Mapping[str, str]) -> str:
    """The part on methods. Raises UserError for a row that has neither a method nor a reason."""
    home = Counter(n.paper for n in numbers if n.method in methods)
    total = Counter(n.paper for n in numbers)
    lines = [f"| {paper} | {total[paper]} | {home[paper]} | {total[paper] - home[paper]} |" for paper in total]
    lines.append(f"| all | {total.total()} | {home.total()} | {total.total() - home.total()} |")
    head = ["| paper | numbers | with a method | without |", "|---|---:|---:|---:|"]
    return "\n".join([HEAD, *head, *lines, "", "## By method", "", *_methods(numbers, methods), "",
                      "## Without a method", "", *_without(numbers, methods, why)]) + "\n"  # fmt: skip


def _methods(numbers: Sequence[Number], methods: Collection[str]) -> list[str]:
    count = Counter(n.method for n in numbers if n.method in methods)
    return ["| method | numbers |", "|---|---:|", *(f"| {name} | {count[name]} |" for name in sorted(count))]


def _without(numbers: Sequence[Number], methods: Collection[str], why: Mapping[str, str]) -> list[str]:
    count = Counter((n.paper, n.row, n.method) for n in numbers if n.method not in methods)
    lines = ["| paper | row | numbers | why |", "|---|---|---:|---|"]
    for (paper, row, method), n in count.items():
        reason = why.get(method) or why.get(f"{paper}: {row}") or why.get(row)
        if not reason:
            raise UserError(f"{paper}: {row}: has no method in a grid and no reason; give it one in {REASONS}")
        lines.append(f"| {paper} | {row} | {n} | {reason} |")
    return lines
