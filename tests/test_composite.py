"""CLIC composites: geometry by hand, captions by hand."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from compclip import composite
from compclip.text.annotation import Annotation

RED, BLUE = (255, 0, 0), (0, 0, 255)


def said(*texts: str) -> tuple[Annotation, ...]:
    """Sentences without analysis: enough where no word is exchanged."""
    return tuple(Annotation(text=t, sentences=((0, len(t)),)) for t in texts)


@pytest.mark.parametrize("size,expected", [((40, 40), "wide"), ((41, 40), "wide"), ((40, 41), "tall")])
def test_orientation(size, expected):
    """A square is wide."""
    assert composite.orientation(*size) == expected


@pytest.mark.parametrize("size,axis", [((50, 20), 0), ((20, 50), 1)])
def test_two_pictures_share_one_square(size, axis):
    """Wide pictures are stacked, tall ones set side by side, each squashed to half, in both orders over seeds."""
    a, b = (Image.new("RGB", size, colour) for colour in (RED, BLUE))
    orders = set()
    for seed in range(20):
        square = np.asarray(composite.pictures(a, b, 33, np.random.default_rng(seed)))
        assert square.shape == (33, 33, 3)
        halves = np.split(square, [16], axis=axis)
        colours = [tuple(int(c) for c in half.reshape(-1, 3)[0]) for half in halves]
        assert all((half.reshape(-1, 3) == colour).all() for half, colour in zip(halves, colours, strict=True))
        assert set(colours) == {RED, BLUE}
        orders.add(tuple(colours))
    assert len(orders) == 2


def test_captions_by_hand(rng):
    """p1 and p2 join the first sentences in both orders; p3 and p4 take different further sentences."""
    a, b = said("A dog.", "It runs.", "It barks."), said("A cat.", "It sits.", "It sleeps.")
    (p1, p2, p3, p4), _ = composite.captions(a, b, 4, rng)
    assert (p1, p2) == ("A dog. A cat.", "A cat. A dog.")
    of_a = {s for p in (p3, p4) for s in ("It runs", "It barks") if s in p}
    of_b = {s for p in (p3, p4) for s in ("It sits", "It sleeps") if s in p}
    assert len(of_a) == len(of_b) == 2


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_number_of_positives(rng, count):
    """As many captions as asked for; further sentences repeat only when there are too few."""
    a, b = said("A dog.", "It runs."), said("A cat.")
    positives, _ = composite.captions(a, b, count, rng)
    assert len(positives) == count
    assert all("It runs" in p and "A cat" in p for p in positives[2:])


def test_single_picture_variant(rng):
    """B1-B4: p2 is p1, further captions are further sentences."""
    positives, _ = composite.own_captions(said("A dog.", "It runs.", "It barks."), 4, rng)
    assert positives[:2] == ["A dog."] * 2
    assert sorted(positives[2:]) == ["It barks.", "It runs."]
