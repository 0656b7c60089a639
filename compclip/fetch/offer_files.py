"""Fetch the files of one catalogue entry: what is there stays, downloads are checked, archives are unpacked.

Partial downloads are in `.fetch` of the entry's folder. A file appears under its name when it is complete and its
checksum is right; marks in `.fetch` say which archives were unpacked.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from compclip.base import environment_variables
from compclip.base.errors import UserError, one_line, unknown
from compclip.base.files import hold_exclusively, read_mapping, write_json
from compclip.base.progress_line import ProgressLine
from compclip.fetch import archives, http_transfer
from compclip.fetch.archives import UnpackRule
from compclip.fetch.catalogue import Offer, OfferFile, OfferSection, PictureList, relative_path

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
    path = folder / name
    file = offer.files[name]
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
        page = page_address(offer.section, sources[0])
        target = Path(offer.section.folder) / names[0]
        with _with_advice(offer, f"{page} elsewhere and put it at {target}{others_too}"):
            hub_files = _list_hub_files(offer, sources)
            staging = _download_from_hub(offer, hub_files, folder / STATE / f"{offer.name}.hub")
        yield from ((name, staging / source) for name, source in zip(names, sources, strict=True))
        shutil.rmtree(staging, ignore_errors=True)
        return
    for name in names:
        part_file = _state_file(folder, name, ".part")
        address = offer.address(name)
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
    file = offer.files[name]
    target = folder / name
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

    Raises UserError for a source that is absent, and for too large a file.
    """
    hub_files = list_files(offer.section, [*sources, *patterns])
    absent = [source for source in sources if source not in {file.name for file in hub_files}]
    if absent:
        raise UserError(f"{page_address(offer.section)}: has no file {absent[0]}; correct the catalogue")
    for file in hub_files:
        if file.size > MOST:
            raise UserError(f"{offer.section.hub}: {file.name} has {file.size:,} bytes, more than {MOST:,}")
    return hub_files


def _download_from_hub(offer: Offer, files: list[HubFile], folder: Path | None) -> Path:
    """Download files of a repository and compare them with the hub's own checksums."""
    target = download(offer.section, files, folder)
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
    return f"{files} of {page_address(offer.section)} elsewhere, into {target}"


def _recorded_files(offer: Offer, folder: Path) -> dict[str, int]:
    """Return the files that patterns gave before, with sizes, if all are still there; {} otherwise."""
    path = folder / STATE / f"{offer.name}.patterns.json"
    mark = read_mapping(path) if path.is_file() else {}
    files: dict[str, int] = mark["files"] if mark.get("of") == _pattern_identity(offer) else {}
    return files if all(_has_size(folder / name, size) for name, size in files.items()) else {}


def _pattern_identity(offer: Offer) -> str:
    return f"{offer.section.hub} {offer.section.revision} {offer.section.patterns}"


def _fetch_patterns(offer: Offer, folder: Path, counts: Counter[str]) -> None:
    present = _recorded_files(offer, folder)
    if present:
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


# --- files of a hub -------------------------------------------------------------------------------------------------
# Files of a repository of the hub, through its own library: it resumes, and counts the bytes of what it writes.
#
# `HF_ENDPOINT` names another hub, `HF_TOKEN` holds the token of a gated repository.


TOKEN = "HF_TOKEN"
PROBE_S = 10.0
MOST_FILES = 1_000_000
T = TypeVar("T")


@dataclass(frozen=True)
class HubFile:
    """A file of a repository, its size in bytes, and its SHA-256 where the hub says it."""

    name: str
    size: int
    sha256: str


def repository_name(section: OfferSection) -> tuple[str, str]:
    """Return a repository's type and its OWNER/NAME, as the library expects them."""
    kind, _, repository_name = section.hub.partition("/")
    return ("dataset", repository_name) if kind == "datasets" else ("model", section.hub)


def page_address(section: OfferSection, name: str = "") -> str:
    """Return the address of the repository's page, or of one of its files."""
    from huggingface_hub import constants

    page = f"{constants.ENDPOINT}/{section.hub}"
    return f"{page}/resolve/{section.revision or 'main'}/{name}" if name else page


def list_files(section: OfferSection, patterns: list[str]) -> list[HubFile]:
    """Return the files of a repository that fit one of the patterns, sorted by name.

    Raises UserError where the hub cannot be reached or refuses, and for a name that leads out of its folder.
    """
    from huggingface_hub import HfApi

    kind, name = repository_name(section)
    api = HfApi(token=environment_variables.read_secret(TOKEN) or None)

    def request() -> list[Any]:
        tree = api.list_repo_tree(name, recursive=True, revision=section.revision or None, repo_type=kind)
        return list(islice(tree, MOST_FILES))

    files = [entry for entry in _call(request, section) if hasattr(entry, "size")]
    matching = [file for file in files if any(fnmatchcase(file.path, pattern) for pattern in patterns)]
    hub_files = []
    for file in sorted(matching, key=lambda file: file.path):
        if not any(folder.startswith(".") and folder != ".." for folder in file.path.split("/")):  # hidden files
            relative_path(file.path, f"{section.hub}: file")
            hub_files.append(HubFile(file.path, int(file.size), str(file.lfs.sha256) if file.lfs else ""))
    return hub_files


