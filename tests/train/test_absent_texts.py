"""Texts that no rule made are not encoded, and no loss, value or gradient, is another one for it."""

import numpy as np
import pytest

from compclip.interface.views import Views
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
