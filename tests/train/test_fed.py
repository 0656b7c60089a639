"""What feeds a model: tokens and pixels made the short way are, to the bit, those of open_clip's own way."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import open_clip
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from PIL import Image

from compclip.interface.views import Views
from compclip.model import backbone, tokenizers
from compclip.train import composite
from compclip.train.batch import View
from compclip.train.loader import collate
from tests.evaluate.test_embed import CONFIG

LENGTH = 12
ours, theirs = tokenizers.ClipTokenizer(LENGTH), open_clip.SimpleTokenizer(context_length=LENGTH)
ascii_texts = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=60)


@given(st.lists(st.one_of(st.text(max_size=60), ascii_texts), min_size=1, max_size=4))
@example(
    [
        "A crimson star's above, isn't it? 1,234.5 <start_of_text> x",
        "",
        "   ",
        "T&amp;J &lt;b&gt;",
        "caf\u00e9 \u201cq\u201d",
    ]
)
@example(
    [
        "one\ttwo\nthree\r\nfour",
        "a\x00b\x1b[31mred",
        "<end_of_text>",
        "word " * 30,
        "'S 'LL'RE",
        "\ufb01ne \u00c3\u00a9",
    ]
)
def test_tokens_are_those_of_open_clip(texts):
    assert torch.equal(ours(texts), theirs(texts))
    assert [ours.count(text) for text in texts] == [len(theirs.encode(text)) for text in texts]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "fedtiny.json"
    path.write_text(json.dumps(CONFIG))
    return backbone.create(str(path), seed=1)


def picture(width: int, height: int, mode: str = "RGB") -> Image.Image:
    """Noise of a size."""
    values = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(values).convert(mode)


@pytest.mark.parametrize("mode", ["shortest", "longest", "squash"])
def test_pixels_are_those_of_the_transform(model, mode):
    """Pictures that fit, larger, smaller, of other shapes and modes; each way of fitting them."""
    cfg = open_clip.transform.PreprocessCfg(**model.preprocess_cfg | {"resize_mode": mode})
    made = replace(
        model,
        transform=open_clip.transform.image_transform_v2(cfg, is_train=False),
        preprocess_cfg=model.preprocess_cfg,
    )
    pictures = [picture(16, 16), picture(16, 16, "L"), picture(40, 30), picture(9, 16), picture(16, 9), picture(16, 17)]
    expected = torch.stack([made.transform(p) for p in pictures])
    found = made.pixels(pictures)
    assert torch.equal(found, expected) and found.stride() == expected.stride()
    assert torch.equal(made.pixels([made.fit_picture(p) for p in pictures]), expected)
    mean, std = (torch.tensor(composite.IMAGENET[k])[:, None, None] for k in ("mean", "std"))
    own_mean, own_std = (torch.tensor(made.preprocess_cfg[k])[:, None, None] for k in ("mean", "std"))
    torch.testing.assert_close(made.pixels(pictures, composite.IMAGENET), (expected * own_std + own_mean - mean) / std)


def test_a_method_may_ask_for_imagenet_s_statistics(model):
    """CLIC's released code, for composites."""
    rows = [View(picture(16, 16), "a dog")]
    plain, other = (collate(rows, Views(statistics=name), model).image_B3HW for name in ("", "imagenet"))
    assert torch.equal(plain, model.pixels([rows[0].image])) and not torch.allclose(plain, other, atol=1e-3)
    assert torch.equal(other, model.pixels([rows[0].image], composite.IMAGENET))
