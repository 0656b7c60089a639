"""Training by random access draws what training from lists drew: each view against the rules written out slowly."""

from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from PIL import Image

from compclip.data import prepared_dataset
from compclip.data.images import ImageError
from compclip.data.prepared_dataset import PreparedDataset
from compclip.data.sample import NegativeImage, Sample
from compclip.interface.views import Composite, Views
from compclip.text import composite_captions, dense_texts, masked_words, sentences, stored_texts
from compclip.text.annotation import Annotation
from compclip.train import loader, picture_views, view_maker
from compclip.train.view_maker import RandomResizedCrop
from tests.data.test_composite import tagged
from tests.prepared_set import all_annotations, prepared

SIZES = [(40, 20), (20, 40), (30, 30), (10, 11)]


@pytest.fixture(scope="module")
def crowd(tmp_path_factory) -> PreparedDataset:
    """30 samples of one to three captions, wide and tall, in shards of seven."""
    rng = np.random.default_rng(0)
    words = ["DOG", "CAT", "HORSE", "GRASS", "BIRD", "sees", "eats", "runs"]
    annotations = []
    for _ in range(30):
        sentences_of_one = [" ".join(rng.choice(words, 4)) for _ in range(rng.integers(1, 4))]
        annotations.append([annotation for (annotation,) in tagged(*sentences_of_one)])
    samples = [Sample(f"s{i}", f"{i}.png", (), "train", *SIZES[rng.integers(4)]) for i in range(30)]
    return prepared(tmp_path_factory.mktemp("crowd"), samples, annotations, 7)


def test_few_shards_stay_open_and_all_are_read(crowd, monkeypatch):
    """Twice over, so that closed ones are opened again."""
    expected = all_annotations(crowd)
    monkeypatch.setattr(prepared_dataset, "OPEN_SHARDS", 2)
    data = PreparedDataset(crowd.folder)
    assert all_annotations(data) == all_annotations(data) == expected
    assert data._shard.cache_info().currsize == 2 and len(data.manifest.shards) == 5


class Lists:
    """Partners as they were found when all captions were lists."""

    def __init__(self, data: PreparedDataset, seed: int) -> None:
        self.annotations, self.seed = all_annotations(data), seed
        samples = [data.sample(i) for i in range(len(data))]
        self.shapes = ["wide" if s.width >= s.height else "tall" for s in samples]
        self.places = [(i, j) for i, captions in enumerate(self.annotations) for j in range(len(captions))]

    def sharing(self, noun: str, shape: str) -> list[tuple[int, int]]:
        """All captions with a noun in their first sentence."""
        captions = [(i, j) for i, j in self.places if self.shapes[i] == shape]
        return [(i, j) for i, j in captions if noun in sentences.first_nouns(self.annotations[i][j])]

    def partners(self, caption_at: tuple[int, int]) -> list[tuple[int, int]]:
        """CLIC B.4."""
        rng = np.random.default_rng((self.seed, *caption_at, picture_views.SHARED))
        nouns = sentences.first_nouns(self.annotations[caption_at[0]][caption_at[1]])
        pools = [self.sharing(noun, self.shapes[caption_at[0]]) for noun in nouns]
        pools = [pool for pool in pools if len(pool) > 1]
        partners: dict[int, tuple[int, int]] = {}
        for _ in range(picture_views.TRIES if pools else 0):
            pool = pools[rng.integers(len(pools))]
            candidate = pool[rng.integers(len(pool))]
            if candidate[0] != caption_at[0] and len(partners) < picture_views.SHARED:
                partners.setdefault(candidate[0], candidate)
        return list(partners.values())

    def random(self, index: int, rng: np.random.Generator) -> int:
        """Any other sample of the same orientation."""
        candidates = np.flatnonzero([s == self.shapes[index] for s in self.shapes])
        candidates = candidates[candidates != index] if len(candidates) > 1 else candidates
        return int(candidates[rng.integers(len(candidates))])


