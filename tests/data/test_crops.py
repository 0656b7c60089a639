"""Random parts of training pictures: the area and ratio asked for, torchvision's rule, and no draw of another stream."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torchvision.transforms import RandomResizedCrop as Torchvisions

from compclip.base.errors import UserError
from compclip.config import validation
from compclip.config.sections import Train
from compclip.train.view_maker import RandomResizedCrop, central_box

SIDES = st.integers(1, 700)


@given(SIDES, SIDES, st.floats(0.05, 1), st.integers(0, 2**32 - 1))
def test_a_part_lies_within_the_picture(width, height, low, seed):
    x0, y0, x1, y1 = RandomResizedCrop(low, 1.0).draw_box(width, height, np.random.default_rng(seed))
    assert 0 <= x0 < x1 <= width and 0 <= y0 < y1 <= height


@given(st.integers(200, 700), st.floats(1.0, 1.3), st.integers(0, 2**32 - 1))
def test_area_and_ratio_are_those_asked_for(width, ratio, seed):
    """Up to the rounding of both sides; no picture this square needs its middle."""
    height = round(width / ratio)
    x0, y0, x1, y1 = RandomResizedCrop(0.3, 0.5).draw_box(width, height, np.random.default_rng(seed))
    w, h = x1 - x0, y1 - y0
    assert 0.29 < w * h / (width * height) < 0.51
    assert 3 / 4 - 0.02 < w / h < 4 / 3 + 0.02


def test_parts_are_spread_as_torchvisions():
    """Mean and spread of the four edges over 4,000 draws agree, drawn from generators that share nothing."""
    width, height, scale = 640, 480, (0.9, 1.0)
    rng = np.random.default_rng(0)
    ours = np.array([RandomResizedCrop(*scale).draw_box(width, height, rng) for _ in range(4000)])
    torch.manual_seed(0)
    picture, rule = torch.zeros(3, height, width), Torchvisions(224, scale)
    i_j_h_w = np.array([rule.get_params(picture, list(scale), list(rule.ratio)) for _ in range(4000)])
    corner = i_j_h_w[:, [1, 0]]
    theirs = np.concatenate([corner, corner + i_j_h_w[:, [3, 2]]], axis=1)
    error = np.maximum(ours.std(0), theirs.std(0)) / math.sqrt(2000)
    assert np.all(np.abs(ours.mean(0) - theirs.mean(0)) < 4 * error)
    assert np.allclose(ours.std(0), theirs.std(0), rtol=0.1)


def test_a_strip_gives_its_middle():
    """No part of a strip ten times as wide as high has an allowed ratio at 90 % of its area: 4/3 around the centre."""
    box = RandomResizedCrop(0.9, 1.0).draw_box(1000, 100, np.random.default_rng(0))
    assert box == central_box(1000, 100) == (433, 0, 566, 100)
    assert central_box(100, 1000) == (0, 433, 100, 566)
    assert central_box(120, 100) == (0, 0, 120, 100)


@pytest.mark.parametrize("scale", [[0.9], [0.0, 1.0], [0.9, 1.1], [1.0, 0.9], [0.1, 0.2, 0.3]])
def test_impossible_scales_are_refused(scale):
    with pytest.raises(UserError, match="augment_scale"):
        validation.load_section(Train, {"augment_scale": scale}, "train")
