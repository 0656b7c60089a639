"""Data flows one way: a module imports only from its left, and heavy packages each have one importer."""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
from pathlib import Path

import pytest

from compclip.base import code, plugins

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "compclip"

# The folders in the order in which data flows; those of one line know nothing of each other.
ROOMS = (
    ("base",),
    ("config", "text"),
    ("model",),
    ("data", "runs"),
    ("train", "report"),
    ("methods", "evaluate"),
    ("benchmarks", "launch", "track"),
    ("sweep",),
)
FLOOR = {room: floor for floor, rooms in enumerate(ROOMS) for room in rooms}
HEAVY = {
    "mlflow": {"track.store", "track.log", "track.models", "track.writer"},
    "spacy": {"text.annotate"},
    "dvc": set(),
    "optuna": {"sweep.sampler", "sweep.samplers", "sweep.driver", "sweep.__main__"},
    "submitit": {"launch.slurm"},
    "peft": {"model.lora"},
    "nltk": {"text.wordnet", "text.wordnet_data"},
    "transformers": {"data.captioners.hf", "data.fill_mask", "model.t5"},
}


@functools.cache
def modules() -> dict[str, Path]:
    """Dotted names below compclip and their files."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = path
    found.pop("__init__", None)
    return found


@functools.cache
def imports(path: Path, types: bool = True) -> set[str]:
    """Dotted names of everything a file imports, at the top or inside functions, with what is for type checkers alone."""
    found, ahead = set(), [ast.parse(path.read_text(encoding="utf-8"))]
    while ahead:
        node = ahead.pop()
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif types or not (isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"):
            ahead += ast.iter_child_nodes(node)
    return found


def own(name: str, known: dict[str, Path]) -> str | None:
    """The compclip module that an imported dotted name belongs to."""
    parts = name.split(".")
    if parts[0] != "compclip":
        return None
    while parts[1:] and ".".join(parts[1:]) not in known:
        parts.pop()
    return ".".join(parts[1:]) or None


def test_every_module_stands_in_a_room():
    """Only the list of commands stands in the hall."""
    assert {name for name in modules() if name.partition(".")[0] not in FLOOR} == {"__main__"}


@pytest.mark.parametrize("name", sorted(modules()))
def test_imports_come_from_the_left(name):
    """A room imports from its own folder and from those to its left alone."""
    known, room = modules(), name.partition(".")[0]
    for imported in imports(known[name]):
        target = own(imported, known)
        if target and room in FLOOR:
            there = target.partition(".")[0]
            assert there == room or FLOOR[there] < FLOOR[room], f"compclip.{name} imports compclip.{target}"


@pytest.mark.parametrize("package", sorted(HEAVY))
def test_heavy_packages_have_one_importer(package):
    """mlflow, spacy and the like are imported by the one module that is made for it, or a folder of plug-ins."""
    importers = {n for n, p in modules().items() if any(i.split(".")[0] == package for i in imports(p, False))}
    assert {n for n in importers if n.rpartition(".")[0] not in HEAVY[package]} <= HEAVY[package]


CORE = """
import sys
import compclip.train.finish
from compclip.base import lazy, plugins
[plugins.find(plugins.METHODS, name) for name in plugins.names(plugins.METHODS)]
print("open_clip.model" in sys.modules)
lazy.open_clip.CLIP
print("open_clip.model" in sys.modules)
print(*(name for name, module in sys.modules.items() if module))
"""


def test_training_core_needs_no_heavy_package():
    """Importing the trainer loads none of them, and open_clip when something of it is first used."""
    before, after, names = _said(CORE).splitlines()
    assert (before, after) == ("False", "True")
    assert not set(names.split()) & {*HEAVY, "matplotlib", "pandas", "jinja2", "timm", "sympy", "torch._dynamo"}


LOOK = """
import sys
from compclip.base import plugins
for package in (plugins.METHODS, plugins.BENCHMARKS):
    [plugins.find(package, name) for name in plugins.names(package)]
import compclip.__main__, compclip.config.__main__, compclip.train.__main__, compclip.evaluate.__main__
import compclip.launch.__main__, compclip.runs.keys, compclip.runs.status, compclip.sweep.__main__
import compclip.text.concepts, compclip.text.positives, compclip.text.replace, compclip.text.shuffle, compclip.text.swap
print(*sys.modules)
"""


def test_what_only_looks_at_parameters_and_files_needs_no_torch():
    """Planning, collecting, sending, searching and watching runs, methods, benchmarks and rules: it would cost seconds a command."""
    assert not set(_said(LOOK).split()) & {"torch", "open_clip", "torchvision", "matplotlib", "PIL"}


def _said(code: str) -> str:
    """What a fresh process prints."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT).stdout


def test_no_file_is_long():
    """At most 400 lines a file."""
    long = {n: count for n, p in modules().items() if (count := len(p.read_text().splitlines())) > 400}
    assert not long


def test_the_training_core_knows_no_parameter_file():
    """An edit of how params.yaml is read makes no run stale: the resolved run is all that training sees."""
    used = code.closure(
        "compclip.train.loop", *(f"{plugins.METHODS}.{name}" for name in plugins.names(plugins.METHODS))
    )
    assert not [name for name in used if name.startswith("compclip.config")]
    assert {"compclip.model.backbone", "compclip.train.views", "compclip.text.swap"} <= set(used)
