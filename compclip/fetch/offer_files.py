"""Fetch the files of one catalogue entry: what is there stays, downloads are checked, archives are unpacked.

Partial downloads are in `.fetch` of the entry's folder. A file appears under its name when it is complete and its
checksum is right; marks in `.fetch` say which archives were unpacked.
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
from compclip.base.files import hold_exclusively, read_mapping, write_json
from compclip.fetch import archives, http_transfer
from compclip.fetch import hub_files as hub
from compclip.fetch.archives import UnpackRule
from compclip.fetch.catalogue import Offer, OfferFile
from compclip.fetch.hub_files import HubFile

STATE = ".fetch"
MOST = 256 << 30  # bytes of a file whose size is not known


def fetch_offer(offer: Offer, root: Path) -> Counter[str]:
    """Fetch all files of an entry; return counts of files fetched, there already, unpacked and left out of archives.

    Raises UserError naming what could not be fetched, and where to put it by hand.
    """
    counts: Counter[str] = Counter()
    if offer.section.cache:
        return _fetch_into_cache(offer)
    if not offer.files and not offer.section.patterns:
        return counts  # a note is all that there is of it
    state = _state_folder(offer, root)
    with hold_exclusively(
        state / f"{offer.name}.lock", f"{offer.name}: process {{}} is fetching it; wait for it, or stop it"
    ):
        absent = [name for name in offer.files if not is_there(offer, name, root, counts)]
        for name, path in _fetch_files(offer, absent, state):
            _put_in_place(offer, name, path, root, counts)
        if offer.section.patterns:
            _fetch_patterns(offer, root, counts)
    return counts


def is_complete(offer: Offer, root: Path) -> bool:
    """Return whether all files of an entry are in place, judged by names and sizes without network or checksums."""
    if offer.section.cache:
        return False
    files_complete = all(_is_unpacked(offer, name, root) or _has_full_size(offer, name, root) for name in offer.files)
    patterns = not offer.section.patterns or bool(_recorded_files(offer, root))
    return bool(offer.files or offer.section.patterns) and files_complete and patterns


def is_there(offer: Offer, name: str, root: Path, counts: Counter[str]) -> bool:
    """Return whether a file is there; an archive that was put there by hand is unpacked.

    Raises UserError for a file that differs from the catalogue's.
    """
    if _is_unpacked(offer, name, root):
        counts["there"] += 1
        return True
    path, file = _offer_folder(offer, root) / name, offer.files[name]
    if not path.exists():
        return False
    _check(path, path, file)
    if file.unpack:
        _unpack(offer, name, path, root, counts)
    else:
        counts["there"] += 1
    return True


def _offer_folder(offer: Offer, root: Path) -> Path:
    return root / offer.section.folder


def _state_folder(offer: Offer, root: Path) -> Path:
    return _offer_folder(offer, root) / STATE


def _hub_staging(offer: Offer, state: Path) -> Path:
    return state / f"{offer.name}.hub"


def _has_full_size(offer: Offer, name: str, root: Path) -> bool:
    path, file = _offer_folder(offer, root) / name, offer.files[name]
    return not file.unpack and path.is_file() and path.stat().st_size == (file.size or path.stat().st_size)


def _mark_name(name: str) -> str:
    return f"{name.replace('/', '--')}.json"


def _is_unpacked(offer: Offer, name: str, root: Path) -> bool:
    """Return whether this archive was unpacked here, by the same rule."""
    path = _state_folder(offer, root) / _mark_name(name)
    return offer.files[name].unpack and path.is_file() and read_mapping(path).get("of") == _file_identity(offer, name)


def _file_identity(offer: Offer, name: str) -> str:
    return f"{offer.section.hub} {offer.section.revision} {offer.address(name)} {offer.files[name]}"


def _fetch_files(offer: Offer, names: list[str], state: Path) -> Iterator[tuple[str, Path]]:
    """Yield the name and the path of each downloaded file, complete, but with its checksum not compared."""
    if offer.section.hub and names:
        sources = [offer.address(name) for name in names]
        with _with_advice(offer, names):
            folder = _download_from_hub(offer, sources, _hub_staging(offer, state))
        yield from ((name, folder / source) for name, source in zip(names, sources, strict=True))
        shutil.rmtree(folder, ignore_errors=True)
        return
    for name in names:
        part_file = state / f"{name.replace('/', '--')}.part"
        with _with_advice(offer, [name]):
            _download(offer, name, part_file)
        yield name, part_file
        http_transfer.remove_partial(part_file)


def _download(offer: Offer, name: str, part_file: Path) -> None:
    download = http_transfer.Download(offer.address(name), offer.files[name].size, MOST)
    with tqdm(desc=name, unit="B", unit_scale=True, disable=None, file=sys.stderr) as bar:

        def tell(have: int, total: int) -> None:
            bar.total = total or None
            bar.update(have - bar.n)

        http_transfer.download_file(download, part_file, tell)


def _download_from_hub(offer: Offer, sources: list[str], folder: Path) -> Path:
    hub_files = {file.name: file for file in hub.list_files(offer.section, sources)}
    for source in sources:
        if source not in hub_files:
            raise UserError(f"{hub.page_address(offer.section)}: has no file {source}; correct the catalogue")
    _check_sizes(offer, list(hub_files.values()))
    return _download_checked(offer, list(hub_files.values()), folder)


def _download_checked(offer: Offer, files: list[HubFile], folder: Path | None) -> Path:
    """Download files of a repository and compare them with the hub's own checksums."""
    target = hub.download(offer.section, files, folder)
    for file in files:
        try:
            _check(target / file.name, Path(file.name), OfferFile(size=file.size, sha256=file.sha256), "the hub")
        except UserError:
            _remove_cached(target / file.name)
            raise
    return target


