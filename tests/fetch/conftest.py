"""A file server, no waits between attempts, and archives of files that a test names."""

import io
import tarfile
import zipfile

import pytest

from compclip.fetch import offer_files
from tests.fetch import file_server


@pytest.fixture
def files(monkeypatch):
    """A running file server; attempts follow each other at once."""
    monkeypatch.setattr(offer_files, "PAUSE_S", 0.0)
    with file_server.serve() as served:
        yield served


@pytest.fixture
def zipped():
    """Makes a zip of names and texts."""

    def make(members: dict[str, str]) -> bytes:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, text in members.items():
                archive.writestr(name, text)
        return buffer.getvalue()

    return make


@pytest.fixture
def tarred():
    """Makes a compressed tar of names and texts, or members as they are."""

    def make(members: dict[str, str], *members_as_they_are: tarfile.TarInfo) -> bytes:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
            for name, text in members.items():
                info = tarfile.TarInfo(name)
                info.size = len(text.encode())
                archive.addfile(info, io.BytesIO(text.encode()))
            for info in members_as_they_are:
                archive.addfile(info)
        return buffer.getvalue()

    return make