def test_partners_are_those_of_the_lists(crowd):
    """By nouns for every caption, at random for every sample and many draws."""
    slow, fast = Lists(crowd, 3), picture_views.Partners(crowd, 3)
    assert [fast.find_by_noun(p) for p in slow.places] == [slow.partners(p) for p in slow.places]
    assert any(len(slow.partners(p)) == picture_views.SHARED for p in slow.places)
    for p in slow.places:
        drawn = {fast.draw(p, "common_noun", np.random.default_rng(k)) for k in range(30)}
        partners = slow.partners(p)
        assert {has_noun for _, has_noun in drawn} == {bool(partners)}
        assert {partner for partner, _ in drawn} <= set(partners or slow.places) - {p}
    for index in range(len(crowd)):
        generators = [(np.random.default_rng(k), np.random.default_rng(k)) for k in range(20)]
        assert [fast.draw_any(index, a) for a, _ in generators] == [slow.random(index, b) for _, b in generators]
        assert all(a.random() == b.random() for a, b in generators)  # and as many numbers were drawn


def test_the_cut_into_shards_changes_no_view(crowd, tmp_path):
    """Nor does opening the data anew."""
    samples = [crowd.sample(i) for i in range(len(crowd))]
    in_one_shard = prepared(tmp_path, samples, all_annotations(crowd), 30)
    views = Views(composite=Composite(3, composite_captions.compose, "common_noun"))
    makers = [view_maker.ViewMaker(data, 1, 8, plain) for data in (crowd, in_one_shard)]
    for index in range(len(crowd)):
        first, second = (maker.view(index, 2, views) for maker in makers)
        assert (first.caption, first.negatives, first.positives) == (second.caption, second.negatives, second.positives)
        assert np.array_equal(np.asarray(first.image), np.asarray(second.image))


@given(st.integers(0, 3000), st.integers(0, 9), st.integers(0, 9))
def test_the_order_is_the_one_it_was(size, seed, epoch):
    """Of numbers of half the width."""
    wide = np.random.default_rng((seed, epoch, 1 << 40)).permutation(size)
    assert np.array_equal(loader.full_order(size, seed, epoch), wide)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=40), st.integers(0, 3))
@example([3] * 40, 0)  # of several windows
def test_windows_mix_some_shards_at_a_time(sizes, epoch):
    """Every sample once; each window of shards is through before the next begins."""
    order = loader.windowed_order(sizes, 0, epoch)
    assert sorted(order) == list(range(sum(sizes)))
    shard = np.searchsorted(np.cumsum(sizes), order, side="right").tolist()
    shards, first = list(dict.fromkeys(shard)), 0
    while first < len(shard):
        # the next places hold a window's shards, each whole, and no others
        window = set(list(dict.fromkeys(shard[first:]))[: loader.WINDOW])
        end = first + sum(sizes[s] for s in window)
        assert set(shard[first:end]) == window
        first = end
    assert len(shards) == len(sizes)
    assert np.array_equal(order, loader.windowed_order(sizes, 0, epoch))


# --- what is beside a sample ----------------------------------------------------------------------------------


def put_pictures_beside(folder: Path) -> tuple[NegativeImage, ...]:
    """A red picture, one that is missing, and a blue one."""
    for name, colour in (("a.png", "red"), ("b.png", "blue")):
        Image.new("RGB", (20, 20), colour).save(folder / name)
    return tuple(NegativeImage(str(folder / name)) for name in ("a.png", "gone.png", "b.png"))


((DOG,),) = tagged("DOG sees")


def of_captions(folder: Path, *captions: Annotation, **fields) -> PreparedDataset:
    """A data set of samples with one caption each."""
    samples = [Sample(f"s{i}", f"{i}.png", (), width=4, height=4, **fields) for i in range(len(captions))]
    return prepared(folder, samples, [(caption,) for caption in captions])


def plain(sample: Sample) -> Image.Image:
    """A picture that tells its sample."""
    return Image.new("RGB", (sample.width, sample.height), (int(sample.id[1:]), 0, 0))


