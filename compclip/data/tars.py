"""Tars of samples as img2dataset and Hugging Face write them, read where they lie: names, offsets and small members.

A sample's members share a key, their path up to the first dot of the file's name: 00017/000170003.jpg, .txt, .json.
"""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field

BLOCK = 512


class DamagedTar(Exception):
    """A tar that cannot be read to its end."""


class ForwardHeader(tarfile.TarInfo):
    """A header whose size leads forward: before Python 3.11.14 tarfile follows a negative one back, and never ends.

    Of its errors, those that the program does not take for the end of the archive are raised.
    """

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str | None, errors: str) -> ForwardHeader:
        """The header of a block as it stands."""
        return _check_size(super().frombuf(buf, encoding, errors))

    @classmethod
    def fromtarfile(cls, tar: tarfile.TarFile) -> ForwardHeader:
        """The next header with what the records before it say of it."""
        return _check_size(super().fromtarfile(tar))


def _check_size(header: ForwardHeader) -> ForwardHeader:
    if header.size < 0:
        raise tarfile.ReadError("a header with a negative size")
    return header


def open_tar(path: str | os.PathLike[str], mode: str) -> tarfile.TarFile:
    """Open a stranger's tar for reading. Raises what tarfile raises, ReadError for a negative size among them."""
    return tarfile.open(path, mode, tarinfo=ForwardHeader)  # type: ignore[call-overload, no-any-return]


@dataclass(frozen=True)
class Member:
    """A regular file within a tar: where its bytes are."""

    name: str
    offset: int
    size: int


@dataclass(frozen=True)
class Group:
    """The members of one key, by suffix (jpg, txt, json …, in lower case), and how many came twice."""

    key: str
    members: dict[str, Member] = field(default_factory=dict)
    repeated: list[str] = field(default_factory=list)


def groups(path: str) -> Iterator[Group]:
    """The keys of a tar in its order. A key that comes back after another one is one more group of its name.

    Raises DamagedTar after the last key before the damage.
    """
    now, damage = Group(""), None
    try:
        for member in members(path):
            key, suffix = split(member.name)
            if key != now.key:
                if now.members:
                    yield now
                now = Group(key)
            if suffix in now.members:
                now.repeated.append(suffix)
            elif suffix:
                now.members[suffix] = member
    except DamagedTar as error:
        damage = error
    if now.members:
        yield now
    if damage:
        raise damage


def split(name: str) -> tuple[str, str]:
    """Key and suffix of a member's name."""
    folder, slash, file = name.rpartition("/")
    stem, _, suffix = file.partition(".")
    return folder + slash + stem, suffix.lower()


def members(path: str) -> Iterator[Member]:
    """The regular files of an uncompressed tar, in order. Raises DamagedTar where it is none, or ends too early."""
    try:
        length = os.path.getsize(path)
        with open_tar(path, "r:") as tar:
            while (found := tar.next()) is not None:
                tar.members = []  # tarfile keeps them all
                if found.isreg() and not found.issparse():
                    if not 0 <= found.offset_data <= found.offset_data + found.size <= length:
                        raise DamagedTar(f"{path}: ends within {found.name!a}")
                    yield Member(found.name, found.offset_data, found.size)
            _check_end(path, tar.offset, length)
    except DamagedTar:
        raise
    except Exception as error:  # of a made header tarfile's readers raise what there is, RecursionError among them
        raise DamagedTar(f"{path}: {type(error).__name__}: {error}") from error


def _check_end(path: str, offset: int, length: int) -> None:
    """tarfile takes a header that it cannot read for the end."""
    with open(path, "rb") as file:
        file.seek(offset)
        if any(file.read(BLOCK)):
            raise DamagedTar(f"{path}: no header at byte {offset} of {length}")


def content(path: str, member: Member, most: int) -> bytes | None:
    """A member's bytes; None for more than `most`."""
    if member.size > most:
        return None
    with open(path, "rb", buffering=0) as file:
        return os.pread(file.fileno(), member.size, member.offset)
