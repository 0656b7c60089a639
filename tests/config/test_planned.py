"""The stage `plan` looks at every edit, and does nothing where there was none."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from compclip.base import stamp
from compclip.config import __main__ as config_command
from compclip.config import plan, planned
from tests.conftest import ROOT


@pytest.fixture
def made(tmp_path, monkeypatch) -> Callable[[], bool]:
    """A folder with a plan and a copy of the code; tells whether the command made the plan when called again."""
    package = shutil.copytree(stamp.PACKAGE, tmp_path / "compclip", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(stamp, "PACKAGE", package)
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "params.yaml", tmp_path)
    calls: list[Path] = []
    write = plan.write
    monkeypatch.setattr(plan, "write", lambda params, folder: calls.append(folder) or write(params, folder))

    def again() -> bool:
        calls.clear()
        assert config_command.main(["plan"]) == 0
        return bool(calls)

    assert again()
    return again


def test_nothing_changed(made):
    """Neither plan nor time of a file; nor is a file that has the same contents anyway."""
    before = {path: path.stat().st_mtime_ns for path in Path("plan").rglob("*.json")}
    assert not made()
    os.utime("params.yaml", (1, 1))
    assert made() and not made()
    assert {path: path.stat().st_mtime_ns for path in Path("plan").rglob("*.json")} == before


EDITS: dict[str, Callable[[], object]] = {
    "a parameter": lambda: Path("params.yaml").write_text(Path("params.yaml").read_text() + "# \n"),
    "code": lambda: Path("compclip/text/swap.py").write_text("x = 1\n"),
    "new code": lambda: Path("compclip/methods/new.py").touch(),
    "a plan file": lambda: Path("plan/train/clic.json").write_text("{}"),
    "a plan file that is gone": lambda: Path("plan/train/clic.json").unlink(),
    "a file more": lambda: Path("plan/train/x.json").touch(),
    "the memory": lambda: planned.MADE.write_text('{"of": 1}'),
    "the memory is damaged": lambda: planned.MADE.write_text("["),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS.keys())
def test_whatever_changed(made, edit):
    """The plan is made again, once, and is what it was where only its own files were touched."""
    before = {path: path.read_bytes() for path in Path("plan").rglob("*.json")}
    edit()
    assert made() and not made()
    assert {path: path.read_bytes() for path in Path("plan").rglob("*.json")} == before


def test_what_the_environment_says_is_never_remembered(made):
    """An interpolation may lead to it."""
    with open("params.yaml", "a") as file:
        file.write("# ${oc.env:X}\n")
    assert made() and made()


def test_overrides_are_no_plan_of_the_project(made, tmp_path):
    """They are written where asked, and the project's own plan is as current as before."""
    assert config_command.main(["plan", "--out", str(tmp_path / "other"), "scenes.train=7"]) == 0
    assert not made()


LOOKS = """
import sys
from compclip.config import __main__ as config
assert config.main(["plan"]) == 0
print("heavy:", *{"omegaconf", "yaml", "numpy", "compclip.config.plan"} & set(sys.modules))
"""


def test_a_look_imports_nothing(tmp_path, monkeypatch):
    """A `dvc repro` that has nothing to do runs this."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "params.yaml", tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    said = [
        subprocess.run(
            [sys.executable, "-c", LOOKS], capture_output=True, text=True, check=True, env=environment
        ).stdout
        for _ in range(2)
    ]
    assert "omegaconf" in said[0] and said[1] == "heavy:\n"
