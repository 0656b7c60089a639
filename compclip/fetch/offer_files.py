"""Fetch the files of one catalogue entry: what is there stays, downloads are checked, archives are unpacked.

Partial downloads are in `.fetch` of the entry's folder. A file appears under its name when it is complete and its
checksum is right; marks in `.fetch` say which archives were unpacked.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from compclip.base.errors import UserError
from compclip.base.files import hold_exclusively, read_mapping, write_json
from compclip.base.progress_line import ProgressLine
from compclip.fetch import archives, http_transfer
from compclip.fetch import hub_files as hub
from compclip.fetch.archives import UnpackRule
from compclip.fetch.catalogue import Offer, OfferFile
from compclip.fetch.hub_files import HubFile

STATE = ".fetch"
MB = 10**6
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
    folder = root / offer.section.folder
    busy = f"{offer.name}: process {{}} is fetching it; wait for it, or stop it"
    with hold_exclusively(folder / STATE / f"{offer.name}.lock", busy):
        absent = [name for name in offer.files if not _is_present(offer, name, folder, counts)]
        for name, path in _fetch_files(offer, absent, folder):
            _put_in_place(offer, name, path, folder, counts)
        if offer.section.patterns:
            _fetch_patterns(offer, folder, counts)
    return counts


def is_complete(offer: Offer, root: Path) -> bool:
    """Return whether all files of an entry are in place, judged by names and sizes without network or checksums."""
    if offer.section.cache or not (offer.files or offer.section.patterns):
        return False
    folder = root / offer.section.folder
    for name, file in offer.files.items():
        complete = _is_unpacked(offer, name, folder) if file.unpack else _has_size(folder / name, file.size or None)
        if not complete:
            return False
    return not offer.section.patterns or bool(_recorded_files(offer, folder))


def _is_present(offer: Offer, name: str, folder: Path, counts: Counter[str]) -> bool:
    """Return whether a file is there; an archive that was put there by hand is unpacked.

    Raises UserError for a file that differs from the catalogue's.
    """
    path, file = folder / name, offer.files[name]
    if not _is_unpacked(offer, name, folder):
        if not path.exists():
            return False
        _check(path, path, file)
        if file.unpack:
            _unpack(offer, name, path, folder, counts)
            return True
    counts["there"] += 1
    return True


def _state_file(folder: Path, name: str, suffix: str) -> Path:
    """Return the path of what belongs to one of an entry's files while it is fetched, and of its mark."""
    return folder / STATE / f"{name.replace('/', '--')}{suffix}"


def _has_size(path: Path, size: int | None) -> bool:
    return path.is_file() and size in (None, path.stat().st_size)


def _is_unpacked(offer: Offer, name: str, folder: Path) -> bool:
    """Return whether this archive was unpacked here, by the same rule."""
    path = _state_file(folder, name, ".json")
    return offer.files[name].unpack and path.is_file() and read_mapping(path).get("of") == _file_identity(offer, name)


def _file_identity(offer: Offer, name: str) -> str:
    return f"{offer.section.hub} {offer.section.revision} {offer.address(name)} {offer.files[name]}"


@contextmanager
def _with_advice(offer: Offer, advice: str) -> Iterator[None]:
    """Add to an error of a source what a person can do without it."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{offer.name}: {error}; or fetch {advice}") from error


def _fetch_files(offer: Offer, names: list[str], folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the name and the path of each downloaded file, complete, but with its checksum not compared."""
    if offer.section.hub and names:
        sources = [offer.address(name) for name in names]
        others_too = f" (and {len(names) - 1} more, likewise)" if names[1:] else ""
        page, target = hub.page_address(offer.section, sources[0]), Path(offer.section.folder) / names[0]
        with _with_advice(offer, f"{page} elsewhere and put it at {target}{others_too}"):
            hub_files = _list_hub_files(offer, sources)
            staging = _download_from_hub(offer, hub_files, folder / STATE / f"{offer.name}.hub")
        yield from ((name, staging / source) for name, source in zip(names, sources, strict=True))
        shutil.rmtree(staging, ignore_errors=True)
        return
    for name in names:
        part_file, address = _state_file(folder, name, ".part"), offer.address(name)
        with _with_advice(offer, f"{address} elsewhere and put it at {Path(offer.section.folder) / name}"):
            _download(http_transfer.Download(address, offer.files[name].size, MOST), name, part_file)
        yield name, part_file
        http_transfer.remove_partial(part_file)