def download(section: OfferSection, files: list[HubFile], folder: Path | None) -> Path:
    """Download files of a repository into `folder`, or into the hub's cache; return the folder that they are in.

    Raises UserError as `list_files`.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.utils.tqdm import disable_progress_bars

    kind, name = repository_name(section)
    if not sys.stderr.isatty():
        disable_progress_bars()

    def request() -> str:
        return snapshot_download(
            name, repo_type=kind, revision=section.revision or None, local_dir=folder,
            allow_patterns=[file.name for file in files], token=environment_variables.read_secret(TOKEN) or None,
        )  # fmt: skip

    return Path(_call(request, section))


def _call(request: Callable[[], T], section: OfferSection) -> T:
    from huggingface_hub import constants, get_session

    reached = not constants.HF_HUB_OFFLINE
    try:  # without an answer the library would retry each file for half a minute
        if reached:
            get_session().head(constants.ENDPOINT, timeout=PROBE_S)
    except Exception:  # the clients that it may use share no base
        reached = False
    if not reached:
        raise UserError(f"cannot reach {constants.ENDPOINT}")
    try:
        return request()
    except Exception as error:  # its HTTP client, its own errors and the disk's share no base
        raise _explain_error(error, section) from error


def _explain_error(error: Exception, section: OfferSection) -> Exception:
    from huggingface_hub import errors

    page = page_address(section)
    if isinstance(error, errors.GatedRepoError):
        return UserError(f"{page}: gated: accept its terms there, and set {TOKEN} to a token of yours")
    if isinstance(error, errors.RepositoryNotFoundError):
        return UserError(f"{page}: no such repository, or it is private: set {TOKEN} to a token that may read it")
    if isinstance(error, errors.RevisionNotFoundError):
        return UserError(f"{page}: no revision {section.revision!r}; correct the catalogue")
    if isinstance(error, OSError) and error.errno and not isinstance(error, ConnectionError):
        return error  # the disk's
    first = one_line(str(error).strip().split("\n")[0])[:300]
    return UserError(f"{page}: {type(error).__name__}: {first}; what came is kept, run this again to go on")


# --- lists of pictures ----------------------------------------------------------------------------------------------
# Fetch the pictures of lists of addresses through the program img2dataset.
#
# Its packages need old versions of ours, so it may be in another environment: `pipx install img2dataset`. It does not
# fetch again what it has, and its own counts say what was lost.


PROGRAM = "img2dataset"
FORMATS = ("webdataset", "files")
COUNTS = ("count", "successes", "failed_to_download", "failed_to_resize")


RETRIES = 2  # tries of a picture beyond the first


@dataclass(frozen=True)
class PictureOptions:
    """How pictures are fetched: shards or loose files, and pixels of the short side."""

    format: str = "webdataset"
    pixels: int = 256


def fetch_pictures(pictures: PictureList, folder: Path, root: Path, way: PictureOptions) -> Counter[str]:
    """Fetch what a list below `folder` names; return img2dataset's counts of pictures, summed.

    Raises UserError where the program or a column is missing, or it ends with a failure.
    """
    list_path = folder / pictures.list
    _check_columns(list_path, pictures)
    target = root / pictures.into
    target.mkdir(parents=True, exist_ok=True)
    command = command_words(_find_program(), pictures, list_path, target, way)
    process = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=sys.stderr.fileno())
    if process.returncode:
        raise UserError(f"{PROGRAM} ended with {process.returncode} over {list_path}; run this again: it goes on")
    return count_pictures(target)


def command_words(program: str, pictures: PictureList, list_path: Path, target: Path, way: PictureOptions) -> list[str]:
    """Return the words of the command, which no shell reads."""
    options = {
        "url_list": list_path.resolve(), "input_format": pictures.format, "url_col": pictures.url,
        "output_folder": target.resolve(), "output_format": way.format,
        "processes_count": os.cpu_count() or 1, "retries": RETRIES,
        "image_size": way.pixels, "resize_mode": "keep_ratio", "resize_only_if_bigger": True,
    }  # fmt: skip
    if pictures.caption:
        options["caption_col"] = pictures.caption
    return [program, *(f"--{name}={value}" for name, value in options.items())]


def _find_program() -> str:
    neighbour = Path(sys.executable).with_name(PROGRAM)
    program = str(neighbour) if neighbour.is_file() else shutil.which(PROGRAM)
    if not program:
        raise UserError(f"{PROGRAM}: not installed; pipx install {PROGRAM}, or give --lists-only to leave pictures out")
    return program


def _check_columns(list_path: Path, pictures: PictureList) -> None:
    files = sorted(list_path.glob(f"*.{pictures.format}")) if list_path.is_dir() else [list_path]
    if not files or not files[0].is_file():
        raise UserError(f"{list_path}: no .{pictures.format} file there; correct `list` of the catalogue")
    from compclip.data import tables  # and with it pyarrow, which other entries do without

    columns = tables.read_columns(files[0]) if tables.format_suffix(files[0]) in tables.SUFFIXES else []
    for name in filter(None, (pictures.url, pictures.caption)):
        if columns and name not in columns:
            raise unknown("column", name, columns, str(files[0]))


def count_pictures(folder: Path) -> Counter[str]:
    """Sum img2dataset's counts over its shards: pictures requested, fetched, lost."""
    totals: Counter[str] = Counter()
    for file in sorted(folder.glob("*_stats.json")):
        stats = read_mapping(file)
        totals.update({name: value for name in COUNTS if type(value := stats.get(name)) is int})
    return totals