def _remove_cached(path: Path) -> None:
    """Remove a file of the hub's cache and the link to it."""
    path.resolve().unlink(missing_ok=True)
    path.unlink(missing_ok=True)


def _check_sizes(offer: Offer, files: list[HubFile]) -> None:
    sizes = {offer.address(name): file.size for name, file in offer.files.items()}
    for file in files:
        if sizes.get(file.name) and file.size != sizes[file.name]:
            sizes_differ = f"{file.size:,} bytes, the catalogue says {sizes[file.name]:,}"
            raise UserError(f"{offer.section.hub}: {file.name} has {sizes_differ}; correct the catalogue")
        if file.size > MOST:
            raise UserError(f"{offer.section.hub}: {file.name} has {file.size:,} bytes, more than {MOST:,}")


@contextmanager
def _with_advice(offer: Offer, names: list[str]) -> Iterator[None]:
    """Add to an error of a source what a person can do without it."""
    name, others_too = names[0], f" (and {len(names) - 1} more, likewise)" if names[1:] else ""
    try:
        yield
    except UserError as error:
        source = hub.page_address(offer.section, offer.address(name)) if offer.section.hub else offer.address(name)
        target = Path(offer.section.folder) / name
        raise UserError(
            f"{offer.name}: {error}; or fetch {source} elsewhere and put it at {target}{others_too}"
        ) from error


def _put_in_place(offer: Offer, name: str, path: Path, root: Path, counts: Counter[str]) -> None:
    """Move a downloaded file into its place, or unpack it."""
    file, target = offer.files[name], _offer_folder(offer, root) / name
    counts.update({"fetched": 1, "bytes": path.stat().st_size})
    try:
        _check(path, target, file)
        if file.unpack:
            _unpack(offer, name, path, root, counts)
            return
    except UserError:
        http_transfer.remove_partial(path)  # it would be no better next time
        raise
    target.parent.mkdir(parents=True, exist_ok=True)
    os.replace(path, target)