def _download(download: http_transfer.Download, name: str, part_file: Path) -> None:
    with ProgressLine(f"MB of {name}") as progress:

        def tell(have: int, total: int) -> None:
            progress.total = total // MB
            progress.update(have // MB - progress.n)

        http_transfer.download_file(download, part_file, tell)


def _put_in_place(offer: Offer, name: str, path: Path, folder: Path, counts: Counter[str]) -> None:
    """Move a downloaded file into its place, or unpack it."""
    file, target = offer.files[name], folder / name
    counts.update({"fetched": 1, "bytes": path.stat().st_size})
    try:
        _check(path, target, file)
        if file.unpack:
            _unpack(offer, name, path, folder, counts)
            return
    except UserError:
        http_transfer.remove_partial(path)  # it would be no better next time
        raise
    target.parent.mkdir(parents=True, exist_ok=True)
    os.replace(path, target)


def _unpack(offer: Offer, name: str, path: Path, folder: Path, counts: Counter[str]) -> None:
    file = offer.files[name]
    rule = UnpackRule(tuple(file.members), file.strip, file.into)
    member_counts = archives.unpack(path, folder, rule, _state_file(folder, name, ".unpacked"))
    counts.update({"unpacked": member_counts["files"], "left_out": member_counts["left_out"]})
    write_json(_state_file(folder, name, ".json"), {"of": _file_identity(offer, name), **member_counts})


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


# --- the hub --------------------------------------------------------------------------------------------------


def _list_hub_files(offer: Offer, sources: list[str], patterns: Sequence[str] = ()) -> list[HubFile]:
    """List files of the repository: `sources`, and what fits a pattern.

    Raises UserError for a source that is absent, another size than the catalogue says, and too large a file.
    """
    hub_files = hub.list_files(offer.section, [*sources, *patterns])
    if absent := [source for source in sources if source not in {file.name for file in hub_files}]:
        raise UserError(f"{hub.page_address(offer.section)}: has no file {absent[0]}; correct the catalogue")
    sizes = {offer.address(name): file.size for name, file in offer.files.items()}
    for file in hub_files:
        if sizes.get(file.name) and file.size != sizes[file.name]:
            sizes_differ = f"{file.size:,} bytes, the catalogue says {sizes[file.name]:,}"
            raise UserError(f"{offer.section.hub}: {file.name} has {sizes_differ}; correct the catalogue")
        if file.size > MOST:
            raise UserError(f"{offer.section.hub}: {file.name} has {file.size:,} bytes, more than {MOST:,}")
    return hub_files


def _download_from_hub(offer: Offer, files: list[HubFile], folder: Path | None) -> Path:
    """Download files of a repository and compare them with the hub's own checksums."""
    target = hub.download(offer.section, files, folder)
    for file in files:
        _check_or_remove(target, file.name, file.name, OfferFile(size=file.size, sha256=file.sha256), "the hub")
    return target


def _check_or_remove(folder: Path, source: str, name: str, file: OfferFile, says: str) -> None:
    """Check a file; one that fails is removed with the file that it is a link to, in the hub's cache."""
    try:
        _check(folder / source, Path(name), file, says)
    except UserError:
        (folder / source).resolve().unlink(missing_ok=True)
        (folder / source).unlink(missing_ok=True)
        raise


def _page_advice(offer: Offer) -> str:
    files = " ".join([*map(offer.address, offer.files), *offer.section.patterns])
    target = offer.section.folder or "the hub's cache"
    return f"{files} of {hub.page_address(offer.section)} elsewhere, into {target}"


def _recorded_files(offer: Offer, folder: Path) -> dict[str, int]:
    """Return the files that patterns gave before, with sizes, if all are still there; {} otherwise."""
    path = folder / STATE / f"{offer.name}.patterns.json"
    mark = read_mapping(path) if path.is_file() else {}
    files: dict[str, int] = mark["files"] if mark.get("of") == _pattern_identity(offer) else {}
    return files if all(_has_size(folder / name, size) for name, size in files.items()) else {}


def _pattern_identity(offer: Offer) -> str:
    return f"{offer.section.hub} {offer.section.revision} {offer.section.patterns}"


def _fetch_patterns(offer: Offer, folder: Path, counts: Counter[str]) -> None:
    if present := _recorded_files(offer, folder):
        counts["there"] += len(present)
        return
    staging = folder / STATE / f"{offer.name}.hub"
    with _with_advice(offer, _page_advice(offer)):
        hub_files = _list_hub_files(offer, [], offer.section.patterns)
        if not hub_files:
            raise UserError(f"no file of it fits {' '.join(offer.section.patterns)}; correct the catalogue")
        absent = [file for file in hub_files if not _has_size(folder / file.name, file.size)]
        if absent:
            staging = _download_from_hub(offer, absent, staging)
    for file in absent:
        (folder / file.name).parent.mkdir(parents=True, exist_ok=True)
        os.replace(staging / file.name, folder / file.name)
    shutil.rmtree(staging, ignore_errors=True)
    fetched_bytes = sum(file.size for file in absent)
    counts.update({"fetched": len(absent), "there": len(hub_files) - len(absent), "bytes": fetched_bytes})
    sizes = {file.name: file.size for file in hub_files}
    write_json(folder / STATE / f"{offer.name}.patterns.json", {"of": _pattern_identity(offer), "files": sizes})


def _fetch_into_cache(offer: Offer) -> Counter[str]:
    """Fetch into the hub's cache, where open_clip looks for a tag's weights."""
    with _with_advice(offer, _page_advice(offer)):
        hub_files = _list_hub_files(offer, [offer.address(name) for name in offer.files], offer.section.patterns)
        folder = _download_from_hub(offer, hub_files, None)
    for name, file in offer.files.items():
        _check_or_remove(folder, offer.address(name), name, file, "the catalogue")
    return Counter({"fetched": len(hub_files), "bytes": sum(file.size for file in hub_files)})
