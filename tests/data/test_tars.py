"""Tars with a header that leads back: wherever it stands, the tar is damaged, and nobody reads in a circle.

On the program's own tarfile (before Python 3.11.14) most of these never end.
"""

import gzip
import tarfile
from collections import Counter
from pathlib import Path

import pytest

from compclip.base.errors import UserError
from compclip.benchmarks import _files
from compclip.config.sections import Data
from compclip.data import tar_members
from compclip.fetch import archives
from compclip.fetch.catalogue import OfferFile
from compclip.prepare.sources import webdataset
from tests.data import reading, tar_files

BACK = b"\xff" + (-tar_members.BLOCK).to_bytes(11, "big", signed=True)  # a number in base 256, as large files have it


def header(name: str, size: bytes = BACK, kind: bytes = tarfile.REGTYPE) -> bytes:
    """A header of 512 bytes with this size, its sum right."""
    info = tarfile.TarInfo(name)
    info.type = kind
    raw = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    raw[124:136] = size
    raw[148:156] = b" " * 8
    raw[148:156] = b"%06o\0 " % sum(raw)
    return bytes(raw)


def pax(text: str) -> bytes:
    """Records that say something of the next header."""
    record = f"{len(text) + 4} {text}\n"
    size = b"%011o\0" % len(record)
    return header("records", size, tarfile.XHDTYPE) + record.encode().ljust(tar_members.BLOCK, b"\0")


NOTHING = b"%011o\0" % 0
LEADING_BACK = {
    "a file": header("b.jpg"),
    "a file that is left out": header("._b"),
    "a folder": header("b", kind=tarfile.DIRTYPE),
    "a link": header("b", kind=tarfile.SYMTYPE),
    "an unknown kind": header("b", kind=b"Z"),
    "records": header("b", kind=tarfile.XHDTYPE),
    "records for all": header("b", kind=tarfile.XGLTYPE),
    "a long name": header("b", kind=tarfile.GNUTYPE_LONGNAME),
    "by a record": pax("size=-1024") + header("b.jpg", NOTHING),
    "by a record, far": pax("size=-1536") + header("b.jpg", NOTHING),
    "sparse": header("b.jpg", kind=tarfile.GNUTYPE_SPARSE),
}


@pytest.fixture(params=LEADING_BACK.values(), ids=LEADING_BACK)
def tar(request, tmp_path) -> Path:
    """A tar with a sample, a header that leads back, and another sample."""
    first_tar = tar_files.write(tmp_path / "before.tar", tar_files.sample("a", "a dog")).read_bytes()
    end = first_tar.rstrip(b"\0")
    members = first_tar[: -(-len(end) // tar_members.BLOCK) * tar_members.BLOCK]
    (tmp_path / "tars").mkdir()
    path = tmp_path / "tars" / "0.tar"
    path.write_bytes(members + request.param + first_tar)
    return path


def test_members(tar):
    """Those before it are there."""
    names = []
    with pytest.raises(tar_members.DamagedTar, match=r"0\.tar: ReadError: a header with a negative size"):
        for member in tar_members.iterate_members(str(tar)):
            names.append(member.name)
    assert names == ["a.jpg", "a.json", "a.txt"]


def test_recaption(tar):
    """The samples before it are read, the damage is counted."""
    data = Data("webdataset", str(tar.parent), str(tar.parent), captioner="none")
    samples, counts = reading.read_source(webdataset, data)
    assert [sample.captions for sample in samples] == [("a dog",)]
    assert counts["damaged_tars"] == 1


def test_benchmarks(tar):
    """Retrieval and zero-shot read them alike: the tar is refused."""
    with pytest.raises(UserError, match=r"0\.tar: ReadError: .*fetch it again"):
        list(_files.read_tar_pairs(tar.parent, "txt", 1000, "no_captions", Counter()))


@pytest.mark.parametrize("compress", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_fetch(tar, tmp_path, compress):
    """Nothing of it is unpacked."""
    tar.write_bytes(compress(tar.read_bytes()))
    with pytest.raises(UserError, match=r"0\.tar: damaged: ReadError; fetch it again"):
        archives.unpack(tar, tmp_path / "there", OfferFile(), tmp_path / "staging")
    assert not (tmp_path / "there").exists()


def test_a_first_header_that_leads_back(tmp_path):
    """It is no tar."""
    path = tmp_path / "0.tar"
    path.write_bytes(header("b", kind=tarfile.XHDTYPE) + bytes(tar_members.BLOCK))
    with pytest.raises(tar_members.DamagedTar, match="negative size"):
        list(tar_members.iterate_members(str(path)))
    with pytest.raises(UserError, match="neither a zip nor a tar"):
        archives.unpack(path, tmp_path / "there", OfferFile(), tmp_path / "staging")
