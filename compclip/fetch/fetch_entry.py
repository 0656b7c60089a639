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
from compclip.fetch import archives, http_transfer
from compclip.fetch import hub_files as hub
from compclip.fetch.archives import UnpackRule
from compclip.fetch.catalogue import Offer, OfferFile
from compclip.fetch.hub_files import HubFile

STATE = ".fetch"
MOST = 256 << 30  # bytes of a file whose size nobody told


def fetch_offer(entry: Offer, root: Path) -> Counter[str]:
    """Have all files of an entry; counts of files fetched, there already, unpacked and left out of archives.

    Raises UserError naming what could not be had, and where to put it by hand.
    """
    counts: Counter[str] = Counter()
    if entry.section.cache:
        return _fetch_into_cache(entry)
    if not entry.files and not entry.section.patterns:
        return counts  # a note is all that there is of it
    state = _state_folder(entry, root)
    with sole(state / f"{entry.name}.lock", f"{entry.name}: process {{}} is fetching it; wait for it, or stop it"):
        absent = [name for name in entry.files if not is_there(entry, name, root, counts)]
        for name, path in _fetch_files(entry, absent, state):
            _put_in_place(entry, name, path, root, counts)
        if entry.section.patterns:
            _fetch_patterns(entry, root, counts)
    return counts


def is_complete(entry: Offer, root: Path) -> bool:
    """Whether all of an entry is in its place, as far as one can see without asking anybody or reading it."""
    if entry.section.cache:
        return False
    files_complete = all(_is_unpacked(entry, name, root) or _has_full_size(entry, name, root) for name in entry.files)
    patterns = not entry.section.patterns or bool(_recorded_files(entry, root))
    return bool(entry.files or entry.section.patterns) and files_complete and patterns


def is_there(entry: Offer, name: str, root: Path, counts: Counter[str]) -> bool:
    """Whether a file needs no fetching; an archive that somebody put there is unpacked.

    Raises UserError for one that is another than the catalogue's.
    """
    if _is_unpacked(entry, name, root):
        counts["there"] += 1
        return True
    path, file = _offer_folder(entry, root) / name, entry.files[name]
    if not path.exists():
        return False
    _check(path, path, file)
    if file.unpack:
        _unpack(entry, name, path, root, counts)
    else:
        counts["there"] += 1
    return True


def _offer_folder(entry: Offer, root: Path) -> Path:
    return root / entry.section.folder


def _state_folder(entry: Offer, root: Path) -> Path:
    return _offer_folder(entry, root) / STATE


def _hub_staging(entry: Offer, state: Path) -> Path:
    return state / f"{entry.name}.hub"


def _has_full_size(entry: Offer, name: str, root: Path) -> bool:
    path, file = _offer_folder(entry, root) / name, entry.files[name]
    return not file.unpack and path.is_file() and path.stat().st_size == (file.size or path.stat().st_size)


def _mark_name(name: str) -> str:
    return f"{name.replace('/', '--')}.json"


def _is_unpacked(entry: Offer, name: str, root: Path) -> bool:
    """Whether an archive was unpacked here, this one and in this way."""
    path = _state_folder(entry, root) / _mark_name(name)
    return entry.files[name].unpack and path.is_file() and read_mapping(path).get("of") == _file_identity(entry, name)


def _file_identity(entry: Offer, name: str) -> str:
    return f"{entry.section.hub} {entry.section.revision} {entry.address(name)} {entry.files[name]}"


def _fetch_files(entry: Offer, names: list[str], state: Path) -> Iterator[tuple[str, Path]]:
    """Each file where it was written: under way, whole, its sum not looked at."""
    if entry.section.hub and names:
        sources = [entry.address(name) for name in names]
        with _with_advice(entry, names):
            folder = _download_from_hub(entry, sources, _hub_staging(entry, state))
        yield from ((name, folder / source) for name, source in zip(names, sources, strict=True))
        shutil.rmtree(folder, ignore_errors=True)
        return
    for name in names:
        part_file = state / f"{name.replace('/', '--')}.part"
        with _with_advice(entry, [name]):
            _download(entry, name, part_file)
        yield name, part_file
        http_transfer.remove_partial(part_file)


