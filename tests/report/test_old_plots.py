"""A report takes away the plots that it wrote, and no other file."""

import hashlib
import json
import os

import pytest

from compclip.report import report_page


@pytest.fixture
def plots(tmp_path):
    """A report's plots of two methods."""
    folder = tmp_path / "reports" / "plots"
    write(folder, {"tradeoff.csv": "1", "loss/a.csv": "a", "loss/b.csv": "b"})
    return folder


def write(folder, files):
    report_page.remove_old_plots(folder, files)
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def names(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*.csv"))


def test_the_plots_of_an_earlier_grid_go(plots):
    write(plots, {"tradeoff.csv": "2", "loss/b.csv": "b"})
    assert names(plots) == ["loss/b.csv", "tradeoff.csv"]


def test_somebody_s_files_stay(plots):
    """Others' tables, and a plot that a person edited."""
    for name in ("mine.csv", "loss/mine.csv", "deep/er/mine.csv"):
        (plots / name).parent.mkdir(parents=True, exist_ok=True)
        (plots / name).write_text("mine")
    (plots / "loss" / "a.csv").write_text("edited")
    write(plots, {"tradeoff.csv": "2"})
    assert names(plots) == ["deep/er/mine.csv", "loss/a.csv", "loss/mine.csv", "mine.csv", "tradeoff.csv"]


@pytest.mark.parametrize("name", ["../../mine.csv", "/{root}/mine.csv", "link/mine.csv"])
def test_a_name_in_the_manifest_reaches_nothing_outside(plots, name, tmp_path):
    (tmp_path / "mine.csv").write_text("mine")
    os.symlink(tmp_path, plots / "link")
    name = name.replace("{root}", str(tmp_path))
    (plots / report_page.MANIFEST).write_text(json.dumps({name: hashlib.sha256(b"mine").hexdigest()}))
    write(plots, {"tradeoff.csv": "2"})
    assert (tmp_path / "mine.csv").read_text() == "mine"
