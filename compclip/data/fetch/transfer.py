"""One file over HTTP into a .part file: what is there already is not asked for again, whatever cut the last attempt.

`requests` does connections, redirects, proxies and certificates; what it lacks, going on where a body ended, is here. A
body is as long as it was said to be, and never longer than a bound. What is there is gone on with only where the answer
is of the same body. All attempts together take at most PATIENCE_S and a second for each SLOWEST bytes that came.
"""

from __future__ import annotations

import os
import re
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import requests
import urllib3

from compclip.base import bounded, urls
from compclip.base.errors import UserError
from compclip.base.files import read_text, write_atomic

CONNECT_S, SILENT_S = 10.0, 60.0
ATTEMPTS = 5  # without a step forward
STEP = 1 << 20  # bytes that make an attempt a step forward
PAUSE_S = 2.0  # before the second attempt; doubled before each further one
CHUNK = 1 << 18
PATIENCE_S = 600.0
SLOWEST = 10 << 10  # bytes a second: with PATIENCE_S for a start, what a server must bring on the average
LONGEST_MARK = 1000  # characters
GZIP = 16 + zlib.MAX_WBITS
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


@dataclass(frozen=True)
class Begun:
    """What tells the body that is under way from another one: a header, its value, and the size (0: nobody said)."""

    header: str = ""
    value: str = ""
    total: int = 0


class Pace:
    """Whether bytes come fast enough. Those of a body that begins anew count once."""

    def __init__(self, already: int, clock: Callable[[], float]) -> None:
        self._clock, self._start = clock, clock()
        self._first, self._most = already, 0

    def restart(self) -> None:
        """Count from the body's first byte on: nothing of it was there."""
        self._first = 0

    def note(self, have: int) -> None:
        """Take into account that so many bytes are there."""
        self._most = max(self._most, have - self._first)

    def holds(self) -> bool:
        """Whether the transfer may go on."""
        return self._clock() - self._start <= PATIENCE_S + self._most / SLOWEST


def fetch(wanted: Wanted, part: Path, tell: Tell, clock: Callable[[], float] = time.monotonic) -> None:
    """Bring the whole body into `part`.

    Raises UserError where there is no network, the server says no or is too slow, or the body is not of the size that
    it must have; what may be gone on with stays.
    """
    pace = Pace(_there(part), clock)
    try:
        _attempt(wanted, part, tell, pace)
    except TimeoutError:
        raise UserError(
            f"{urls.shown(wanted.url)}: brings less than {SLOWEST >> 10} KiB a second, or nothing; what came is kept, "
            "run this again to go on, or fetch it elsewhere"
        ) from None


def _attempt(wanted: Wanted, part: Path, tell: Tell, pace: Pace) -> None:
    """Ask until the body is whole. Raises TimeoutError where that takes too long."""
    failures = 0
    while True:
        before = _there(part)
        try:
            bounded.run_while(pace.holds, lambda: _go_on(wanted, part, tell, pace))
            return
        except NOWHERE as error:
            raise Refused(f"{urls.shown(wanted.url)}: redirects to no file: {type(error).__name__}") from None
        except requests.RequestException as error:
            failures = 1 if _there(part) - before >= STEP else failures + 1
            if failures >= ATTEMPTS or (not before and not _there(part) and _unreached(error)):
                raise UserError(f"{urls.shown(wanted.url)}: {_why(error, wanted.url)}") from None
        if not pace.holds():
            raise TimeoutError
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


def _go_on(wanted: Wanted, part: Path, tell: Tell, pace: Pace) -> None:
    """One request, from where the file ends."""
    have = _resumable(wanted, part)
    begun = _begun(part) if have else Begun()
    headers = {"Accept-Encoding": "identity"}
    if have:
        headers |= {"Range": f"bytes={have}-", "If-Range": begun.value}
    with requests.get(wanted.url, headers=headers, stream=True, timeout=(CONNECT_S, SILENT_S)) as response:
        _check(response, wanted.url)
        start, total = _span(response, have)
        if response.status_code != 200 and not _goes_on(response, begun, have, total):
            part.unlink(missing_ok=True)
            raise _Again("another file is there now")
        _check_total(total, wanted)
        if response.status_code != 416:
            _take(response, wanted, part, tell, (start, total), pace)


def _resumable(wanted: Wanted, part: Path) -> int:
    """Bytes that the server can be asked to go on after: those of a body that can be told from another."""
    have = _there(part)
    if not have or not _begun(part).value or (wanted.size and have > wanted.size):
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


def _goes_on(response: requests.Response, begun: Begun, have: int, total: int) -> bool:
    """Whether an answer is of the body that was begun: a rest of it, or that it ends where the file does (416).

    A rest may bear no mark: the server was asked for it of this body alone. Of an end it is asked no such thing.
    """
    if _encoding(response) or total != (begun.total or total):
        return False
    mark = response.headers.get(begun.header)
    if response.status_code == 416:
        return total == have > 0 and (mark == begun.value if mark else total == begun.total)
    return mark in (None, begun.value)


