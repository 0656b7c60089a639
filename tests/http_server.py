"""One HTTP server in a thread for all stand-ins: a file server, a hub, a chat endpoint."""

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class QuietHandler(BaseHTTPRequestHandler):
    """Answers of a stand-in, which keep the connection and say nothing on stderr."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *args) -> None:
        """Nothing on stderr."""


@contextlib.contextmanager
def run_server(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """Serve on a free port; gives the address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def send_answer(handler: BaseHTTPRequestHandler, status: int, headers: dict[str, str], body: bytes = b"") -> None:
    handler.send_response(status)
    for name, value in ({"Content-Length": str(len(body))} | headers).items():
        handler.send_header(name, value)
    handler.end_headers()
    if handler.command != "HEAD":
        handler.wfile.write(body)
