"""Losses of CLIC, C2LIP, CoN-CLIP and READ-CLIP beside released programs, for `perf/truth/released_losses.py`.

B images, K negatives, M concepts, N patches, L tokens of a target, D dim.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import yaml
from torch import Tensor
from torch.nn import functional as F

from compclip.interface.features import Features
from compclip.interface.method import load_method
from perf.truth.loss_comparison import B, Compared, load_module, total
from tests.methods.conftest import drawn

IMPORTS = """from __future__ import annotations

from itertools import zip_longest
from logging import getLogger
from types import SimpleNamespace

import torch
from torch import nn
from torch.nn import functional as F

logger = getLogger("released")
"""
CLIC_FLAGS = {"cont": 0.5, "sneg": 0.5, "uni": 1.0, "hard_negatives_separate": True, "uni_modal_loss": True,
              "shuffled_positive": True, "additional_positives": 2}  # fmt: skip


def cut(source: str, start: str, end: str, after: str = "") -> str:
    """Return the text from `start` up to `end`, both behind the first `after`."""
    first = source.index(start, source.index(after))
    return source[first : source.index(end, first)]


def cut_methods(source: str, start: str, end: str, after: str = "") -> str:
    """Return `cut` as the methods of a class `Cut` of a file of its own."""
    return IMPORTS + "class Cut:\n" + cut(source, start, end, after)


# CLIC


def encode_clic(folder: Path, f: Features, texts: Tensor) -> dict[str, Tensor]:
    """Return what the forward pass of their model gives of our pictures and some texts."""
    module = load_module(folder / "models.py", lambda s: cut_methods(s, "    def encode_text", "    def __getattr__"))
    model = module.Cut()
    model.args = SimpleNamespace(distributed=False)
    model.model = SimpleNamespace(
        encode_image=lambda x: x, encode_text=lambda x: x, logit_scale=SimpleNamespace(exp=lambda: f.scale)
    )
    return model.forward(f.image_BD, texts)


def open_clic(folder: Path, **flags: bool) -> Any:
    """Return their loss on one process with the flags of trigger_train.sh, or some others."""
    module = load_module(folder / "losses.py", lambda s: s.replace("from utils import general_utils\n", ""))
    module.general_utils = SimpleNamespace(get_rank=lambda: 0)
    return module.CLIPLoss(SimpleNamespace(**CLIC_FLAGS | flags))


def compare_clic(folder: Path, seed: int, composites: bool = True) -> Compared:
    """All terms of a step on composites, four captions and a negative of each."""
    cfg = load_method("clic").Config(composites=composites, lambda_uni=1.0 if composites else 0.0)
    f = drawn("clic", cfg, fill="all", seed=seed, B=B)
    texts = [f.text_BD, *f.positive_BPD.unbind(1), f.negative_BKD[:, 0]]
    theirs = open_clic(folder, uni_modal_loss=composites)
    value = theirs(encode_clic(folder, f, torch.cat(texts)))["combined_loss"]
    # theirs divides texts by their length: so must ours, whose slopes else have a part that theirs lack
    ours = total("clic", replace(f, negative_BKD=F.normalize(f.negative_BKD, dim=-1)), cfg)
    return ours, value, f, ("image_BD", "text_BD", "positive_BPD", "negative_BKD", "scale")


def compare_clic_single(folder: Path, seed: int) -> Compared:
    """The terms without composites, as in trigger_train_baseline.sh."""
    return compare_clic(folder, seed, composites=False)


def compare_clic_plain(folder: Path, seed: int) -> Compared:
    """The contrast of every second step, on single pictures with a sentence of each."""
    method, cfg = load_method("clic"), load_method("clic").Config()
    f = drawn("clic", cfg, step=1, fill="all", seed=seed, B=B)
    value = open_clic(folder)(encode_clic(folder, f, f.text_BD))["combined_loss"]
    return torch.stack([*method.loss(f, cfg, 1).values()]).sum(), value, f, ("image_BD", "text_BD", "scale")


# C2LIP


def compare_c2lip(folder: Path, seed: int) -> Compared:
    """All three terms on one process, concepts as texts of their own: their npc raises IndexError on several."""
    cfg = load_method("c2lip").Config(concepts="encoded", whole_concept=True)
    f = drawn("c2lip", cfg, fill="all", seed=seed, B=B)
    module = load_module(
        folder / "src/open_clip/model.py",
        lambda s: cut_methods(s, "    def encode_image", "    def encode_text", "class CustomText"),
    )
    model = module.Cut()
    model.output_tokens, model.visual = True, lambda image: (image, f.patch_BND)
    image_BD, patch_BND = model.encode_image(f.image_BD, normalize=True)
    # an axis that torch chooses with a warning: the one that softmax takes of a matrix
    theirs = load_module(folder / "src/open_clip/loss.py", lambda s: s.replace("nn.Softmax()", "nn.Softmax(dim=1)"))
    value = theirs.C2LIP_Loss()(
        image_BD, f.text_BD, f.scale, f.bias, output_dict=True, nounphrases_features=f.concept_MD,
        nounphrases_indices=f.owner_M, image_tokens=patch_BND,
    )["loss"]  # fmt: skip
    return total("c2lip", f, cfg), value, f, ("image_BD", "text_BD", "concept_MD", "patch_BND", "scale", "bias")


# CoN-CLIP


def compare_con_clip(folder: Path, seed: int, distractors: bool = True) -> Compared:
    """The three terms, of pictures, distractors, captions and negated captions."""
    cfg = load_method("con_clip").Config(distractors=distractors)
    f = drawn("con_clip", cfg, fill="all", seed=seed, B=B)
    theirs = load_module(folder / "src/training_utils/loss_functions.py")
    loss = theirs.get_criterion(SimpleNamespace(negative_images="on" if distractors else "off"))
    images = torch.cat([f.image_BD, f.named["negative_images"].values[:, 0]]) if distractors else f.image_BD
    value = loss(images, torch.cat([f.text_BD, f.negative_BKD[:, 0]]), f.scale)
    names = ("image_BD", "text_BD", "negative_BKD", "scale")
    return total("con_clip", f, cfg), value, f, (*names, "negative_images") if distractors else names


def compare_con_clip_no_distractors(folder: Path, seed: int) -> Compared:
    """The contrast of their program without distractors."""
    return compare_con_clip(folder, seed, distractors=False)


# READ-CLIP


def compare_read_clip(folder: Path, seed: int) -> Compared:
    """All terms with a T5 of a few numbers; it reads the unit vector of a text, as in ours, not the state before it."""
    with tempfile.TemporaryDirectory() as t5:
        write_t5(t5, seed)
        cfg = load_method("read_clip").Config(decoder=t5)
        f = drawn("read_clip", cfg, fill="all", seed=seed, B=B)
    terms: list[Tensor] = []
    model, trainer = open_read_clip(folder, f), load_trainer(folder)
    trainer.model, trainer._custom_backward = SimpleNamespace(device="cpu"), terms.append
    trainer.compute_loss(
        model,
        {
            "input_ids": torch.cat([f.text_BD, f.negative_BKD.flatten(0, 1)]),
            "attention_mask": torch.ones(B),
            "paraphrased_input_ids": f.positive_BPD[:, 0],
            "paraphrased_attention_mask": torch.ones(B),
            "labels": f.named["target"].values.masked_fill(f.named["target"].values < 0, -100)[None],
            "decoder_input_ids": model.shift_right(f.named["target"].values.clamp_min(0))[None],
        },
    )
    names = ("image_BD", "text_BD", "negative_BKD", "positive_BPD", "scale", "heads.project.weight")
    return total("read_clip", f, cfg), sum(terms, torch.zeros(())), f, names


def write_t5(folder: str, seed: int) -> None:
    """Write a T5 v1.1 of one layer, without dropout."""
    from transformers import T5Config, T5ForConditionalGeneration
    from transformers.utils import logging

    logging.disable_progress_bar()
    torch.manual_seed(seed)
    cfg = T5Config(  # type: ignore[call-arg]
        vocab_size=30, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_decoder_layers=1, num_heads=2, dropout_rate=0.0,
        decoder_start_token_id=0, feed_forward_proj="gated-gelu", tie_word_embeddings=False,
    )  # fmt: skip
    T5ForConditionalGeneration(cfg).save_pretrained(folder)


def load_trainer(folder: Path) -> Any:
    """Return an object with the loss of their trainer, its two weights, and no log."""
    weights = yaml.safe_load((folder / "config/train_read_clip.yaml").read_text())["run"]
    module = load_module(
        folder / "src/runners/trainer.py",
        lambda s: cut_methods(s, "    def compute_loss", "    def _maybe_log", "class ReadCLIP"),
    )
    trainer = module.Cut()
    trainer.training_weight, trainer.text_weight = weights["training_weight"], weights["text_weight"]
    trainer.negative_weight, trainer.use_negative_in_text_contrastive = 0.0, weights["use_negative_in_text_contrastive"]
    trainer.update_multi_loss_state = trainer.compute_log_probs_and_update_metrics = lambda *_, **__: None
    return trainer


class Towers:
    """CLIP of transformers that is shown drawn features in the place of tokens."""

    def __init__(self, f: Features) -> None:
        self.features, self.logit_scale = f, SimpleNamespace(exp=lambda: f.scale)

    def __call__(self, input_ids: Tensor, **_: Any) -> SimpleNamespace:
        """Return what the forward pass gives: the picture's logits over all texts, and features."""
        logits = self.features.scale * self.features.image_BD @ input_ids.T
        return SimpleNamespace(
            logits_per_image=logits, logits_per_text=logits.T, image_embeds=self.features.image_BD,
            text_embeds=input_ids, text_model_output=SimpleNamespace(pooler_output=input_ids),
        )  # fmt: skip

    def get_text_features(self, input_ids: Tensor, **_: Any) -> Tensor:
        """Return the features as they are."""
        return input_ids


