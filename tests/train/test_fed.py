"""What feeds a model: tokens and pixels made the short way are, to the bit, those of open_clip's own way.

Then the copy of a batch to a GPU, and pictures scaled by torch.
"""

import contextlib
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import open_clip
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from PIL import Image

from compclip.data import images
from compclip.interface.views import Views
from compclip.model import tokenizers
from compclip.model.clip_model import normalise_pictures
from compclip.train import accumulate, encode, picture_views
from compclip.train.batch import Batch, View
from compclip.train.loader import collate
from compclip.train.picture_views import open_torch_fit, resize_by_pillow, resize_by_torch
from compclip.train.view_maker import RandomResizedCrop
from tests import distributed_check
from tests.evaluate.test_embed import CONFIG
from tests.model.test_towers import make_model

LENGTH = 12
ours, theirs = tokenizers.ClipTokenizer(LENGTH), open_clip.SimpleTokenizer(context_length=LENGTH)
ascii_texts = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=60)


@given(st.lists(st.one_of(st.text(max_size=60), ascii_texts), min_size=1, max_size=4))
@example(
    ["A crimson star's above, isn't it? 1,234.5 <start_of_text> x", "", "   ", "T&amp;J &lt;b&gt;", "caf\u00e9 \u201c"]
)
@example(
    ["one\ttwo\nthree\r\nfour", "a\x00b\x1b[31mred", "<end_of_text>", "word " * 30, "'S 'LL'RE", "\ufb01ne \u00c3"]
)
def test_tokens_are_those_of_open_clip(texts):
    assert torch.equal(ours(texts), theirs(texts))
    assert [ours.count(text) for text in texts] == [len(theirs.encode(text)) for text in texts]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return make_model(tmp_path_factory.mktemp("model"), CONFIG)


def picture(width: int, height: int, mode: str = "RGB") -> Image.Image:
    values = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(values).convert(mode)


@pytest.mark.parametrize("mode", ["shortest", "longest", "squash"])
def test_pixels_are_those_of_the_transform(model, mode):
    """Pictures that fit, larger, smaller, of other shapes and modes; each way of fitting them."""
    cfg = open_clip.transform.PreprocessCfg(**model.preprocess_cfg | {"resize_mode": mode})
    fitting_model = replace(model, transform=open_clip.transform.image_transform_v2(cfg, is_train=False))
    pictures = [picture(16, 16), picture(16, 16, "L"), picture(40, 30), picture(9, 16), picture(16, 9), picture(16, 17)]
    expected = torch.stack([fitting_model.transform(p) for p in pictures])
    pixels = fitting_model.pixels(pictures)
    assert torch.equal(pixels, expected) and pixels.stride() == expected.stride()
    assert torch.equal(fitting_model.pixels([fitting_model.fit_picture(p) for p in pictures]), expected)
    mean, std = (torch.tensor(picture_views.IMAGENET[k])[:, None, None] for k in ("mean", "std"))
    own_mean, own_std = (torch.tensor(fitting_model.preprocess_cfg[k])[:, None, None] for k in ("mean", "std"))
    by_imagenet = (expected * own_std + own_mean - mean) / std
    torch.testing.assert_close(fitting_model.pixels(pictures, picture_views.IMAGENET), by_imagenet)


def test_a_method_may_ask_for_imagenet_s_statistics(model):
    """CLIC's released code, for composites."""
    rows = [View(picture(16, 16), "a dog")]
    batches = [collate(rows, Views(statistics=name), model) for name in ("", "imagenet")]
    plain, other = (normalise_pictures(batch.image_B3HW, batch.statistics_23) for batch in batches)
    assert torch.equal(plain, model.pixels([rows[0].image])) and not torch.allclose(plain, other, atol=1e-3)
    assert torch.equal(other, model.pixels([rows[0].image], picture_views.IMAGENET))


@pytest.mark.parametrize("beside", [0, 2])
def test_batches_travel_as_uint8_and_are_encoded_as_floats_were(model, beside):
    """A quarter of the bytes; features and slopes are, to the bit, those of pictures that the worker normalised."""
    views = Views(negative_images=beside)
    rows = [View(picture(40 + i, 30), "a dog", negative_images=(picture(20, 20 + i), None)[:beside]) for i in range(3)]
    batch = collate(rows, views, model)
    assert batch.image_B3HW.dtype == torch.uint8 and batch.image_B3HW.untyped_storage().nbytes() == 3 * 3 * 16 * 16
    early = replace(batch, image_B3HW=model.pixels([row.image for row in rows]), statistics_23=None)
    if beside:
        block = batch.pictures["negative_images"]
        assert block.image_BJ3HW.dtype == torch.uint8
        negative_images = [p or Image.new("RGB", (16, 16), "grey") for row in rows for p in row.negative_images]
        pixels = model.pixels(negative_images).unflatten(0, (3, beside))
        early = replace(early, pictures={"negative_images": replace(block, image_BJ3HW=pixels)})
    late_features, early_features = (encode.encode_features(model.clip, b, views) for b in (batch, early))
    slopes = []
    for features in (late_features, early_features):
        model.clip.zero_grad()
        features.image_BD.sum().backward(retain_graph=True)
        slopes.append(model.clip.visual.conv1.weight.grad.clone())
    assert torch.equal(late_features.image_BD, early_features.image_BD) and torch.equal(*slopes)
    for name, block in late_features.named.items():
        assert torch.equal(block.values, early_features.named[name].values)
    assert len(late_features.named) == (beside > 0)