def _unpack(offer: Offer, name: str, path: Path, root: Path, counts: Counter[str]) -> None:
    file, state = offer.files[name], _state_folder(offer, root)
    rule = UnpackRule(tuple(file.members), file.strip, file.into)
    member_counts = archives.unpack(
        path, _offer_folder(offer, root), rule, state / f"{name.replace('/', '--')}.unpacked"
    )
    counts.update({"unpacked": member_counts["files"], "left_out": member_counts["left_out"]})
    write_json(state / _mark_name(name), {"of": _file_identity(offer, name), **member_counts})


def _check(path: Path, target: Path, file: OfferFile, says: str = "the catalogue") -> None:
    """Raise UserError where size or checksum differ from what the catalogue, or the hub, says."""
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


def _recorded_files(offer: Offer, root: Path) -> dict[str, int]:
    """Return the files that patterns gave before, with sizes, if all are still there; {} otherwise."""
    path = _state_folder(offer, root) / f"{offer.name}.patterns.json"
    mark = read_mapping(path) if path.is_file() else {}
    recorded = mark.get("files") if mark.get("of") == _pattern_identity(offer) else None
    files = recorded if isinstance(recorded, dict) else {}
    complete = all(_has_size(_offer_folder(offer, root) / name, size) for name, size in files.items())
    return files if complete else {}


def _pattern_identity(offer: Offer) -> str:
    return f"{offer.section.hub} {offer.section.revision} {offer.section.patterns}"


def _has_size(path: Path, size: int) -> bool:
    return path.is_file() and path.stat().st_size == size


def _fetch_patterns(offer: Offer, root: Path, counts: Counter[str]) -> None:
    if present := _recorded_files(offer, root):
        counts["there"] += len(present)
        return
    state, target = _state_folder(offer, root), _offer_folder(offer, root)
    with _with_page_advice(offer):
        hub_files = hub.list_files(offer.section, offer.section.patterns)
        if not hub_files:
            raise UserError(f"no file of it fits {' '.join(offer.section.patterns)}; correct the catalogue")
        _check_sizes(offer, hub_files)
        absent = [file for file in hub_files if not _has_size(target / file.name, file.size)]
        folder = _download_checked(offer, absent, _hub_staging(offer, state)) if absent else _hub_staging(offer, state)
    for file in absent:
        (target / file.name).parent.mkdir(parents=True, exist_ok=True)
        os.replace(folder / file.name, target / file.name)
    shutil.rmtree(folder, ignore_errors=True)
    came = sum(file.size for file in absent)
    counts.update({"fetched": len(absent), "there": len(hub_files) - len(absent), "bytes": came})
    sizes = {file.name: file.size for file in hub_files}
    write_json(state / f"{offer.name}.patterns.json", {"of": _pattern_identity(offer), "files": sizes})


@contextmanager
def _with_page_advice(offer: Offer) -> Iterator[None]:
    try:
        yield
    except UserError as error:
        fits = " ".join([*map(offer.address, offer.files), *offer.section.patterns])
        target = offer.section.folder or "the hub's cache"
        page = hub.page_address(offer.section)
        raise UserError(f"{offer.name}: {error}; or fetch {fits} of {page} elsewhere, into {target}") from error


def _fetch_into_cache(offer: Offer) -> Counter[str]:
    """Fetch into the hub's cache, where open_clip looks for a tag's weights."""
    sources = [offer.address(name) for name in offer.files]
    with _with_page_advice(offer):
        hub_files = hub.list_files(offer.section, [*sources, *offer.section.patterns])
        for source in sources:
            if source not in {file.name for file in hub_files}:
                raise UserError(f"{hub.page_address(offer.section)}: has no file {source}; correct the catalogue")
        _check_sizes(offer, hub_files)
        folder = _download_checked(offer, hub_files, None)
    for name, file in offer.files.items():
        try:
            _check(folder / offer.address(name), Path(name), file)
        except UserError:
            _remove_cached(folder / offer.address(name))
            raise
    return Counter({"fetched": len(hub_files), "bytes": sum(file.size for file in hub_files)})
