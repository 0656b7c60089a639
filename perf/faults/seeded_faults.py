"""Do the tests notice a fault? Put one fault at a time into a copy of the tree and run the tests named for it.

    python -m perf.faults.seeded_faults                         # every fault of perf/faults/seeded_faults.yaml
    python -m perf.faults.seeded_faults --only compclip/text    # the faults of one folder or module
    python -m perf.faults.seeded_faults --write results.json    # also write what was caught, for a comparison

For each module the file names the tests that cover it, and faults: a text that occurs once in the module, and its
replacement. A fault is caught if the tests fail with it; without a fault the tests must pass.

Takes an hour for all faults; needs no data and no GPU.
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from compclip.base.errors import UserError
from perf.checkout import ROOT

FAULTS = Path(__file__).with_suffix(".yaml")
COPIED = ("compclip", "tests", "params.yaml", "dvc.yaml", "pyproject.toml", "README.md", "docs", "experiments", "perf")
LIBRARIES = ("torch", "open_clip", "pyarrow.parquet", "hypothesis", "scipy.stats", "spacy", "transformers", "PIL.Image")
LONGEST_TEST_S = 300  # a fault can make a loop endless


@dataclass(frozen=True)
class Fault:
    """One wrong place in a module, and the tests that should notice it."""

    module: str
    find: str
    replace: str
    tests: tuple[str, ...]

    @property
    def name(self) -> str:
        """The fault in a line."""
        return f"{self.module}: {' '.join(self.find.split())} -> {' '.join(self.replace.split())}"


def load_faults(path: Path, only: str) -> list[Fault]:
    """The faults of modules whose path begins with `only`."""
    faults = []
    sections: Any = OmegaConf.to_container(OmegaConf.load(path))
    for module, section in sections.items():
        if not module.startswith(only):
            continue
        for fault in section["faults"]:
            faults.append(Fault(module, fault["find"], fault["replace"], tuple(section["tests"])))
    return faults


def copy_tree(target: Path) -> None:
    """A copy of what the tests read; the tree itself is never changed."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target / name)


def insert_fault(tree: Path, fault: Fault) -> str:
    """Write the fault into the copy; returns the module's right text."""
    path = tree / fault.module
    text = path.read_text()
    if text.count(fault.find) != 1:
        raise UserError(f"{fault.module}: {fault.find!r} must stand there once; renew it")
    path.write_text(text.replace(fault.find, fault.replace))
    return text


def load_libraries() -> None:
    """Import what takes seconds, once; each run of tests is a copy of this process, and writes no compiled code."""
    sys.dont_write_bytecode = True
    for name in LIBRARIES:
        importlib.import_module(name)


def run_tests(tree: Path, tests: tuple[str, ...]) -> bool:
    """Whether all tests pass in the copy."""
    process = multiprocessing.get_context("fork").Process(target=_exit_with_tests, args=(tree, tests))
    process.start()
    process.join(LONGEST_TEST_S)
    process.kill()
    process.join()
    return process.exitcode == 0


def _exit_with_tests(tree: Path, tests: tuple[str, ...]) -> None:
    with open(os.devnull, "w") as nothing:
        os.dup2(nothing.fileno(), 1)
        os.dup2(nothing.fileno(), 2)
    os.chdir(tree)
    os.environ["PYTHONPATH"] = str(tree)
    os.environ.setdefault("COMPCLIP_SHARED_DATA", str(ROOT.parent / "shared" / "data"))
    sys.path[:] = [str(tree), *(entry for entry in sys.path if Path(entry or ".").resolve() != ROOT)]
    for name in [name for name in sys.modules if name.partition(".")[0] in ("compclip", "tests", "perf")]:
        del sys.modules[name]
    os._exit(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests]))


def check_faults(tree: Path, faults: list[Fault]) -> dict[str, bool]:
    """Whether each fault was caught, by its name."""
    caught = {}
    for fault in faults:
        start = time.monotonic()
        right_text = insert_fault(tree, fault)
        caught[fault.name] = not run_tests(tree, fault.tests)
        (tree / fault.module).write_text(right_text)
        word = "caught" if caught[fault.name] else "MISSED"
        print(f"{word} {time.monotonic() - start:5.1f} s  {fault.name}", flush=True)
    return caught


def main(argv: list[str] | None = None) -> int:
    """Run the faults and print the number of those that were caught."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="the faults of modules whose path begins so")
    parser.add_argument("--write", type=Path, help="a JSON file for the results")
    parser.add_argument("--skip-check", action="store_true", help="the tests are known to pass without a fault")
    parser.add_argument("--faults", type=Path, default=FAULTS, help="another file of faults")
    args = parser.parse_args(argv)
    faults = load_faults(args.faults, args.only)
    load_libraries()
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        copy_tree(tree)
        for tests in [] if args.skip_check else sorted({fault.tests for fault in faults}):
            if not run_tests(tree, tests):
                raise UserError(f"{' '.join(tests)}: fails without a fault; repair that first")
        caught = check_faults(tree, faults)
    print(f"{sum(caught.values())} of {len(caught)} faults caught")
    if args.write:
        args.write.write_text(json.dumps(caught, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
