"""Losses of methods with pictures of their own, a teacher, or the batch's contrast alone, beside released programs.

B images, K negatives, J negative images, D dim. For `perf/truth/released_losses.py`.
"""

from __future__ import annotations

import textwrap
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from open_clip.loss import ClipLoss
from torch import Tensor

from compclip.interface.features import Features
from compclip.interface.method import load_method
from perf.truth.loss_comparison import B, Compared, load_module, total
from tests.methods.conftest import drawn

EDITED = B // 2  # so many pictures of a batch have variations, the others are plain pairs (GNM-CLIP)
DEGLA_WEIGHTS = {"text_local_weight": 0.1, "image_local_weight": 0.1, "distill_weight": 0.005}  # scripts/train_DeGLA.sh
GNM_NAMES = ("image_BD", "text_BD", "negative_images", "negative_BKD", "scale")


def compare_triplet_clip(folder: Path, seed: int) -> Compared:
    """Both losses; samples without a negative caption or its picture are not in theirs, nor in this batch."""
    cfg = load_method("triplet_clip").Config()
    f = drawn("triplet_clip", cfg, fill="all", seed=seed, B=B)
    theirs = load_module(folder / "src/openclip/src/loss.py")
    negatives = (f.named["negative_images"].values[:, 0], f.negative_BKD[:, 0])
    value, _ = theirs.tripletclip_loss(f.image_BD, f.text_BD, *negatives, f.scale)
    names = ("image_BD", "text_BD", "negative_images", "negative_BKD", "scale")
    return total("triplet_clip", f, cfg), value, f, names


def compare_triplet_clip_captions(folder: Path, seed: int) -> Compared:
    """The captions alone (`images: false`, the paper's NegCLIP++): the first of the two losses that theirs adds."""
    cfg = load_method("triplet_clip").Config(images=False)
    f = drawn("triplet_clip", cfg, fill="all", seed=seed, B=B)
    theirs = load_module(folder / "src/openclip/src/loss.py")
    value, _ = theirs.negclip_loss(f.image_BD, f.text_BD, f.negative_BKD[:, 0], f.scale)
    return total("triplet_clip", f, cfg), value, f, ("image_BD", "text_BD", "negative_BKD", "scale")


def compare_gnm_clip(folder: Path, seed: int) -> Compared:
    """The authors' batch: two variations of each edited picture, not the picture itself, and plain pairs.

    Their sampling draws which variations and pairs share a batch; here both sides have the same.
    """
    cfg = load_method("gnm_clip").Config(draw="scores", original="left_out")
    f = drawn_with_plain_pairs(cfg, seed)
    edited = [(f.named["negative_images"].values[i], f.negative_BKD[i]) for i in range(EDITED)]
    plain = [(f.image_BD[i : i + 1], f.text_BD[i : i + 1]) for i in range(EDITED, B)]
    return total("gnm_clip", f, cfg), contrast_entries(folder, [*edited, *plain], f.scale), f, GNM_NAMES


def compare_gnm_clip_beside(folder: Path, seed: int) -> Compared:
    """Our default, variations beside their picture: a departure of the batch, in which their program has none."""
    cfg = load_method("gnm_clip").Config()
    f = drawn_with_plain_pairs(cfg, seed)
    edited = [(f.named["negative_images"].values[i], f.negative_BKD[i]) for i in range(EDITED)]
    entries = [*edited, (f.image_BD, f.text_BD)]
    return total("gnm_clip", f, cfg), contrast_entries(folder, entries, f.scale), f, GNM_NAMES


def drawn_with_plain_pairs(cfg: Any, seed: int) -> Features:
    """Return a drawn batch whose first pictures have all their variations, and the others none."""
    f = drawn("gnm_clip", cfg, fill="all", seed=seed, B=B)
    has_variations_B1 = (torch.arange(B) < EDITED)[:, None]
    pictures = f.named["negative_images"]
    named = {**f.named, "negative_images": replace(pictures, mask=pictures.mask & has_variations_B1)}
    return replace(f, named=named, mask_BK=f.mask_BK & has_variations_B1)


