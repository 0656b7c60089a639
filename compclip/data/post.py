"""One POST and its whole reply, from a server that may be slow, endless, elsewhere or gone.

Each has a time in which its last byte must be there and a size beyond which it is not read. No redirect is followed: a
key goes to the address that it was given for. A connection a POST: to end one, its socket is shut.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

LIMIT = 8 << 20  # bytes of a reply
CONNECT_TIMEOUT_S = 10.0


class Lost(Exception):
    """No reply: `reason` is "timeout", "unreached" or "oversized"."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


@dataclass(frozen=True)
class Reply:
    """A status, its headers and all of its body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Poster:
    """Posts to one address, from any number of threads at once."""

    def __init__(self, address: str, headers: Mapping[str, str]) -> None:
        self._headers = headers
        self._parts = urlsplit(address)
        self._safe = ssl.create_default_context() if self._parts.scheme == "https" else None
        self._open: set[socket.socket] = set()

    def send(self, body: bytes, seconds: float) -> Reply:
        """What the server says within so many seconds. Raises Lost."""
        end = time.monotonic() + seconds
        connection = self._connection(min(seconds, CONNECT_TIMEOUT_S))
        try:
            connection.connect()
            with self._until(connection.sock, end):
                return self._exchange(connection, body, end)
        except TimeoutError as error:
            raise Lost("timeout", type(error).__name__) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = "timeout" if time.monotonic() >= end else "unreached"
            raise Lost(reason, type(error).__name__) from None
        finally:
            connection.close()

    def stop(self) -> None:
        """End whatever is under way; those who wait for it get Lost."""
        for sock in tuple(self._open):
            _shut(sock)

    def _connection(self, seconds: float) -> http.client.HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        if self._safe:
            return http.client.HTTPSConnection(host, port, timeout=seconds, context=self._safe)
        return http.client.HTTPConnection(host, port, timeout=seconds)

    @contextlib.contextmanager
    def _until(self, sock: socket.socket, end: float) -> Iterator[None]:
        """A socket that is shut at its time: each byte of a reply that drips is in time, and the whole never is."""
        left = max(end - time.monotonic(), 0.001)
        sock.settimeout(left)
        clock = threading.Timer(left, _shut, [sock])
        clock.daemon = True
        clock.start()
        self._open.add(sock)
        try:
            yield
        finally:
            clock.cancel()
            self._open.discard(sock)

    def _exchange(self, connection: http.client.HTTPConnection, body: bytes, end: float) -> Reply:
        connection.request("POST", self._parts.path, body, dict(self._headers))
        response = connection.getresponse()
        raw = response.read(LIMIT + 1)
        if len(raw) > LIMIT:
            raise Lost("oversized", f"more than {LIMIT >> 20} MiB")
        if time.monotonic() >= end:  # a body without a length ends where its socket is shut
            raise TimeoutError
        if response.length:
            raise http.client.IncompleteRead(raw, response.length)
        return Reply(response.status, response.headers, raw)


def _shut(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
