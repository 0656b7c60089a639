"""Folders that several people write: nothing in them is followed, and what is new there is the group's as well.

Whoever may write a folder may put a link to somebody's file there, or a pipe that blocks whoever opens it. Looking
before is not the same as never: an entry that is exchanged in the moment between is caught where it is opened, by
`open_plain`, and not where a folder above it is exchanged.
"""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from compclip.base.errors import UserError

DEEPEST = 32  # folders within folders; a run has four
GROUP_FOLDER = stat.S_IWGRP | stat.S_ISGID  # a folder with both is a group's
FOLDER_BITS = stat.S_IRWXG | stat.S_ISGID
FILE_BITS = stat.S_IRGRP | stat.S_IWGRP
KINDS = ((stat.S_ISLNK, "a link"), (stat.S_ISDIR, "a folder"), (stat.S_ISREG, "a file"), (stat.S_ISFIFO, "a pipe"))


def check_plain(folder: Path) -> None:
    """Raise UserError for a tree that holds anything but plain files and folders, or that is deeper than DEEPEST.

    Only names and types are looked at. A folder that is not there is plain.
    """
    if not _exists_as(stat.S_ISDIR, str(folder)):
        return
    level = [str(folder)]
    for _ in range(DEEPEST):
        level = _list_below(level)
        if not level:
            return
    raise UserError(f"{folder}: holds folders within folders, more than {DEEPEST} deep; remove it with `rm -r`")


def _list_below(paths: list[str]) -> list[str]:
    """Return the folders in some folders. Raises UserError for anything but plain files and folders."""
    folders: list[str] = []
    for path in paths:
        refusal = report_refusal(f"{path}: cannot read", Path(path), "make it readable")
        with refusal, contextlib.suppress(FileNotFoundError), os.scandir(path) as entries:  # or removed meanwhile
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif not entry.is_file(follow_symlinks=False):
                    _exists_as(stat.S_ISREG, entry.path)
    return folders


def _exists_as(is_type: Callable[[int], bool], path: str) -> bool:
    """Return whether a path exists. Raises UserError where it is of another type."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return False
    if not is_type(mode):
        kind = next((word for fits, word in KINDS if fits(mode)), "a socket or a device")
        raise UserError(f"{path}: is {kind}, and nothing in a store may be that in its place; remove it")
    return True


def open_plain(path: Path, mode: str) -> IO:
    """Open a file to read (`r`) or to append (`a`, `a+`): never through a link, never a pipe, which may block.

    Raises UserError for what is no plain file or, to be written, has a second name; OSError as `open`.
    """
    return open(path, mode, opener=_open_plain, encoding=None if "b" in mode else "utf-8")


def _open_plain(path: str, flags: int) -> int:
    _exists_as(_is_plain, path)
    number = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    about = os.fstat(number)
    if not _is_plain(about.st_mode) or (flags & (os.O_WRONLY | os.O_RDWR) and about.st_nlink > 1):
        os.close(number)
        raise UserError(f"{path}: is no file of this folder alone; remove it")
    os.set_blocking(number, True)
    if flags & os.O_CREAT:
        share_with_group(Path(path))
    return number


def _is_plain(mode: int) -> bool:
    """Return whether a mode is that of a file or a folder; `open` itself refuses a folder."""
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)


def make_folder(path: Path) -> None:
    """Make a folder and those above it, as `mkdir -p`, each shared as the folder that it is in."""
    if path.exists():  # what is no folder is said by whoever writes into it
        return
    make_folder(path.parent)
    path.mkdir(exist_ok=True)
    share_with_group(path)


def share_with_group(path: Path, group_folder: int = GROUP_FOLDER) -> None:
    """Give an entry of a group's folder the group's rights, as git's `core.sharedRepository` does.

    `group_folder`: the bits that tell such a folder. In any other one the umask alone counts; what belongs to somebody
    else, and a file system that has no such rights, are left as they are.
    """
    above = path.parent.stat()
    if above.st_mode & group_folder != group_folder:
        return
    with contextlib.suppress(PermissionError):
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            about = os.fstat(number)
            mode = stat.S_IMODE(about.st_mode)
            shared_mode = mode | (FOLDER_BITS if stat.S_ISDIR(about.st_mode) else FILE_BITS)
            if about.st_uid != os.geteuid():
                return
            if about.st_gid != above.st_gid:
                os.fchown(number, -1, above.st_gid)
            if shared_mode != mode:
                os.fchmod(number, shared_mode)
        finally:
            os.close(number)


@contextlib.contextmanager
def report_refusal(what: str, path: Path, advice: str) -> Iterator[None]:
    """Turn what the system refuses inside into a UserError that says why, and what helps."""
    try:
        yield
    except OSError as error:
        raise UserError(f"{what}: {explain(error, path, advice)}") from error


def explain(error: OSError, path: Path, advice: str) -> str:
    """Return why the system refused, and what helps; for somebody else's path also its owner and mode."""
    why = str(error.strerror or error)
    if not isinstance(error, PermissionError):
        return f"{why}; {advice}"
    existing = next((p for p in (path, *path.absolute().parents) if os.path.lexists(p)), path)
    about = existing.lstat()
    if about.st_uid == os.geteuid():
        return f"{why}; {advice}"
    owner = read_user(about.st_uid)
    group = _read_name(grp.getgrgid, about.st_gid)
    folder = existing if stat.S_ISDIR(about.st_mode) else existing.parent
    return (
        f"{why}: {existing} belongs to {owner}, group {group}, mode {stat.S_IMODE(about.st_mode):04o}; "
        f"{owner} can share it: chmod -R g+rwX {folder}"
    )


def read_user(user: int) -> str:
    """Return the name of a user."""
    return _read_name(pwd.getpwuid, user)


def _read_name(look_up: Callable[[int], Any], number: int) -> str:
    """Return the name of a user or a group; the number of one without a name, as in containers."""
    with contextlib.suppress(KeyError):
        return str(look_up(number)[0])
    return str(number)
