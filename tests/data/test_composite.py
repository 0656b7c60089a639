"""CLIC composites: geometry by hand, captions by hand."""

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from compclip.data.sample import Sample
from compclip.interface.views import Composite, Views
from compclip.text import composite_captions
from compclip.text import sentences as text_sentences
from compclip.text.annotation import Annotation
from compclip.train import picture_views
from compclip.train.view_maker import ViewMaker
from tests.prepared_set import prepared

RED, BLUE = (255, 0, 0), (0, 0, 255)


def plain_annotations(*texts: str) -> tuple[Annotation, ...]:
    """Sentences without analysis: enough where no word is exchanged."""
    return tuple(Annotation(text=t, sentences=((0, len(t)),)) for t in texts)


@pytest.mark.parametrize("size,axis", [((50, 20), 0), ((20, 50), 1), ((40, 40), 0), ((41, 40), 0), ((40, 41), 1)])
def test_two_pictures_share_one_square(size, axis):
    """A square is wide. Wide pictures are stacked, tall ones set side by side, each squashed to half, in both orders over seeds."""
    a, b = (Image.new("RGB", size, colour) for colour in (RED, BLUE))
    orders = set()
    for seed in range(20):
        square = np.asarray(picture_views.join_pictures(a, b, 33, np.random.default_rng(seed)))
        assert square.shape == (33, 33, 3)
        halves = np.split(square, [16], axis=axis)
        colours = [tuple(int(c) for c in half.reshape(-1, 3)[0]) for half in halves]
        assert all((half.reshape(-1, 3) == colour).all() for half, colour in zip(halves, colours, strict=True))
        assert set(colours) == {RED, BLUE}
        orders.add(tuple(colours))
    assert len(orders) == 2


def test_captions_by_hand(rng):
    """p1 and p2 join the first sentences in both orders; p3 and p4 take different further sentences."""
    a, b = plain_annotations("A dog.", "It runs.", "It barks."), plain_annotations("A cat.", "It sits.", "It sleeps.")
    (p1, p2, p3, p4), _ = composite_captions.compose_pair(a, b, 4, rng)
    assert (p1, p2) == ("A dog. A cat.", "A cat. A dog.")
    of_a = {s for p in (p3, p4) for s in ("It runs", "It barks") if s in p}
    of_b = {s for p in (p3, p4) for s in ("It sits", "It sleeps") if s in p}
    assert len(of_a) == len(of_b) == 2


def test_captions_as_in_the_released_code(rng):
    """Each sentence of a composite ends with a full stop, a single one with none."""
    a, b = plain_annotations("A dog", "Is it big?"), plain_annotations("A cat.", "It sits")
    positives, _ = composite_captions.compose_pair(a, b, 3, rng, ends="clic")
    assert positives[:2] == ["A dog. A cat.", "A cat. A dog."]
    assert positives[2] in ("Is it big?. It sits.", "It sits. Is it big?.")
    assert composite_captions.compose_single(plain_annotations("A dog.", "Is it big?"), 3, rng, "clic")[0] == [
        "A dog",
        "A dog",
        "Is it big?",
    ]


def test_negatives_as_in_the_released_code():
    (a,), (b,) = tagged("a red dog runs", "a blue cat sits")
    negatives = {
        composite_captions.compose_pair((a,), (b,), 1, np.random.default_rng(seed), ends="clic")[1]
        for seed in range(30)
    }
    assert negatives and all(text.count(".") == 2 and text.endswith(".") for text in negatives)
    assert (
        composite_captions.compose_single(plain_annotations("A dog."), 1, np.random.default_rng(0), "clic")[1] is None
    )


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_number_of_positives(rng, count):
    """As many captions as asked for; further sentences repeat only when there are too few."""
    a, b = plain_annotations("A dog.", "It runs."), plain_annotations("A cat.")
    positives, _ = composite_captions.compose_pair(a, b, count, rng)
    assert len(positives) == count
    assert all("It runs" in p and "A cat" in p for p in positives[2:])


def test_single_picture_variant(rng):
    """B1-B4: p2 is p1, further captions are further sentences."""
    positives, _ = composite_captions.compose_single(plain_annotations("A dog.", "It runs.", "It barks."), 4, rng)
    assert positives[:2] == ["A dog."] * 2
    assert sorted(positives[2:]) == ["It barks.", "It runs."]


