"""What the stage `look` sees of files: names, sizes and contents, and nothing a second time."""

import os

import pytest

from compclip.base.errors import UserError
from compclip.base.files import write_json
from compclip.prepare import file_listing


@pytest.fixture
def folder(tmp_path):
    """Three files, one in a folder of its own."""
    (tmp_path / "in" / "d").mkdir(parents=True)
    for name in ("a.jpg", "b.jpg", "d/c.jpg"):
        (tmp_path / "in" / name).write_bytes(name.encode() * 9000)
    return tmp_path / "in"


def digest(folder, cache=None):
    return file_listing.summarize_files([str(folder)], {} if cache is None else cache)["digest"]


def test_names_sizes_and_contents_count_and_times_do_not(folder):
    """A copy elsewhere and later is the same; a name, a byte at the beginning or one more file is not."""
    first = digest(folder)
    os.utime(folder / "a.jpg", (1, 1))
    assert digest(folder) == first
    os.rename(folder, folder.with_name("copy"))
    assert digest(folder := folder.with_name("copy")) == first
    os.rename(folder / "a.jpg", folder / "z.jpg")
    second = digest(folder)
    os.rename(folder / "z.jpg", folder / "a.jpg")
    (folder / "a.jpg").write_bytes(b"X" + (folder / "a.jpg").read_bytes()[1:])
    third = digest(folder)
    (folder / "e.jpg").write_bytes(b"")
    assert len({first, second, third, digest(folder)}) == 4


def test_what_did_not_change_is_not_read_again(folder, monkeypatch):
    """As long as names, sizes and times are the same; a time alone makes it look again, with the same result."""
    cache = {}
    first = digest(folder, cache)
    with monkeypatch.context() as patch:
        patch.setattr(file_listing, "_hash_content", None)
        assert digest(folder, cache) == first
    os.utime(folder / "a.jpg", (1, 1))
    assert digest(folder, cache) == first and len(cache) == 2


def test_of_many_and_large_files_some_is_read_and_all_are_listed(folder, monkeypatch):
    """Of a tar one of sixteen places, whatever stands between them; beyond a number of files the sizes of all count."""
    raw = bytearray(file_listing.POSITIONS * file_listing.HEAD * 2)
    (folder / "a.jpg").write_bytes(raw)
    first = digest(folder)
    raw[len(raw) // 2 + 10] = 1
    (folder / "a.jpg").write_bytes(raw)
    assert digest(folder) != first
    monkeypatch.setattr(file_listing, "EVERY", 2)
    monkeypatch.setattr(file_listing, "SOME", 1)
    first = digest(folder)
    (folder / "b.jpg").write_bytes(b"X" * 45000)
    assert digest(folder) == first  # of the size it had, and not among those that are looked into
    (folder / "b.jpg").write_bytes(b"X")
    assert digest(folder) != first


def test_links_in_a_circle_pipes_and_nothing(tmp_path):
    """None of them is followed, waited for or an error."""
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "up").symlink_to("..")
    (tmp_path / "d" / "gone").symlink_to("gone")
    os.mkfifo(tmp_path / "d" / "pipe")
    assert file_listing.summarize_files([str(tmp_path)], {})["files"] == 0
    assert file_listing.summarize_files([str(tmp_path / "none")], {})["files"] == 0


def test_where_the_plan_has_the_files(tmp_path):
    """Annotations and pictures, a list of captions, released rewrites, what stands beside; a damaged plan is one line."""
    section = {"path": "a/x.json", "images": "a/pictures/", "captions": {}, "negative_images": {}, "regions": {}}

    def planned(recaption: dict, rewrite: dict, model: dict, texts: dict) -> list[str]:
        write_json(tmp_path / "recaption" / "d.json", {"params": section | recaption})
        write_json(tmp_path / "rewrite" / "d.json", {"params": rewrite, "masked": model})
        write_json(tmp_path / "annotate" / "d.json", {"params": {"texts": texts}})
        return file_listing.planned_folders(tmp_path)["d"]

    assert planned(
        {"captions": {"file": "l.csv", "on": "url"}}, {"captions": "c.json", "swap": "s.jsonl"}, {"model": "m"},
        {"dense": {"file": "t.csv", "on": "url"}},
    ) == ["a/x.json", "a/pictures", "l.csv", "c.json", "s.jsonl", "m", "t.csv"]  # fmt: skip
    companion_files = {"negative_images": {"file": "n.csv", "images": "n/"}, "regions": {"file": "r.jsonl"}}
    assert planned(companion_files, {"url": "http://x"}, {}, {}) == ["a/x.json", "a/pictures", "n.csv", "n", "r.jsonl"]
    write_json(tmp_path / "recaption" / "d.json", {})
    with pytest.raises(UserError, match="recaption/d.json: damaged"):
        file_listing.planned_folders(tmp_path)
