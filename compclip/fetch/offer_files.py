"""Fetch the files of one catalogue entry: what is there stays, downloads are checked, archives are unpacked.

Partial downloads are in `.fetch` of the entry's folder. A file appears under its name when it is complete and its
checksum is right; marks in `.fetch` say which archives were unpacked.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shlex
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import requests
import urllib3

from compclip.base import environment_variables, urls
from compclip.base.errors import UserError, one_line
from compclip.base.files import hold_exclusively, read_mapping, write_json
from compclip.base.progress_line import ProgressLine
from compclip.fetch import archives
from compclip.fetch.catalogue import Offer, OfferFile, OfferSection, PictureList, relative_path

STATE = ".fetch"
MB = 10**6
MOST = 256 << 30  # bytes of a file whose size is not known
PICTURE_PIXELS = 256  # the short side to which larger pictures of a list are scaled


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
        sources = list(map(offer.address, names))
        with _with_advice(offer, _page_advice(offer)):
            staging = _download_from_hub(offer, _list_hub_files(offer, sources), folder / STATE / f"{offer.name}.hub")
        yield from ((name, staging / source) for name, source in zip(names, sources, strict=True))
        shutil.rmtree(staging, ignore_errors=True)
        return
    for number, name in enumerate(names):
        part_file = _state_file(folder, name, ".part")
        address = offer.address(name)
        file = offer.files[name]
        # members of a plain tar have no checksums of their content
        is_compared = bool(file.sha256) or (file.unpack and not name.endswith(".tar"))
        with _with_advice(offer, _place_advice(offer, names[number:])), ProgressLine(f"MB of {name}") as progress:
            tell = functools.partial(_show_progress, progress)
            download_file(Download(address, file.size, MOST, is_compared), part_file, tell)
        yield name, part_file
        part_file.unlink(missing_ok=True)


def _show_progress(progress: ProgressLine, have: int, total: int) -> None:
    progress.total = total // MB
    progress.update(have // MB - progress.n)


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
        path.unlink(missing_ok=True)  # it would be no better next time
        raise
    target.parent.mkdir(parents=True, exist_ok=True)
    os.replace(path, target)


def _unpack(offer: Offer, name: str, path: Path, folder: Path, counts: Counter[str]) -> None:
    file = offer.files[name]
    member_counts = archives.unpack(path, folder, file, _state_file(folder, name, ".unpacked"))
    counts.update({"unpacked": member_counts["files"], "left_out": member_counts["left_out"]})
    write_json(_state_file(folder, name, ".json"), {"of": _file_identity(offer, name), **member_counts})


def _check(path: Path, target: Path, file: OfferFile, says: str = "the catalogue") -> None:
    """Raise UserError where size or checksum differ from what the catalogue, or the hub, says."""
    size = path.stat().st_size if path.is_file() else -1
    if size < 0 or (file.size and size != file.size):
        found = "no regular file" if size < 0 else f"{size:,} bytes, {says} says {file.size:,}"
        raise UserError(f"{target}: {found}; remove it and fetch it again")
    if not file.sha256:
        return
    with open(path, "rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    if digest != file.sha256:
        raise UserError(f"{target}: SHA-256 is {digest}, {says} says {file.sha256}; it is another file or damaged")


def _check_or_remove(folder: Path, source: str, name: str, file: OfferFile, says: str) -> None:
    """Check a file; one that fails is removed with the file that it is a link to, in the hub's cache."""
    try:
        _check(folder / source, Path(name), file, says)
    except UserError:
        (folder / source).resolve().unlink(missing_ok=True)
        (folder / source).unlink(missing_ok=True)
        raise


def _place_advice(offer: Offer, names: Sequence[str]) -> str:
    """Say of every file that is not here where it is and where it belongs."""
    if len(names) == 1:
        return f"{offer.address(names[0])} elsewhere and put it at {Path(offer.section.folder) / names[0]}"
    places = [f"{offer.address(name)} (as {Path(offer.section.folder) / name})" for name in names]
    return f"elsewhere and put each there: {', '.join(places)}"


