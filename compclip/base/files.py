"""Reading and writing whole files: a file is either complete or not there."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import itertools
import json
import os
import re
import shutil
import socket
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from compclip.base.errors import UserError, report_failure
from compclip.base.shared_folders import make_folder, report_refusal, share_with_group

# Names of `temporary_path`: the machine, and the process.
LEFTOVER = re.compile(r"\..+\.([0-9a-f]{4})([0-9a-f]{6})[0-9a-f]{2}\.(?:tmp|new|old)")
SEAL = "checksum"  # of a JSON object: of all else that it says
CHECKSUMS = ".checksums.json"  # of a folder: the SHA-256 of each of its files
_numbers = itertools.count()  # of this process's temporary files
_swept_folders: set[Path] = set()  # folders that this process looked through


@contextlib.contextmanager
def atomic(path: str | Path) -> Iterator[Path]:
    """Give a temporary path in the same folder; on leaving, sync it and rename it to `path`; on an error remove it.

    Raises UserError naming the file when the disk is full or the folder cannot be written.
    """
    path = Path(path)
    tmp = temporary_path(path, "tmp")
    with report_refusal(f"{path}: cannot write", path.parent, "free space or choose another folder"):
        try:
            make_folder(path.parent)
            remove_leftovers(path.parent)
            yield tmp
            with open(tmp, "rb") as handle:
                os.fsync(handle.fileno())
            share_with_group(tmp)
            os.replace(tmp, path)
        finally:
            with contextlib.suppress(OSError):
                tmp.unlink()


def temporary_path(path: Path, kind: str) -> Path:
    """Return a hidden path in the same folder, for writers of one file at the same time.

    Its name says which process of which machine writes it.
    """
    return path.with_name(f".{path.name[:100]}.{_machine()}{os.getpid():06x}{next(_numbers) % 256:02x}.{kind}")


@functools.cache
def _machine() -> str:
    """Return four digits for this machine, or for the container whose processes have numbers of their own."""
    processes = ""
    with contextlib.suppress(OSError):  # no Linux: no containers
        processes = os.readlink("/proc/self/ns/pid")
    return hashlib.sha256(f"{socket.gethostname()} {processes}".encode()).hexdigest()[:4]


def _is_gone(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError as error:
        return isinstance(error, ProcessLookupError)  # and no PermissionError, of another user's
    return False


def remove_leftovers(folder: Path) -> None:
    """Remove temporary files of this machine's killed processes; each process looks at a folder once."""
    absolute = folder.absolute()
    if absolute in _swept_folders:
        return
    _swept_folders.add(absolute)
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in list(entries):
            match = LEFTOVER.fullmatch(entry.name)
            with contextlib.suppress(OSError, RecursionError):  # a tree that is too deep for shutil is not ours
                if match and match[1] == _machine() and _is_gone(int(match[2], 16)):
                    is_folder = entry.is_dir(follow_symlinks=False)
                    shutil.rmtree(entry.path) if is_folder else os.unlink(entry.path)


def write_atomic(path: str | Path, data: bytes | str) -> None:
    """Write `data` so that a reader sees the old file or the whole new one."""
    raw = data.encode() if isinstance(data, str) else data
    with atomic(path) as tmp:
        tmp.write_bytes(raw)


def write_json(path: str | Path, value: Any) -> None:
    """Write `value` as JSON, keys in the order given, atomically; NaN is refused."""
    write_atomic(path, _format_json(value))


def update_json(path: str | Path, value: Any) -> None:
    """Write `value` as JSON unless the file holds the same text."""
    update(path, _format_json(value))


def update(path: str | Path, text: str) -> None:
    """Write `text` unless the file holds it already: the file then keeps its time of change."""
    if not os.path.isfile(path) or read_bytes(path) != text.encode():
        write_atomic(path, text)


