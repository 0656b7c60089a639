"""What measures and proves this project, by room: `python -m perf`. Each program's own docstring says how it is called.

`perf/README.md` has the last result of each.
"""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
COSTS = re.compile(r"\n\nTakes (?P<takes>[^;]+); needs (?P<needs>.+)\.$")


@dataclass(frozen=True)
class Program:
    """A program by its docstring: what it answers, how long it takes and what it needs."""

    name: str
    answers: str
    takes: str
    needs: str


def read_program(path: Path) -> Program | None:
    """Return what a docstring says; None of a module that others import. Raises ValueError where costs are not said."""
    text = path.read_text(encoding="utf-8")
    if 'if __name__ == "__main__":' not in text or path.name in ("__main__.py", "step_programs.py"):
        return None
    docstring = ast.get_docstring(ast.parse(text)) or ""
    costs = COSTS.search(docstring)
    if not costs:
        raise ValueError(f"{path}: its docstring does not end with `Takes TIME; needs WHAT.`")
    name = ".".join(path.relative_to(FOLDER.parent).with_suffix("").parts)
    first_line = docstring.partition("\n")[0].partition(": `")[0].rstrip(".:")
    return Program(name, first_line, costs["takes"], costs["needs"])


def list_programs() -> list[Program]:
    """Return all programs, those of all rooms first."""
    paths = [*sorted(FOLDER.glob("*.py")), *sorted(FOLDER.glob("*/*.py"))]
    return [program for path in paths if (program := read_program(path))]


def main() -> int:
    """Print each program with what it answers, its time and its needs."""
    for program in list_programs():
        print(f"{program.name}\n    {program.answers}\n    takes {program.takes}; needs {program.needs}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
