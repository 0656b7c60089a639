"""What code a result depends on: all that its entry modules import, found in the files themselves.

Imports for type checkers alone (`if TYPE_CHECKING:`) are none. Modules that are found by name (methods, benchmarks …)
are entries of their own.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
from collections.abc import Iterable, Iterator
from pathlib import Path

from compclip.base.errors import UserError

OURS = __package__.partition(".")[0]
FOR_TYPES = ("TYPE_CHECKING", "typing.TYPE_CHECKING")
BLOCKS = ("body", "orelse", "handlers", "finalbody", "cases")  # where a statement holds others


def closure(*entries: str) -> dict[str, Path]:
    """The modules of our package, and of the entries' own packages, that importing `entries` may run: name and file.

    Sorted by name. Raises UserError for an entry that is no module.
    """
    roots = frozenset((OURS, *(entry.partition(".")[0] for entry in entries)))
    found: dict[str, Path] = {}
    ahead = [parent for entry in entries for parent in _lineage(entry)]
    for entry in entries:
        if _file(entry) is None:
            raise UserError(f"{entry}: no such module; install its package or correct the name")
    while ahead:
        name = ahead.pop()
        file = _file(name)
        if name not in found and file is not None:
            found[name] = file
            ahead += _imported(name, file, roots)
    return dict(sorted(found.items()))


def digest(*entries: str) -> str:
    """SHA-256 (hex) over the names and bytes of the closure."""
    made = hashlib.sha256()
    for name, file in closure(*entries).items():
        made.update(f"{name}\0{hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return made.hexdigest()


def _lineage(name: str) -> Iterator[str]:
    """A module and the packages around it, whose __init__ runs before it."""
    parts = name.split(".")
    return (".".join(parts[: i + 1]) for i in range(len(parts)))


@functools.cache
def _file(name: str) -> Path | None:
    """The source of a module; None for what is no module, or has no source. Nothing is imported to find it."""
    root, *parts = name.split(".")
    spec = importlib.util.find_spec(root)
    if spec is None:
        return None
    if not parts:
        return Path(spec.origin) if spec.origin and spec.origin.endswith(".py") else None
    for folder in spec.submodule_search_locations or ():
        place = Path(folder, *parts)
        found = next((p for p in (place / "__init__.py", place.with_suffix(".py")) if p.is_file()), None)
        if found:
            return found
    return None


def _imported(name: str, file: Path, roots: frozenset[str]) -> set[str]:
    """What a file imports of the packages `roots`, at the top or inside functions, with the packages around it."""
    package = name if file.name == "__init__.py" else name.rpartition(".")[0]
    dotted = _dotted(file, package, file.stat().st_mtime_ns)
    return {parent for target in dotted if target.partition(".")[0] in roots for parent in _lineage(target)}


@functools.cache
def _dotted(file: Path, package: str, _stamp: int) -> frozenset[str]:
    return frozenset(target for node in _walk(ast.parse(file.read_bytes()).body) for target in _targets(node, package))


def _walk(body: Iterable[ast.AST]) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports among statements, at any depth; expressions hold none."""
    for node in body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node
        elif isinstance(node, ast.If) and ast.unparse(node.test) in FOR_TYPES:
            yield from _walk(node.orelse)
        else:
            for field in BLOCKS:
                yield from _walk(getattr(node, field, ()))


def _targets(node: ast.Import | ast.ImportFrom, package: str) -> list[str]:
    """Modules that a statement may import; a name that is no module is left out when its file is looked for."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    base = node.module or ""
    if node.level:
        above = package.split(".")[: len(package.split(".")) - node.level + 1]
        base = ".".join([*above, base] if base else above)
    return [base, *(f"{base}.{alias.name}" for alias in node.names)]
