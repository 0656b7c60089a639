"""Plain fine-tuning, and the model that is not trained."""

from __future__ import annotations

import pytest

from compclip.base.errors import UserError
from compclip.config.validation import load_section
from compclip.interface.views import Views
from compclip.methods import finetune, pretrained


def test_views_are_the_caption_alone():
    assert finetune.views(finetune.Config(), 0) == Views(caption="full")
    assert finetune.views(finetune.Config(caption="first"), 0) == Views(caption="first")


def test_an_unknown_caption_is_refused_with_the_nearest():
    with pytest.raises(UserError, match="finetune.caption: unknown caption 'frist'; did you mean 'first'"):
        load_section(finetune.Config, {"caption": "frist"}, "finetune")


def test_pretrained_has_nothing_to_train():
    assert not pretrained.TRAINS and not hasattr(pretrained, "loss") and not hasattr(pretrained, "views")
