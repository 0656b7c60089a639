"""One copy on the disk, several places: links where the file system can, whole files and trees, nothing half-written."""

import errno
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from compclip.base import links
from compclip.base.errors import UserError


@pytest.fixture
def tree(tmp_path) -> Path:
    for name in ("a.txt", "sub/b.txt", "sub/deeper/c.txt"):
        (tmp_path / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / name).write_text(name)
    return tmp_path / "tree"


@pytest.fixture
def no_clones(monkeypatch) -> None:
    """A file system without reflinks, as most are."""
    monkeypatch.setattr(links, "_clone", refused)


def refused(*_: object) -> None:
    """What a system call says of what its file system cannot do."""
    raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))


def files(folder: Path) -> dict[str, str]:
    """Every file below a folder, hidden ones too, and its text."""
    return {str(p.relative_to(folder)): p.read_text() for p in folder.rglob("*") if p.is_file()}


def test_a_file_is_linked(tree, tmp_path, no_clones):
    """The same file in both places; a place that holds it already is left alone."""
    target = tmp_path / "new" / "a.txt"
    links.link_or_copy(tree / "a.txt", target)
    assert target.samefile(tree / "a.txt")
    before = target.parent.stat().st_mtime_ns
    links.link_or_copy(tree / "a.txt", target)
    assert target.parent.stat().st_mtime_ns == before


def test_a_clone_comes_before_a_link(tree, tmp_path, monkeypatch):
    """Blocks that two files share are safer than one file in two places: an edit of one leaves the other."""
    monkeypatch.setattr(links, "_clone", lambda source, target: target.write_bytes(source.read_bytes()))
    links.link_or_copy(tree / "a.txt", tmp_path / "clone")
    assert not (tmp_path / "clone").samefile(tree / "a.txt")
    assert (tmp_path / "clone").read_text() == "a.txt"


def test_a_copy_is_the_last_resort_and_said_once(tree, tmp_path, no_clones, monkeypatch, capsys):
    """Once for all files between two file systems."""
    monkeypatch.setattr(links, "_noted_pairs", set())
    monkeypatch.setattr(links.os, "link", refused)
    for name in ("one", "two"):
        links.link_or_copy(tree, tmp_path / name)
        assert files(tmp_path / name) == files(tree)
        assert not (tmp_path / name / "a.txt").samefile(tree / "a.txt")
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("note: files cannot be linked from ") and line.endswith(": they are copied")


def test_a_tree_is_replaced_whole(tree, tmp_path, no_clones):
    """What the old one had besides is gone; nothing lies beside it afterwards; the same tree is left alone."""
    target = tmp_path / "places" / "target"
    (target / "sub").mkdir(parents=True)
    for name in ("old.txt", "sub/b.txt"):
        (target / name).write_text("old")
    links.link_or_copy(tree, target)
    assert files(target) == files(tree)
    assert all((target / name).samefile(tree / name) for name in files(tree))
    assert [p.name for p in target.parent.iterdir()] == ["target"]
    inode = target.stat().st_ino
    links.link_or_copy(tree, target)
    assert target.stat().st_ino == inode
    (tree / "sub" / "b.txt").unlink()
    (tree / "sub" / "b.txt").write_text("new")
    links.link_or_copy(tree, target)
    assert files(target) == files(tree)


@pytest.mark.parametrize("source,old", [("a.txt", "folder"), (".", "file"), ("a.txt", "link"), (".", "link")])
def test_what_stood_there_gives_way(tree, tmp_path, source, old):
    """A folder to a file, a file to a folder, a symbolic link to either; what a link points to stays."""
    target, aside = tmp_path / "target", tmp_path / "aside"
    aside.mkdir()
    (aside / "kept.txt").write_text("kept")
    make = {"folder": lambda: (target / "x").mkdir(parents=True), "file": target.touch}
    make.get(old, lambda: target.symlink_to(aside))()
    links.link_or_copy(tree / source, target)
    assert target.is_dir() == (source == ".") and not target.is_symlink()
    assert files(aside) == {"kept.txt": "kept"}


@pytest.mark.parametrize("source", [".", "a.txt"])
def test_a_failure_leaves_the_old_and_nothing_else(tree, tmp_path, monkeypatch, source):
    """A disk that fills up on the way: one line that names the place, the old files whole, no rest of the new ones."""
    target = tmp_path / "places" / "target"
    links.link_or_copy(tree / source, target)
    before = files(target.parent)
    (tree / "a.txt").unlink()
    (tree / "a.txt").write_text("new")

    def full(_source: Path, new: Path) -> None:
        new.write_text("ne")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(links, "_clone_link_or_copy", full)
    with pytest.raises(UserError, match=f"{target}: cannot write: No space left on device; free space"):
        links.link_or_copy(tree / source, target)
    assert files(target.parent) == before


def test_what_cannot_be_put_there_leaves_the_old(tree, tmp_path, monkeypatch):
    """The old one is out of the way then, and comes back."""
    target = tmp_path / "places" / "target"
    target.mkdir(parents=True)
    (target / "old.txt").write_text("old")
    monkeypatch.setattr(links.os, "replace", refused)
    with pytest.raises(UserError, match=f"{target}: cannot write: "):
        links.link_or_copy(tree, target)
    assert files(target.parent) == {"target/old.txt": "old"}


def test_many_may_put_one_folder_there_at_once(tree, tmp_path):
    """Two evaluations publish one cell: each comes through, and one of them stays whole."""
    target, rounds, futures = tmp_path / "places" / "target", 60, []
    trees = [Path(shutil.copytree(tree, tmp_path / f"tree{i}")) for i in range(4)]
    for i, mine in enumerate(trees):
        (mine / "who.txt").write_text(str(i))

    def publish(mine: Path) -> None:
        for turn in range(rounds):
            links.link_or_copy(tree if turn % 2 else mine, target)

    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(publish, mine) for mine in trees]
        assert [future.result() for future in futures] == [None] * 4
    assert files(target) == files(tree)
    assert [p.name for p in target.parent.iterdir()] == ["target"]


def test_remove(tree, tmp_path):
    """A file, a folder, a link without what it points to, and what is not there."""
    (tmp_path / "link").symlink_to(tree)
    for path in (tmp_path / "link", tmp_path / "none", tree / "a.txt", tree / "sub"):
        links.remove(path)
        assert not path.exists()
    assert tree.is_dir()
