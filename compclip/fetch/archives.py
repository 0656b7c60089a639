"""Unpack archives of other people: a member that leads out of the folder, or a link, refuses the whole archive.

Everything is unpacked into a staging folder first, so that a damaged archive leaves nothing behind; then it is moved.
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
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import IO

from compclip.base.errors import UserError
from compclip.data.tar_members import open_tar
from compclip.fetch.catalogue import OfferFile

# an archive may unpack to GROWTH times its size, or to LEAST bytes
LEAST = 4 << 30
GROWTH = 20
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


def unpack(archive: Path, folder: Path, rule: OfferFile, staging: Path) -> Counter[str]:
    """Unpack the members of a zip or tar that the rule names into `folder`; return counts of files, bytes, left out.

    Raises UserError for another or a damaged file, and for one that holds a link, a name outside, or too much.
    """
    if not archive.is_file():  # a pipe would never end
        raise UserError(f"{archive}: no regular file; put the archive there")
    shutil.rmtree(staging, ignore_errors=True)
    try:
        counts = _unpack_completely(staging, archive, rule)
        _move_files(staging, folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    if not counts["files"]:
        raise UserError(f"{archive}: holds none of {', '.join(rule.members) or 'the files'}; is it another archive?")
    return counts


def _unpack_completely(staging: Path, archive: Path, rule: OfferFile) -> Counter[str]:
    try:
        return _unpack_members(staging, archive, rule)
    except (*DAMAGED, OSError) as error:
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL) and not isinstance(error, DAMAGED):
            raise  # the disk's fault; decompressors raise it without a number, zipfile where it seeks before 0
        raise UserError(f"{archive}: damaged: {type(error).__name__}; fetch it again") from error


def _unpack_members(staging: Path, archive: Path, rule: OfferFile) -> Counter[str]:
    counts: Counter[str] = Counter()
    budget = max(LEAST, GROWTH * archive.stat().st_size)
    for name, file in _zip_members(archive) if zipfile.is_zipfile(archive) else _tar_members(archive):
        path = _target_path(name, rule)
        if path is None:
            counts["left_out"] += 1
            continue
        target = staging / path
        if counts["files"] >= MOST_FILES or target.exists():
            fault = f"holds {name[:200]!a} twice" if target.exists() else f"holds more than {MOST_FILES:,} files"
            raise UserError(f"{archive}: {fault}; do not use it")
        target.parent.mkdir(parents=True, exist_ok=True)
        with open(target, "xb") as out:
            while chunk := file.read(CHUNK):
                counts["bytes"] += len(chunk)  # which are counted, since the size in a header may be wrong
                if counts["bytes"] > budget:
                    raise UserError(f"{archive}: unpacks to more than {GROWTH} times its size; do not use it")
                out.write(chunk)
        counts["files"] += 1
    return counts


def _zip_members(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    with zipfile.ZipFile(archive) as opened:
        for info in opened.infolist():
            _check(info.filename, archive)
            if stat.S_ISLNK(info.external_attr >> 16):
                raise _link_error(info.filename, archive)
            if not info.is_dir():
                with opened.open(info) as file:
                    yield info.filename, file


def _tar_members(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    try:
        tar = open_tar(archive, "r:*")
    except tarfile.TarError as error:
        raise UserError(f"{archive}: neither a zip nor a tar; fetch it again") from error
    with tar as opened:
        for info in opened:
            _check(info.name, archive)
            if not info.isdir() and not info.isreg():
                raise _link_error(info.name, archive)
            if info.isreg() and (file := opened.extractfile(info)):
                with contextlib.closing(file):
                    yield info.name, file
        for _ in range(TAIL):  # decompressors compare the checksum when they reach the end of the file
            if opened.fileobj is None or not opened.fileobj.read(CHUNK):
                return


def _check(name: str, archive: Path) -> None:
    outside = name.startswith("/") or ".." in name.replace("\\", "/").split("/") or DRIVE.match(name)
    if outside or "\\" in name or not name.isprintable():
        raise UserError(f"{archive}: holds {name[:200]!a}, a name that leads out of its folder; do not use it")


def _link_error(name: str, archive: Path) -> UserError:
    return UserError(f"{archive}: holds {name[:200]!a}, a link or device instead of a file; do not use it")


def _target_path(name: str, rule: OfferFile) -> PurePosixPath | None:
    """Return the path of a member, None for one that the rule leaves out."""
    if JUNK.match(name) or (rule.members and not any(fnmatchcase(name, pattern) for pattern in rule.members)):
        return None
    folders = [folder for folder in PurePosixPath(name).parts if folder != "."][rule.strip :]
    if any(folder.startswith(".") for folder in folders):
        return None
    return PurePosixPath(rule.into, *folders) if folders else None


def _move_files(staging: Path, folder: Path) -> None:
    for parent, _, names in os.walk(staging):
        target = folder / Path(parent).relative_to(staging)
        try:
            target.mkdir(parents=True, exist_ok=True)
            for name in names:
                os.replace(Path(parent, name), target / name)
        except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
            path = error.filename2 or error.filename
            raise UserError(f"{path}: something else is in the place of what is unpacked; move it") from error