def _page_advice(offer: Offer) -> str:
    files = [name if name == offer.address(name) else f"{offer.address(name)} (as {name})" for name in offer.files]
    target = offer.section.folder or "the hub's cache"
    return f"{', '.join([*files, *offer.section.patterns])} of {page_address(offer.section)} elsewhere, into {target}"


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
        absent = {path: file for path, file in hub_files.items() if not _has_size(folder / path, file.size)}
        if absent:
            staging = _download_from_hub(offer, absent, staging)
    for path in absent:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        os.replace(staging / path, folder / path)
    shutil.rmtree(staging, ignore_errors=True)
    fetched_bytes = sum(file.size for file in absent.values())
    counts.update({"fetched": len(absent), "there": len(hub_files) - len(absent), "bytes": fetched_bytes})
    sizes = {path: file.size for path, file in hub_files.items()}
    write_json(folder / STATE / f"{offer.name}.patterns.json", {"of": _pattern_identity(offer), "files": sizes})


def _fetch_into_cache(offer: Offer) -> Counter[str]:
    """Fetch into the hub's cache, where open_clip looks for a tag's weights."""
    with _with_advice(offer, _page_advice(offer)):
        hub_files = _list_hub_files(offer, list(map(offer.address, offer.files)), offer.section.patterns)
        folder = _download_from_hub(offer, hub_files, None)
    for name, file in offer.files.items():
        _check_or_remove(folder, offer.address(name), name, file, "the catalogue")
    return Counter({"fetched": len(hub_files), "bytes": sum(file.size for file in hub_files.values())})


# --- files over HTTP --------------------------------------------------------------------------------------------------
# Download one file over HTTP into a .part file and resume where an earlier attempt ended.
#
# `requests` does connections, redirects, proxies and certificates; resuming, which it lacks, is here. A body has the
# length that was announced, and never more than a bound. Only a file whose content is compared afterwards is resumed.


CONNECT_S = 10.0
SILENT_S = 60.0
ATTEMPTS = 5  # without a step forward
STEP = 1 << 20  # bytes that make an attempt a step forward
PAUSE_S = 2.0  # before the second attempt; doubled before each further one
CHUNK = 1 << 18
TOTAL = re.compile(r"bytes (?:(\d{1,18})-\d{1,18}|\*)/(\d{1,18}|\*)", re.ASCII)
NOWHERE = (
    requests.exceptions.TooManyRedirects, requests.exceptions.InvalidSchema, requests.exceptions.InvalidURL,
    requests.exceptions.MissingSchema, ValueError,  # of a Location that is no UTF-8, or no address to urllib3
)  # fmt: skip
BUSY = (408, 425, 429, 500, 502, 503, 504)

Tell = Callable[[int, int], None]  # bytes there, bytes in all (0 where nobody said)


class RefusedError(Exception):
    """A refusal by the server or of its answer, after which another attempt is useless."""


@dataclass(frozen=True)
class Download:
    """An address, the bytes that it must have (0: any number), and the most that are accepted.

    `resumable`: the caller compares the content afterwards, so that the rest of another file is noticed.
    """

    url: str
    size: int
    most: int
    resumable: bool = False


def download_file(download: Download, part_file: Path, tell: Tell) -> None:
    """Download the whole body into `part_file`; `tell` is called with bytes there and in all.

    Raises UserError where there is no network, the server refuses, or the body has another size than it must have; a
    file that can be resumed stays.
    """
    shown_url = urls.mask_url(download.url)
    failures = 0
    most = _downloaded_bytes(part_file)
    while True:
        if not download.resumable:
            part_file.unlink(missing_ok=True)
        try:
            _continue_download(download, part_file, tell)
            return
        except NOWHERE as error:
            raise UserError(f"{shown_url}: redirects to no file: {type(error).__name__}") from None
        except RefusedError as error:
            raise UserError(f"{shown_url}: {error}") from None
        except requests.RequestException as error:
            have = _downloaded_bytes(part_file)
            failures = 1 if have - most >= STEP else failures + 1
            most = max(most, have)
            if failures >= ATTEMPTS or (not have and _unreached(error)):
                raise UserError(f"{shown_url}: {_describe_error(error, download.url)}") from None
        time.sleep(PAUSE_S * 2 ** (failures - 1))