def _download(entry: Offer, name: str, part_file: Path) -> None:
    download = http_transfer.Download(entry.address(name), entry.files[name].size, MOST)
    with tqdm(desc=name, unit="B", unit_scale=True, disable=None, file=sys.stderr) as bar:

        def tell(have: int, total: int) -> None:
            bar.total = total or None
            bar.update(have - bar.n)

        http_transfer.download_file(download, part_file, tell)


def _download_from_hub(entry: Offer, sources: list[str], folder: Path) -> Path:
    hub_files = {file.name: file for file in hub.list_files(entry.section, sources)}
    for source in sources:
        if source not in hub_files:
            raise UserError(f"{hub.page_address(entry.section)}: has no file {source}; correct the catalogue")
    _check_sizes(entry, list(hub_files.values()))
    return _download_checked(entry, list(hub_files.values()), folder)


def _download_checked(entry: Offer, files: list[HubFile], folder: Path | None) -> Path:
    """Files of a repository whose sums are those that the hub itself names."""
    target = hub.download(entry.section, files, folder)
    for file in files:
        try:
            _check(target / file.name, Path(file.name), OfferFile(size=file.size, sha256=file.sha256), "the hub")
        except UserError:
            _remove_cached(target / file.name)
            raise
    return target


def _remove_cached(path: Path) -> None:
    """Of the hub's cache the file, and the link that bears its name."""
    path.resolve().unlink(missing_ok=True)
    path.unlink(missing_ok=True)


def _check_sizes(entry: Offer, files: list[HubFile]) -> None:
    sizes = {entry.address(name): file.size for name, file in entry.files.items()}
    for file in files:
        if sizes.get(file.name) and file.size != sizes[file.name]:
            sizes_differ = f"{file.size:,} bytes, the catalogue says {sizes[file.name]:,}"
            raise UserError(f"{entry.section.hub}: {file.name} has {sizes_differ}; correct the catalogue")
        if file.size > MOST:
            raise UserError(f"{entry.section.hub}: {file.name} has {file.size:,} bytes, more than {MOST:,}")


@contextmanager
def _with_advice(entry: Offer, names: list[str]) -> Iterator[None]:
    """To what went wrong with a source, what a person can do without it."""
    name, others_too = names[0], f" (and {len(names) - 1} more, likewise)" if names[1:] else ""
    try:
        yield
    except UserError as error:
        source = hub.page_address(entry.section, entry.address(name)) if entry.section.hub else entry.address(name)
        target = Path(entry.section.folder) / name
        raise UserError(
            f"{entry.name}: {error}; or fetch {source} elsewhere and put it at {target}{others_too}"
        ) from error


def _put_in_place(entry: Offer, name: str, path: Path, root: Path, counts: Counter[str]) -> None:
    """A file that came, into its place."""
    file, target = entry.files[name], _offer_folder(entry, root) / name
    counts.update({"fetched": 1, "bytes": path.stat().st_size})
    try:
        _check(path, target, file)
        if file.unpack:
            _unpack(entry, name, path, root, counts)
            return
    except UserError:
        http_transfer.remove_partial(path)  # it would be no better next time
        raise
    target.parent.mkdir(parents=True, exist_ok=True)
    os.replace(path, target)


def _unpack(entry: Offer, name: str, path: Path, root: Path, counts: Counter[str]) -> None:
    file, state = entry.files[name], _state_folder(entry, root)
    rule = UnpackRule(tuple(file.members), file.strip, file.into)
    member_counts = archives.unpack(
        path, _offer_folder(entry, root), rule, state / f"{name.replace('/', '--')}.unpacked"
    )
    counts.update({"unpacked": member_counts["files"], "left_out": member_counts["left_out"]})
    write_json(state / _mark_name(name), {"of": _file_identity(entry, name), **member_counts})