def _format_json(value: Any) -> str:
    return json.dumps(value, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def read_text(path: str | Path) -> str:
    """Return the file's text without a byte order mark.

    Raises UserError where it is missing, unreadable, no regular file, or not UTF-8.
    """
    try:
        return read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 at byte {error.start}; convert the file to UTF-8") from error


def read_bytes(path: str | Path) -> bytes:
    """Return the file's bytes. Raises UserError where it is missing, unreadable or no regular file, as a pipe."""
    advice = "give the path of an existing file"
    failure = report_failure(repr(str(path)), advice, ValueError)  # a NUL in the name
    refusal = report_refusal(str(path), Path(path), advice)
    # a pipe without a writer does not block
    with failure, refusal, open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise UserError(f"{path}: not a regular file; give the path of one")
        return file.read()


def check_regular(path: str | Path) -> str:
    """Return the path as text, for a library that opens it by itself; a missing file is left to the library.

    Raises UserError for a pipe or a device, which may never end.
    """
    if os.path.exists(path) and not os.path.isfile(path):
        raise UserError(f"{path}: not a regular file; give the path of one")
    return str(path)


def read_json(path: str | Path) -> Any:
    """Return the file's JSON value. Raises UserError naming the line where it is not JSON."""
    return parse_json(read_text(path), str(path))


def read_mapping(path: str | Path) -> dict[str, Any]:
    """Return the file's JSON object. Raises UserError for anything else."""
    value = read_json(path)
    if not isinstance(value, dict):
        raise UserError(f"{path}: holds a {type(value).__name__} where a mapping belongs; {FETCH}")
    return value


def record_checksums(folder: Path, names: Iterable[str]) -> None:
    """Record the SHA-256 of these files in their folder; what is recorded of others stays."""
    record = folder / CHECKSUMS
    recorded = read_mapping(record) if record.is_file() else {}
    write_json(record, recorded | {name: hash_file(folder / name) for name in names})


def read_recorded(path: Path) -> dict[str, Any]:
    """Return a file's JSON object. Raises UserError where it is not what its folder's checksums say."""
    record = path.with_name(CHECKSUMS)
    recorded = read_mapping(record).get(path.name) if record.is_file() else None
    if recorded and hash_file(path) != recorded:
        again = "`compclip runs check --drop` removes it, and `compclip repro` makes it again"
        raise UserError(f"{path}: damaged: not what was written ({CHECKSUMS} has another checksum); {again}")
    return read_mapping(path)


def write_sealed(path: Path, value: Mapping[str, Any]) -> None:
    """Write a JSON object with a checksum of what else it says."""
    write_json(path, {**value, SEAL: _hash_value(value)})


def read_sealed(path: Path, remedy: str) -> dict[str, Any]:
    """Return a JSON object without its checksum; one of earlier has none. Raises UserError where it is another."""
    value = read_mapping(path)
    if value.pop(SEAL, None) not in (None, _hash_value(value)):
        raise UserError(f"{path}: damaged: not what was written; {remedy}")
    return value


def _hash_value(value: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


@contextlib.contextmanager
def understand(path: Path, remedy: str) -> Iterator[None]:
    """Take apart a file that the package wrote. Raises UserError with `remedy` where it says something else."""
    try:
        yield
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise UserError(f"{path}: damaged ({type(error).__name__}); {remedy}") from error


def check_output_folder(path: str) -> Path:
    """Return the folder that an option names for output. Raises UserError where a file has that name."""
    if os.path.lexists(path) and not os.path.isdir(path):
        raise UserError(f"{path}: is no folder; give one, or a name that is free")
    return Path(path)


def hash_file(path: Path) -> str:
    """Return the SHA-256 (hex) of a file's bytes. Raises UserError where it cannot be read."""
    with report_refusal(str(path), path, "give the path of an existing file"), open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_stamp(path: Path) -> tuple[int, int, int]:
    """Return what differs as soon as a file, or a folder's list of files, was changed."""
    state = path.stat()
    return state.st_size, state.st_mtime_ns, state.st_ino


def hash_unchanged(path: Path) -> str:
    """Return the SHA-256 (hex) of a file's bytes, which a process reads once while its stamp stays."""
    return _hash_stamped(path.absolute(), read_stamp(path))


@functools.cache
def _hash_stamped(path: Path, _stamp: tuple) -> str:
    return hash_file(path)


def fingerprint(*paths: str | Path, read_hash: Callable[[Path], str] = hash_file) -> str:
    """Return the SHA-256 (hex) over names and bytes of files and, recursively and sorted, of folders.

    Temporary files of killed processes, and a folder's own checksums, are not counted.
    """
    digest = hashlib.sha256()
    for path in map(Path, paths):
        for file in filter(Path.is_file, sorted(path.rglob("*"))) if path.is_dir() else [path]:
            if file.name == CHECKSUMS or LEFTOVER.fullmatch(file.name):
                continue
            digest.update(os.fsencode(file.relative_to(path.parent)) + b"\0")  # also of names that are no UTF-8
            digest.update(bytes.fromhex(read_hash(file)))
    return digest.hexdigest()


@contextlib.contextmanager
def hold_exclusively(path: Path, busy: str) -> Iterator[None]:
    """Lock a file, so that one process at a time is inside; the system unlocks it when the process dies.

    Raises UserError with `busy`, formatted with the other process's number.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise UserError(busy.format(file.read().strip() or "?")) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


# --- text that is JSON ----------------------------------------------------------------------------------------------
# JSON from outside: a value, or one line that says why not; and texts without halves of surrogate pairs.
#
# JSON can write such a half, and no file, database or tokenizer takes it.


LONE = re.compile("[\ud800-\udfff]")
FETCH = "fix or fetch the file again"


def parse_json(text: str, where: str, fix: str = FETCH, line: int = 0) -> Any:
    """Return the value of a JSON text; `line` is the line of its file, for a text of one line.

    Raises UserError naming `where`, the line and `fix` for what is no JSON, nested too deeply, or has a number of
    thousands of digits.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        if isinstance(error, json.JSONDecodeError):
            fault = f"not JSON at line {line or error.lineno}: {error.msg}"
        else:  # int() refuses thousands of digits: its time grows with their square
            fault = "nested too deeply" if isinstance(error, RecursionError) else "has a number of thousands of digits"
            fault = f"line {line}: {fault}" if line else fault
        raise UserError(f"{where}: {fault}; {fix}") from error


def read_field(file: str | Path, record: str, row: Any, name: str, kind: type | tuple[type, ...] = str) -> Any:
    """Return field `name` of one record. Raises UserError where it is absent or of another kind."""
    if isinstance(row, Mapping) and name in row and isinstance(row[name], kind):
        return row[name]
    fault = f"expected an object, not {type(row).__name__}"
    if isinstance(row, Mapping):
        fault = f"field {name!r} is {row[name]!r}" if name in row else f"no field {name!r}; found {', '.join(row)}"
    raise UserError(f"{file}: record {record}: {fault}; fetch the official file")


def replace_lone(text: str) -> str:
    """Return `text` with U+FFFD, the replacement character, in place of each half."""
    return text if text.isascii() else LONE.sub("\ufffd", text)


def has_lone(text: str) -> bool:
    """Return whether `text` holds half a pair."""
    return not text.isascii() and bool(LONE.search(text))
