"""A small file server in a thread: ranges, marks, and the misbehaviour that a test asks for."""

import contextlib
import hashlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler

from tests.http_server import QuietHandler, run_server, send_answer

Special = Callable[[BaseHTTPRequestHandler], None]


@dataclass
class Files:
    """The running server: its address, what it has by path, and what it was asked for."""

    url: str = ""
    bodies: dict[str, bytes] = field(default_factory=dict)
    specials: dict[str, Special] = field(default_factory=dict)  # answer instead of a body
    cuts: dict[str, list[int]] = field(default_factory=dict)  # of the next answers: the connection ends after so many
    types: dict[str, str] = field(default_factory=dict)
    requests: list[tuple[str, str, str]] = field(default_factory=list)  # method, path, Range

    def ranges(self, path: str) -> list[str]:
        """The Range of each GET of a path."""
        return [range for method, request_path, range in self.requests if method == "GET" and request_path == path]


def redirect(to: str) -> Special:
    return lambda handler: send_answer(handler, 302, {"Location": to})


def status(code: int) -> Special:
    """Answers with a status and nothing else."""
    return lambda handler: send_answer(handler, code, {})


def endless(handler: BaseHTTPRequestHandler) -> None:
    """A body without a length that ends when the client has gone."""
    handler.send_response(200)
    handler.end_headers()
    handler.close_connection = True
    while True:
        handler.wfile.write(b"x" * 65536)


def etag(body: bytes) -> str:
    """The mark of a body."""
    return f'"{hashlib.sha256(body).hexdigest()}"'


@contextlib.contextmanager
def serve() -> Iterator[Files]:

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            with lock:
                files.requests.append((self.command, self.path, self.headers.get("Range", "")))
            with contextlib.suppress(OSError):  # the client may have gone
                self._answer(self.path.partition("?")[0])

        do_HEAD = do_GET

        def _answer(self, path: str) -> None:
            if path in files.specials:
                files.specials[path](self)
            elif path not in files.bodies:
                send_answer(self, 404, {"X-Error-Code": "EntryNotFound"})  # as the hub says it
            else:
                self._body(path, files.bodies[path])

        def _body(self, path: str, body: bytes) -> None:
            start = self._start()
            headers = {"Accept-Ranges": "bytes", "Content-Type": files.types.get(path, "application/octet-stream")}
            if start >= len(body) > 0:
                send_answer(self, 416, headers | {"Content-Range": f"bytes */{len(body)}"})
                return
            if start:
                headers["Content-Range"] = f"bytes {start}-{len(body) - 1}/{len(body)}"
            headers["Content-Length"] = str(len(body) - start)
            byte_limit = files.cuts[path].pop(0) if files.cuts.get(path) and self.command == "GET" else len(body)
            self.close_connection = self.close_connection or byte_limit < len(body) - start
            send_answer(self, 206 if start else 200, headers, body[start : start + byte_limit])

        def _start(self) -> int:
            return int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").rstrip("-"))

    lock, files = threading.Lock(), Files()
    with run_server(Handler) as files.url:
        yield files
