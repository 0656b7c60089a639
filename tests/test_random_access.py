"""Training by random access draws what training from lists drew: each view against the rules written out slowly."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from compclip.base.errors import UserError
from compclip.data import partners
from compclip.data.images import ImageError
from compclip.data.place import Place
from compclip.data.prepared import Prepared
from compclip.data.sample import Sample
from compclip.text import kept
from compclip.text.annotation import Annotation
from compclip.train import composite, ranked, views
from compclip.train.batch import Views
from compclip.train.crops import RandomResizedCrop
from tests.prepared_set import all_annotations, prepared
from tests.test_composite import tagged

SIZES = [(40, 20), (20, 40), (30, 30), (10, 11)]


@pytest.fixture(scope="module")
def crowd(tmp_path_factory) -> Prepared:
    """30 samples of one to three captions, wide and tall, in shards of seven."""
    rng = np.random.default_rng(0)
    words = ["DOG", "CAT", "HORSE", "GRASS", "BIRD", "sees", "eats", "runs"]
    said = [
        tuple(
            chain.from_iterable(
                own for _ in range(rng.integers(1, 4)) for own in tagged(" ".join(rng.choice(words, 4)))
            )
        )
        for _ in range(30)
    ]
    samples = [Sample(f"s{i}", f"{i}.png", (), "train", *SIZES[rng.integers(4)]) for i in range(30)]
    return prepared(tmp_path_factory.mktemp("crowd"), samples, said, 7)


class Lists:
    """Partners as they were found when all captions were lists."""

    def __init__(self, data: Prepared, seed: int) -> None:
        self.said, self.seed = all_annotations(data), seed
        samples = [data.sample(i) for i in range(len(data))]
        self.shapes = ["wide" if s.width >= s.height else "tall" for s in samples]
        self.places = [(i, j) for i, own in enumerate(self.said) for j in range(len(own))]

    def sharing(self, noun: str, shape: str) -> list[tuple[int, int]]:
        """All captions with a noun in their first sentence."""
        return [(i, j) for i, j in self.places if self.shapes[i] == shape and noun in self.nouns(self.said[i][j])]

    def nouns(self, caption: Annotation) -> list[str]:
        """Of the first sentence."""
        return kept.nouns(kept.split(caption)[0])

    def partners(self, place: tuple[int, int]) -> list[tuple[int, int]]:
        """CLIC B.4."""
        rng = np.random.default_rng((self.seed, *place, composite.SHARED))
        pools = [self.sharing(n, self.shapes[place[0]]) for n in self.nouns(self.said[place[0]][place[1]])]
        pools = [pool for pool in pools if len(pool) > 1]
        found: dict[int, tuple[int, int]] = {}
        for _ in range(composite.TRIES if pools else 0):
            pool = pools[rng.integers(len(pools))]
            other = pool[rng.integers(len(pool))]
            if other[0] != place[0] and len(found) < composite.SHARED:
                found.setdefault(other[0], other)
        return list(found.values())

    def random(self, index: int, rng: np.random.Generator) -> int:
        """Any other sample of the same orientation."""
        others = np.flatnonzero([s == self.shapes[index] for s in self.shapes])
        others = others[others != index] if len(others) > 1 else others
        return int(others[rng.integers(len(others))])


def test_partners_are_those_of_the_lists(crowd):
    """By nouns for every caption, at random for every sample and many draws."""
    slow, fast = Lists(crowd, 3), composite.CommonNouns(crowd, 3)
    assert [fast.partners(p) for p in slow.places] == [slow.partners(p) for p in slow.places]
    assert any(len(slow.partners(p)) == composite.SHARED for p in slow.places)
    maker = views.Maker(crowd, 3, 8)
    for index in range(len(crowd)):
        drawn = [(np.random.default_rng(k), np.random.default_rng(k)) for k in range(20)]
        assert [maker._partner(index, a) for a, _ in drawn] == [slow.random(index, b) for _, b in drawn]
        assert all(a.random() == b.random() for a, b in drawn)  # and as many numbers were drawn


def test_places_and_nouns_by_number(crowd):
    """Across the edges of shards."""
    slow = Lists(crowd, 0)
    assert [crowd.place(number) for number in range(len(slow.places))] == slow.places
    for shape in ("wide", "tall"):
        for noun in ("dog", "bird", "none"):
            found = [crowd.place(int(n)) for n in crowd.sharing(noun, shape == "wide")]
            assert found == slow.sharing(noun, shape)


def test_the_cut_into_shards_changes_no_view(crowd, tmp_path):
    """Nor does opening the data anew."""
    samples = [crowd.sample(i) for i in range(len(crowd))]
    other = prepared(tmp_path, samples, all_annotations(crowd), 30)
    wanted = Views(composite=3, partner="common_noun")
    makers = [views.Maker(data, 1, 8, lambda s: Image.new("RGB", (s.width, s.height))) for data in (crowd, other)]
    for index in range(len(crowd)):
        one, two = (maker.view(index, 2, wanted) for maker in makers)
        assert (one.caption, one.negatives, one.positives) == (two.caption, two.negatives, two.positives)
        assert np.array_equal(np.asarray(one.image), np.asarray(two.image))


def test_a_process_holds_nothing_a_sample(crowd):
    """Shards are opened when a row of theirs is asked for."""
    data = Prepared(Path(crowd.folder))
    assert not data._open
    data.sample(8)
    assert list(data._open) == [1]


def test_no_room_for_the_nouns(crowd, tmp_path, monkeypatch):
    """One line, and nothing stays; a file that is there stays as it was."""
    path = tmp_path / "nouns.arrow"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(UserError, match="nouns.arrow: cannot write: No space left on device; free space"):
        partners.write(path, sorted((crowd.folder / "shards").glob("*.arrow")))
    assert [p.read_bytes() for p in tmp_path.iterdir()] == [b"old"]


def full(*_):
    """What a full disk says."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@given(st.lists(st.booleans(), max_size=40), st.integers(1, 9), st.booleans())
