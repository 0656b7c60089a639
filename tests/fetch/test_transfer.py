"""One file over HTTP: what is there is not asked for again, and what is not the file is refused."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compclip.base.errors import UserError
from compclip.fetch import offer_files
from compclip.fetch.offer_files import Download
from tests.fetch.file_server import endless, etag, redirect, status
from tests.http_server import send_answer

BODY = bytes(range(256)) * 400  # 102,400 bytes
MOST = 1 << 20


def fetch(files, partial_path, path="/a.bin", size=0, most=MOST, resumable=True):
    offer_files.download_file(Download(files.url + path, size, most, resumable), partial_path, lambda *_: None)


@pytest.fixture
def partial_path(tmp_path):
    return tmp_path / "a.bin.part"


def test_a_cut_connection_goes_on_where_it_ended(files, partial_path):
    """Also before its next byte."""
    files.bodies["/a.bin"], files.cuts["/a.bin"] = BODY, [0, 1000, 0, 50_000]
    fetch(files, partial_path)
    assert partial_path.read_bytes() == BODY
    assert files.ranges("/a.bin") == ["", "", "bytes=1000-", "bytes=1000-", "bytes=51000-"]
    partial_path.unlink()  # what was cut for good is kept, and the next call asks for the rest alone
    files.cuts["/a.bin"] = [1000, *[0] * 5]
    with pytest.raises(UserError, match="cut 5 times"):
        fetch(files, partial_path)
    assert partial_path.stat().st_size == 1000
    fetch(files, partial_path)
    assert partial_path.read_bytes() == BODY
    assert files.ranges("/a.bin")[-1] == "bytes=1000-"


def test_any_cuts_give_the_file(files, tmp_path):
    """Wherever the connection ends, and also before the first byte."""

    @settings(max_examples=15)
    @given(st.lists(st.integers(0, 30), max_size=offer_files.ATTEMPTS - 1))
    def holds(cuts):
        body, partial_path = bytes(range(100)), tmp_path / "part"
        partial_path.unlink(missing_ok=True)
        files.bodies["/a.bin"], files.cuts["/a.bin"] = body, list(cuts)
        fetch(files, partial_path)
        assert partial_path.read_bytes() == body

    holds()


def test_what_nobody_can_compare_begins_anew(files, partial_path):
    """Neither in a second attempt nor in a second call is it joined to what came before."""
    files.bodies["/a.bin"], files.cuts["/a.bin"] = BODY, [1000]
    partial_path.write_bytes(b"other")
    fetch(files, partial_path, resumable=False)
    assert partial_path.read_bytes() == BODY
    assert files.ranges("/a.bin") == ["", ""]


def test_a_whole_part_is_asked_about_and_kept(files, partial_path):
    """One that is longer than the file begins anew."""
    files.bodies["/a.bin"] = BODY
    fetch(files, partial_path)
    fetch(files, partial_path)
    assert partial_path.read_bytes() == BODY
    assert files.ranges("/a.bin") == ["", f"bytes={len(BODY)}-"]
    partial_path.write_bytes(BODY + b"more")
    fetch(files, partial_path)
    assert partial_path.read_bytes() == BODY


def located(to):
    """An answer that sends the client to these bytes."""
    raw = b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: " + to + b"\r\n\r\n"
    return lambda handler: handler.wfile.write(raw)


@pytest.mark.parametrize(("special", "message"), [
    *((redirect(to), "redirects to no file: (TooManyRedirects|InvalidSchema)")  # in circles, and to no web server
      for to in ("/a.bin", "ftp://127.0.0.1/a", "file:///etc/passwd")),
    *((located(to), "redirects to no file: ")  # no UTF-8, half an IPv6 address, a name longer than any
      for to in (b"/\xff\xfe", b"http://\xff/", b"http://[::1/", b"http://" + b"a" * 300 + b"/")),
    (endless, "has more than 300,000 bytes; nothing is kept"),
])  # fmt: skip
def test_redirects_to_nowhere_and_an_endless_body(files, partial_path, special, message):
    files.specials["/a.bin"] = special
    with pytest.raises(UserError, match=message):
        fetch(files, partial_path, most=300_000)
    assert not partial_path.exists()
    files.bodies["/real.bin"], files.specials["/a.bin"] = BODY, redirect("/real.bin?signed=1")
    fetch(files, partial_path)
    assert partial_path.read_bytes() == BODY


def test_a_length_of_thousands_of_digits_is_none(files, partial_path):
    """What comes counts."""
    many = "9" * 5000
    endless_length = {"Content-Length": many, "Connection": "close"}
    files.specials["/a.bin"] = lambda handler: send_answer(handler, 200, endless_length, BODY)
    fetch(files, partial_path)
    assert partial_path.read_bytes() == BODY
    partial_path.write_bytes(BODY[:10])
    range_of = {"Content-Range": f"bytes 10-19/{many}"}
    files.specials["/a.bin"] = lambda handler: send_answer(handler, 206, range_of, BODY[10:20])
    with pytest.raises(UserError, match="has more than 1,048,576 bytes"):
        fetch(files, partial_path)


@pytest.mark.parametrize(("code", "message", "requests"), [
    (404, "status 404: it is not there", 1), (403, "403: not for everybody", 1), (503, "status 503", offer_files.ATTEMPTS),
])  # fmt: skip
def test_a_server_that_says_no_is_asked_once_and_a_busy_one_again(files, partial_path, code, message, requests):
    files.specials["/a.bin"] = status(code)
    with pytest.raises(UserError, match=message):
        fetch(files, partial_path)
    assert len(files.requests) == requests


def test_a_web_page_is_no_file(files, partial_path):
    """A login, a limit of downloads: nothing of it is kept."""
    files.bodies["/a.bin"], files.types["/a.bin"] = b"<html>Sign in</html>", "text/html; charset=utf-8"
    with pytest.raises(UserError, match="answers with a web page instead of the file"):
        fetch(files, partial_path)
    assert not partial_path.exists()


def test_a_body_of_another_size(files, partial_path):
    """Longer than the bound, or than the catalogue says: refused before a byte is read."""
    files.bodies["/a.bin"] = BODY
    with pytest.raises(UserError, match="has more than 1,000 bytes"):
        fetch(files, partial_path, most=1000)
    with pytest.raises(UserError, match="has 102,400 bytes, the catalogue says 102,399"):
        fetch(files, partial_path, size=len(BODY) - 1)
    assert not partial_path.exists()


def begun(count, body=BODY, **headers):
    """The first bytes of a body, then the connection ends."""

    def answer(handler):
        handler.close_connection = True
        send_answer(handler, 200, {"ETag": etag(body), "Content-Length": str(len(body))} | headers, body[:count])

    return answer


@pytest.mark.parametrize("encoding", ["gzip", "br", "deflate", "zstd", "gzip, gzip", "nonsense"])
def test_other_encodings_are_refused(files, partial_path, encoding):
    """Nobody asked for one, and bytes as they come would not be the file."""
    headers = {"Content-Encoding": encoding, "ETag": etag(BODY)}
    files.specials["/a.bin"] = lambda handler: send_answer(handler, 200, headers, b"x")
    with pytest.raises(UserError, match=f"comes in the encoding '{encoding}', which nobody asked for"):
        fetch(files, partial_path)
    assert len(files.requests) == 1


def test_a_server_that_gives_the_same_bytes_again_and_again(files, partial_path):
    """2 MiB and nothing, in turns: a step forward once."""
    body = b"x" * (9 << 20)
    turns = itertools.cycle([begun(2 << 20, body), begun(0, body)])
    files.specials["/a.bin"] = lambda handler: next(turns)(handler)
    with pytest.raises(UserError, match="the connection was cut"):
        fetch(files, partial_path, most=1 << 40)
    assert len(files.requests) < 20
