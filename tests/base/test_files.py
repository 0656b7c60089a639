"""Whole files or none: atomic writes, reading errors that name the file and the fix."""

import errno
import os

import pytest

from compclip.base import files
from compclip.base.errors import UserError, entry


def test_full_disk_leaves_the_old_file(tmp_path, monkeypatch):
    """No space while saving: one clear line, the old file whole, no temporary file left."""
    path = tmp_path / "result.json"
    files.write_json(path, {"a": 1})

    def full(_fd):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match=r"result\.json: cannot write: No space left on device; free space"):
        files.write_json(path, {"a": 2})
    assert files.read_json(path) == {"a": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["result.json"]


def test_what_cannot_be_read(tmp_path):
    """Invalid UTF-8 names the file and the place; a NUL, a long name and a folder are no file."""
    (tmp_path / "x.json").write_bytes(b"\xff\xfe{}")
    with pytest.raises(UserError, match="x.json: not UTF-8 at byte 0"):
        files.read_json(tmp_path / "x.json")
    for name in ("a\0b", "x" * 300, "."):
        with pytest.raises(UserError, match="give the path of an existing file"):
            files.read_bytes(tmp_path / name)
    os.mkfifo(tmp_path / "pipe")
    for read in (files.read_bytes, files.check_regular):
        with pytest.raises(UserError, match="pipe: not a regular file"):
            read(tmp_path / "pipe")
    for name in ("x.json", "none"):  # which a library is to open or to name
        assert files.check_regular(tmp_path / name) == f"{tmp_path}/{name}"


def test_fingerprint_sees_names_and_bytes(tmp_path):
    """Another byte or name gives another fingerprint; time stamps do not matter, nor what a kill left."""
    folder = tmp_path / "d"
    file = folder / "a"
    folder.mkdir()
    file.write_text("1")
    first = files.fingerprint(folder)
    os.utime(file, (0, 0))
    half = files.temporary_path(file, "tmp")
    half.write_text("x")
    assert files.fingerprint(folder) == first
    assert files.fingerprint(file, half) == files.fingerprint(file)
    file.rename(folder / "b")
    assert files.fingerprint(folder) != first
    (folder / "b").rename(file)
    file.write_text("2")
    assert files.fingerprint(folder) != first


def test_what_a_kill_left_goes(tmp_path, monkeypatch):
    """With the next write into its folder, and with it nothing that has another name or may still be written: by a
    process that lives, or by one of another machine; whatever the clock says.
    """
    other_machine = "0000" if files._machine() != "0000" else "0001"
    with monkeypatch.context() as patch:
        patch.setattr(files.os, "getpid", lambda: 0xFFFFFF)  # no process has this number
        gone = [files.temporary_path(tmp_path / "a.json", kind) for kind in ("tmp", "new", "old")]
        patch.setattr(files, "_machine", lambda: other_machine)
        foreign = files.temporary_path(tmp_path / "a.json", "tmp")
    surviving_paths = [tmp_path / name for name in (".a.tmp", "b.tmp", ".b.0123456789ab.bak")]
    surviving_paths += [files.temporary_path(tmp_path / "a.json", "tmp"), foreign]
    for path in [*gone[:1], *surviving_paths]:
        path.write_text("x")
    for path in gone[1:]:
        (path / "deep").mkdir(parents=True)
    for path in surviving_paths:
        os.utime(path, (0, 0))
    monkeypatch.setattr(files, "_swept_folders", set())
    files.write_json(tmp_path / "c.json", {})
    assert sorted(tmp_path.iterdir()) == sorted([*surviving_paths, tmp_path / "c.json"])


def test_user_errors_are_one_line_and_code_two(capsys):
    """`entry` prints one line, however many the message has, and no traceback."""

    def main(_argv):
        raise UserError("params.yaml: train.lr=-1:\n must be > 0")

    assert entry(main) == 2
    assert capsys.readouterr().err == "error: params.yaml: train.lr=-1: must be > 0\n"


@pytest.mark.parametrize("text,message", [
    ("[" * 50_000, "f.json: nested too deeply; fix or fetch"),
    ('{"a":' * 50_000, "f.json: nested too deeply; fix or fetch"),
    ("1" * 5000, "f.json: has a number of thousands of digits; fix"),
    ('{\n"a": }', "f.json: not JSON at line 2: Expecting value; fix"), ("", "f.json: not JSON at line 1: "),
], ids=lambda value: value[:30])  # fmt: skip
def test_what_is_refused(text, message):
    """Depth and digits end in a line as a missing bracket does."""
    with pytest.raises(UserError, match=message):
        files.parse_json(text, "f.json")


def test_two_writers_of_one_file(tmp_path):
    """Their temporary files are different ones, and stand beside the file under its name."""
    with files.atomic(tmp_path / "a.json") as one, files.atomic(tmp_path / "a.json") as other:
        one.write_text("1")
        other.write_text("2")
        assert one != other
        assert one.name.startswith(".a.json.")
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]
    assert (tmp_path / "a.json").read_text() == "1"
