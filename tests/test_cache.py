"""Embeddings that are known are not made again, and nothing but what was written counts as known."""

from __future__ import annotations

import os
import shutil

import numpy as np
import pytest
from PIL import Image

from compclip.base.errors import UserError
from compclip.config.how import How
from compclip.evaluate import boxes, cache, embed
from compclip.evaluate.cache import Cache
from tests.test_embed import TEXTS, encoded, model, pictures  # noqa: F401

EYE = np.eye(4, dtype=np.float32)
KEYS = [cache.key(bytes([number])) for number in range(4)]


@pytest.fixture
def how(tmp_path):
    """Embeddings are kept in a folder that is not there yet."""
    return How(batch_size=2, cache=str(tmp_path / "cache"))


def parts(how):
    """The files of a cache."""
    return sorted(path for path in (os.walk(how.cache)) for path in path[2])


def test_a_new_benchmark_encodes_only_what_is_new(model, pictures, how, encoded, tmp_path):  # noqa: F811
    """Under another name the picture is the same, a part of it is not; what is known twice is written once."""
    first = embed.encode_all([model], pictures[:3], TEXTS[:4], how, ["w"])[0]
    assert encoded == {"image": 3, "text": 4} and len(parts(how)) == 1
    shutil.copyfile(pictures[0], tmp_path / "copy.png")
    copy, part = str(tmp_path / "copy.png"), boxes.boxed(pictures[0], (0, 0, 10, 10))
    second = embed.encode_all([model], [*pictures[:4], copy, part], TEXTS, how, ["w"])[0]
    assert encoded == {"image": 5, "text": 6} and len(parts(how)) == 2
    assert np.array_equal(first.images(pictures[:3]), second.images(pictures[:3]))
    assert np.array_equal(first.texts(TEXTS[:4]), second.texts(TEXTS[:4]))
    assert np.array_equal(second.images([copy]), first.images(pictures[:1]))
    third = embed.encode_all([model], [*pictures[:4], part], TEXTS, how, ["w"])[0]
    assert encoded == {"image": 5, "text": 6} and len(parts(how)) == 2
    assert np.array_equal(third.images([part]), second.images([part]))
    plain = embed.encode(model, [*pictures[:4], part], TEXTS)
    assert third.images([*pictures[:4], part]) == pytest.approx(plain.images([*pictures[:4], part]), abs=1e-6)
    assert third.texts(TEXTS) == pytest.approx(plain.texts(TEXTS), abs=1e-6)


def test_what_vectors_depend_on_is_told_apart(model, pictures, how, encoded):  # noqa: F811
    """Other weights, another preparation and a changed picture; the batch size is none of it."""
    embed.encode_all([model], pictures, TEXTS, how, ["w"])
    for other, weights in (
        (How(cache=how.cache, pictures="upright"), "w"),
        (how, "v"),
    ):
        before = dict(encoded)
        embed.encode_all([model], pictures, TEXTS, other, [weights])
        assert encoded == {"image": before["image"] + 5, "text": before["text"] + 6}
    Image.new("RGB", (20, 30), "red").save(pictures[0])
    before = dict(encoded)
    embed.encode_all([model], pictures, TEXTS, How(cache=how.cache, batch_size=7), ["w"])
    assert encoded == before | {"image": before["image"] + 1}


def test_models_of_one_pass_share_what_all_of_them_know(model, pictures, how, encoded):  # noqa: F811
    embed.encode_all([model], pictures[:2], TEXTS, how, ["a"])
    embed.encode_all([model, model], pictures[:3], TEXTS, how, ["a", "b"])
    assert encoded == {"image": 2 + 2 * 3, "text": 6 + 2 * 6}  # what one of them lacks both are shown
    found = embed.encode_all([model, model], pictures[:3], TEXTS, how, ["b", "a"])
    assert encoded == {"image": 8, "text": 18}
    assert all(one.has(pictures[:3]) for one in found)


