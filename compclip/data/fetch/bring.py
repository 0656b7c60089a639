"""One entry of the catalogue, brought to its place: what is there stays, what came is checked, archives are unpacked.

What is under way lies in `.fetch` of the entry's folder. A file appears under its name when it is whole and its sum is
right; of an archive the marks in `.fetch` say that it was unpacked.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tqdm import tqdm

from compclip.base.errors import UserError
from compclip.base.files import read_mapping, sole, write_json
from compclip.data.fetch import archives, hub, transfer
from compclip.data.fetch.archives import Rule
from compclip.data.fetch.catalogue import File, Offer
from compclip.data.fetch.hub import Listed

STATE = ".fetch"
MOST = 256 << 30  # bytes of a file whose size nobody told


def bring(entry: Offer, root: Path) -> Counter[str]:
    """Have all files of an entry; counts of files fetched, there already, unpacked and left out of archives.

    Raises UserError naming what could not be had, and where to put it by hand.
    """
    counts: Counter[str] = Counter()
    if entry.section.cache:
        return _cached(entry)
    if not entry.files and not entry.section.patterns:
        return counts  # a note is all that there is of it
    state = _state(entry, root)
    with sole(state / f"{entry.name}.lock", f"{entry.name}: process {{}} is fetching it; wait for it, or stop it"):
        missing = [name for name in entry.files if not is_there(entry, name, root, counts)]
        for name, path in _fetched(entry, missing, state):
            _settle(entry, name, path, root, counts)
        if entry.section.patterns:
            _patterns(entry, root, counts)
    return counts


def complete(entry: Offer, root: Path) -> bool:
    """Whether all of an entry is in its place, as far as one can see without asking anybody or reading it."""
    if entry.section.cache:
        return False
    named = all(_done(entry, name, root) or _whole(entry, name, root) for name in entry.files)
    patterns = not entry.section.patterns or bool(_known(entry, root))
    return bool(entry.files or entry.section.patterns) and named and patterns


def is_there(entry: Offer, name: str, root: Path, counts: Counter[str]) -> bool:
    """Whether a file needs no fetching; an archive that somebody put there is unpacked.

    Raises UserError for one that is another than the catalogue's.
    """
    if _done(entry, name, root):
        counts["there"] += 1
        return True
    path, file = _place(entry, root) / name, entry.files[name]
    if not path.exists():
        return False
    _check(path, path, file)
    if file.unpack:
        _unpack(entry, name, path, root, counts)
    else:
        counts["there"] += 1
    return True


def _place(entry: Offer, root: Path) -> Path:
    return root / entry.section.folder


def _state(entry: Offer, root: Path) -> Path:
    return _place(entry, root) / STATE


def _staging(entry: Offer, state: Path) -> Path:
    return state / f"{entry.name}.hub"


def _whole(entry: Offer, name: str, root: Path) -> bool:
    path, file = _place(entry, root) / name, entry.files[name]
    return not file.unpack and path.is_file() and path.stat().st_size == (file.size or path.stat().st_size)


def _mark(name: str) -> str:
    return f"{name.replace('/', '--')}.json"


def _done(entry: Offer, name: str, root: Path) -> bool:
    """Whether an archive was unpacked here, this one and in this way."""
    path = _state(entry, root) / _mark(name)
    return entry.files[name].unpack and path.is_file() and read_mapping(path).get("of") == _identity(entry, name)


def _identity(entry: Offer, name: str) -> str:
    return f"{entry.section.hub} {entry.section.revision} {entry.address(name)} {entry.files[name]}"


def _fetched(entry: Offer, names: list[str], state: Path) -> Iterator[tuple[str, Path]]:
    """Each file where it was written: under way, whole, its sum not looked at."""
    if entry.section.hub and names:
        sources = [entry.address(name) for name in names]
        with _advised(entry, names):
            folder = _from_hub(entry, sources, _staging(entry, state))
        yield from ((name, folder / source) for name, source in zip(names, sources, strict=True))
        shutil.rmtree(folder, ignore_errors=True)
        return
    for name in names:
        part = state / f"{name.replace('/', '--')}.part"
        with _advised(entry, [name]):
            _transfer(entry, name, part)
        yield name, part
        transfer.forget(part)


def _transfer(entry: Offer, name: str, part: Path) -> None:
    wanted = transfer.Wanted(entry.address(name), entry.files[name].size, MOST)
    with tqdm(desc=name, unit="B", unit_scale=True, disable=None, file=sys.stderr) as bar:

        def tell(have: int, total: int) -> None:
            bar.total = total or None
            bar.update(have - bar.n)

        transfer.fetch(wanted, part, tell)


def _from_hub(entry: Offer, sources: list[str], folder: Path) -> Path:
    found = {file.name: file for file in hub.listed(entry.section, sources)}
    for source in sources:
        if source not in found:
            raise UserError(f"{hub.address(entry.section)}: has no file {source}; correct the catalogue")
    _check_sizes(entry, list(found.values()))
    return _checked(entry, list(found.values()), folder)


def _checked(entry: Offer, files: list[Listed], folder: Path | None) -> Path:
    """Files of a repository whose sums are those that the hub itself names."""
    place = hub.download(entry.section, files, folder)
    for file in files:
        try:
            _check(place / file.name, Path(file.name), File(size=file.size, sha256=file.sha256), "the hub")
        except UserError:
            _drop(place / file.name)
            raise
    return place


def _drop(path: Path) -> None:
    """Of the hub's cache the file, and the link that bears its name."""
    path.resolve().unlink(missing_ok=True)
    path.unlink(missing_ok=True)