def _span(response: requests.Response, have: int) -> tuple[int, int]:
    """Where the bytes that come belong, and how many there are in all; 0 where nobody says."""
    if response.status_code != 200:
        found = TOTAL.match(response.headers.get("Content-Range", ""))
        if response.status_code == 206 and (not found or found[1] != str(have)):
            raise _Again("another part than was asked for")
        return have, int(found[2]) if found and found[2] != "*" else 0
    length = response.headers.get("Content-Length", "")
    return 0, int(length) if re.fullmatch(r"\d{1,18}", length, re.ASCII) and not _encoding(response) else 0


def _encoding(response: requests.Response) -> str:
    """How the body is packed, although nothing of the kind was asked for; "" where it is as it is."""
    name = response.headers.get("Content-Encoding", "").strip().lower()
    return "" if name == "identity" else name


def _check_total(total: int, wanted: Wanted) -> None:
    if total and wanted.size and total != wanted.size:
        raise Refused(f"{urls.shown(wanted.url)}: has {total:,} bytes, the catalogue says {wanted.size:,}")
    _bounded(total, wanted)


def _bounded(count: int, wanted: Wanted) -> None:
    if count > (wanted.size or wanted.most):
        raise Refused(f"{urls.shown(wanted.url)}: has more than {wanted.size or wanted.most:,} bytes; nothing is kept")


def _take(
    response: requests.Response, wanted: Wanted, part: Path, tell: Tell, span: tuple[int, int], pace: Pace
) -> None:
    have, total = span
    if not have:
        _remember(response, part, total)
        pace.restart()
    with open(part, "r+b" if have else "wb") as file:
        file.seek(have)
        for chunk in _chunks(response, wanted.url):
            have += len(chunk)
            if have > (wanted.size or wanted.most):
                part.unlink()
            _bounded(have, wanted)
            if not pace.holds():
                raise TimeoutError
            file.write(chunk)
            pace.note(have)
            tell(have, total or wanted.size)
        file.truncate()
        file.flush()
        os.fsync(file.fileno())
    expected = total or wanted.size
    if expected and have != expected:
        raise _Again(f"{have:,} of {expected:,} bytes")


def _chunks(response: requests.Response, url: str) -> Iterator[bytes]:
    """The body's bytes, unpacked where a server packed them unasked. Raises Refused for a way that is not gzip's."""
    encoding = _encoding(response)
    if encoding not in ("", "gzip", "x-gzip"):
        raise Refused(f"{urls.shown(url)}: comes in the encoding {encoding[:50]!a}, which nobody asked for")
    return _unpacked(_raw(response)) if encoding else _raw(response)


def _raw(response: requests.Response) -> Iterator[bytes]:
    """Bytes as they come: what was read before a cut is not lost with the rest of its chunk."""
    try:
        while chunk := response.raw.read1(CHUNK, decode_content=False):
            yield chunk
    except urllib3.exceptions.HTTPError as error:
        raise _Again(type(error).__name__) from error


def _unpacked(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """What gzip packed. A stream that is damaged, or ends before its sum, is no body."""
    unpacker = zlib.decompressobj(GZIP)
    try:
        for chunk in chunks:
            while chunk:
                if unpacker.eof:  # a further stream behind the first
                    unpacker = zlib.decompressobj(GZIP)
                yield unpacker.decompress(chunk, CHUNK)
                chunk = unpacker.unconsumed_tail or unpacker.unused_data
    except zlib.error as error:
        raise _Again("its gzip encoding is damaged") from error
    if not unpacker.eof:
        raise _Again("its gzip encoding ends too early")


def _remember(response: requests.Response, part: Path, total: int) -> None:
    """What tells this body from another one under the same address: without it nothing can be gone on with.

    Of a packed body the file has other bytes than the server counts.
    """
    tag = response.headers.get("ETag", "")
    header = "ETag" if tag and not tag.startswith("W/") else "Last-Modified"
    value = response.headers.get(header, "")
    usable = value.isprintable() and len(value) <= LONGEST_MARK and not _encoding(response)
    write_atomic(_beside(part), f"{header}\n{value if usable else ''}\n{total}")


def _begun(part: Path) -> Begun:
    lines = read_text(_beside(part)).split("\n") if _beside(part).is_file() else []
    if len(lines) != 3 or not lines[2].isdecimal():
        return Begun()
    return Begun(lines[0], lines[1].strip(), int(lines[2]))


def _beside(part: Path) -> Path:
    return part.with_name(f"{part.name}.mark")


def forget(part: Path) -> None:
    """Remove a file that is under way, and what is known of it."""
    part.unlink(missing_ok=True)
    _beside(part).unlink(missing_ok=True)


def _there(part: Path) -> int:
    return part.stat().st_size if part.is_file() else 0
