"""Archives are unpacked as what they are, other people's: a member outside of its folder, or a link, refuses all of it.

Everything is unpacked beside its place first, so that a damaged archive leaves nothing behind; then each file is moved.
"""

from __future__ import annotations

import contextlib
import errno
import lzma
import os
import re
import shutil
import stat
import struct
import tarfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import IO

from compclip.base.errors import UserError
from compclip.data.tars import open_tar

LEAST, GROWTH = 4 << 30, 20  # unpacked it is at most GROWTH times as large, or LEAST bytes
MOST_FILES = 5_000_000
CHUNK = 1 << 20
TAIL = 1024  # chunks behind the last member
DRIVE = re.compile(r"[A-Za-z]:")
JUNK = re.compile(r"(__MACOSX/|(.*/)?(\._[^/]*|\.DS_Store|Thumbs\.db)$)")
DAMAGED = (
    zipfile.BadZipFile, tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, NotImplementedError, RuntimeError,
    ValueError, OverflowError, IndexError, UnicodeError, struct.error, FileExistsError, NotADirectoryError,
    MemoryError,
)  # fmt: skip


@dataclass(frozen=True)
class Rule:
    """Which members, less how many leading folders, into which folder below the entry's."""

    members: tuple[str, ...] = ()
    strip: int = 0
    into: str = ""


@dataclass(frozen=True)
class Member:
    """One file of an archive, its bytes read when they are asked for."""

    name: str
    file: IO[bytes]


def unpack(archive: Path, folder: Path, rule: Rule, staging: Path) -> Counter[str]:
    """Put the members of a zip or tar that the rule names into `folder`; counts of files, bytes, and what was left out.

    Raises UserError for another or a damaged file, and for one that holds a link, a name outside, or too much.
    """
    if not archive.is_file():  # a pipe would never end
        raise UserError(f"{archive}: no regular file; put the archive there")
    shutil.rmtree(staging, ignore_errors=True)
    try:
        counts = _whole(staging, archive, rule)
        _place(staging, folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    if not counts["files"]:
        raise UserError(f"{archive}: holds none of {', '.join(rule.members) or 'the files'}; is it another archive?")
    return counts


def _whole(staging: Path, archive: Path, rule: Rule) -> Counter[str]:
    try:
        return _into(staging, archive, rule)
    except (*DAMAGED, OSError) as error:
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL) and not isinstance(error, DAMAGED):
            raise  # the disk's fault; decompressors raise it without a number, zipfile where it seeks before 0
        raise UserError(f"{archive}: damaged: {type(error).__name__}; fetch it again") from error


def _into(staging: Path, archive: Path, rule: Rule) -> Counter[str]:
    counts: Counter[str] = Counter()
    left = max(LEAST, GROWTH * archive.stat().st_size)
    for member in _members(archive):
        path = _target(member.name, archive, rule)
        if path is None:
            counts["left_out"] += 1
            continue
        target = staging / path
        if counts["files"] >= MOST_FILES or target.exists():
            fault = f"holds {member.name[:200]!a} twice" if target.exists() else f"holds more than {MOST_FILES:,} files"
            raise UserError(f"{archive}: {fault}; do not use it")
        target.parent.mkdir(parents=True, exist_ok=True)
        counts["bytes"] += _copied(member, target, left - counts["bytes"], archive)
        counts["files"] += 1
    return counts


def _members(archive: Path) -> Iterator[Member]:
    if zipfile.is_zipfile(archive):
        yield from _of_zip(archive)
    else:
        yield from _of_tar(archive)


def _of_zip(archive: Path) -> Iterator[Member]:
    with zipfile.ZipFile(archive) as opened:
        for info in opened.infolist():
            _check(info.filename, archive)
            if stat.S_ISLNK(info.external_attr >> 16):
                raise _link(info.filename, archive)
            if not info.is_dir():
                with opened.open(info) as file:
                    yield Member(info.filename, file)


def _of_tar(archive: Path) -> Iterator[Member]:
    with _tar(archive) as opened:
        for info in opened:
            _check(info.name, archive)
            if not info.isdir() and not info.isreg():
                raise _link(info.name, archive)
            if info.isreg() and (file := opened.extractfile(info)):
                with contextlib.closing(file):
                    yield Member(info.name, file)
        _read_out(opened)


def _tar(archive: Path) -> tarfile.TarFile:
    try:
        return open_tar(archive, "r:*")
    except tarfile.TarError as error:
        raise UserError(f"{archive}: neither a zip nor a tar; fetch it again") from error


def _read_out(opened: tarfile.TarFile) -> None:
    """To the sum behind the last member, which decompressors compare when they come to it."""
    for _ in range(TAIL):
        if not (opened.fileobj and opened.fileobj.read(CHUNK)):
            return


def _check(name: str, archive: Path) -> None:
    outside = name.startswith("/") or ".." in name.replace("\\", "/").split("/") or DRIVE.match(name)
    if outside or "\\" in name or not name.isprintable():
        raise UserError(f"{archive}: holds {name[:200]!a}, a name that leads out of its folder; do not use it")


def _link(name: str, archive: Path) -> UserError:
    return UserError(f"{archive}: holds {name[:200]!a}, a link or device instead of a file; do not use it")


def _target(name: str, archive: Path, rule: Rule) -> PurePosixPath | None:
    """Where a member belongs, nothing for one that the rule leaves out."""
    if JUNK.match(name) or (rule.members and not any(fnmatchcase(name, pattern) for pattern in rule.members)):
        return None
    parts = [part for part in PurePosixPath(name).parts if part != "."][rule.strip :]
    if any(part.startswith(".") for part in parts):
        return None
    return PurePosixPath(rule.into, *parts) if parts else None


def _copied(member: Member, target: Path, left: int, archive: Path) -> int:
    """Bytes that were written. The header's size is only what somebody says."""
    count = 0
    with open(target, "xb") as file:
        while chunk := member.file.read(CHUNK):
            count += len(chunk)
            if count > left:
                raise UserError(f"{archive}: unpacks to more than {GROWTH} times its size; do not use it")
            file.write(chunk)
    return count


def _place(staging: Path, folder: Path) -> None:
    for parent, _, names in os.walk(staging):
        target = folder / Path(parent).relative_to(staging)
        try:
            target.mkdir(parents=True, exist_ok=True)
            for name in names:
                os.replace(Path(parent, name), target / name)
        except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
            place = error.filename2 or error.filename
            raise UserError(f"{place}: something else is in the place of what is unpacked; move it") from error
