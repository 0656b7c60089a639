"""Changes to values, texts, bytes and files, drawn from one generator."""

import copy
import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

WEIRD: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2**31, 2**63, 10**400, -0.0, 0.5, 1e-320, 1e308, float("inf"), float("nan"), "", " ", "x",
    "0", "-1", "1e400", "true", "null", "nan", "a\nb", "a\0b", "\x1b[2J", "\ud800", "\U0001f600", "é" * 40, "x" * 5000, ".",
    "..", "../../up", "/etc/passwd", "/abs", "-x", "--out", "~", "a/b", "$(touch here)", "`touch here`", "; touch here", "%s%n",
    "${", "${nope}", "${oc.env:HOME}", "${oc.env:NO_SUCH}", "???", "{}", "[]", "'", '"', "=1+1", "<b>", "a|b", "\\input{x}", "&*!",
    "http://user:pw@host/v1", "sqlite:////x?password=pw", "1,2", "a::b", "ViT-B-32::", [], {}, [[]], [[[]]], [None], [1, "a"], {"": 0},
    {"a": {"b": []}}, {"__class__": 1}, [0] * 300,
)  # fmt: skip
TOKENS = (b"[" * 60_000, b"{" * 60_000, b'{"a":' * 9_000, b"1" * 6_000, b"\0", b"\xff\xfe", b"\xed\xa0\x80", b"\r", b'"', b"\n- ",
          b"\n", b"&a [*a]", b"!!set", b"#" * 300, b"\\ud800", b"NaN", b"-", b": ", b"${", b",")  # fmt: skip
MOST = 3  # changes of one input


def document(value: Any, rng: random.Random) -> Any:
    """A copy of plain values with some entries changed."""
    value = copy.deepcopy(value)
    for _ in range(rng.randint(1, MOST)):
        value = _changed(value, rng)
    return value


def _changed(value: Any, rng: random.Random) -> Any:
    entries = _list_entries(value)
    if not entries or rng.random() < 0.01:
        return weird(rng)
    parent, key = rng.choice(entries)
    rng.choice((_replace, _replace, _replace, _wrap, _delete, _double, _rename, _swap))(parent, key, rng, entries)
    return value


def weird(rng: random.Random) -> Any:
    """A value that nobody expects."""
    return copy.deepcopy(rng.choice(WEIRD))


def _list_entries(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key)."""
    pairs = (
        list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    )
    return [entry for key, below in pairs for entry in ((value, key), *_list_entries(below))]


def _replace(parent: Any, key: Any, rng: random.Random, _: list) -> None:
    parent[key] = weird(rng)


def _wrap(parent: Any, key: Any, rng: random.Random, _: list) -> None:
    parent[key] = [parent[key]] if rng.random() < 0.5 else {"x": parent[key]}


def _delete(parent: Any, key: Any, rng: random.Random, _: list) -> None:
    del parent[key]


def _double(parent: Any, key: Any, rng: random.Random, _: list) -> None:
    if isinstance(parent, list):
        parent.append(parent[key])


def _rename(parent: Any, key: Any, rng: random.Random, _: list) -> None:
    if isinstance(parent, dict):
        parent[str(weird(rng))] = parent.pop(key)


def _swap(parent: Any, key: Any, rng: random.Random, entries: list) -> None:
    second_parent, second_key = rng.choice(entries)
    if not isinstance(parent[key], (dict, list)) and not isinstance(second_parent[second_key], (dict, list)):
        parent[key], second_parent[second_key] = second_parent[second_key], parent[key]


def blob(raw: bytes, rng: random.Random) -> bytes:
    """Bytes with some of them changed, gone, doubled or new."""
    for _ in range(rng.randint(1, MOST)):
        raw = rng.choice((_cut, _flip, _remove, _repeat, _insert, _random))(raw, rng)
    return raw


def _at(raw: bytes, rng: random.Random) -> int:
    return rng.randint(0, len(raw))


def _cut(raw: bytes, rng: random.Random) -> bytes:
    return raw[: _at(raw, rng)]


def _flip(raw: bytes, rng: random.Random) -> bytes:
    changed = bytearray(raw)
    for _ in range(rng.choice((1, 1, 4, 32)) if raw else 0):
        changed[rng.randrange(len(changed))] = rng.choice((0, 255, rng.randrange(256)))
    return bytes(changed)


def _remove(raw: bytes, rng: random.Random) -> bytes:
    at = _at(raw, rng)
    return raw[:at] + raw[at + rng.choice((1, 7, 100)) :]


def _repeat(raw: bytes, rng: random.Random) -> bytes:
    at = _at(raw, rng)
    return raw[:at] + raw[at : at + 50] * rng.choice((2, 20)) + raw[at:]


def _insert(raw: bytes, rng: random.Random) -> bytes:
    at = _at(raw, rng)
    return raw[:at] + rng.choice(TOKENS) + raw[at:]


def _random(raw: bytes, rng: random.Random) -> bytes:
    at = _at(raw, rng)
    return raw[:at] + rng.randbytes(rng.choice((1, 16, 300))) + raw[at:]


def file(path: Path, rng: random.Random) -> None:
    """Change a file: its values where it holds some, its bytes, or what it is."""
    kind = rng.random()
    if kind < 0.03:
        _other_kind(path, rng)
    elif kind < 0.7 and path.suffix in FORMATS:
        _values(path, rng)
    else:
        path.write_bytes(blob(path.read_bytes(), rng))


def _other_kind(path: Path, rng: random.Random) -> None:
    path.unlink()
    ways: tuple[Callable[[], object], ...] = (
        lambda: os.mkfifo(path), path.mkdir, lambda: path.symlink_to(path.name), lambda: path.symlink_to("/dev/zero"),
        lambda: path.symlink_to("nowhere"), lambda: None, lambda: path.write_bytes(b""),
    )  # fmt: skip
    rng.choice(ways)()


def _values(path: Path, rng: random.Random) -> None:
    parse, write = FORMATS[path.suffix]
    try:
        value = parse(path.read_text())
    except (ValueError, yaml.YAMLError):
        path.write_bytes(blob(path.read_bytes(), rng))
        return
    path.write_bytes(write(document(value, rng)).encode("utf-8", "surrogatepass"))


def _dumped(value: Any) -> str:
    try:
        return json.dumps(value)
    except ValueError:  # an integer of too many digits
        return "1" * 5000


def _yaml(value: Any) -> str:
    try:
        return yaml.safe_dump(value, allow_unicode=True)
    except (yaml.YAMLError, ValueError, RecursionError):
        return _dumped(value)


def _lines(value: Any) -> str:
    return "\n".join(map(_dumped, value if isinstance(value, list) else [value]))


FORMATS: dict[str, tuple[Callable[[str], Any], Callable[[Any], str]]] = {
    ".json": (json.loads, _dumped),
    ".jsonl": (lambda raw: [json.loads(line) for line in raw.splitlines()], _lines),
    ".yaml": (yaml.safe_load, _yaml),
}


def folder(source: Path, target: Path, patterns: tuple[str, ...], rng: random.Random) -> None:
    """A copy of a folder with one or two of the files that fit changed."""
    shutil.copytree(source, target, symlinks=True)
    matching_files = sorted({path for pattern in patterns for path in target.glob(pattern) if path.is_file()})
    for path in rng.sample(matching_files, min(len(matching_files), rng.choice((1, 1, 1, 2)))):
        file(path, rng)
