"""A project's own name; what two projects do in one store is in test_ownership.py."""

import re
import shutil

import pytest

from compclip.track import sync


@pytest.fixture
def without_name(monkeypatch):
    """No configuration names the project."""
    monkeypatch.delenv(sync.PROJECT)


def test_a_folder_keeps_its_project(tmp_path, without_name, capsys):
    """After a move, too; a copy beside it is another project, and so is a name that the environment gives."""
    first = tmp_path / "my clip"
    first.mkdir()
    name = sync.name_project(root=first)
    assert re.fullmatch(r"my_clip-[0-9a-f]{6}", name)
    assert capsys.readouterr().err.count(name) == 1
    assert sync.name_project(root=first) == name
    shutil.copytree(first, tmp_path / "copy")
    assert sync.name_project(root=tmp_path / "copy") != name
    first.rename(tmp_path / "moved")
    first.mkdir()
    assert sync.name_project(root=tmp_path / "moved") == name != sync.name_project(root=first)
