"""Batches over replicas of a model: full, in order, read ahead within bounds; and the devices that an option names."""

import threading
from concurrent.futures import Executor, Future

import pytest
from PIL import Image

from compclip.base.errors import UserError
from compclip.data.sample import Sample
from compclip.llm.answer_cache import Answer
from compclip.prepare.captioners import _device_replicas


@pytest.fixture
def samples(tmp_path):
    """Ten pictures of different widths, of which the second is none and the last is missing."""
    for i in range(9):
        Image.new("RGB", (10 + i, 10)).save(tmp_path / f"{i}.png")
    (tmp_path / "1.png").write_bytes(b"no picture")
    return [Sample(str(i), str(tmp_path / f"{i}.png"), ("old",)) for i in range(10)]


def widths(batches):
    """A replica that tells the pictures' widths, and keeps what it was given."""

    def describe(pictures):
        batches.append([str(picture.width - 10) for picture in pictures])
        return [Answer(f"{picture.width}  wide", picture.width > 16) for picture in pictures]

    return describe


def test_batches_are_full_and_captions_in_order(samples):
    """The next picture takes the unreadable one's place."""
    batches = []
    captioned, counts = _device_replicas.caption_samples(samples, [widths(batches)], 3, "m")
    assert batches == [["0", "2", "3"], ["4", "5", "6"], ["7", "8"]]
    assert [(s.id, s.captions) for s in captioned] == [(str(i), (f"{10 + i} wide",)) for i in (0, 2, 3, 4, 5, 6, 7, 8)]
    assert +counts == {"unreadable_picture": 1, "missing_picture": 1, "cut_short": 2}


def test_replicas_work_side_by_side_on_the_same_batches(samples):
    """Each waits for the other before it answers: one after the other, none would."""
    alone, both = [], []
    together = threading.Barrier(2, timeout=30)

    def waiting(pictures):
        together.wait()
        return widths(both)(pictures)

    assert _device_replicas.caption_samples(samples, [waiting, waiting], 2, "m") == _device_replicas.caption_samples(
        samples, [widths(alone)], 2, "m"
    )
    assert sorted(both) == alone and len(alone) == 4


def test_a_replica_that_fails_ends_it(samples):
    """Its error is the caller's, and what waits is not begun."""
    begun = []

    def fails(pictures):
        begun.append(pictures)
        raise UserError("out of memory")

    with pytest.raises(UserError, match="options.model=m: out of memory"):
        _device_replicas.caption_samples(samples, [fails], 1, "m")
    assert len(begun) <= 2


class Inline(Executor):
    """Works at once, and counts what was begun and not yet given."""

    def __init__(self):
        self.open, self.most = 0, 0

    def submit(self, work, item):
        self.open += 1
        self.most = max(self.most, self.open)
        future = Future()
        future.set_result(work(item))
        return future


@pytest.mark.parametrize("most", [1, 3, 20])
def test_no_more_is_begun_than_said(most):
    """Pictures of a whole shard would not go into memory."""
    pool, results = Inline(), []
    for square in _device_replicas._run_ahead(pool, lambda i: i * i, iter(range(10)), most):
        pool.open -= 1
        results.append(square)
    assert results == [i * i for i in range(10)]
    assert pool.most == min(most, 10)
