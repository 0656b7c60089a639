"""Texts in groups of similar length, and without those that no rule made: the same terms and gradients from less."""

import itertools

import numpy as np
import pytest

from compclip.interface.method import load_method
from compclip.interface.views import Views
from compclip.model import towers
from compclip.train import encode, recorder
from compclip.train.batch import CAPTION, CONCEPT, NEGATIVE, POSITIVE, Batch
from compclip.train.encode import plan_groups, split_by_length
from tests import distributed_check, small_training, tiny_project
from tests.distributed_check import CASES, FROZEN, PLAIN_OR_IN_PARTS, run, run_whole_batch

ENCODE = towers.encode_texts


def as_collated(batch: Batch, views: Views) -> Batch:
    """The batch with its texts' lengths, and with which of them are encoded.

    What is masked is not; composites and bags have all their positives.
    """
    for name in (CAPTION, NEGATIVE, POSITIVE, CONCEPT):
        batch = distributed_check.change_texts(batch, name, length=(batch.texts[name].ids.argmax(-1) + 1).numpy())
    batch = distributed_check.change_texts(batch, NEGATIVE, encoded=batch.texts[NEGATIVE].mask.numpy())
    has_all = views.composite or any(group.name == "bag" for group in views.groups)
    encoded_BP = batch.texts[POSITIVE].mask.numpy() | bool(has_all)
    return distributed_check.change_texts(batch, POSITIVE, encoded=encoded_BP)


@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize(("case", "micro"), PLAIN_OR_IN_PARTS)
def test_every_method_gets_the_same(case, micro, groups):
    """Tokens, concepts and composites included, the batch whole or in parts; a masked text may be any text."""
    other = run(CASES[case], None, micro=micro, groups=groups, change=as_collated)
    distributed_check.assert_equal(run_whole_batch(case), other)


@pytest.mark.parametrize("frozen", FROZEN[1:], ids=["image", "text", "lora"])
@pytest.mark.parametrize("micro", [0, 2])
def test_frozen_towers_and_adapters(micro, frozen):
    case = [name for name, _, _ in CASES].index("fsc_clip")
    in_groups = run(CASES[case], None, frozen, micro, groups=3, change=as_collated)
    distributed_check.assert_equal(run_whole_batch(case, frozen), in_groups)


def record_shapes(monkeypatch) -> list[tuple[int, ...]]:
    """A list that gets the shape of all texts that the tower encodes from now on."""
    shapes: list[tuple[int, ...]] = []

    def record(clip, text_BL, *arguments, **options):
        shapes.append(tuple(text_BL.shape))
        return ENCODE(clip, text_BL, *arguments, **options)

    monkeypatch.setattr(towers, "encode_texts", record)
    return shapes


def test_the_tower_gets_fewer_positions_and_looks_tokens_up_once(monkeypatch):
    """The gradient of a look-up is a table of the whole vocabulary; the test's block is not cut to the longest text."""
    shapes, look_ups = record_shapes(monkeypatch), []
    method, clip = load_method("negclip"), distributed_check.model(bias=False)
    clip.token_embedding.register_forward_hook(lambda *call: look_ups.append(call[-1].shape))
    views = method.views(method.Config(), 0)
    for count in (1, 3):
        encode.encode_features(clip, as_collated(distributed_check.batch(views), views), views, text_groups=count)
    block, *groups = shapes
    assert len(look_ups) == 2 and len(groups) == 3 and sum(rows for rows, _ in groups) == block[0]
    assert sum(rows * positions for rows, positions in groups) < block[0] * block[1]
    assert max(positions for _, positions in groups) < block[1]


@pytest.mark.parametrize("lengths", [[5], [4, 4, 4], [9, 2, 5, 2, 8], [3, 7, 7, 2, 20, 6, 6, 5, 3, 19]])
@pytest.mark.parametrize("count", [1, 2, 3, 9])
def test_groups_have_the_least_padding(lengths, count):
    """Beside all ways to cut the sorted texts."""
    groups = split_by_length(np.array(lengths), count)
    assert sorted(np.concatenate(groups)) == list(range(len(lengths)))
    assert len(groups) <= count and all(len(group) for group in groups)
    ordered, size = sorted(lengths), len(lengths)
    least = min(
        sum((b - a) * ordered[b - 1] for a, b in itertools.pairwise((0, *cuts, size)))
        for cut in range(min(count, size))
        for cuts in itertools.combinations(range(1, size), cut)
    )
    assert sum(len(group) * max(lengths[i] for i in group) for group in groups) == least


def test_a_tower_that_needs_all_positions_has_one_block():
    """Without a causal mask, or pooled elsewhere than at the end token: lengths are those of the block, as it stands."""
    clip, batch = distributed_check.model(bias=False), distributed_check.batch(Views())
    assert towers.measure_lengths(clip, batch.text_BL).tolist() == (batch.text_BL.argmax(-1) + 1).tolist()
    for name, value in (("text_pool_type", "last"), ("attn_mask", None)):
        other = distributed_check.model(bias=False)
        setattr(other, name, value)
        lengths = towers.measure_lengths(other, batch.text_BL)
        assert set(lengths.tolist()) == {batch.text_BL.shape[1]}
        assert plan_groups(distributed_check.change_texts(batch, CAPTION, length=lengths.numpy()), 4) is None


def test_a_run_in_groups_of_texts(here, monkeypatch):
    """`train.text_groups` reaches the tower; one is the default, and terms differ by rounding alone."""
    shapes = record_shapes(monkeypatch)
    losses, calls = [], []
    for groups in ("1", "3"):
        shapes.clear()
        options = ("train.max_steps=1", f"train.text_groups={groups}")
        small_training.train(here, "fsc_clip", here / groups, recorder.do_nothing, *options)
        losses.append(tiny_project.steps(here / groups / "metrics.jsonl")[-1])
        calls.append(len(shapes))
    assert calls[1] > calls[0]
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
