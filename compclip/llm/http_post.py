"""Send one POST and read its whole reply, from a server that may be slow, endless or gone.

A reply has a time limit for its last byte and a size limit. No redirect is followed: a key goes only to its own
address. Each POST has its own connection, which is ended by shutting its socket.
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


class NoReply(Exception):
    """No reply: `reason` is "timeout", "unreached" or "oversized"."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


@dataclass(frozen=True)
class HttpReply:
    """A status, its headers and the whole body."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes


class Poster:
    """Post to one address, from any number of threads."""

    def __init__(self, address: str, headers: Mapping[str, str]) -> None:
        self._headers = headers
        self._parts = urlsplit(address)
        self._safe = ssl.create_default_context() if self._parts.scheme == "https" else None
        self._open: set[socket.socket] = set()

    def send(self, body: bytes, seconds: float) -> HttpReply:
        """Return the server's reply within so many seconds. Raises NoReply."""
        end = time.monotonic() + seconds
        connection = self._connection(min(seconds, CONNECT_TIMEOUT_S))
        try:
            connection.connect()
            with self._until(connection.sock, end):
                return self._exchange(connection, body, end)
        except TimeoutError as error:
            raise NoReply("timeout", type(error).__name__) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = "timeout" if time.monotonic() >= end else "unreached"
            raise NoReply(reason, type(error).__name__) from None
        finally:
            connection.close()

    def stop(self) -> None:
        """End all requests; their `send` raises NoReply."""
        for sock in tuple(self._open):
            _shut(sock)

    def _connection(self, seconds: float) -> http.client.HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        if self._safe:
            return http.client.HTTPSConnection(host, port, timeout=seconds, context=self._safe)
        return http.client.HTTPConnection(host, port, timeout=seconds)

    @contextlib.contextmanager
    def _until(self, sock: socket.socket, end: float) -> Iterator[None]:
        """Shut the socket at `end`: single bytes of a dripping reply come in time, and the whole never does."""
        seconds_left = max(end - time.monotonic(), 0.001)
        sock.settimeout(seconds_left)
        clock = threading.Timer(seconds_left, _shut, [sock])
        clock.daemon = True
        clock.start()
        self._open.add(sock)
        try:
            yield
        finally:
            clock.cancel()
            self._open.discard(sock)

    def _exchange(self, connection: http.client.HTTPConnection, body: bytes, end: float) -> HttpReply:
        connection.request("POST", self._parts.path, body, dict(self._headers))
        response = connection.getresponse()
        raw = response.read(LIMIT + 1)
        if len(raw) > LIMIT:
            raise NoReply("oversized", f"more than {LIMIT >> 20} MiB")
        if time.monotonic() >= end:  # a body without a length ends where its socket is shut
            raise TimeoutError
        if response.length:
            raise http.client.IncompleteRead(raw, response.length)
        return HttpReply(response.status, response.headers, raw)


def _shut(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
