"""Download one file over HTTP into a .part file and resume where an earlier attempt ended.

`requests` does connections, redirects, proxies and certificates; resuming, which it lacks, is here. A body has the
length that was announced, and never more than a bound. Only a file whose content is compared afterwards is resumed.
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
