"""Read tars of samples, as img2dataset and Hugging Face write them, in place: names, offsets and small members.

A sample's members share a key, their path up to the first dot of the file's name: 00017/000170003.jpg, .txt, .json.
"""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from compclip.data.sample import ENDINGS

BLOCK = 512


class DamagedTar(Exception):
    """A tar that cannot be read to its end."""


class ForwardHeader(tarfile.TarInfo):
    """A header without a negative size, which tarfile follows backwards for ever before Python 3.11.14."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> ForwardHeader:
        """Return the header of a block."""
        return _check_size(super().frombuf(buf, encoding, errors))

    @classmethod
    def fromtarfile(cls, tar: tarfile.TarFile) -> ForwardHeader:
        """Return the next header, with the values of extended records before it."""
        return _check_size(super().fromtarfile(tar))


def _check_size(header: ForwardHeader) -> ForwardHeader:
    if header.size < 0:
        raise tarfile.ReadError("a header with a negative size")
    return header


def open_tar(path: str | os.PathLike[str], mode: str) -> tarfile.TarFile:
    """Open a foreign tar for reading. Raises the errors of tarfile, ReadError for a negative size."""
    return tarfile.open(path, mode, tarinfo=ForwardHeader)  # type: ignore[call-overload]


@dataclass(frozen=True)
class TarMember:
    """A regular file within a tar: the position of its bytes."""

    name: str
    offset: int
    size: int


@dataclass(frozen=True)
class TarSample:
    """The members of one key by suffix (jpg, txt, json …, in lower case), and the suffixes that came twice."""

    key: str
    members: dict[str, TarMember] = field(default_factory=dict)
    repeated: list[str] = field(default_factory=list)

    @property
    def picture(self) -> TarMember | None:
        """The picture, by any ending that is read."""
        return self.first_of((*ENDINGS, ".image"))

    def first_of(self, endings: Iterable[str]) -> TarMember | None:
        """Return the member with the first of the endings that there is."""
        return next((self.members[e[1:]] for e in endings if e[1:] in self.members), None)


def iterate_samples(path: str) -> Iterator[TarSample]:
    """Give the samples of a tar in its order. A key that returns after another one is a further sample.

    Raises DamagedTar after the last sample before the damage.
    """
    sample = TarSample("")
    damage = None
    try:
        for member in iterate_members(path):
            key, suffix = split_name(member.name)
            if key != sample.key:
                if sample.members:
                    yield sample
                sample = TarSample(key)
            if suffix in sample.members:
                sample.repeated.append(suffix)
            elif suffix:
                sample.members[suffix] = member
    except DamagedTar as error:
        damage = error
    if sample.members:
        yield sample
    if damage:
        raise damage


def split_name(name: str) -> tuple[str, str]:
    """Return key and suffix of a member's name."""
    folder, slash, file = name.rpartition("/")
    stem, _, suffix = file.partition(".")
    return folder + slash + stem, suffix.lower()


def iterate_members(path: str) -> Iterator[TarMember]:
    """Give the regular files of an uncompressed tar, in order. Raises DamagedTar where it is damaged or cut."""
    try:
        length = os.path.getsize(path)
        with open_tar(path, "r:") as tar:
            while (header := tar.next()) is not None:
                tar.members = []  # type: ignore[attr-defined]  # tarfile would keep them all
                if header.isreg() and not header.issparse():
                    if not 0 <= header.offset_data <= header.offset_data + header.size <= length:
                        raise tarfile.ReadError(f"ends within {header.name!a}")
                    yield TarMember(header.name, header.offset_data, header.size)
            with open(path, "rb") as file:  # tarfile takes a header that it cannot read for the end
                file.seek(tar.offset)
                if any(file.read(BLOCK)):
                    raise tarfile.ReadError(f"no header at byte {tar.offset} of {length}")
    except Exception as error:  # of a forged header tarfile raises anything, RecursionError among them
        raise DamagedTar(f"{path}: {type(error).__name__}: {error}") from error


def read_member(path: str, member: TarMember, limit: int) -> bytes | None:
    """Return a member's bytes; None for more than `limit`."""
    if member.size > limit:
        return None
    with open(path, "rb", buffering=0) as file:
        return os.pread(file.fileno(), member.size, member.offset)
