"""No test reads the state of the checkout that it stands in, whatever was run in it."""

import os
from pathlib import Path

import pytest

from compclip.config import read
from tests.shipped_files import ROOT, SHIPPED_PARAMS, SHIPPED_PROJECT, STATE, list_shipped


@pytest.mark.parametrize(
    "look",
    [lambda: (ROOT / "params.yaml").read_text(), lambda: list((ROOT / "keys").iterdir()), lambda: os.listdir(ROOT / "runs"),
     lambda: read.load_params(ROOT / "compclip" / ".." / "params.yaml"), lambda: (ROOT / "store" / "x").write_text("")],
)  # fmt: skip
def test_the_state_of_the_checkout_is_out_of_reach(look):
    with pytest.raises(AssertionError, match="is the state of this checkout"):
        look()


def test_a_relative_path_leads_to_no_state(monkeypatch):
    """Unless a test goes there."""
    assert not STATE & {path.name for path in Path().iterdir()}
    monkeypatch.chdir(ROOT)
    with pytest.raises(AssertionError, match="is the state of this checkout"):
        read.load_params()


def test_every_ignored_folder_of_a_project_is_state():
    """But for those of the tools of who works on it."""
    ignored = {line.strip("/") for line in (ROOT / ".gitignore").read_text().splitlines() if line.startswith("/")}
    assert ignored - STATE == {".venv", "site", "build", "dist"}


def test_what_is_shipped(monkeypatch):
    """The grid and its bases can be read in the laid out project; a grid of one's own is not among the shipped ones."""
    monkeypatch.chdir(SHIPPED_PROJECT)
    assert read.load_params() == read.load_params(SHIPPED_PARAMS)
    paths = list_shipped("experiments/grids/*.yaml")
    assert paths and all(path.is_file() for path in paths) and paths == sorted(paths)