def _check_sizes(entry: Offer, files: list[Listed]) -> None:
    sizes = {entry.address(name): file.size for name, file in entry.files.items()}
    for file in files:
        if sizes.get(file.name) and file.size != sizes[file.name]:
            said = f"{file.size:,} bytes, the catalogue says {sizes[file.name]:,}"
            raise UserError(f"{entry.section.hub}: {file.name} has {said}; correct the catalogue")
        if file.size > MOST:
            raise UserError(f"{entry.section.hub}: {file.name} has {file.size:,} bytes, more than {MOST:,}")


@contextmanager
def _advised(entry: Offer, names: list[str]) -> Iterator[None]:
    """To what went wrong with a source, what a person can do without it."""
    name, more = names[0], f" (and {len(names) - 1} more, likewise)" if names[1:] else ""
    try:
        yield
    except UserError as error:
        source = hub.address(entry.section, entry.address(name)) if entry.section.hub else entry.address(name)
        place = Path(entry.section.folder) / name
        raise UserError(f"{entry.name}: {error}; or fetch {source} elsewhere and put it at {place}{more}") from error


def _settle(entry: Offer, name: str, path: Path, root: Path, counts: Counter[str]) -> None:
    """A file that came, into its place."""
    file, target = entry.files[name], _place(entry, root) / name
    counts.update({"fetched": 1, "bytes": path.stat().st_size})
    try:
        _check(path, target, file)
        if file.unpack:
            _unpack(entry, name, path, root, counts)
            return
    except UserError:
        transfer.forget(path)  # it would be no better next time
        raise
    target.parent.mkdir(parents=True, exist_ok=True)
    os.replace(path, target)


def _unpack(entry: Offer, name: str, path: Path, root: Path, counts: Counter[str]) -> None:
    file, state = entry.files[name], _state(entry, root)
    rule = Rule(tuple(file.members), file.strip, file.into)
    found = archives.unpack(path, _place(entry, root), rule, state / f"{name.replace('/', '--')}.unpacked")
    counts.update({"unpacked": found["files"], "left_out": found["left_out"]})
    write_json(state / _mark(name), {"of": _identity(entry, name), **found})


def _check(path: Path, place: Path, file: File, says: str = "the catalogue") -> None:
    """Raise UserError for a file that is another than somebody says, or none."""
    if not path.is_file():
        raise UserError(f"{place}: no regular file; remove it and fetch it again")
    size = path.stat().st_size
    if file.size and size != file.size:
        raise UserError(f"{place}: {size:,} bytes, {says} says {file.size:,}; remove it and fetch it again")
    if not file.sha256:
        return
    with open(path, "rb") as opened:
        found = hashlib.file_digest(opened, "sha256").hexdigest()
    if found != file.sha256:
        raise UserError(f"{place}: SHA-256 is {found}, {says} says {file.sha256}; it is another file or damaged")


def _known(entry: Offer, root: Path) -> dict[str, int]:
    """Files that a pattern gave before, all of them still there; nothing otherwise."""
    path = _state(entry, root) / f"{entry.name}.patterns.json"
    kept = read_mapping(path) if path.is_file() else {}
    found = kept.get("files") if kept.get("of") == _patterned(entry) else None
    files = found if isinstance(found, dict) else {}
    there = all(_has(_place(entry, root) / name, size) for name, size in files.items())
    return files if there else {}


def _patterned(entry: Offer) -> str:
    return f"{entry.section.hub} {entry.section.revision} {entry.section.patterns}"


def _has(path: Path, size: int) -> bool:
    return path.is_file() and path.stat().st_size == size


def _patterns(entry: Offer, root: Path, counts: Counter[str]) -> None:
    if known := _known(entry, root):
        counts["there"] += len(known)
        return
    state, place = _state(entry, root), _place(entry, root)
    with _advised_page(entry):
        found = hub.listed(entry.section, entry.section.patterns)
        if not found:
            raise UserError(f"no file of it fits {' '.join(entry.section.patterns)}; correct the catalogue")
        _check_sizes(entry, found)
        missing = [file for file in found if not _has(place / file.name, file.size)]
        folder = _checked(entry, missing, _staging(entry, state)) if missing else _staging(entry, state)
    for file in missing:
        (place / file.name).parent.mkdir(parents=True, exist_ok=True)
        os.replace(folder / file.name, place / file.name)
    shutil.rmtree(folder, ignore_errors=True)
    came = sum(file.size for file in missing)
    counts.update({"fetched": len(missing), "there": len(found) - len(missing), "bytes": came})
    sizes = {file.name: file.size for file in found}
    write_json(state / f"{entry.name}.patterns.json", {"of": _patterned(entry), "files": sizes})


@contextmanager
def _advised_page(entry: Offer) -> Iterator[None]:
    try:
        yield
    except UserError as error:
        fits = " ".join([*map(entry.address, entry.files), *entry.section.patterns])
        place = entry.section.folder or "the hub's cache"
        page = hub.address(entry.section)
        raise UserError(f"{entry.name}: {error}; or fetch {fits} of {page} elsewhere, into {place}") from error


def _cached(entry: Offer) -> Counter[str]:
    """Into the hub's cache, where a tag's weights are looked for."""
    sources = [entry.address(name) for name in entry.files]
    with _advised_page(entry):
        found = hub.listed(entry.section, [*sources, *entry.section.patterns])
        for source in sources:
            if source not in {file.name for file in found}:
                raise UserError(f"{hub.address(entry.section)}: has no file {source}; correct the catalogue")
        _check_sizes(entry, found)
        folder = _checked(entry, found, None)
    for name, file in entry.files.items():
        try:
            _check(folder / entry.address(name), Path(name), file)
        except UserError:
            _drop(folder / entry.address(name))
            raise
    return Counter({"fetched": len(found), "bytes": sum(file.size for file in found)})
