"""Evaluation and training beside six packages alone: as `pip install --no-deps compclip` on a cluster or in a notebook."""

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.evaluate.test_evaluate import checkpoint, root  # noqa: F401
from tests.pipeline.test_layers import HEAVY

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("torch", "open_clip_torch", "omegaconf", "pydantic", "pyarrow", "scipy")  # as docs/install.md has them
# What is before a program: every module of a distribution that is not in reach of the six is missing.
START = """
import json, sys
missing = set(json.loads(sys.argv.pop(1)))

class WithoutMissing:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in missing else self.finder.find_spec(name, path, target)

    def __getattr__(self, name):
        return getattr(self.finder, name)

sys.meta_path[:] = map(WithoutMissing, sys.meta_path)
"""
PROGRAM = """
from compclip import api
from compclip.evaluate.__main__ import main
checkpoint, files, images = sys.argv[1:]
places = [f"benchmarks.sugarcrepe.path={files}", f"benchmarks.sugarcrepe.images={images}"]
assert main(["--checkpoint", checkpoint, "--benchmarks", "sugarcrepe", *places, "--out", "out"]) == 0
results = api.evaluate(checkpoint, ["sugarcrepe"], files={"sugarcrepe": files}, images=images)
assert results["sugarcrepe"].metrics == json.load(open("out/sugarcrepe.json"))["metrics"]
import compclip.train.job
from compclip.base import plugins
[plugins.load_plugin(plugins.METHODS, name) for name in plugins.list_plugins(plugins.METHODS)]
print(json.dumps(sorted({name.partition(".")[0] for name, module in sys.modules.items() if module})))
"""


def list_reachable(names: tuple[str, ...]) -> set[str]:
    """The distributions that installing `names` brings, by their normalised names."""
    reachable, pending = set(), [normalise(name) for name in names]
    while pending:
        name = pending.pop()
        if name in reachable:
            continue
        try:
            requirements = [Requirement(text) for text in metadata.requires(name) or ()]
        except metadata.PackageNotFoundError:
            continue
        reachable.add(name)
        pending += [normalise(r.name) for r in requirements if not r.marker or r.marker.evaluate({"extra": ""})]
    return reachable


def normalise(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


@pytest.fixture(scope="module")
def missing() -> str:
    """The modules of this environment that the six packages do not bring, as JSON."""
    reachable = list_reachable(PACKAGES)
    by_module = metadata.packages_distributions()
    return json.dumps([
        module for module, owners in by_module.items()
        if module != "compclip" and not {normalise(owner) for owner in owners} & reachable
    ])  # fmt: skip


def test_evaluation_and_training(missing, checkpoint, root):  # noqa: F811
    """Evaluation by the command and from Python, outside of a project; the trainer and every method are imported."""
    assert {"dvc", "mlflow", "optuna", "submitit", "spacy", "nltk", "peft"} <= set(json.loads(missing))
    command = [sys.executable, "-c", START + PROGRAM, missing, *map(str, (checkpoint, root / "sc", root / "images"))]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.run(command, capture_output=True, text=True, cwd=root, env=env)
    assert process.returncode == 0, process.stderr
    imported = json.loads(process.stdout.splitlines()[-1])
    # open_clip itself loads transformers
    assert not set(imported) & ((HEAVY.keys() | {"pandas", "matplotlib"}) - {"transformers"})
