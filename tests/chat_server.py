"""A small OpenAI-compatible chat server in a thread, whose behaviour a test decides."""

import contextlib
import json
import threading
from collections.abc import Callable, Iterable, Iterator

from tests.http_server import QuietHandler, run_server, send_answer


class Reply(Exception):
    """Raised by a test's `answer` for a reply other than a plain answer."""

    def __init__(self, status: int = 200, body: str = "", headers: dict[str, str] | None = None) -> None:
        super().__init__(status)
        self.status, self.body, self.headers = status, body, headers or {}


class Stream(Exception):
    """Raised by a test's `answer` for bytes that are sent as they are, piece by piece, until the client has gone."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        super().__init__("pieces")
        self.pieces = pieces


class Chat:
    """The running server: its address and what it was sent."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[dict] = []
        self.headers: list[dict[str, str]] = []


def completion_body(text: str, finish: str = "stop", tokens: tuple[int, int] = (7, 3)) -> str:
    choice = {"message": {"role": "assistant", "content": text}, "finish_reason": finish}
    return json.dumps({"choices": [choice], "usage": {"prompt_tokens": tokens[0], "completion_tokens": tokens[1]}})


def prompt(body: dict) -> str:
    """The text of a request, with or without a picture."""
    content = body["messages"][0]["content"]
    return content if isinstance(content, str) else content[0]["text"]


@contextlib.contextmanager
def serve(answer: Callable[[dict], str]) -> Iterator[Chat]:
    """Serve `answer(request body) -> body of the reply` on a free port."""

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                chat.requests.append(body)
                chat.headers.append(dict(self.headers))
            try:
                reply = Reply(200, answer(body))
            except Reply as other:
                reply = other
            except Stream as stream:
                self._send(stream.pieces)
                return
            with contextlib.suppress(OSError):  # the client may have gone
                send_answer(self, reply.status, reply.headers, reply.body.encode())

        def _send(self, pieces: Iterable[bytes]) -> None:
            self.close_connection = True
            with contextlib.suppress(OSError):
                for piece in pieces:
                    self.wfile.write(piece)
                    self.wfile.flush()

    lock, chat = threading.Lock(), Chat()
    with run_server(Handler) as address:
        chat.url = f"{address}/v1"
        yield chat
