"""What comes over a network: catalogues, a server's answers, archives; an endpoint's answers."""

import contextlib
import gzip
import random
import socket
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

from compclip.fetch import __main__ as command
from compclip.fetch import catalogue, offer_files
from compclip.fetch.archives import unpack
from compclip.fetch.catalogue import OfferFile
from compclip.llm import chat_client
from perf.faults.fuzz import formats
from perf.faults.fuzz.reader import Reader
from tests.data import tar_files

NAMES = ("top/a.json", "top/b/c.json", "top/d.txt")


def readers() -> Iterator[Reader]:
    """A catalogue, a server's answer, a zip and a tar; one body of an endpoint's answer."""
    yield Reader("fetch:catalogue", _catalogue, _listing)
    yield Reader("fetch:answer", _answer, _answered)
    yield Reader("fetch:archive", _archives, _unpacked)
    answer = {"choices": [{"message": {"content": "a cup"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 3}}
    yield Reader("endpoint", lambda folder: formats.write(folder, {"answer.json": answer}), _parsed)


def _catalogue(folder: Path) -> None:
    entries = catalogue.FILE.read_text(encoding="utf-8").split("\n\n")
    (folder / "c.yaml").write_text("\n\n".join([*entries[1:4], *entries[-3:]]) + "\n")


def _listing(_: random.Random) -> object:
    return command.main(["--catalogue", "c.yaml", "--list"])


def _answer(folder: Path) -> None:
    head = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n"
    (folder / "200.http").write_text(f"{head}[1]")
    (folder / "302.http").write_text("HTTP/1.1 302 Found\r\nLocation: /200.http\r\nContent-Length: 0\r\n\r\n")


def _answered(_: random.Random) -> object:
    """Fetch a file over two connections, of which each gets one answer as its file has it."""
    offer_files.PAUSE_S = 0.0
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=_serve, args=(server,), daemon=True)
        thread.start()
        download = offer_files.Download(f"http://127.0.0.1:{server.getsockname()[1]}/302.http", 0, 1 << 20)
        try:
            offer_files.download_file(download, Path("x.part"), lambda have, total: None)
        finally:
            server.shutdown(socket.SHUT_RDWR)  # which ends the thread's waiting
            thread.join()
    return Path("x.part").read_bytes()


def _serve(server: socket.socket) -> None:
    with contextlib.suppress(OSError):  # the test has ended
        while True:
            connection, _ = server.accept()
            with connection as client, contextlib.suppress(OSError):  # a file that is no more, a client that has gone
                name = client.recv(1 << 16).split(b" ")[1][1:].decode("ascii", "replace")
                path = Path("302.http" if name == "302.http" else "200.http")
                client.sendall(path.read_bytes() if path.is_file() else b"")  # a pipe would never end


def _archives(folder: Path) -> None:
    with zipfile.ZipFile(folder / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in NAMES:
            archive.writestr(name, "[1]")
    with gzip.open(folder / "a.tar.gz", "wb") as file:
        file.write(tar_files.write(folder / "a.tar", [(name, b"[1]") for name in NAMES]).read_bytes())
    (folder / "a.tar").unlink()


def _unpacked(rng: random.Random) -> object:
    rule = rng.choice((OfferFile(), OfferFile(unpack=True, members=["*.json"], strip=1, into="in")))
    return unpack(Path(rng.choice(("a.zip", "a.tar.gz"))), Path("data/x"), rule, Path("data/.new"))


def _parsed(_: random.Random) -> None:
    """An answer with no more to it than its bytes; the server's other ways are tried over HTTP in their own tests."""
    path = Path("answer.json")
    with contextlib.suppress(chat_client._QuestionFailed):
        chat_client._parse(path.read_bytes() if path.is_file() else b"", 0)
