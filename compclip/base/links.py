"""One copy on the disk, several places: a file is linked where the file system can, else copied, which is said once."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Callable
from pathlib import Path

from compclip.base import messages
from compclip.base.files import remove_leftovers, temporary_path
from compclip.base.shared_folders import make_folder, open_plain, report_refusal, share_with_group

FICLONE = 0x40049409  # Linux: share the blocks of another file (btrfs, XFS)
WRITABLE = 0o222
OCCUPIED = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR, errno.EISDIR)
TRIES = 100  # to put a folder where others do the same; each loses to one that came through
_noted_pairs: set[tuple[int, int]] = set()  # pairs of file systems between which copies were spoken of


def link_or_copy(source: Path, target: Path) -> None:
    """Make `target` the same file as `source`, or the same tree: whoever reads sees the old one or the whole new one.

    Raises UserError where the target cannot be written.
    """
    with report_refusal(f"{target}: cannot write", target.parent, "free space or make it writable"):
        files = _list_files(source)
        if _is_same(source, target, files):
            return
        make_folder(target.parent)
        remove_leftovers(target.parent)
        staging = temporary_path(target, "new")
        try:
            for file in files:
                make_folder((staging / file).parent)
                _clone_link_or_copy(source / file, staging / file)
            _replace_folder(staging, target) if source.is_dir() or target.is_dir() else os.replace(staging, target)
        finally:
            remove(staging)


def remove(path: Path) -> None:
    """Delete a file, a link or a whole folder; nothing where there is none."""
    if path.is_dir() and not path.is_symlink():
        import shutil

        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def protect(path: Path) -> None:
    """Take the right to write from the files of a folder: whoever edits one place of a file edits all of them.

    Files of others, who alone may do that, are left as they are.
    """
    for file in path.rglob("*"):
        if file.is_file() and not file.is_symlink() and file.stat().st_mode & WRITABLE:
            with contextlib.suppress(PermissionError), open_plain(file, "rb") as opened:
                os.fchmod(opened.fileno(), os.fstat(opened.fileno()).st_mode & ~WRITABLE)


def _list_files(path: Path) -> list[Path]:
    """Return the paths of a folder's files relative to it; a file has one, which is empty."""
    return sorted(p.relative_to(path) for p in path.rglob("*") if p.is_file()) if path.is_dir() else [Path()]


def _is_same(source: Path, target: Path, files: list[Path]) -> bool:
    with contextlib.suppress(FileNotFoundError):  # nothing is there, or somebody else puts another one there
        same_kind = source.is_dir() == target.is_dir()
        return same_kind and files == _list_files(target) and all((source / f).samefile(target / f) for f in files)
    return False


def _replace_folder(staging: Path, target: Path) -> None:
    """Give the new one its name; of several processes that do so at the same time the last one's stays."""
    for last in (False,) * (TRIES - 1) + (True,):
        old = temporary_path(target, "old")
        try:
            with contextlib.suppress(FileNotFoundError):
                os.rename(target, old)
            os.replace(staging, target)
            return
        except OSError as error:
            with contextlib.suppress(OSError):  # back, unless somebody was faster
                os.rename(old, target)
            if last or error.errno not in OCCUPIED:
                raise
        finally:
            remove(old)


def _clone_link_or_copy(source: Path, target: Path) -> None:
    source = source.resolve()  # DVC may keep files as links into its cache: another name of a link is a link
    ways: tuple[Callable[[Path, Path], None], ...] = (_clone, os.link)
    for way in ways:
        with contextlib.suppress(OSError):
            way(source, target)
            return
        target.unlink(missing_ok=True)  # what a clone began
    import shutil

    file_systems = (source.parent.stat().st_dev, target.parent.stat().st_dev)
    if file_systems not in _noted_pairs:
        _noted_pairs.add(file_systems)
        messages.note(f"files cannot be linked from {source.parent} to {target.parent}: they are copied")
    shutil.copyfile(source, target)
    share_with_group(target)


def _clone(source: Path, target: Path) -> None:
    with open(source, "rb") as old, open(target, "xb") as new:
        fcntl.ioctl(new.fileno(), FICLONE, old.fileno())
    share_with_group(target)