def contrast_entries(folder: Path, entries: list[tuple[Tensor, Tensor]], scale: Tensor) -> Tensor:
    """Return the loss of GNM-CLIP's training loop for entries of pictures and texts, collated by their function.

    The logits are of OpenAI's package `clip`, which is not in the release; open_clip's stand for them.
    """
    data, training = folder / "training/negative_mining_dataset.py", folder / "training/train.py"
    collate = load_module(data, lambda s: "import torch\n" + s[s.index("def collate") : s.index("def prepare_dataset")])
    collate.tokenize = torch.stack  # the texts are embeddings already
    images, texts, _ = collate.collate([(*entry, None) for entry in entries])
    loop = load_module(training, cut_step)
    loop.args = SimpleNamespace(device="cpu")
    return loop.compute_loss(lambda *pairs: ClipLoss().get_logits(*pairs, scale), images, texts)


def cut_step(source: str) -> str:
    """Return GNM-CLIP's lines from pictures and texts to the loss, as a function of them and the model."""
    criteria = source[source.index("    loss_img = ") : source.index("    LAST_EPOCH = 0")]
    lines = source[source.index("            ground_truth = ") : source.index("            loss.backward()")]
    return (
        "import torch\nfrom torch.nn import CrossEntropyLoss\n"
        + textwrap.dedent(criteria)
        + "def compute_loss(model, images, texts):\n"
        + textwrap.indent(textwrap.dedent(lines), "    ")
        + "    return loss\n"
    )


def compare_degla(folder: Path, seed: int) -> Compared:
    """All four terms, with the negatives that the released code takes in the text-grounded one."""
    cfg = load_method("degla").Config(text_negatives="released")
    f = drawn("degla", cfg, fill="all", seed=seed, B=B)
    theirs = load_module(folder / "src/open_clip/loss.py")
    contrast = theirs.CLIPloss_DeGLA(text_local_contrast=True, image_local_contrast=True, **DEGLA_WEIGHTS)
    texts, teacher_texts = stack_texts(f), stack_texts(f.teacher)
    value, *_ = contrast(f.image_BD, texts, f.scale, f.teacher.image_BD, teacher_texts)
    return total("degla", f, cfg), value, f, ("image_BD", "text_BD", "negative_BKD", "scale")


def compare_degla_own(folder: Path, seed: int) -> Compared:
    """Our default, Eq. 9 as printed: their text-grounded term is given the negatives in the order of its mask."""
    cfg = load_method("degla").Config()
    f = drawn("degla", cfg, fill="all", seed=seed, B=B)
    theirs = load_module(folder / "src/open_clip/loss.py")
    contrast = theirs.CLIPloss_DeGLA(image_local_contrast=True, **DEGLA_WEIGHTS)
    other_terms, *_ = contrast(f.image_BD, stack_texts(f), f.scale, f.teacher.image_BD, stack_texts(f.teacher))
    texts = torch.cat([f.text_BD, f.negative_BKD.transpose(0, 1).flatten(0, 1)])
    grounded = contrast.get_text_local_loss(f.scale, texts, f.teacher.text_BD)
    value = other_terms + DEGLA_WEIGHTS["text_local_weight"] * grounded
    return total("degla", f, cfg), value, f, ("image_BD", "text_BD", "negative_BKD", "scale")


def stack_texts(f: Features) -> Tensor:
    """Return captions, and behind them the negatives of one caption after the other, as DeGLA's training has them."""
    return torch.cat([f.text_BD, f.negative_BKD.flatten(0, 1)])


def compare_finetune(folder: Path, seed: int) -> Compared:
    """CLIP's contrast; FOLDER is that of the installed package open_clip."""
    cfg = load_method("finetune").Config()
    f = drawn("finetune", cfg, seed=seed, B=B)
    value = load_module(folder / "loss.py").ClipLoss()(f.image_BD, f.text_BD, f.scale)
    return total("finetune", f, cfg), value, f, ("image_BD", "text_BD", "scale")


def compare_finetune_sigmoid(folder: Path, seed: int) -> Compared:
    """SigLIP's loss; FOLDER is that of the installed package open_clip."""
    cfg = load_method("finetune").Config(loss="sigmoid")
    f = drawn("finetune", cfg, seed=seed, B=B)
    value = load_module(folder / "loss.py").SigLipLoss()(f.image_BD, f.text_BD, f.scale, f.bias)
    return total("finetune", f, cfg), value, f, ("image_BD", "text_BD", "scale", "bias")
