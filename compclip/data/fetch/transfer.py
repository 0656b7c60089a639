"""One file over HTTP into a .part file: what is there already is not asked for again, whatever cut the last attempt.

`requests` does connections, redirects, proxies and certificates; what it lacks, going on where a body ended, is here. A
body is as long as it was said to be, and never longer than a bound.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import requests
import urllib3

from compclip.base import urls
from compclip.base.errors import UserError
from compclip.base.files import read_text, write_atomic

CONNECT_S, SILENT_S = 10.0, 60.0
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


class Refused(UserError):
    """A server that says no: there is nothing to be had by asking again."""


@dataclass(frozen=True)
class Wanted:
    """An address, how many bytes it must have (0: any number), and how many are too many."""

    url: str
    size: int
    most: int


def fetch(wanted: Wanted, part: Path, tell: Tell) -> None:
    """Bring the whole body into `part`.

    Raises UserError where there is no network, the server says no, or the body is not of the size that it must have;
    what may be gone on with stays.
    """
    failures = 0
    while True:
        before = _there(part)
        try:
            _go_on(wanted, part, tell)
            return
        except NOWHERE as error:
            raise Refused(f"{urls.shown(wanted.url)}: redirects to no file: {type(error).__name__}") from None
        except requests.RequestException as error:
            failures = 1 if _there(part) - before >= STEP else failures + 1
            if failures >= ATTEMPTS or (not before and not _there(part) and _unreached(error)):
                raise UserError(f"{urls.shown(wanted.url)}: {_why(error, wanted.url)}") from None
        time.sleep(PAUSE_S * 2 ** (failures - 1))


def _unreached(error: requests.RequestException) -> bool:
    """Whether nobody answered at all: no network, as a rule, and no use in asking again."""
    return (
        isinstance(error, requests.exceptions.ConnectTimeout)
        or "establish a new connection" in str(error)
        or "resolve" in str(error)
    )


def _why(error: requests.RequestException, url: str) -> str:
    if _unreached(error):
        return f"cannot reach {urlsplit(url).hostname}"
    if isinstance(error, requests.exceptions.Timeout):
        return f"no answer within {SILENT_S:.0f} s"
    told = str(error) if isinstance(error, _Again) else type(error).__name__
    return f"the connection was cut {ATTEMPTS} times ({told}); what came is kept, run this again to go on"


class _Again(requests.RequestException):
    """An answer that a later attempt may not get."""


def _go_on(wanted: Wanted, part: Path, tell: Tell) -> None:
    """One request, from where the file ends."""
    have = _resumable(wanted, part)
    headers = {"Accept-Encoding": "identity"}
    if have:
        headers |= {"Range": f"bytes={have}-", "If-Range": _mark(part)}
    with requests.get(wanted.url, headers=headers, stream=True, timeout=(CONNECT_S, SILENT_S)) as response:
        _check(response, wanted.url)
        if response.status_code == 416:  # the body ends where the file does, or is another one
            _restart_unless_whole(response, part, have)
            return
        start, total = _span(response, have)
        _check_total(total, wanted)
        _take(response, wanted, part, tell, (start, total))


def _resumable(wanted: Wanted, part: Path) -> int:
    """Bytes that the server can be asked to go on after: those of a body that can be told from another."""
    have = _there(part)
    if not have or not _mark(part) or (wanted.size and have > wanted.size):
        part.unlink(missing_ok=True)
        return 0
    return have


def _check(response: requests.Response, url: str) -> None:
    code, shown = response.status_code, urls.shown(url)
    if urlsplit(url).scheme == "https" and urlsplit(response.url).scheme != "https":
        raise Refused(f"{shown}: redirects to an address without encryption")
    if code in BUSY:
        raise _Again(f"status {code}")
    if code in (401, 403):
        raise Refused(f"{shown}: {code}: not for everybody; ask its owner for access")
    if code not in (200, 206, 416):
        raise Refused(f"{shown}: status {code}: it is not there, or no longer")
    if code != 416 and _is_page(response, url):
        raise Refused(f"{shown}: answers with a web page instead of the file: a login, a limit, or it has moved")


def _is_page(response: requests.Response, url: str) -> bool:
    kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    return kind == "text/html" and not urlsplit(url).path.endswith((".html", ".htm"))


def _restart_unless_whole(response: requests.Response, part: Path, have: int) -> None:
    found = TOTAL.match(response.headers.get("Content-Range", ""))
    if not found or found[2] != str(have):
        part.unlink(missing_ok=True)
        raise _Again("another file is there now")


def _span(response: requests.Response, have: int) -> tuple[int, int]:
    """Where the bytes that come belong, and how many there are in all; 0 where nobody says."""
    if response.status_code == 206:
        found = TOTAL.match(response.headers.get("Content-Range", ""))
        if not found or found[1] != str(have):
            raise _Again("another part than was asked for")
        return have, int(found[2]) if found[2] != "*" else 0
    plain = not response.headers.get("Content-Encoding")
    length = response.headers.get("Content-Length", "")
    return 0, int(length) if plain and re.fullmatch(r"\d{1,18}", length, re.ASCII) else 0


def _check_total(total: int, wanted: Wanted) -> None:
    if total and wanted.size and total != wanted.size:
        raise Refused(f"{urls.shown(wanted.url)}: has {total:,} bytes, the catalogue says {wanted.size:,}")
    _bounded(total, wanted)


def _bounded(count: int, wanted: Wanted) -> None:
    if count > (wanted.size or wanted.most):
        raise Refused(f"{urls.shown(wanted.url)}: has more than {wanted.size or wanted.most:,} bytes; nothing is kept")


def _take(response: requests.Response, wanted: Wanted, part: Path, tell: Tell, span: tuple[int, int]) -> None:
    have, total = span
    if not have:
        _remember(response, part)
    with open(part, "r+b" if have else "wb") as file:
        file.seek(have)
        for chunk in _chunks(response):
            have += len(chunk)
            if have > (wanted.size or wanted.most):
                part.unlink()
            _bounded(have, wanted)
            file.write(chunk)
            tell(have, total or wanted.size)
        file.truncate()
        file.flush()
        os.fsync(file.fileno())
    expected = total or wanted.size
    if expected and have != expected:
        raise _Again(f"{have:,} of {expected:,} bytes")


def _chunks(response: requests.Response) -> Iterator[bytes]:
    """Bytes as they come: what was read before a cut is not lost with the rest of its chunk."""
    try:
        while chunk := response.raw.read1(CHUNK, decode_content=True):
            yield chunk
    except urllib3.exceptions.HTTPError as error:
        raise _Again(type(error).__name__) from error


def _remember(response: requests.Response, part: Path) -> None:
    """What tells this body from another one under the same address: without it nothing can be gone on with."""
    tag = response.headers.get("ETag", "")
    mark = tag if tag and not tag.startswith("W/") else response.headers.get("Last-Modified", "")
    write_atomic(_beside(part), mark[:1000] if mark.isprintable() else "")


def _mark(part: Path) -> str:
    return read_text(_beside(part)).strip() if _beside(part).is_file() else ""


def _beside(part: Path) -> Path:
    return part.with_name(f"{part.name}.mark")


def forget(part: Path) -> None:
    """Remove a file that is under way, and what is known of it."""
    part.unlink(missing_ok=True)
    _beside(part).unlink(missing_ok=True)


def _there(part: Path) -> int:
    return part.stat().st_size if part.is_file() else 0
