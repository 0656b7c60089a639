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
    """Both orders, and different further sentences; as released each sentence of a composite ends with a full stop."""
    a, b = plain_annotations("A dog.", "It runs.", "It barks."), plain_annotations("A cat.", "It sits.", "It sleeps.")
    (p1, p2, p3, p4), _ = composite_captions.compose_pair(a, b, 4, rng)
    assert (p1, p2) == ("A dog. A cat.", "A cat. A dog.")
    assert all(sum(text in p for p in (p3, p4)) == 1 for text in ("It runs", "It barks", "It sits", "It sleeps"))
    positives, _ = composite_captions.compose_single(a, 4, rng)  # B1-B4: p2 is p1, others are further sentences
    assert positives[:2] == ["A dog."] * 2 and sorted(positives[2:]) == ["It barks.", "It runs."]
    a, b = plain_annotations("A dog", "Is it big?"), plain_annotations("A cat.", "It sits")
    positives, _ = composite_captions.compose_pair(a, b, 3, rng, ends="clic")
    assert positives[:2] == ["A dog. A cat.", "A cat. A dog."]
    assert positives[2] in ("Is it big?. It sits.", "It sits. Is it big?.")
    single, _ = composite_captions.compose_single(plain_annotations("A dog.", "Is it big?"), 3, rng, "clic")
    assert single == ["A dog", "A dog", "Is it big?"]


def negatives_of(first: str, second: str, **options) -> set[str]:
    """What a pair's negative may be."""
    pair, rngs = tagged(first, second), map(np.random.default_rng, range(30))
    return {composite_captions.compose_pair(*pair, 1, rng, **options)[1] for rng in rngs}


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_number_of_positives(rng, count):
    """As many captions as asked for; further sentences repeat only when there are too few."""
    a, b = plain_annotations("A dog.", "It runs."), plain_annotations("A cat.")
    positives, _ = composite_captions.compose_pair(a, b, count, rng)
    assert len(positives) == count
    assert all("It runs" in p and "A cat" in p for p in positives[2:])


def tagged(*sentences: str) -> list[tuple[Annotation, ...]]:
    """One caption a sample; words in capitals are nouns."""
    annotations = []
    for text in sentences:
        starts = [i for i, c in enumerate(text) if c != " " and (i == 0 or text[i - 1] == " ")]
        ends = [text.find(" ", i) if " " in text[i:] else len(text) for i in starts]
        pos = tuple("NOUN" if text[a:b].isupper() else "VERB" for a, b in zip(starts, ends, strict=True))
        annotations.append((Annotation(text, tuple(starts), tuple(ends), pos),))
    return annotations


def test_the_common_noun_is_never_exchanged(rng):
    """The negative leaves out words of both sentences, and with them the noun that made the two partners; as released too."""
    negatives = negatives_of("a red dog runs", "a blue cat sits", ends="clic")
    assert negatives and all(text.count(".") == 2 and text.endswith(".") for text in negatives)
    assert composite_captions.compose_single(plain_annotations("A dog."), 1, rng, "clic")[1] is None
    negatives = negatives_of("DOG chases BALL", "DOG eats BONE")
    assert negatives and all(sentence.startswith("DOG ") for text in negatives for sentence in text.split(". "))
    negatives = negatives_of("the DOG", "CAT BIRD DOG", common_noun=True)  # no category is left without it
    assert negatives and all("DOG" in sentence.split() for text in negatives for sentence in text.split(". "))


def make_views(folder, *annotations) -> ViewMaker:
    """A maker of views of samples with a caption each."""
    samples = [Sample(f"s{i}", "s.png", (), "train", 40, 20) for i in range(len(annotations))]
    data = prepared(folder, samples, [(annotation,) for annotation in annotations])
    return ViewMaker(data, 0, 8, lambda sample: Image.new("RGB", (40, 20)))


def test_a_caption_without_concepts_may_be_one_itself(tmp_path):
    """C2LIP's released code; a caption that has some keeps them."""
    (bare,), (with_concept,) = tagged("it runs", "a DOG runs")
    with_concept = replace(with_concept, chunks=((0, 2),))
    maker = make_views(tmp_path, bare, with_concept)
    view_options = [Views(concepts="pooled"), Views(concepts="pooled", whole_concept=True), Views(whole_concept=True)]
    assert [maker.view(0, 0, views).concepts for views in view_options] == [(), ((0, 7),), ()]
    assert [maker.view(1, 0, views).concepts for views in view_options] == [((0, 5),), ((0, 5),), ()]


def test_a_single_sentence_may_lose_its_full_stop(tmp_path):
    ((a,),) = tagged("a DOG runs .")
    maker = make_views(tmp_path, a)
    assert [maker.view(0, 0, Views(ends=ends)).caption for ends in ("kept", "clic")] == ["a DOG runs .", "a DOG runs"]


def test_all_steps_mean_the_same_first_sentence(tmp_path):
    """CLIC's plain steps, composites and single pictures begin with the first of 4 to 34 words (B.1), never "A bar chart."."""
    text = "A bar chart. The chart shows house prices. It is blue and red."
    ((a,),) = tagged(text)
    maker = make_views(tmp_path, replace(a, sentences=tuple(text_sentences.split(text))))
    composites = (None, Composite(1, composite_captions.compose, ""), Composite(1, composite_captions.compose))
    for views in [Views(composite=composite) for composite in composites]:
        assert maker.view(0, 0, views).caption.startswith("The chart shows house prices.")