def test_ranks_are_places_of_a_list(truths, block, value):
    """Whatever the blocks in which they are counted."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranked, "BLOCK", block)
        made = ranked.Ranked(np.array(truths, bool), value)
        places = [place for place, own in enumerate(truths) if own == value]
        assert list(made) == places
        assert [made.rank(place) for place in range(len(truths))] == [
            sum(own < place for own in places) for place in range(len(truths))
        ]


@given(st.integers(0, 3000), st.integers(0, 9), st.integers(0, 9))
def test_the_order_is_the_one_it_was(size, seed, epoch):
    """Of numbers of half the width."""
    wide = np.random.default_rng((seed, epoch, 1 << 40)).permutation(size)
    assert np.array_equal(views.order(size, seed, epoch), wide)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=40), st.integers(0, 3))
def test_windows_mix_some_shards_at_a_time(sizes, epoch):
    """Every sample once; each window of shards is through before the next begins."""
    made = views.windowed(sizes, 0, epoch)
    assert sorted(made) == list(range(sum(sizes)))
    shard = np.searchsorted(np.cumsum(sizes), made, side="right")
    first = {int(s): i for i, s in reversed(list(enumerate(shard)))}
    met = sorted(first, key=first.__getitem__)
    at = 0
    for low in range(0, len(sizes), views.WINDOW):
        # the shards of a window are those that fill the next places of the order, and no others stand there
        count, window = 0, set()
        for s in met:
            if s not in window and first[s] >= at and len(window) < views.WINDOW:
                window.add(s)
        count = sum(sizes[s] for s in window)
        assert set(shard[at : at + count].tolist()) == window
        met = [s for s in met if s not in window]
        at += count
        assert low < len(sizes)
    assert np.array_equal(made, views.windowed(sizes, 0, epoch))


# --- what stands beside a sample ----------------------------------------------------------------------------------


class Beside:
    """A data set with negative images: two readable ones and a missing one beside every sample."""

    def __init__(self, data: Prepared, folder: Path) -> None:
        self.data, self.places = data, [Place(str(folder / name)) for name in ("a.png", "gone.png", "b.png")]
        for place, colour in zip(self.places[::2], ("red", "blue"), strict=True):
            Image.new("RGB", (20, 20), colour).save(place.path)

    def __getattr__(self, name: str):
        return getattr(self.data, name)

    def __len__(self) -> int:
        return len(self.data)

    def negative_images(self, index: int) -> list[Place]:
        """The same three."""
        return self.places


def plain(sample: Sample) -> Image.Image:
    """A picture that tells its sample."""
    return Image.new("RGB", (sample.width, sample.height), (int(sample.id[1:]), 0, 0))


@pytest.mark.parametrize("wanted,there", [(1, [True]), (2, [True, False]), (4, [True, False, True, False])])
def test_negative_images_come_in_their_order_and_what_lacks_is_counted(crowd, tmp_path, wanted, there):
    """The first ones stored; a missing file, and one too few, give a masked place each."""
    rows = views.Rows(views.Maker(Beside(crowd, tmp_path), 0, 8, plain), 10)
    found, dropped = rows.batch(0, Views(negative_images=wanted))
    assert [[picture is not None for picture in row.negative_images] for row in found] == [there] * 10
    assert dropped == ({"negative_image_missing": 10 * there.count(False)} if False in there else {})
    assert found[0].negative_images[0].getpixel((0, 0)) == (255, 0, 0)


def test_a_method_that_asks_for_no_negative_image_looks_at_none(crowd):
    """Prepared data of others need not have any."""
    row = views.Maker(crowd, 0, 8, plain).view(3, 0, Views())
    assert row.negative_images == ()


def test_a_bag_is_drawn_of_the_caption_and_what_is_stored(tmp_path):
    """With replacement, anew in each epoch, behind the other texts, which stay as they were; a negative of each."""
    (plain_caption,) = tagged("DOG sees")[0]
    said = [(replace(plain_caption, stored={"dense": ("one", "two")}),), (plain_caption,)]
    data = prepared(tmp_path, [Sample(f"s{i}", f"{i}.png", (), width=4, height=4) for i in range(2)], said)
    maker, text = views.Maker(data, 0, 8, plain), said[0][0].text
    wanted = Views(negatives=(asked,), positives=(upper,), bag=4, bag_rule=behind)
    found = [maker.view(0, epoch, wanted) for epoch in range(60)]
    assert {t for view in found for t in view.positives[1:]} == {"one", "two", text}
    assert any(len(set(view.positives[1:])) < 3 for view in found)
    for epoch, view in enumerate(found):
        assert (view.positives[0], view.negatives[0]) == (text.upper(), f"{text.upper()}?")
        assert view.negatives[1:] == tuple(None if t == "two" else f"{t}!" for t in view.positives[1:])
        pool, rng = ("one", "two", text), views.generator(0, epoch, "s0")
        rng.integers(1), rng.random(), rng.random()  # the caption, and what the rules drew
        assert view.positives[1:] == tuple(pool[rng.integers(3)] for _ in range(4))
    assert maker.view(1, 0, wanted).positives[1:] == (text,) * 4
    assert maker.view(0, 0, replace(wanted, bag_rule=None)).negatives == (f"{text.upper()}?",)
    lowered = maker.view(1, 0, replace(wanted, lowercase=True))
    assert lowered.positives[1:] == (text.lower(),) * 4 and lowered.negatives[1:] == (f"{text.lower()}!",) * 4


def upper(a: Annotation, rng: np.random.Generator) -> str:
    """A rule that draws a number."""
    rng.random()
    return a.text.upper()


def asked(a: Annotation, rng: np.random.Generator) -> str:
    """Another one, of a text that is no positive."""
    return f"{upper(a, rng)}?"


def behind(text: str, rng: np.random.Generator) -> str | None:
    """A rule of texts, which makes nothing of one of them."""
    return None if text == "two" else f"{text}!"


def test_neighbours_are_rows_behind_the_batch(crowd):
    """Two of each sample's own five, different ones, drawn anew in each epoch; a row is what the sample itself would be."""
    near = np.array([[(i + k) % 30 for k in range(1, 6)] for i in range(30)])
    maker = views.Maker(crowd, 0, 8, plain, near=near)
    rows, wanted = views.Rows(maker, 10), Views(caption="full", neighbours=2)
    found, dropped = rows.batch(0, wanted)
    order = [int(i) for i in views.order(30, 0, 0)[:10]]
    drawn = [maker.neighbours(index, 0, 2) for index in order]
    assert len(found) == 30 and dropped == {}
    assert [row.image.getpixel((0, 0))[0] for row in found] == [*order, *chain.from_iterable(drawn)]
    assert all(len({*own}) == 2 and {*own} <= {*near[index]} for index, own in zip(order, drawn, strict=True))
    assert drawn != [maker.neighbours(index, 1, 2) for index in order]
    assert found[10].caption == maker.view(drawn[0][0], 0, wanted).caption


