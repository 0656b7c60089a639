"""Archives: what the rule names goes to its place; what leads out of it, grows without end or is damaged is refused."""

import contextlib
import io
import shutil
import stat
import tarfile
import zipfile

import pytest

from compclip.base.errors import UserError
from compclip.fetch import archives
from compclip.fetch.archives import unpack
from compclip.fetch.catalogue import OfferFile

MEMBERS = {"top/a/1.json": "[1]", "top/a/2.txt": "two", "top/b.json": "[]", "__MACOSX/top/._b.json": "x"}

ALL = OfferFile()


@pytest.fixture
def run(tmp_path):
    """Unpacks bytes with a rule; gives the counts and what is there."""

    def unpack_bytes(raw, rule=ALL):
        archive = tmp_path / "archive"
        archive.write_bytes(raw)
        counts = unpack(archive, tmp_path / "out", rule, tmp_path / ".staging")
        return counts, read_unpacked(tmp_path)

    return unpack_bytes


def read_unpacked(tmp_path):
    """Files that were unpacked, and their texts; nothing of what was under way is left."""
    assert not (tmp_path / ".staging").exists()
    out = tmp_path / "out"
    return {str(p.relative_to(out)): p.read_text() for p in sorted(out.rglob("*")) if p.is_file()}


def refused(run, tmp_path, raw, message):
    with pytest.raises(UserError, match=message):
        run(raw)
    assert read_unpacked(tmp_path) == {}


@pytest.mark.parametrize("kind", ["zipped", "tarred"])
def test_the_rule_says_what_goes_where(run, request, kind):
    """Folders are no files."""
    members = MEMBERS | ({"top/": ""} if kind == "zipped" else {})
    raw = request.getfixturevalue(kind)(members)
    counts, contents = run(raw, OfferFile(unpack=True, members=["*.json"], strip=1, into="in"))
    assert contents == {"in/a/1.json": "[1]", "in/b.json": "[]"}
    assert counts == {"files": 2, "bytes": 5, "left_out": 2}


def test_what_is_there_is_replaced_and_the_rest_stays(run, zipped, tmp_path):
    (tmp_path / "out" / "top").mkdir(parents=True)
    (tmp_path / "out" / "top" / "b.json").write_text("old")
    (tmp_path / "out" / "mine.txt").write_text("mine")
    counts, contents = run(zipped({"top/b.json": "new", ".git/hooks/post-checkout": "x", "b/.env": "x"}))
    assert contents == {"mine.txt": "mine", "top/b.json": "new"}
    assert counts["left_out"] == 2  # hidden files: a stranger's archive writes no .git and no .dvc


@pytest.mark.parametrize("name", ["../evil", "a/../../evil", "/etc/evil", "C:/evil", "a\\..\\..\\evil", "a/\x1b[2J"])
@pytest.mark.parametrize("kind", ["zipped", "tarred"])
def test_a_name_that_leads_out_refuses_all(run, tmp_path, request, kind, name):
    raw = request.getfixturevalue(kind)({"good.txt": "good", name: "evil"})
    refused(run, tmp_path, raw, "a name that leads out of its folder; do not use it")
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_links_and_devices(run, tarred, tmp_path, kind):
    """Of a tar, and the links of a zip."""
    info = tarfile.TarInfo("link")
    info.type, info.linkname = kind, "/etc/passwd"
    refused(run, tmp_path, tarred({"good.txt": "good"}, info), "'link', a link or device instead of a file")
    buffer, zip_info = io.BytesIO(), zipfile.ZipInfo("link")
    zip_info.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(zip_info, "/etc/passwd")
    refused(run, tmp_path, buffer.getvalue(), "'link', a link or device")


@pytest.mark.parametrize(("second", "message"), [("./a", "holds './a' twice"), ("a/b", "damaged")])
def test_a_place_that_is_taken(run, tarred, tmp_path, second, message):
    """By the same name, or by a file where a folder belongs."""
    refused(run, tmp_path, tarred({"a": "1", second: "2"}), message)


def test_what_grows_without_end(run, zipped, tmp_path, monkeypatch):
    """Whatever the headers say, the bytes are counted, and so are the files."""
    monkeypatch.setattr(archives, "LEAST", 10_000)
    monkeypatch.setattr(archives, "GROWTH", 2)
    refused(run, tmp_path, zipped({"zeros": "0" * 1_000_000}), "unpacks to more than 2 times its size")
    monkeypatch.setattr(archives, "MOST_FILES", 2)
    refused(run, tmp_path, zipped({"a": "", "b": "", "c": ""}), "holds more than 2 files")


@pytest.mark.parametrize("kind", ["zipped", "tarred"])
def test_every_damage_is_one_line(request, run, tmp_path, kind):
    """A byte changed or an end cut anywhere: the files, or a refusal that leaves nothing."""
    members = {"a.txt": "first file\n" * 20, "b.txt": "second"}
    raw = request.getfixturevalue(kind)(members)
    refused(run, tmp_path, b"<html>", "neither a zip nor a tar")
    outcomes = []
    for at in range(0, len(raw), 3):
        for damaged in (raw[:at], raw[:at] + bytes([raw[at] ^ 0x55]) + raw[at + 1 :]):
            with contextlib.suppress(UserError):
                run(damaged)
            outcomes.append(read_unpacked(tmp_path))
            shutil.rmtree(tmp_path / "out", ignore_errors=True)
    # some have one file only: a zip's list of members has no sum of its own
    assert all(contents.items() <= members.items() for contents in outcomes)
    assert outcomes.count({}) > len(outcomes) / 2