@pytest.mark.parametrize("count,is_readable", [(1, [True]), (2, [True, False]), (4, [True, False, True, False])])
def test_negative_images_come_in_their_order_and_what_lacks_is_counted(tmp_path, count, is_readable):
    """The first ones stored; a missing file, and one too few, give a masked place each."""
    data = of_captions(tmp_path, *[DOG] * 10, negatives=put_pictures_beside(tmp_path))
    batch, dropped = loader.EpochSampler(view_maker.ViewMaker(data, 0, 8, plain), 10).batch(
        0, Views(negative_images=count)
    )
    assert [[picture is not None for picture in row.negative_images] for row in batch] == [is_readable] * 10
    assert dropped == ({"negative_image_missing": 10 * is_readable.count(False)} if False in is_readable else {})
    assert batch[0].negative_images[0].getpixel((0, 0)) == (255, 0, 0)


def test_a_bag_is_drawn_of_the_caption_and_what_is_stored(tmp_path):
    """With replacement, anew in each epoch, behind the other texts, which stay as they were; a negative of each."""
    data, text = of_captions(tmp_path, replace(DOG, stored={"dense": ("one", "two")}), DOG), DOG.text
    maker = view_maker.ViewMaker(data, 0, 8, plain)
    views = Views(negatives=(upper_question,), positives=(upper,), groups=(dense_texts.bag(4, behind),))
    drawn_views = [maker.view(0, epoch, views) for epoch in range(60)]
    assert {t for view in drawn_views for t in view.positives[1:]} == {"one", "two", text}
    assert any(len(set(view.positives[1:])) < 3 for view in drawn_views)
    for epoch, view in enumerate(drawn_views):
        assert (view.positives[0], view.negatives[0]) == (text.upper(), f"{text.upper()}?")
        assert view.negatives[1:] == tuple(None if t == "two" else f"{t}!" for t in view.positives[1:])
        pool, rng = ("one", "two", text), view_maker.sample_generator(0, epoch, "s0")
        rng.integers(1), rng.random(), rng.random()  # the caption, and what the rules drew
        assert view.positives[1:] == tuple(pool[rng.integers(3)] for _ in range(4))
    assert maker.view(1, 0, views).positives[1:] == (text,) * 4
    lowered = maker.view(1, 0, replace(views, lowercase=True))
    assert lowered.positives[1:] == (text.lower(),) * 4 and lowered.negatives[1:] == (f"{text.lower()}!",) * 4


def test_variations_are_shown_with_their_own_texts(tmp_path):
    """Two of three are drawn anew in each epoch, from a stream of their own; one that is missing keeps its text."""
    stored = {"variation": ("0.9\tred", "0.5\tgone", "0.1\tblue")}
    caption = replace(DOG, stored=stored)
    data = of_captions(tmp_path, caption, DOG, negatives=put_pictures_beside(tmp_path))
    maker = view_maker.ViewMaker(data, 0, 8, plain)
    views = Views(negatives=(upper_question,), groups=(stored_texts.variations(2),), negative_images=2)
    colours = {(255, 0, 0): "red", (0, 0, 255): "blue", None: "gone"}
    pairs = set()
    for epoch in range(40):
        view = maker.view(0, epoch, views)
        picture_colours = [picture and picture.getpixel((0, 0)) for picture in view.negative_images]
        assert [colours[colour] for colour in picture_colours] == list(view.negatives[1:])
        rng = view_maker.sample_generator(0, epoch, "s0", stored_texts.VARIED)
        drawn = stored_texts.draw_variations(2, caption, rng)
        assert view.negatives == (f"{DOG.text.upper()}?", *(text for _, text in drawn))
        pairs.add(view.negatives[1:])
    assert len(pairs) == 6
    bare = maker.view(1, 0, views)  # a sample without variations
    assert bare.negatives[1:] == (None, None) == bare.negative_images


