"""Embeddings that are known are not made again, and nothing but what was written counts as known."""

from __future__ import annotations

import os
import shutil

import numpy as np
import pytest
from PIL import Image

from compclip.base import code_hash
from compclip.base.errors import UserError
from compclip.config.sections import Scoring
from compclip.evaluate import embed, embedding_cache, picture_references
from compclip.evaluate.embedding_cache import EmbeddingCache
from tests.evaluate.test_embed import TEXTS, encoded, model, pictures  # noqa: F401

EYE = np.eye(4, dtype=np.float32)
KEYS = [embedding_cache.key(bytes([number])) for number in range(4)]


@pytest.fixture
def how(tmp_path):
    """Embeddings are kept in a folder that is not there yet."""
    return Scoring(batch_size=2, cache=str(tmp_path / "cache"))


def cache_files(how):
    """The files of a cache."""
    return sorted(path for path in (os.walk(how.cache)) for path in path[2])


def test_a_new_benchmark_encodes_only_what_is_new(model, pictures, how, encoded, tmp_path):  # noqa: F811
    """Under another name the picture is the same, a part of it is not; what is known twice is written once."""
    first = embed.encode_all([model], pictures[:3], TEXTS[:4], how, ["w"])[0]
    assert encoded == {"image": 3, "text": 4} and len(cache_files(how)) == 1
    shutil.copyfile(pictures[0], tmp_path / "copy.png")
    copy, crop = str(tmp_path / "copy.png"), picture_references.with_box(pictures[0], (0, 0, 10, 10))
    second = embed.encode_all([model], [*pictures[:4], copy, crop], TEXTS, how, ["w"])[0]
    assert encoded == {"image": 5, "text": 6} and len(cache_files(how)) == 2
    assert np.array_equal(first.images(pictures[:3]), second.images(pictures[:3]))
    assert np.array_equal(first.texts(TEXTS[:4]), second.texts(TEXTS[:4]))
    assert np.array_equal(second.images([copy]), first.images(pictures[:1]))
    third = embed.encode_all([model], [*pictures[:4], crop], TEXTS, how, ["w"])[0]
    assert encoded == {"image": 5, "text": 6} and len(cache_files(how)) == 2
    assert np.array_equal(third.images([crop]), second.images([crop]))
    plain = embed.encode(model, [*pictures[:4], crop], TEXTS)
    assert third.images([*pictures[:4], crop]) == pytest.approx(plain.images([*pictures[:4], crop]), abs=1e-6)
    assert third.texts(TEXTS) == pytest.approx(plain.texts(TEXTS), abs=1e-6)


def test_what_vectors_depend_on_is_told_apart(model, pictures, how, encoded):  # noqa: F811
    """Other weights, another preparation and a changed picture; the batch size is none of it."""
    embed.encode_all([model], pictures, TEXTS, how, ["w"])
    for scoring, weights in (
        (Scoring(cache=how.cache, pictures="upright"), "w"),
        (how, "v"),
    ):
        counts_before = dict(encoded)
        embed.encode_all([model], pictures, TEXTS, scoring, [weights])
        assert encoded == {"image": counts_before["image"] + 5, "text": counts_before["text"] + 6}
    Image.new("RGB", (20, 30), "red").save(pictures[0])
    counts_before = dict(encoded)
    embed.encode_all([model], pictures, TEXTS, Scoring(cache=how.cache, batch_size=7), ["w"])
    assert encoded == counts_before | {"image": counts_before["image"] + 1}


def test_code_that_decides_vectors_is_told_apart(model, how, monkeypatch):  # noqa: F811
    """Heads and layouts of authors too, which are read with a checkpoint and not by the encoder."""
    hashed = set[str]()
    monkeypatch.setattr(
        embedding_cache.code_hash, "hash_code", lambda *entries: str(hashed.update(code_hash.find_modules(*entries)))
    )
    EmbeddingCache.open_for("w", model, how)
    modules = ("heads", "released_heads", "class_tokens", "author_layouts", "clip_model", "towers", "tokenizers")
    assert {f"compclip.model.{module}" for module in modules} <= hashed


