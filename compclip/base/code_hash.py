"""Hash the code that a result depends on: all modules that its entry modules import, found in the files themselves.

What cannot change a result is not hashed: comments, docstrings, annotations, what a `raise` says, imports for type
checkers alone (`if TYPE_CHECKING:`). Modules that are found by name (methods, benchmarks …) are entries of their own.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from compclip.base.errors import UserError

OURS = __package__.partition(".")[0]
TYPE_CHECKS = ("TYPE_CHECKING", "typing.TYPE_CHECKING")
TYPING = ("__future__", "typing", "collections.abc")  # imported for annotations
# Fields of syntax nodes that hold annotations or notes; AnnAssign is treated by itself.
UNHASHED_FIELDS = ("returns", "annotation", "type_comment", "kind", "simple", "type_params")


def find_modules(*entries: str, without: Sequence[str] = ()) -> dict[str, Path]:
    """Return name and file of the modules that importing `entries` may run, sorted by name.

    They are those of our package and of the entries' own packages. Modules and packages named by `without` are left
    out, with what they alone import. Raises UserError for an entry that is no module.
    """
    roots = {OURS}
    pending: list[str] = []
    for entry in entries:
        if _file(entry) is None:
            raise UserError(f"{entry}: no such module; install its package or correct the name")
        roots.add(entry.partition(".")[0])
        pending += _lineage(entry)
    modules: dict[str, Path] = {}
    while pending:
        name = pending.pop()
        file = _file(name)
        if name not in modules and file is not None and not _is_in(name, without):
            modules[name] = file
            for target in _parse(file, name, file.stat().st_mtime_ns, tuple(without))[0]:
                if target.partition(".")[0] in roots:
                    pending += _lineage(target)
    return dict(sorted(modules.items()))


def hash_modules(*entries: str, without: Sequence[str] = ()) -> dict[str, str]:
    """Return the SHA-256 (hex) of each of `find_modules`, by name.

    It covers the syntax tree, and the TOML file of the module's name beside it: words that the module reads.
    """
    hashes = {}
    for name, file in find_modules(*entries, without=without).items():
        hashes[name] = _parse(file, name, file.stat().st_mtime_ns, tuple(without))[1]
        words = file.with_suffix(".toml")
        if words.is_file():
            hashes[name] = hashlib.sha256(hashes[name].encode() + words.read_bytes()).hexdigest()
    return hashes


def hash_code(*entries: str, without: Sequence[str] = ()) -> str:
    """Return the SHA-256 (hex) over the names and hashes of `find_modules`."""
    return join_hashes(hash_modules(*entries, without=without))


def join_hashes(modules: Mapping[str, str]) -> str:
    """Return one hash over the names and the hashes of modules."""
    total = hashlib.sha256()
    for name, digest in sorted(modules.items()):
        total.update(f"{name}\0{digest}\n".encode())
    return total.hexdigest()


def _is_in(name: str, packages: Iterable[str]) -> bool:
    """Return whether a module is one of `packages`, or below one."""
    return not set(_lineage(name)).isdisjoint(packages)


def _lineage(name: str) -> list[str]:
    """Return the packages around a module, whose __init__ runs before it, and the module."""
    return list(itertools.accumulate(name.split("."), "{}.{}".format))


@functools.cache
def _file(name: str) -> Path | None:
    """Return the source of a module; None for what is no module, or has no source. Nothing is imported to find it."""
    root, *names = name.split(".")
    spec = importlib.util.find_spec(root)
    if spec is None:
        return None
    if not names:
        return Path(spec.origin) if spec.origin and spec.origin.endswith(".py") else None
    for folder in spec.submodule_search_locations or ():
        base = Path(folder, *names)
        for source in (base / "__init__.py", base.with_suffix(".py")):
            if source.is_file():
                return source
    return None


@functools.cache
def _parse(file: Path, name: str, _mtime_ns: int, without: tuple[str, ...]) -> tuple[frozenset[str], str]:
    """Return what a module may import, by dotted names, and the hash of its syntax tree."""
    syntax = _Syntax(name if file.name == "__init__.py" else name.rpartition(".")[0], without)
    syntax.add_block(ast.parse(file.read_bytes()).body)
    return frozenset(syntax.imported), hashlib.sha256("\n".join(syntax.lines).encode()).hexdigest()


class _Syntax:
    """Lists a module's syntax tree as lines that are equal on every version of Python, and its imports."""

    def __init__(self, package: str, without: Sequence[str]) -> None:
        self.package = package
        self.without = without
        self.lines: list[str] = []
        self.imported: set[str] = set()

    def add_block(self, body: Sequence[ast.stmt], in_class: bool = False) -> None:
        """Add statements without docstrings; an annotated name without a value counts in a class alone, as a field."""
        for statement in body:
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                continue
            if isinstance(statement, ast.If) and ast.unparse(statement.test) in TYPE_CHECKS:
                self.add_block(statement.orelse)
            elif isinstance(statement, (ast.Import, ast.ImportFrom)):
                self._add_import(statement)
            elif isinstance(statement, ast.Raise):
                self.lines.append("Raise")
            elif isinstance(statement, ast.AnnAssign) and not in_class:
                if statement.value:
                    self._add(ast.Assign([statement.target], statement.value))
            else:
                self._add(statement)

    def _add(self, node: ast.AST) -> None:
        self.lines.append(type(node).__name__)
        for field, value in ast.iter_fields(node):
            if value is None or value == [] or field in UNHASHED_FIELDS:
                continue
            self.lines.append(field)
            if isinstance(value, ast.AST):
                self._add(value)
            elif not isinstance(value, list):
                self.lines.append(repr(value))
            elif isinstance(value[0], ast.stmt):
                self.add_block(value, isinstance(node, ast.ClassDef))
            else:
                for item in value:
                    self._add(item) if isinstance(item, ast.AST) else self.lines.append(repr(item))
        self.lines.append("end")

    def _add_import(self, node: ast.Import | ast.ImportFrom) -> None:
        """Add what is imported under which name, but for annotations and for modules that are left out."""
        prefix = ""
        if isinstance(node, ast.ImportFrom):
            parents = self.package.split(".")
            above = parents[: len(parents) - node.level + 1] if node.level else []
            base = ".".join([*above, node.module] if node.module else above)
            self.imported.add(base)
            prefix = f"{base}."
        for alias in sorted(node.names, key=lambda alias: (alias.name, alias.asname or alias.name)):
            target = prefix + alias.name
            self.imported.add(target)
            if not _is_in(target, (*TYPING, *self.without)):
                self.lines.append(f"import {target} as {alias.asname or alias.name}")
