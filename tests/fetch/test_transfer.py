"""One file over HTTP: what is there is not asked for again, and what is not the file is refused."""

from __future__ import annotations

import socket

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compclip.base.errors import UserError
from compclip.data.fetch import transfer
from compclip.data.fetch.transfer import Wanted
from tests.fetch.file_server import endless, redirect, sent, status

BODY = bytes(range(256)) * 400  # 102,400 bytes
MOST = 1 << 20


def fetch(files, part, path="/a.bin", size=0, most=MOST):
    """What is told on the way."""
    told = []
    transfer.fetch(Wanted(files.url + path, size, most), part, lambda have, total: told.append((have, total)))
    return told


@pytest.fixture
def part(tmp_path):
    return tmp_path / "a.bin.part"


def test_a_whole_file_and_its_progress(files, part):
    files.bodies["/a.bin"] = BODY
    told = fetch(files, part, size=len(BODY))
    assert part.read_bytes() == BODY
    assert told[-1] == (len(BODY), len(BODY))
    assert files.asked == [("GET", "/a.bin", "")]


def test_a_cut_connection_goes_on_where_it_ended(files, part):
    files.bodies["/a.bin"], files.cuts["/a.bin"] = BODY, [1000, 50_000]
    fetch(files, part)
    assert part.read_bytes() == BODY
    assert files.ranges("/a.bin") == ["", "bytes=1000-", "bytes=51000-"]


def test_any_cuts_give_the_file(files, tmp_path):
    """Wherever the connection ends, and also before the first byte."""

    @settings(max_examples=15)
    @given(st.lists(st.integers(0, 30), max_size=transfer.ATTEMPTS - 1))
    def holds(cuts):
        body, part = bytes(range(100)), tmp_path / "part"
        transfer.forget(part)
        files.bodies["/a.bin"], files.cuts["/a.bin"] = body, list(cuts)
        fetch(files, part)
        assert part.read_bytes() == body

    holds()


def test_another_process_goes_on(files, part):
    """What was cut for good is kept with its mark, and the next call asks for the rest alone."""
    files.bodies["/a.bin"], files.cuts["/a.bin"] = BODY, [1000, *[0] * 5]
    with pytest.raises(UserError, match=r"cut 5 times \(.*\); what came is kept, run this again to go on"):
        fetch(files, part)
    assert part.stat().st_size == 1000
    fetch(files, part)
    assert part.read_bytes() == BODY
    assert files.ranges("/a.bin")[-1] == "bytes=1000-"


def test_a_file_that_changed_meanwhile_begins_anew(files, part):
    files.bodies["/a.bin"], files.cuts["/a.bin"] = BODY, [1000, *[0] * 5]
    with pytest.raises(UserError):
        fetch(files, part)
    files.bodies["/a.bin"] = BODY[::-1]
    fetch(files, part)
    assert part.read_bytes() == BODY[::-1]


def test_without_a_mark_nothing_is_gone_on_with(files, part):
    """Nobody could tell whether it is still the same file."""
    files.bodies["/a.bin"], files.cuts["/a.bin"], files.marks = BODY, [1000], False
    fetch(files, part)
    assert part.read_bytes() == BODY
    assert files.ranges("/a.bin") == ["", ""]


def test_a_whole_part_is_asked_about_and_kept(files, part):
    files.bodies["/a.bin"] = BODY
    fetch(files, part)
    fetch(files, part)
    assert part.read_bytes() == BODY
    assert files.ranges("/a.bin") == ["", f"bytes={len(BODY)}-"]


def test_a_part_that_is_longer_than_the_file_begins_anew(files, part):
    files.bodies["/a.bin"] = BODY
    fetch(files, part)
    with open(part, "ab") as file:
        file.write(b"more")
    fetch(files, part)
    assert part.read_bytes() == BODY


def test_redirects_are_followed(files, part):
    files.bodies["/real.bin"] = BODY
    files.specials["/a.bin"] = redirect("/real.bin?signed=1")
    fetch(files, part)
    assert part.read_bytes() == BODY


@pytest.mark.parametrize("to", ["/a.bin", "ftp://127.0.0.1/a", "file:///etc/passwd"])
def test_redirects_to_nowhere(files, part, to):
    """In circles, and to what is no web server."""
    files.specials["/a.bin"] = redirect(to)
    with pytest.raises(UserError, match="redirects to no file: (TooManyRedirects|InvalidSchema)"):
        fetch(files, part)
    assert not part.exists()


@pytest.mark.parametrize("to", [b"/\xff\xfe", b"http://\xff/", b"http://[::1/", b"http://" + b"a" * 300 + b"/"])
def test_a_location_that_is_no_address(files, part, to):
    """No UTF-8, half an IPv6 address, a name longer than any."""
    raw = b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: " + to + b"\r\n\r\n"
    files.specials["/a.bin"] = lambda handler: handler.wfile.write(raw)
    with pytest.raises(UserError, match="redirects to no file: "):
        fetch(files, part)


def test_a_length_of_thousands_of_digits_is_none(files, part):
    """What comes counts."""
    many = "9" * 5000
    files.specials["/a.bin"] = lambda handler: sent(handler, 200, {"Content-Length": many, "Connection": "close"}, BODY)
    fetch(files, part)
    assert part.read_bytes() == BODY
    part.write_bytes(BODY[:10])
    transfer._beside(part).write_text('"x"')
    range_of = {"Content-Range": f"bytes 10-19/{many}", "ETag": '"x"'}
    files.specials["/a.bin"] = lambda handler: sent(handler, 206, range_of, BODY[10:20])
    with pytest.raises(UserError, match="has more than 1,048,576 bytes"):
        fetch(files, part)


@pytest.mark.parametrize(
    ("code", "said"), [(404, "status 404: it is not there"), (403, "403: not for everybody"), (410, "status 410")]
)
def test_a_server_that_says_no_is_asked_once(files, part, code, said):
    files.specials["/a.bin"] = status(code)
    with pytest.raises(UserError, match=said):
        fetch(files, part)
    assert len(files.asked) == 1


def test_a_busy_server_is_asked_again(files, part):
    files.specials["/a.bin"] = status(503)
    with pytest.raises(UserError, match="status 503"):
        fetch(files, part)
    assert len(files.asked) == transfer.ATTEMPTS


def test_a_web_page_is_no_file(files, part):
    """A login, a limit of downloads: nothing of it is kept."""
    files.bodies["/a.bin"], files.types["/a.bin"] = b"<html>Sign in</html>", "text/html; charset=utf-8"
    with pytest.raises(UserError, match="answers with a web page instead of the file"):
        fetch(files, part)
    assert not part.exists()


def test_an_endless_body_ends_at_the_bound(files, part):
    files.specials["/a.bin"] = endless
    with pytest.raises(UserError, match="has more than 300,000 bytes; nothing is kept"):
        fetch(files, part, most=300_000)
    assert not part.exists()


def test_a_body_of_another_size(files, part):
    """Longer than the bound, or than the catalogue says: refused before a byte is read."""
    files.bodies["/a.bin"] = BODY
    with pytest.raises(UserError, match="has more than 1,000 bytes"):
        fetch(files, part, most=1000)
    with pytest.raises(UserError, match="has 102,400 bytes, the catalogue says 102,399"):
        fetch(files, part, size=len(BODY) - 1)
    assert not part.exists()


def test_no_network(part):
    """A closed port is one line at once."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/a.bin"
    with pytest.raises(UserError, match=r"a\.bin: cannot reach 127\.0\.0\.1$"):
        transfer.fetch(Wanted(url, 0, MOST), part, lambda have, total: None)