def test_the_step_waits_for_a_copy_beside_it(monkeypatch):
    """Copied on another stream than the step's, which waits for it, and which all memory of the copy is noted for."""
    calls, batch = [], distributed_check.batch(Views())

    @contextlib.contextmanager
    def entered(stream):
        calls.append("begin")
        yield
        calls.append("end")

    copied = [SimpleNamespace(record_stream=lambda stream: calls.append(stream)) for _ in batch.tensors()]
    compute = SimpleNamespace(wait_stream=lambda stream: calls.append(("waits for", stream)))
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: "copying")
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: compute)
    monkeypatch.setattr(torch.cuda, "stream", entered)
    monkeypatch.setattr(
        Batch, "to", lambda batch, device: calls.append("copy") or SimpleNamespace(tensors=lambda: copied)
    )
    accumulate._copy_stream.cache_clear()
    try:
        accumulate.copy_batch(batch, torch.device("cuda", 7))
    finally:
        accumulate._copy_stream.cache_clear()
    assert calls == ["begin", "copy", "end", ("waits for", "copying"), *[compute] * len(copied)]


# --- pictures scaled by torch: the places and sizes of Pillow's way, and values within a grey level of its values ----

SIDE = 48
SIZES = [(64, 48), (48, 64), (48, 48), (131, 97), (97, 131), (30, 40), (200, 49), (49, 200)]


def photograph(size: tuple[int, int], seed: int = 0) -> Image.Image:
    """A picture with structure at all scales."""
    rng = np.random.default_rng(seed)
    values = sum(np.asarray(Image.fromarray(rng.integers(0, 256, (n, n, 3), np.uint8)).resize(size, 2), float) / 3
                 for n in (3, 12, 48))  # fmt: skip
    return Image.fromarray(values.round().astype(np.uint8))


def levels_apart(a: Image.Image, b: Image.Image) -> np.ndarray:
    assert a.size == b.size and a.mode == b.mode == "RGB"
    return np.abs(np.asarray(a, int) - np.asarray(b, int))


def fit_both(picture: Image.Image, mode: str, side: int = SIDE) -> tuple[Image.Image, Image.Image]:
    """The picture as torch fits it, and as open_clip's transform does."""
    cfg = open_clip.transform.PreprocessCfg(size=side, resize_mode=mode)
    theirs = picture
    for step in open_clip.transform.image_transform_v2(cfg, is_train=False).transforms[:-2]:
        theirs = step(theirs)
    return open_torch_fit(vars(cfg))(picture), theirs


@pytest.mark.parametrize("mode", ["shortest", "squash"])
@pytest.mark.parametrize("size", SIZES)
def test_a_fitted_picture_is_one_grey_level_from_open_clip_s(size, mode):
    """Larger and smaller pictures, odd sizes whose middle is rounded."""
    apart = levels_apart(*fit_both(photograph(size), mode))
    assert (apart > 1).mean() < 0.001 and (apart > 0).mean() < 0.25


def test_real_photographs_are_one_grey_level_apart(shared_data):
    """Fewer than one value of fifty differs, and one of ten thousand by more than a level."""
    paths = sorted((shared_data / "coco").rglob("*.jpg"))[:12]
    if not paths:
        pytest.skip(f"no photographs in {shared_data / 'coco'}")
    apart = np.stack([levels_apart(*fit_both(images.load_image(path), "shortest", 224)) for path in paths])
    assert (apart > 1).mean() < 1e-4 and (apart > 0).mean() < 0.02


def test_random_parts_and_composites_are_the_same():
    """What is cut out is drawn by the same numbers; values are one grey level apart."""
    first, second = photograph((131, 97), 1), photograph((99, 80), 2)
    parts, composites = [], []
    for resize in (resize_by_pillow, resize_by_torch):
        parts.append(RandomResizedCrop(0.3, 0.9, resize)(first, SIDE, np.random.default_rng(4)))
        composites.append(picture_views.join_pictures(first, second, 49, np.random.default_rng(0), resize))
    assert levels_apart(*parts).max() <= 1 and levels_apart(*composites).max() <= 1