def test_missing_pictures_are_named_each_time(model, pictures, how, tmp_path):  # noqa: F811
    (tmp_path / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n no")
    wrong = {str(tmp_path / "broken.png"): "unreadable", str(tmp_path / "gone.png"): "missing"}
    for _ in range(2):
        assert embed.encode_all([model], [*pictures, *wrong], [], how, ["w"])[0].failed == wrong


def test_without_a_folder_nothing_is_kept(model, pictures, tmp_path):  # noqa: F811
    embed.encode_all([model], pictures, TEXTS, How(), ["w"])
    assert not (tmp_path / "cache").exists()


def test_a_file_in_the_place_of_the_folder(model, tmp_path):  # noqa: F811
    (tmp_path / "cache").write_text("")
    with pytest.raises(UserError, match="evaluate.cache=.*: is no folder; give one, or a name that is free"):
        embed.encode_all([model], [], TEXTS, How(cache=str(tmp_path / "cache")), ["w"])


def kept(folder):
    """A cache with three vectors, and its one part."""
    made = Cache(folder / "known")
    made.add(dict(zip(KEYS[:3], EYE, strict=False)))
    [part] = made.folder.iterdir()
    return made, part


def test_what_is_wanted_comes_back(tmp_path):
    made, _ = kept(tmp_path)
    found = made.known({KEYS[0], KEYS[2], KEYS[3]})
    assert {one: vector.tolist() for one, vector in found.items()} == {
        KEYS[0]: [1, 0, 0, 0], KEYS[2]: [0, 0, 1, 0],
    }  # fmt: skip


@pytest.mark.parametrize("place", [0, 25, 30, 40, 130, -1])
def test_a_damaged_part_is_left_out_with_a_line(tmp_path, capsys, place):
    """A byte changed anywhere, of its head, a key, a vector or its digest."""
    made, part = kept(tmp_path)
    raw = bytearray(part.read_bytes())
    raw[place] ^= 1
    part.write_bytes(raw)
    assert made.known(set(KEYS)) == {}
    assert f"{part}: damaged, left out; remove it" in capsys.readouterr().err


@pytest.mark.parametrize("length", [0, 10, 32, 33, 200])
def test_a_part_that_was_cut_is_left_out(tmp_path, length):
    made, part = kept(tmp_path)
    part.write_bytes(part.read_bytes()[:length])
    assert made.known(set(KEYS)) == {}


@pytest.mark.parametrize("value", [np.nan, np.inf, 3.0])
def test_what_is_no_embedding_is_left_out(tmp_path, capsys, value):
    """However well it is signed."""
    made, _ = kept(tmp_path)
    made.add({KEYS[3]: np.full(4, value, np.float32)})
    assert set(made.known(set(KEYS))) == set(KEYS[:3])
    assert "holds what are no embeddings" in capsys.readouterr().err


def test_vectors_of_different_sizes_are_nobodys(tmp_path):
    made, _ = kept(tmp_path)
    made.add({KEYS[3]: np.array([1, 0], np.float32)})
    assert made.known(set(KEYS)) == {}


def test_the_oldest_parts_make_room(tmp_path):
    """Of whichever checkpoint they are."""
    one, two = (Cache(tmp_path / name, largest=3 * 112) for name in "ab")
    for number, made in enumerate((one, two, one, two)):
        made.add({cache.key(bytes([number])): EYE[number]})
        [os.utime(path, (number, number)) for path in made.folder.iterdir() if path.stat().st_mtime > 100]
    assert one.known(set(KEYS)).keys() == {KEYS[2]} and two.known(set(KEYS)).keys() == {KEYS[1], KEYS[3]}


def test_a_folder_that_cannot_be_written_is_no_fault(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    Cache(tmp_path / "file" / "known").add({KEYS[0]: EYE[0]})
    assert "warning: evaluate.cache: " in capsys.readouterr().err


def test_many_vectors_are_several_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "MOST", 2)
    made = Cache(tmp_path / "known")
    made.add(dict(zip(KEYS, EYE, strict=True)))
    assert len(list(made.folder.iterdir())) == 2 and made.known(set(KEYS)).keys() == set(KEYS)
