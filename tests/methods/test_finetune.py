"""Plain fine-tuning, and the model that is not trained."""

from __future__ import annotations

from compclip.interface.views import Views
from compclip.methods import finetune, pretrained


def test_views_are_the_caption_alone():
    assert finetune.views(finetune.Config(), 0) == Views(caption="full")
    assert finetune.views(finetune.Config(caption="first"), 0) == Views(caption="first")


def test_pretrained_has_nothing_to_train():
    assert not pretrained.TRAINS and not hasattr(pretrained, "loss") and not hasattr(pretrained, "views")