def open_read_clip(folder: Path, f: Features) -> Any:
    """Return their model with drawn features for its towers, and our decoder for its own."""
    utils = load_module(folder / "src/utils/utils.py", cut_utils)
    shift = load_module(
        folder / "src/common/mixin.py",
        lambda s: cut_methods(s, "    def _shift_right", "    def generate_negative"),
    )
    shift.is_torch_fx_proxy = lambda _: False
    module = load_module(folder / "src/models/modeling_clipwithdecoder.py", cut_read_clip)
    module.CLIPWithDecoderOutput, module.neg_clip_loss = SimpleNamespace, utils.neg_clip_loss
    module._get_vector_norm = utils._get_vector_norm
    model = module.Cut()
    model.clip, model.decoder_text_projection = Towers(f), f.heads.project
    model.shift_right = shift.Cut()._shift_right
    # arguments that transformers no longer has
    model.decoder = lambda **inputs: f.heads.decoder(**{n: x for n, x in inputs.items() if x is not None})
    model.module = model
    return model


def cut_utils(source: str) -> str:
    """Return their contrast and length of a vector."""
    contrast = cut(source, "def neg_clip_loss", "def load_and_resize") + cut(source, "def contrastive", "def clip_loss")
    return IMPORTS + contrast + cut(source, "def _get_vector_norm", "def now")


def cut_read_clip(source: str) -> str:
    """Return the losses of their model, whose sums begin in float64."""
    losses = cut(source, "    def get_text_contrastive_loss", "    def get_image_features")
    forward = source[source.index("    def get_decoder_output") :].replace("def forward(", "def __call__(")
    return (IMPORTS + "class Cut:\n" + losses + forward).replace(
        "torch.tensor(0.0,", "torch.tensor(0.0, dtype=torch.float64,"
    )
