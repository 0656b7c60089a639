"""Pictures scaled by torch: the places and sizes of Pillow's way, and values within a grey level of its values."""

import numpy as np
import open_clip
import pytest
from PIL import Image

from compclip.data import images
from compclip.train import picture_views
from compclip.train.picture_views import open_torch_fit, resize_by_pillow, resize_by_torch
from compclip.train.view_maker import RandomResizedCrop

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