def test_neighbours_that_cannot_be_read_are_left_out_and_counted(crowd):
    def load(sample: Sample) -> Image.Image:
        if sample.id == "s7":
            raise ImageError(sample.image, "missing", "no such picture")
        return plain(sample)

    maker = views.Maker(crowd, 0, 8, load, near=np.full((30, 1), 7))
    found, dropped = views.Rows(maker, 10).batch(0, Views(neighbours=1))
    assert len(found) == 10
    assert dropped["neighbour_missing"] == 10


def test_a_crop_changes_pictures_and_no_text(crowd):
    """Texts are drawn from a stream of their own; the part depends on (seed, epoch, sample)."""
    crop, wanted = RandomResizedCrop(0.3, 0.6), Views(caption="full")
    whole, cut = (views.Maker(crowd, 0, 16, textured, crop=c) for c in (None, crop))
    for index in range(len(crowd)):
        one, other, again, later = (m.view(index, e, wanted) for m, e in ((whole, 0), (cut, 0), (cut, 0), (cut, 1)))
        assert one.caption == other.caption
        assert one.image.size == (crowd.sample(index).width, crowd.sample(index).height)
        assert other.image.size == (16, 16)
        assert np.array_equal(np.asarray(other.image), np.asarray(again.image))
        assert not np.array_equal(np.asarray(other.image), np.asarray(later.image))


def textured(sample: Sample) -> Image.Image:
    """A picture in which every part differs."""
    values = np.random.default_rng(int(sample.id[1:])).integers(0, 256, (sample.height, sample.width, 3), np.uint8)
    return Image.fromarray(values)