def test_a_bag_s_texts_are_asked_for_their_own_words(tmp_path):
    """DAC's coin for the caption and for each text of the bag, as a loop over them draws."""
    stored = {"dense": ("one", "two"), "dense_masked": ("0\teins", "")}
    caption = replace(DOG, masked=(("FOX",), ()), stored=stored)
    data = of_captions(tmp_path, caption)
    coin = partial(masked_words.either, upper_question)
    of_dense = partial(masked_words.either_of_dense, upper_question)
    views = Views(negatives=(coin,), groups=(dense_texts.bag(5, of_dense),))
    texts = dense_texts.list_texts(caption)
    seen = set()
    for epoch in range(60):
        view = view_maker.ViewMaker(data, 0, 8, plain).view(0, epoch, views)
        rng = view_maker.sample_generator(0, epoch, "s0")
        rng.integers(1)  # which caption
        expected = [coin(caption, rng)]
        drawn = [texts[rng.integers(3)] for _ in range(5)]
        expected += [upper_question(t, rng) if rng.random() < 0.5 else masked_words.any_word(t, rng) for t in drawn]
        assert view.negatives == tuple(expected) and view.positives == tuple(text.text for text in drawn)
        seen |= set(view.negatives)
    assert seen == {"DOG SEES?", "FOX sees", "ONE?", "eins", "TWO?", None}


def upper(a: Annotation, rng: np.random.Generator) -> str:
    """A rule that draws a number."""
    rng.random()
    return a.text.upper()


def upper_question(a: Annotation, rng: np.random.Generator) -> str:
    """Another one, of a text that is no positive."""
    return f"{upper(a, rng)}?"


def behind(a: Annotation, rng: np.random.Generator) -> str | None:
    """A rule which makes nothing of one text."""
    return None if a.text == "two" else f"{a.text}!"


def test_neighbours_are_rows_behind_the_batch(crowd):
    """Two of each sample's own five, different ones, drawn anew in each epoch; a row is what the sample itself would be."""
    nearest_NK = np.array([[(i + k) % 30 for k in range(1, 6)] for i in range(30)])
    maker = view_maker.ViewMaker(crowd, 0, 8, plain, nearest=nearest_NK)
    rows, views = loader.EpochSampler(maker, 10), Views(caption="full", neighbours=2)
    batch, dropped = rows.batch(0, views)
    order = [int(i) for i in loader.full_order(30, 0, 0)[:10]]
    neighbours = [maker.neighbours(index, 0, 2) for index in order]
    assert len(batch) == 30 and dropped == {}
    assert [row.image.getpixel((0, 0))[0] for row in batch] == [*order, *chain.from_iterable(neighbours)]
    for index, drawn in zip(order, neighbours, strict=True):
        assert len({*drawn}) == 2 and {*drawn} <= {*nearest_NK[index]}
    assert neighbours != [maker.neighbours(index, 1, 2) for index in order]
    assert batch[10].caption == maker.view(neighbours[0][0], 0, views).caption


def test_neighbours_that_cannot_be_read_are_left_out_and_counted(crowd):
    def load(sample: Sample) -> Image.Image:
        if sample.id == "s7":
            raise ImageError(sample.image, "missing", "no such picture")
        return plain(sample)

    maker = view_maker.ViewMaker(crowd, 0, 8, load, nearest=np.full((30, 1), 7))
    batch, dropped = loader.EpochSampler(maker, 10).batch(0, Views(neighbours=1))
    assert (len(batch), dropped["neighbour_missing"]) == (10, 10)


def test_a_crop_changes_pictures_and_no_text(crowd):
    """Texts are drawn from a stream of their own; the part depends on (seed, epoch, sample)."""
    crop, views = RandomResizedCrop(0.3, 0.6), Views(caption="full")
    uncropped_maker, cropping_maker = (view_maker.ViewMaker(crowd, 0, 16, textured, crop=c) for c in (None, crop))
    for index in range(len(crowd)):
        uncropped = uncropped_maker.view(index, 0, views)
        cropped, again, later = (cropping_maker.view(index, epoch, views) for epoch in (0, 0, 1))
        assert uncropped.caption == cropped.caption
        assert uncropped.image.size == (crowd.sample(index).width, crowd.sample(index).height)
        assert cropped.image.size == (16, 16)
        assert np.array_equal(np.asarray(cropped.image), np.asarray(again.image))
        assert not np.array_equal(np.asarray(cropped.image), np.asarray(later.image))


def textured(sample: Sample) -> Image.Image:
    """A picture in which every part differs."""
    values = np.random.default_rng(int(sample.id[1:])).integers(0, 256, (sample.height, sample.width, 3), np.uint8)
    return Image.fromarray(values)
