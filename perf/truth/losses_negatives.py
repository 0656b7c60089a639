"""Losses of NegCLIP, CE-CLIP and CLoVe beside released programs, for `perf/truth/released_losses.py`.

All have negatives in the contrast. CREPE's authors released no program that trains (`compclip/methods/crepe.py`).

B images, K negatives, D dim.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from compclip.interface.features import Features
from compclip.interface.method import load_method
from perf.truth.loss_comparison import B, Compared, load_module, total
from tests.methods.conftest import drawn

NAMES = ("image_BD", "text_BD", "negative_BKD", "scale")


def compare_negclip(folder: Path, seed: int) -> Compared:
    """The contrast with hard images, which are the second half of the rows; FOLDER is vinid/neg_clip.

    On one process, as their README asks: on several, images of the second have negatives of the first as targets.
    """
    cfg = load_method("negclip").Config(hard_images=1)
    f = drawn("negclip", cfg, fill="all", seed=seed, B=B)

    def cut(text: str) -> str:
        lines = text[text.index("        images = torch.cat([images, new_images])") : text.index("        data_time_m")]
        arguments = "images, new_images, texts, new_texts, hard_captions, new_hard"
        return f"import torch\n\n\ndef join({arguments}):\n{lines}        return images, texts\n"

    join = load_module(folder / "src/training/train.py", cut).join
    images, texts = join(*f.image_BD.chunk(2), *f.text_BD.chunk(2), *f.negative_BKD[:, 0].chunk(2))
    value = load_module(folder / "src/open_clip/loss.py").ClipLoss()(images, texts, f.scale)
    return total("negclip", f, cfg), value, f, NAMES


def compare_ce_clip(folder: Path, seed: int) -> Compared:
    """Contrast and rank at ef87eb7 of lezhang7/Enhance-FineGrained; raises AssertionError where a threshold differs.

    Its intra-modal term is left out: there every caption's target is the batch's first negative.
    """
    method = load_method("ce_clip")
    cfg = method.Config(lambda_rank=0.2, lambda_intra=0.0)
    f = drawn("ce_clip", cfg, fill="all", seed=seed, B=B)
    theirs = load_module(folder / "src/open_clip/loss.py")
    loss = theirs.Clip_DALoss(world_size=2, hardnegative=True, cmr_loss=True, cmr_loss_weight=0.2)
    value, threshold_K = run_ce_clip(theirs, loss, f)
    torch.testing.assert_close(method.remember(f, cfg)["threshold_K"], threshold_K, rtol=0, atol=1e-14)
    return total("ce_clip", f, cfg), value, f, NAMES


def compare_ce_clip_intra(folder: Path, seed: int) -> Compared:
    """All terms at 2d07821, where the intra-modal term's target is the image; AssertionError where a threshold differs.

    At 7f4433a it is the same; at b8a5244 and from 47cef4e on the target is a negative.
    """
    method = load_method("ce_clip")
    cfg = method.Config(lambda_rank=0.2, lambda_intra=0.3)
    f = drawn("ce_clip", cfg, fill="all", seed=seed, B=B)
    theirs = load_module(folder / "src/open_clip/loss.py")
    weights = {"atr_loss_weight": 0.2, "tec_loss_weight": 0.3}
    loss = theirs.Clip_DALoss(world_size=2, hardnegative=True, atr_loss=True, tec_loss=True, **weights)
    value, threshold_K = run_ce_clip(theirs, loss, f)
    torch.testing.assert_close(method.remember(f, cfg)["threshold_K"], threshold_K, rtol=0, atol=1e-14)
    return total("ce_clip", f, cfg), value, f, NAMES


def run_ce_clip(theirs: Any, loss: nn.Module, f: Features) -> tuple[Tensor, Tensor]:
    """Return their value and the next thresholds [K], by their code of several processes: half the batch on each."""
    halves = zip(f.text_BD.chunk(2), f.negative_BKD.flatten(0, 1).chunk(2), strict=True)
    texts_ND = torch.cat([texts for half in halves for texts in half])
    there_BK = torch.ones_like(f.mask_BK)
    theirs.gather_features_da = lambda *_: (f.image_BD, texts_ND, there_BK)
    count, thresholds_BK = len(f.image_BD) // 2, f.memory["threshold_K"].expand(f.mask_BK.shape)
    value, thresholds_BK, *_ = loss(f.image_BD[:count], texts_ND, there_BK[:count], f.scale, thresholds_BK)
    return value, thresholds_BK[0].clamp(0, 10)  # src/training/train.py


def compare_clove(folder: Path, seed: int) -> Compared:
    """The contrast with a negative of each caption; FOLDER is Netflix/clove."""
    return run_clove(folder, seed, "all")


def compare_clove_gaps(folder: Path, seed: int) -> Compared:
    """The same where some captions have no negative, on one process: on several theirs has vectors of zeros there."""
    return run_clove(folder, seed, "some")


def run_clove(folder: Path, seed: int, fill: str) -> Compared:
    """Compare the contrast with the negatives that there are, none of them padded."""
    cfg = load_method("clove").Config()
    f = drawn("clove", cfg, fill=fill, seed=seed, B=B)
    sources = folder / "src/open_clip"

    def cut_model(text: str) -> str:
        start = text.index("    def compute_similarity")
        return "import torch\n\n\nclass CLIP:\n" + text[start : text.index("\n\n\n", start)]

    def cut_unwrap(text: str) -> str:
        start = text.index("def unwrap_model")
        return "from __future__ import annotations\n\n\n" + text[start : text.index("\n\n\n", start)]

    model = load_module(sources / "clip_model.py", cut_model).CLIP()
    model.logit_scale = SimpleNamespace(exp=lambda: f.scale)
    lines = "from .model import ImageTextModel\nfrom .utils import unwrap_model\n"
    theirs = load_module(sources / "loss.py", lambda text: text.replace(lines, "ImageTextModel = nn.Module\n"))
    theirs.unwrap_model = load_module(sources / "utils.py", cut_unwrap).unwrap_model
    texts = torch.cat([f.text_BD, f.negative_BKD[f.mask_BK]])
    value = sum(theirs.ClipLoss(model)(f.image_BD, texts).values())
    return total("clove", f, cfg), value, f, NAMES