def _unreached(error: requests.RequestException) -> bool:
    """Return whether no server was reached: there is usually no network, and no use in another attempt."""
    return (
        isinstance(error, requests.exceptions.ConnectTimeout)
        or "establish a new connection" in str(error)
        or "resolve" in str(error)
    )


def _describe_error(error: requests.RequestException, url: str) -> str:
    if _unreached(error):
        return f"cannot reach {urlsplit(url).hostname}"
    if isinstance(error, requests.exceptions.Timeout):
        return f"no answer within {SILENT_S:.0f} s"
    reason = str(error) if isinstance(error, _RetryError) else type(error).__name__
    return f"the connection was cut {ATTEMPTS} times ({reason}); run this again to go on"


class _RetryError(requests.RequestException):
    """A failure that a later attempt may not meet."""


def _continue_download(download: Download, part_file: Path, tell: Tell) -> None:
    """Make one request, from the end of the file on."""
    have = _downloaded_bytes(part_file)
    headers = {"Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    with requests.get(download.url, headers=headers, stream=True, timeout=(CONNECT_S, SILENT_S)) as response:
        _check_response(response, download.url)
        start, total = _content_range(response, have)
        if total and download.size and total != download.size:
            raise RefusedError(f"has {total:,} bytes, the catalogue says {download.size:,}")
        _check_bound(total, download)
        if response.status_code == 416 and total != have:
            part_file.unlink(missing_ok=True)
            raise _RetryError("another file is there now")
        if response.status_code != 416:
            _write_body(response, download, part_file, tell, (start, total))


def _check_response(response: requests.Response, url: str) -> None:
    code = response.status_code
    if urlsplit(url).scheme == "https" and urlsplit(response.url).scheme != "https":
        raise RefusedError("redirects to an address without encryption")
    if code in BUSY:
        raise _RetryError(f"status {code}")
    if code in (401, 403):
        raise RefusedError(f"{code}: not for everybody; ask its owner for access")
    if code not in (200, 206, 416):
        raise RefusedError(f"status {code}: it is not there, or no longer")
    kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    encoding = response.headers.get("Content-Encoding", "identity").strip()
    if encoding.lower() != "identity":
        raise RefusedError(f"comes in the encoding {encoding[:50]!a}, which nobody asked for")
    if code != 416 and kind == "text/html" and not urlsplit(url).path.endswith((".html", ".htm")):
        raise RefusedError("answers with a web page instead of the file: a login, a limit, or it has moved")


def _content_range(response: requests.Response, have: int) -> tuple[int, int]:
    """Return the position of the bytes that come, and the size of the whole; 0 where it is not known."""
    if response.status_code != 200:
        match = TOTAL.match(response.headers.get("Content-Range", ""))
        if response.status_code == 206 and (not match or match[1] != str(have)):
            raise _RetryError("another part than was asked for")
        return have, int(match[2]) if match and match[2] != "*" else 0
    length = response.headers.get("Content-Length", "")
    return 0, int(length) if re.fullmatch(r"\d{1,18}", length, re.ASCII) else 0


def _check_bound(count: int, download: Download) -> None:
    if count > (download.size or download.most):
        raise RefusedError(f"has more than {download.size or download.most:,} bytes; nothing is kept")


def _write_body(
    response: requests.Response, download: Download, part_file: Path, tell: Tell, span: tuple[int, int]
) -> None:
    have, total = span
    with open(part_file, "ab" if have else "wb") as file:
        for chunk in _chunks(response):
            have += len(chunk)
            if have > (download.size or download.most):
                part_file.unlink()
            _check_bound(have, download)
            file.write(chunk)
            tell(have, total or download.size)
        file.flush()
        os.fsync(file.fileno())
    expected = total or download.size
    if expected and have != expected:
        raise _RetryError(f"{have:,} of {expected:,} bytes")


def _chunks(response: requests.Response) -> Iterator[bytes]:
    """Yield bytes as they come, so that those before a cut are not lost with their chunk."""
    try:
        while chunk := response.raw.read1(CHUNK, decode_content=False):
            yield chunk
    except urllib3.exceptions.HTTPError as error:
        raise _RetryError(type(error).__name__) from error


def _downloaded_bytes(part_file: Path) -> int:
    return part_file.stat().st_size if part_file.is_file() else 0


# --- files of a hub -------------------------------------------------------------------------------------------------
# Files of a repository of the hub, through its own library: it resumes, and counts the bytes of what it writes.
#
# `HF_ENDPOINT` names another hub, `HF_TOKEN` holds the token of a gated repository.


TOKEN = "HF_TOKEN"
PROBE_S = 10.0
MOST_FILES = 1_000_000
T = TypeVar("T")


def repository_name(section: OfferSection) -> tuple[str, str]:
    """Return a repository's type and its OWNER/NAME, as the library expects them."""
    kind, _, repository_name = section.hub.partition("/")
    return ("dataset", repository_name) if kind == "datasets" else ("model", section.hub)


def page_address(section: OfferSection) -> str:
    """Return the address of the repository's page."""
    from huggingface_hub import constants

    return f"{constants.ENDPOINT}/{section.hub}"


def _list_hub_files(offer: Offer, sources: Sequence[str], patterns: Sequence[str] = ()) -> dict[str, OfferFile]:
    """List files of the repository with sizes and checksums, sorted by name: `sources`, and what fits a pattern.

    Raises UserError where the hub cannot be reached or refuses, for a name that leads out of its folder, for a source
    that is absent, and for too large a file.
    """
    from huggingface_hub import HfApi

    section = offer.section
    kind, name = repository_name(section)
    api = HfApi(token=environment_variables.read_secret(TOKEN) or None)

    def request() -> list[Any]:
        tree = api.list_repo_tree(name, recursive=True, revision=section.revision or None, repo_type=kind)
        return list(islice(tree, MOST_FILES))

    hub_files: dict[str, OfferFile] = {}
    for entry in sorted(_call(request, section), key=lambda entry: entry.path):
        path = entry.path
        is_hidden = any(folder.startswith(".") and folder != ".." for folder in path.split("/"))
        is_wanted = path in sources or any(fnmatchcase(path, pattern) for pattern in patterns)
        if not hasattr(entry, "size") or is_hidden or not is_wanted:  # folders have no size
            continue
        relative_path(path, f"{section.hub}: file")
        if entry.size > MOST:
            raise UserError(f"{section.hub}: {path} has {entry.size:,} bytes, more than {MOST:,}")
        hub_files[path] = OfferFile(size=int(entry.size), sha256=str(entry.lfs.sha256) if entry.lfs else "")
    for source in sources:
        if source not in hub_files:
            raise UserError(f"{page_address(section)}: has no file {source}; correct the catalogue")
    return hub_files


def _download_from_hub(offer: Offer, files: Mapping[str, OfferFile], folder: Path | None) -> Path:
    """Download files of a repository into `folder`, or into the hub's cache; return the folder that they are in.

    They are compared with the hub's own checksums. Raises UserError as `_list_hub_files`.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.utils.tqdm import disable_progress_bars

    section = offer.section
    kind, name = repository_name(section)
    if not sys.stderr.isatty():
        disable_progress_bars()

    def request() -> str:
        return snapshot_download(
            name, repo_type=kind, revision=section.revision or None, local_dir=folder,
            allow_patterns=list(files), token=environment_variables.read_secret(TOKEN) or None,
        )  # fmt: skip

    target = Path(_call(request, section))
    for path, file in files.items():
        _check_or_remove(target, path, path, file, "the hub")
    return target


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


def picture_command(pictures: PictureList, folder: Path) -> str:
    """Return the command by which img2dataset fetches what a list below `folder` names, for a shell.

    Its packages need old versions of ours, so that it is in an environment of its own: `pipx install img2dataset`.
    """
    options = [
        f"--url_list={folder / pictures.list}", f"--input_format={pictures.format}", f"--url_col={pictures.url}",
        f"--output_folder={pictures.into}", "--output_format=webdataset",
        f"--image_size={PICTURE_PIXELS}", "--resize_mode=keep_ratio", "--resize_only_if_bigger=True",
    ]  # fmt: skip
    if pictures.caption:
        options.append(f"--caption_col={pictures.caption}")
    return shlex.join(["img2dataset", *options])