def _check(path: Path, target: Path, file: OfferFile, says: str = "the catalogue") -> None:
    """Raise UserError for a file that is another than somebody says, or none."""
    if not path.is_file():
        raise UserError(f"{target}: no regular file; remove it and fetch it again")
    size = path.stat().st_size
    if file.size and size != file.size:
        raise UserError(f"{target}: {size:,} bytes, {says} says {file.size:,}; remove it and fetch it again")
    if not file.sha256:
        return
    with open(path, "rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    if digest != file.sha256:
        raise UserError(f"{target}: SHA-256 is {digest}, {says} says {file.sha256}; it is another file or damaged")


def _recorded_files(entry: Offer, root: Path) -> dict[str, int]:
    """Files that a pattern gave before, all of them still there; nothing otherwise."""
    path = _state_folder(entry, root) / f"{entry.name}.patterns.json"
    mark = read_mapping(path) if path.is_file() else {}
    recorded = mark.get("files") if mark.get("of") == _pattern_identity(entry) else None
    files = recorded if isinstance(recorded, dict) else {}
    complete = all(_has_size(_offer_folder(entry, root) / name, size) for name, size in files.items())
    return files if complete else {}


def _pattern_identity(entry: Offer) -> str:
    return f"{entry.section.hub} {entry.section.revision} {entry.section.patterns}"


def _has_size(path: Path, size: int) -> bool:
    return path.is_file() and path.stat().st_size == size


def _fetch_patterns(entry: Offer, root: Path, counts: Counter[str]) -> None:
    if present := _recorded_files(entry, root):
        counts["there"] += len(present)
        return
    state, target = _state_folder(entry, root), _offer_folder(entry, root)
    with _with_page_advice(entry):
        hub_files = hub.list_files(entry.section, entry.section.patterns)
        if not hub_files:
            raise UserError(f"no file of it fits {' '.join(entry.section.patterns)}; correct the catalogue")
        _check_sizes(entry, hub_files)
        absent = [file for file in hub_files if not _has_size(target / file.name, file.size)]
        folder = _download_checked(entry, absent, _hub_staging(entry, state)) if absent else _hub_staging(entry, state)
    for file in absent:
        (target / file.name).parent.mkdir(parents=True, exist_ok=True)
        os.replace(folder / file.name, target / file.name)
    shutil.rmtree(folder, ignore_errors=True)
    came = sum(file.size for file in absent)
    counts.update({"fetched": len(absent), "there": len(hub_files) - len(absent), "bytes": came})
    sizes = {file.name: file.size for file in hub_files}
    write_json(state / f"{entry.name}.patterns.json", {"of": _pattern_identity(entry), "files": sizes})


@contextmanager
def _with_page_advice(entry: Offer) -> Iterator[None]:
    try:
        yield
    except UserError as error:
        fits = " ".join([*map(entry.address, entry.files), *entry.section.patterns])
        target = entry.section.folder or "the hub's cache"
        page = hub.page_address(entry.section)
        raise UserError(f"{entry.name}: {error}; or fetch {fits} of {page} elsewhere, into {target}") from error


def _fetch_into_cache(entry: Offer) -> Counter[str]:
    """Into the hub's cache, where a tag's weights are looked for."""
    sources = [entry.address(name) for name in entry.files]
    with _with_page_advice(entry):
        hub_files = hub.list_files(entry.section, [*sources, *entry.section.patterns])
        for source in sources:
            if source not in {file.name for file in hub_files}:
                raise UserError(f"{hub.page_address(entry.section)}: has no file {source}; correct the catalogue")
        _check_sizes(entry, hub_files)
        folder = _download_checked(entry, hub_files, None)
    for name, file in entry.files.items():
        try:
            _check(folder / entry.address(name), Path(name), file)
        except UserError:
            _remove_cached(folder / entry.address(name))
            raise
    return Counter({"fetched": len(hub_files), "bytes": sum(file.size for file in hub_files)})