def tagged(*sentences: str) -> list[tuple[Annotation, ...]]:
    """One caption a sample; words in capitals are nouns."""
    annotations = []
    for text in sentences:
        starts = [i for i, c in enumerate(text) if c != " " and (i == 0 or text[i - 1] == " ")]
        ends = [text.find(" ", i) if " " in text[i:] else len(text) for i in starts]
        pos = tuple("NOUN" if text[a:b].isupper() else "VERB" for a, b in zip(starts, ends, strict=True))
        annotations.append((Annotation(text, tuple(starts), tuple(ends), pos),))
    return annotations


CAPTIONS = tagged("DOG runs", "CAT sees DOG", "HORSE eats", "DOG eats GRASS", "GRASS grows", "DOG sits")


def crowd(folder, annotations, tall=()):
    """A data set of such captions, its pictures wide but for some."""
    sizes = [(20, 40) if i in tall else (40, 20) for i in range(len(annotations))]
    samples = [Sample(f"s{i}", f"{i}.png", (), "train", *size) for i, size in enumerate(sizes)]
    return prepared(folder, samples, annotations)


def test_partners_by_common_nouns(tmp_path):
    """Another sample of the same orientation with a noun of this one; none where no other has one."""
    shared = picture_views.Partners(crowd(tmp_path, CAPTIONS, tall=(5,)), seed=0)
    drawn = {i: [shared.draw((i, 0), "common_noun", np.random.default_rng(k)) for k in range(50)] for i in range(6)}
    met = {i: {partner if has_noun else None for partner, has_noun in draws} for i, draws in drawn.items()}
    assert met == {
        0: {(1, 0), (3, 0)},
        1: {(0, 0), (3, 0)},
        2: {None},
        3: {(0, 0), (1, 0), (4, 0)},
        4: {(3, 0)},
        5: {None},
    }


def test_the_common_noun_is_never_exchanged():
    """The negative leaves out words of both sentences, and with them the noun that made the two partners."""
    (a,), (b,) = tagged("DOG chases BALL", "DOG eats BONE")
    negatives = {composite_captions.compose_pair((a,), (b,), 1, np.random.default_rng(seed))[1] for seed in range(30)}
    assert negatives and all(sentence.startswith("DOG ") for text in negatives for sentence in text.split(". "))
    (a,), (b,) = tagged("the DOG", "CAT BIRD DOG")  # no category is left without it
    negatives = {
        composite_captions.compose_pair((a,), (b,), 1, np.random.default_rng(seed), common_noun=True)[1]
        for seed in range(30)
    }
    assert negatives and all("DOG" in sentence.split() for text in negatives for sentence in text.split(". "))


def test_a_caption_without_concepts_may_be_one_itself(tmp_path):
    """C2LIP's released code; a caption that has some keeps them."""
    (bare,), (with_concept,) = tagged("it runs", "a DOG runs")
    with_concept = replace(with_concept, chunks=((0, 2),))
    data = prepared(
        tmp_path, [Sample(f"s{i}", "s.png", (), "train", 4, 4) for i in range(2)], [(bare,), (with_concept,)]
    )
    maker = ViewMaker(data, 0, 8, lambda sample: Image.new("RGB", (4, 4)))
    view_options = [Views(concepts="pooled"), Views(concepts="pooled", whole_concept=True), Views(whole_concept=True)]
    assert [maker.view(0, 0, views).concepts for views in view_options] == [(), ((0, 7),), ()]
    assert [maker.view(1, 0, views).concepts for views in view_options] == [((0, 5),), ((0, 5),), ()]


def test_a_single_sentence_may_lose_its_full_stop(tmp_path):
    ((a,),) = tagged("a DOG runs .")
    data = prepared(tmp_path, [Sample("s", "s.png", (), "train", 4, 4)], [(a,)])
    maker = ViewMaker(data, 0, 8, lambda sample: Image.new("RGB", (4, 4)))
    assert [maker.view(0, 0, Views(ends=ends)).caption for ends in ("kept", "clic")] == ["a DOG runs .", "a DOG runs"]


def test_all_steps_mean_the_same_first_sentence(tmp_path):
    """CLIC's plain steps, composites and single pictures begin with the first of 4 to 34 words (B.1), never "A bar chart."."""
    text = "A bar chart. The chart shows house prices. It is blue and red."
    ((a,),) = tagged(text)
    a = replace(a, sentences=tuple(text_sentences.split(text)))
    data = prepared(tmp_path, [Sample("s", "s.png", (), "train", 40, 20)], [(a,)])
    maker = ViewMaker(data, 0, 8, lambda sample: Image.new("RGB", (40, 20)))
    for views in (
        Views(),
        Views(composite=Composite(1, composite_captions.compose, "")),
        Views(composite=Composite(1, composite_captions.compose)),
    ):
        assert maker.view(0, 0, views).caption.startswith("The chart shows house prices.")
