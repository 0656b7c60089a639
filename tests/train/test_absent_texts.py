"""Texts that no rule made are not encoded, and no loss, value or gradient, is another one for it."""

import numpy as np
import pytest

from compclip.interface.method import load_method
from compclip.interface.views import Views
from compclip.model import towers
from compclip.train import encode
from compclip.train.batch import NEGATIVE, POSITIVE, Batch
from tests import distributed_check
from tests.distributed_check import CASES, PLAIN_OR_IN_PARTS, run, run_whole_batch


def without_masked(batch: Batch, views: Views) -> Batch:
    """The batch as collation gives it: what is masked is not encoded; composites and bags have all their positives."""
    mask_BP = batch.texts[POSITIVE].mask
    encoded_BP = np.ones(tuple(mask_BP.shape), bool)
    if not (views.composite or any(group.name == "bag" for group in views.groups)):
        encoded_BP = mask_BP.numpy()
    batch = distributed_check.change_texts(batch, POSITIVE, encoded=encoded_BP)
    return distributed_check.change_texts(batch, NEGATIVE, encoded=batch.texts[NEGATIVE].mask.numpy())


@pytest.mark.parametrize(("case", "micro"), PLAIN_OR_IN_PARTS)
def test_no_loss_looks_at_masked_texts(case, micro):
    """In float64, a masked text of the batch being any text."""
    distributed_check.assert_equal(run_whole_batch(case), run(CASES[case], None, micro=micro, change=without_masked))


def count_rows(monkeypatch, batch: Batch) -> int:
    """How many texts the tower encodes."""
    rows: list[int] = []
    encode_texts = towers.encode_texts

    def count(clip, text_BL, *arguments, **options):
        rows.append(len(text_BL))
        return encode_texts(clip, text_BL, *arguments, **options)

    monkeypatch.setattr(towers, "encode_texts", count)
    views = load_method("negclip").views(load_method("negclip").Config(), 0)
    encode.encode_features(distributed_check.model(bias=False), batch, views)
    return sum(rows)


def test_the_tower_sees_what_is_there(monkeypatch):
    views = load_method("negclip").views(load_method("negclip").Config(), 0)
    batch = distributed_check.batch(views)
    there = len(batch) + sum(int(batch.texts[name].mask.sum()) for name in (NEGATIVE, POSITIVE))
    assert there < count_rows(monkeypatch, batch)
    assert count_rows(monkeypatch, without_masked(batch, views)) == there
