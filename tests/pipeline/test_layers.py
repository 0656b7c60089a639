"""Data flows one way: a module imports only from its left, none in a circle, and heavy packages each have one importer."""

import ast
import functools
import graphlib
import importlib.metadata
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "compclip"

# The folders in the order in which data flows; those of one line know nothing of each other.
ROOMS = (
    ("base",),
    ("text",),
    ("interface",),
    ("config",),
    ("model",),
    ("data",),
    ("llm", "fetch", "scenes", "runs"),
    ("prepare",),
    ("train", "report"),
    ("methods", "evaluate", "field"),
    ("benchmarks", "launch", "track"),
    ("sweep", "doctor", "publish", "audit", "items", "begin"),
)
FLOOR = {room: floor for floor, rooms in enumerate(ROOMS) for room in rooms}
HEAVY = {
    "mlflow": {"track.tracking_store", "track.writer"},
    "spacy": {"text.spacy_parser"},
    "dvc": set(),
    "optuna": {"sweep.sampling_and_pruning", "sweep.samplers", "sweep.study_driver", "sweep.__main__"},
    "submitit": {"launch.slurm"},
    "peft": {"model.lora"},
    "nltk": {"text.wordnet_files"},
    "transformers": {"prepare.captioners.hf", "prepare.mask_filling", "model.t5", "evaluate.models"},
}


@functools.cache
def modules() -> dict[str, Path]:
    """Dotted names below compclip and their files."""
    module_paths = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        module_paths[name.removesuffix(".__init__")] = path
    module_paths.pop("__init__", None)
    return module_paths


@functools.cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def imports(path: Path, types: bool = True) -> set[str]:
    """Dotted names of everything a file imports, at the top or inside functions, with what is for type checkers alone."""
    names, ahead = set(), [parse(path)]
    while ahead:
        node = ahead.pop()
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif types or not (isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"):
            ahead += ast.iter_child_nodes(node)
    return names


def find_owner(name: str, module_paths: dict[str, Path]) -> str | None:
    """The compclip module that an imported dotted name belongs to."""
    name_parts = name.split(".")
    if name_parts[0] != "compclip":
        return None
    while name_parts[1:] and ".".join(name_parts[1:]) not in module_paths:
        name_parts.pop()
    return ".".join(name_parts[1:]) or None


def test_every_module_stands_in_a_room():
    """Only the list of commands, and what Python programs call, are in the hall."""
    assert {name for name in modules() if name.partition(".")[0] not in FLOOR} == {"__main__", "api"}


def test_imports_come_from_the_left():
    """A room imports from its own folder and from those to its left alone."""
    wrong_imports, module_paths = [], modules()
    for name, path in module_paths.items():
        room = name.partition(".")[0]
        targets = {find_owner(imported, module_paths) for imported in imports(path)} if room in FLOOR else ()
        for target in filter(None, targets):
            target_room = target.partition(".")[0]
            if target_room != room and FLOOR[target_room] >= FLOOR[room]:
                wrong_imports.append(f"compclip.{name} imports compclip.{target}")
    assert not wrong_imports


def test_no_modules_import_each_other_in_a_circle():
    """Not by imports inside functions either: which of them is the lower one must be plain to see."""
    module_paths, graph = modules(), {}
    for name, path in module_paths.items():
        graph[name] = {find_owner(imported, module_paths) for imported in imports(path)} - {None, name}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))  # graphlib names the imported module first


@pytest.mark.parametrize("package", sorted(HEAVY))
def test_heavy_packages_have_one_importer(package):
    """mlflow, spacy and the like are imported by the one module that is made for it, or a folder of plug-ins."""
    importers = {n for n, p in modules().items() if any(i.split(".")[0] == package for i in imports(p, False))}
    assert {n for n in importers if n.rpartition(".")[0] not in HEAVY[package]} <= HEAVY[package]


LOOK = """
import sys
import tomllib
from compclip.base import plugins
for package in (plugins.METHODS, plugins.BENCHMARKS):
    [plugins.load_plugin(package, name) for name in plugins.list_plugins(package)]
import compclip.__main__, compclip.config.__main__, compclip.train.__main__, compclip.evaluate.__main__
import compclip.launch.__main__, compclip.runs.keys, compclip.runs.status, compclip.sweep.__main__
import compclip.text.positives, compclip.text.replace, compclip.text.shuffle, compclip.text.swap
print(*sys.modules)
"""


def test_what_only_looks_at_parameters_and_files_needs_no_torch():
    """Planning, collecting, sending, searching and watching runs, methods, benchmarks and rules: it would cost seconds a command."""
    assert not set(run_python(LOOK).split()) & {"torch", "open_clip", "torchvision", "matplotlib", "PIL"}


def test_a_stage_that_finds_nothing_to_do_needs_no_torch():
    """Most grids ask for no neighbours: loading torch and open_clip for that took seven seconds of a core."""
    loaded = run_python("import sys, compclip.train.neighbours; print(*sys.modules)").split()
    assert not set(loaded) & {"torch", "open_clip", "torchvision"}


def run_python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT).stdout


def test_no_file_is_long():
    long = {n: count for n, p in modules().items() if (count := len(p.read_text().splitlines())) > 600}
    assert not long


def test_direct_imports_are_declared():
    """Every package that a module imports is a dependency, or an extra that the module asks for by name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    requirements = sum(project["optional-dependencies"].values(), project["dependencies"])
    declared = {re.split(r"[<>=\[ ;]", requirement)[0].lower().replace("_", "-") for requirement in requirements}
    packages = {name.partition(".")[0] for path in PACKAGE.rglob("*.py") for name in imports(path)}
    packages -= {*sys.stdlib_module_names, "compclip"}
    names = importlib.metadata.packages_distributions()
    undeclared = {p for p in packages if not {n.lower().replace("_", "-") for n in names.get(p, [p])} & declared}
    assert undeclared == set()
