"""What compares whole steps with released programs: equal ones are equal, and another batch or slope is told."""

from dataclasses import replace

import pytest
import torch

from compclip.base.errors import UserError
from perf.truth import released_steps
from perf.truth.released_steps import Step

STEP = Step(torch.ones(2, 3, 4, 4), torch.tensor([[1, 2]]), {"a": torch.tensor(2.0)}, {"w": torch.tensor([1.0, 4.0])})


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({}, "pictures 0.0e+00, tokens equal, terms 0.0e+00, slopes 0.0e+00 (w; 1 parameters)"),
        ({"token_AL": torch.tensor([[1, 2, 0]])}, "tokens equal"),  # padding alone
        ({"token_AL": torch.tensor([[1, 2, 3]])}, "tokens DIFFER"),
        ({"picture_B3HW": 2 * STEP.picture_B3HW}, "pictures 5.0e-01"),
        ({"terms": {"b": torch.tensor(4.0)}}, "terms 5.0e-01"),
        ({"slopes": {"w": torch.tensor([1.0, 2.0])}}, "slopes 1.0e+00"),
        ({"slopes": STEP.slopes | {"v": torch.ones(1)}}, "on one side alone: v"),
    ],
)
def test_what_differs_is_told(change, says):
    assert says in released_steps.compare(STEP, replace(STEP, **change))


def test_a_method_without_a_folder_is_refused():
    with pytest.raises(UserError, match="negclip=FOLDER"):
        released_steps.main(["negclip=/nowhere"])
