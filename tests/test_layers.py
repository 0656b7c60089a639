"""Data flows one way: a module imports only from its left, and heavy packages each have one importer."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "compclip"

# From left to right; a folder stands for all its modules, which may import each other.
ORDER = (
    "errors", "files", "lazy", "modules", "images", "chat", "text.annotation", "text", "features", "distributed", "batch", "losses", "methods",
    "data.sample", "data.scenes.config", "sections", "config", "run_key", "data.scenes", "data.sources", "data.store", "recaption",
    "data.rewrite", "data.prepare", "hub", "tokenizers", "weights", "backbone", "towers", "composite", "views", "collate", "loader", "encode", "accumulate", "throughput", "lora", "optimiser", "checkpoint",
    "progress", "environment", "publish", "cluster", "jobs", "watch", "pretrain", "train", "metrics", "embed", "benchmark",
    "benchmarks", "evaluate", "attention", "wise_ft", "rungs", "job", "launch", "status", "census", "report", "scorer", "track", "sweep", "dashboard",
)
HEAVY = {"mlflow": {"track.store", "track.log", "track.models"}, "spacy": {"text.annotate"}, "dvc": set(),
         "optuna": {"sweep.sampler", "sweep.driver", "sweep.__main__"}, "submitit": {"launch.slurm"},
         "peft": {"lora"},
         "nltk": {"text.wordnet", "text.wordnet_data"}, "transformers": {"recaption.hf"}}


def modules() -> dict[str, Path]:
    """Dotted names below compclip and their files."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = path
    found.pop("__init__", None)
    return found


def imports(path: Path) -> set[str]:
    """Dotted names of everything a file imports, at the top or inside functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def rank(name: str) -> int:
    """Where a module stands: the place of its longest prefix in ORDER."""
    fitting = [o for o in ORDER if name == o or name.startswith(o + ".")]
    assert fitting, f"compclip.{name} has no place in ORDER"
    return ORDER.index(max(fitting, key=len))


def own(name: str, known: dict[str, Path]) -> str | None:
    """The compclip module that an imported dotted name belongs to."""
    parts = name.split(".")
    if parts[0] != "compclip":
        return None
    while parts[1:] and ".".join(parts[1:]) not in known:
        parts.pop()
    return ".".join(parts[1:]) or None


@pytest.mark.parametrize("name", sorted(modules()))
def test_imports_come_from_the_left(name):
    """No upward import."""
    known = modules()
    if known[name].name == "__init__.py" and not imports(known[name]):
        return
    for imported in imports(known[name]):
        target = own(imported, known)
        if target and target != name and known[target].name != "__init__.py":
            assert rank(target) <= rank(name), f"compclip.{name} imports compclip.{target}, which stands to its right"


@pytest.mark.parametrize("package", sorted(HEAVY))
def test_heavy_packages_have_one_importer(package):
    """mlflow, spacy and the like are imported by the one module that is made for it."""
    importers = {n for n, p in modules().items() if any(i.split(".")[0] == package for i in imports(p))}
    assert importers <= HEAVY[package]


def test_training_core_needs_no_heavy_package():
    """Importing the trainer loads none of them; open_clip loads transformers where there is one, so that it is hidden."""
    code = ("import sys; sys.modules['transformers'] = None; import compclip.train; from compclip import lazy, modules; lazy.open_clip.CLIP;"
            "[modules.find('compclip.methods', n) for n in modules.names('compclip.methods')];"
            f"print(sorted({{n for n, m in sys.modules.items() if m}} & {set(HEAVY) | {'matplotlib', 'pandas', 'jinja2'}}))")
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert out.stdout.strip() == "[]"


def test_commands_that_only_look_do_not_import_open_clip():
    """Collecting, sending and watching runs would pay seconds a command for it."""
    code = ("import sys; import compclip.train, compclip.evaluate, compclip.launch.__main__, compclip.status;"
            "print('open_clip.model' in sys.modules); compclip.backbone.open_clip.CLIP;"
            "print('open_clip.model' in sys.modules)")
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert out.stdout.split() == ["False", "True"]


def test_no_file_is_long():
    """At most 400 lines a file."""
    long = {n: count for n, p in modules().items() if (count := len(p.read_text().splitlines())) > 400}
    assert not long


def test_dvc_reruns_what_the_run_key_depends_on():
    """The train stage has every file of the run key as a dep, or an edit would silently reuse stale results."""
    from omegaconf import OmegaConf

    from compclip.run_key import TRAIN_CODE

    deps = set(OmegaConf.to_container(OmegaConf.load(ROOT / "dvc.yaml"), resolve=False)["stages"]["train"]["deps"])
    assert {f"compclip/{name}" for name in TRAIN_CODE} <= deps
    assert all((PACKAGE / name).is_file() for name in TRAIN_CODE)


def test_the_run_key_covers_the_training_code():
    """Whatever views, collate, encode and the methods import of our own is part of the run key or of its inputs."""
    from compclip.run_key import TRAIN_CODE

    known, aside = modules(), {"errors", "files", "lazy", "modules", "sections", "config", "backbone", "data.sample"}
    covered = {".".join(Path(name).with_suffix("").parts) for name in TRAIN_CODE}
    for name in covered:
        for imported in imports(known[name]):
            target = own(imported, known)
            plain = target is None or known[target].name == "__init__.py" or target in covered | aside
            assert plain or name == "train", f"compclip.{name} imports compclip.{target}"


def test_a_registered_model_carries_what_it_imports():
    """The files that travel with a logged model are the scorer, all it imports of ours, and theirs."""
    from compclip.scorer import CODE

    known, carried, ahead = modules(), set(), ["scorer"]
    while ahead:
        name = ahead.pop()
        carried.add(name)
        targets = {own(imported, known) for imported in imports(known[name])}
        ahead += [target for target in targets - carried if target]
    assert set(CODE) == {"__init__.py", *(str(known[name].relative_to(PACKAGE)) for name in carried)}