def test_models_of_one_pass_share_what_all_of_them_know(model, pictures, how, encoded):  # noqa: F811
    embed.encode_all([model], pictures[:2], TEXTS, how, ["a"])
    embed.encode_all([model, model], pictures[:3], TEXTS, how, ["a", "b"])
    assert encoded == {"image": 2 + 2 * 3, "text": 6 + 2 * 6}  # what one of them lacks both are shown
    embedded = embed.encode_all([model, model], pictures[:3], TEXTS, how, ["b", "a"])
    assert encoded == {"image": 8, "text": 18}
    assert all(embeddings.has(pictures[:3]) for embeddings in embedded)


def test_missing_pictures_are_named_each_time(model, pictures, how, tmp_path):  # noqa: F811
    (tmp_path / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n no")
    wrong = {str(tmp_path / "broken.png"): "unreadable", str(tmp_path / "gone.png"): "missing"}
    for _ in range(2):
        assert embed.encode_all([model], [*pictures, *wrong], [], how, ["w"])[0].failed == wrong


def test_without_a_folder_nothing_is_kept(model, pictures, tmp_path):  # noqa: F811
    embed.encode_all([model], pictures, TEXTS, Scoring(), ["w"])
    assert not (tmp_path / "cache").exists()


def test_a_file_in_the_place_of_the_folder(model, tmp_path):  # noqa: F811
    (tmp_path / "cache").write_text("")
    with pytest.raises(UserError, match="evaluate.cache=.*: is no folder; give one, or a name that is free"):
        embed.encode_all([model], [], TEXTS, Scoring(cache=str(tmp_path / "cache")), ["w"])


def open_cache(folder):
    """A cache with three vectors, and its one part."""
    cache = EmbeddingCache(folder / "known")
    cache.add(dict(zip(KEYS[:3], EYE, strict=False)))
    [part_file] = cache.folder.iterdir()
    return cache, part_file


def test_what_is_wanted_comes_back(tmp_path):
    cache, _ = open_cache(tmp_path)
    vectors = cache.lookup({KEYS[0], KEYS[2], KEYS[3]})
    assert {key: vector.tolist() for key, vector in vectors.items()} == {
        KEYS[0]: [1, 0, 0, 0], KEYS[2]: [0, 0, 1, 0],
    }  # fmt: skip


@pytest.mark.parametrize("offset", [0, 31, 40, 100, 300, -1])
def test_a_damaged_part_is_left_out_with_a_line(tmp_path, capsys, offset):
    """A byte changed anywhere, of its digest, its head, a key or a vector."""
    cache, part_file = open_cache(tmp_path)
    raw = bytearray(part_file.read_bytes())
    raw[offset] ^= 1
    part_file.write_bytes(raw)
    assert cache.lookup(set(KEYS)) == {}
    assert f"{part_file}: damaged, left out; remove it" in capsys.readouterr().err


@pytest.mark.parametrize("length", [0, 10, 32, 33, 200])
def test_a_part_that_was_cut_is_left_out(tmp_path, length):
    cache, part_file = open_cache(tmp_path)
    part_file.write_bytes(part_file.read_bytes()[:length])
    assert cache.lookup(set(KEYS)) == {}


def test_the_oldest_parts_make_room(tmp_path):
    """Of whichever checkpoint they are."""
    first, second = (EmbeddingCache(tmp_path / name, largest=3 * 216) for name in "ab")
    for number, cache in enumerate((first, second, first, second)):
        cache.add({embedding_cache.key(bytes([number])): EYE[number]})
        [os.utime(path, (number, number)) for path in cache.folder.iterdir() if path.stat().st_mtime > 100]
    assert first.lookup(set(KEYS)).keys() == {KEYS[2]} and second.lookup(set(KEYS)).keys() == {KEYS[1], KEYS[3]}


def test_a_folder_that_cannot_be_written_is_no_fault(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    EmbeddingCache(tmp_path / "file" / "known").add({KEYS[0]: EYE[0]})
    assert "warning: evaluate.cache: " in capsys.readouterr().err


def test_many_vectors_are_several_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(embedding_cache, "MOST", 2)
    cache = EmbeddingCache(tmp_path / "known")
    cache.add(dict(zip(KEYS, EYE, strict=True)))
    assert len(list(cache.folder.iterdir())) == 2 and cache.lookup(set(KEYS)).keys() == set(KEYS)
