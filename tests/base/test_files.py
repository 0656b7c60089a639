"""Whole files or none: atomic writes, reading errors that name the file and the fix."""

import errno
import os

import pytest

from compclip.base import files
from compclip.base.errors import UserError, entry, unknown


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


@pytest.mark.parametrize(
    "raw,message",
    [
        (b"\xff\xfe{}", "not UTF-8 at byte 0"),
        (b'{"a": }', "not JSON at line 1"),
    ],
)
def test_unreadable_json(tmp_path, raw, message):
    """Invalid UTF-8 and broken JSON name the file and the place."""
    path = tmp_path / "x.json"
    path.write_bytes(raw)
    with pytest.raises(UserError, match=f"x.json: {message}"):
        files.read_json(path)


def test_a_pipe_is_given_to_no_library(tmp_path):
    """A file and a missing one are theirs to open or to name."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="pipe: not a regular file"):
        files.check_regular(tmp_path / "pipe")
    (tmp_path / "file").touch()
    assert [files.check_regular(tmp_path / name) for name in ("file", "none")] == [
        f"{tmp_path}/file",
        f"{tmp_path}/none",
    ]


def test_fingerprint_sees_names_and_bytes(tmp_path):
    """Another byte or another name gives another fingerprint; time stamps do not matter."""
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "a").write_text("1")
    first = files.fingerprint(tmp_path / "d")
    os.utime(tmp_path / "d" / "a", (0, 0))
    assert files.fingerprint(tmp_path / "d") == first
    (tmp_path / "d" / "a").rename(tmp_path / "d" / "b")
    assert files.fingerprint(tmp_path / "d") != first
    (tmp_path / "d" / "b").rename(tmp_path / "d" / "a")
    (tmp_path / "d" / "a").write_text("2")
    assert files.fingerprint(tmp_path / "d") != first


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
    surviving_paths = [
        files.temporary_path(tmp_path / "a.json", "tmp"),
        foreign,
        *(tmp_path / n for n in (".a.tmp", "b.tmp", ".b.0123456789ab.bak")),
    ]
    for path in [*gone[:1], *surviving_paths]:
        path.write_text("x")
    for path in gone[1:]:
        (path / "deep").mkdir(parents=True)
    for path in surviving_paths:
        os.utime(path, (0, 0))
    monkeypatch.setattr(files, "_swept_folders", set())
    files.write_json(tmp_path / "c.json", {})
    assert sorted(tmp_path.iterdir()) == sorted([*surviving_paths, tmp_path / "c.json"])


def test_a_fingerprint_does_not_see_what_a_kill_left(tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "a").write_text("1")
    first = files.fingerprint(tmp_path / "d")
    half = files.temporary_path(tmp_path / "d" / "a", "tmp")
    half.write_text("x")
    assert files.fingerprint(tmp_path / "d") == first
    assert files.fingerprint(tmp_path / "d" / "a", half) == files.fingerprint(tmp_path / "d" / "a")


def test_user_errors_are_one_line_and_code_two(capsys):
    """`entry` prints one line, however many the message has, and no traceback."""

    def main(_argv):
        raise UserError("params.yaml: train.lr=-1:\n must be > 0")

    assert entry(main) == 2
    assert capsys.readouterr().err == "error: params.yaml: train.lr=-1: must be > 0\n"


def test_unknown_names_show_the_nearest():
    """A misspelt name comes with what was probably meant."""
    assert "did you mean 'negclip'" in str(unknown("method", "negclp", ["negclip", "clic", "finetune"]))
    assert "known: clic, finetune" in str(unknown("method", "xyzzy", ["finetune", "clic"]))
