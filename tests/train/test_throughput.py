"""The meter of a run: operations are counted once for each kind of step, not in every step."""

from collections.abc import Callable

import open_clip
import pytest
import torch

from compclip.interface.method import load_method
from compclip.interface.views import Regions, Views
from compclip.train import throughput
from tests import distributed_check

WORDS = {"color": ["red", "blue"]}


def counted(monkeypatch, views_at: Callable[[int], Views], steps: int) -> int:
    """How often a meter counts operations in some steps."""
    calls: list[Views] = []
    monkeypatch.setattr(throughput, "count_flops", lambda _clip, _batch, views, _frozen: calls.append(views) or 1)
    meter = throughput.Meter(distributed_check.model(bias=True), frozenset(), torch.float32)
    for step in range(steps):
        views = views_at(step)
        meter.add(distributed_check.batch(views), views)
    return len(calls)


@pytest.mark.parametrize(
    "name, options",
    [("svlc", {}), ("svlc", {"words": WORDS}), ("svlc", {"negatives": "both"}), ("dac", {}), ("dac", {"words": WORDS})],
)
def test_rules_made_anew_in_every_step_are_counted_once(monkeypatch, name, options):
    method = load_method(name)
    cfg = method.Config(**options)
    assert counted(monkeypatch, lambda step: method.views(cfg, step), 4) == 1


def test_a_resnets_norms_are_as_before():
    """They keep means of what they see in training: a resumed run, which counts anew, would end with other ones."""
    shape = distributed_check.SHAPE | {
        "vision_cfg": {"image_size": 32, "layers": [1, 1, 1, 1], "width": 8, "head_width": 64}
    }
    clip, views = open_clip.CLIP(**shape).double().train(), Views()
    before = {name: value.clone() for name, value in clip.state_dict().items()}
    assert throughput.count_flops(clip, distributed_check.batch(views), views, frozenset()) > 0
    assert any("running_mean" in name for name in before)
    assert all(torch.equal(value, before[name]) for name, value in clip.state_dict().items())


def test_regions_that_are_missing_in_the_first_pictures_count_as_well():
    """As texts that a rule could not make: what is counted of two pictures stands for all of a run."""
    views = Views(regions=Regions(2, negatives=1))
    batch = distributed_check.batch(views)
    absent = torch.zeros_like(batch.texts["region_texts"].mask)
    without = distributed_check.change_texts(batch, "region_texts", mask=absent, encoded=absent.numpy())
    counts = [
        throughput.count_flops(distributed_check.model(bias=True), b, views, frozenset()) for b in (batch, without)
    ]
    assert counts[0] == counts[1] > 0
