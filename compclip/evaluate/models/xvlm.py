"""X-VLM (Zeng et al., ICML 2022, arXiv:2111.08276): a Swin tower, and a BERT whose upper half reads the picture.

A folder has the authors' weights as `model.th` (`16m_base_model_state_step_199999.th`) and BERT's `vocab.txt`. A pair's
score is Hard Positives': the matching head's logit for "match" plus the cosine of both towers.
B pairs, T tokens, S the mean of the picture's patches and they themselves, D dim.

Source: github.com/zengyan-97/X-VLM, and its wrapper in github.com/amitakamath/hard_positives. Compared with that
wrapper's program on random weights, to 1e-6. Not compared: any published number.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import open_clip
import torch
import torch.nn.functional as F

from compclip.evaluate.foreign_models import explaining
from compclip.evaluate.models.transformers_dual import require_transformers

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor

MAX_TOKENS = 30
LAYERS = 12
FUSION_LAYER = 6  # from which BERT reads the picture too
BERT_HEAD = 64  # dims of a head
SWIN_HEAD = 32
PATCH = 32  # pixels a side, of the last stage


@dataclass(frozen=True)
class CrossModel:
    """The picture's tower and transform, all other weights by the authors' names, BERT's tokenizer."""

    tower: Any
    transform: Any
    weights: Mapping[str, Tensor]
    tokenizer: Any

    def score_pairs(self, pictures: Sequence[Image], texts: Sequence[str]) -> Tensor:
        """Return the head's logit plus the cosine of the towers, [B]."""
        device = self.weights["text_proj.weight"].device
        pixels = torch.stack([self.transform(picture) for picture in pictures]).to(device)
        patches_BSD = self.tower.forward_features(pixels).flatten(1, 2)
        picture_BSD = torch.cat([patches_BSD.mean(1, keepdim=True), patches_BSD], dim=1)
        cut = {"padding": True, "truncation": True, "max_length": MAX_TOKENS}
        tokens = self.tokenizer(list(texts), return_tensors="pt", **cut).to(device)
        mask_B11T = tokens["attention_mask"].bool()[:, None, None]
        text_BTD = self._embed(tokens["input_ids"])
        for number in range(FUSION_LAYER):
            text_BTD = self._run_layer(number, text_BTD, mask_B11T, picture_BSD)
        both_BTD = text_BTD
        for number in range(FUSION_LAYER, LAYERS):
            both_BTD = self._run_layer(number, both_BTD, mask_B11T, picture_BSD)
        image_BD = self._linear("vision_proj", picture_BSD[:, 0])
        cosine_B = F.cosine_similarity(image_BD, self._linear("text_proj", text_BTD[:, 0]))
        hidden_BD = self._norm("itm_head.1", self._linear("itm_head.0", both_BTD[:, 0]), 1e-5)
        return self._linear("itm_head.3", F.gelu(hidden_BD))[:, 1] + cosine_B

    def _find_pair(self, name: str) -> tuple[Tensor, Tensor]:
        return self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]

    def _linear(self, name: str, states: Tensor) -> Tensor:
        return F.linear(states, *self._find_pair(name))

    def _norm(self, name: str, states: Tensor, eps: float = 1e-12) -> Tensor:
        return F.layer_norm(states, states.shape[-1:], *self._find_pair(name), eps)

    def _embed(self, token_BT: Tensor) -> Tensor:
        """Return BERT's input: of each token its word, its position and the first type."""
        name = "text_encoder.embeddings"
        words_BTD = self.weights[f"{name}.word_embeddings.weight"][token_BT]
        position_TD = self.weights[f"{name}.position_embeddings.weight"][: token_BT.shape[1]]
        type_D = self.weights[f"{name}.token_type_embeddings.weight"][0]
        return self._norm(f"{name}.LayerNorm", words_BTD + position_TD + type_D)

    def _run_layer(self, number: int, states: Tensor, mask: Tensor, picture: Tensor) -> Tensor:
        """Return the states [B, T, D] after one of BERT's layers; the upper ones read the picture [B, S, D]."""
        name = f"text_encoder.encoder.layer.{number}"
        states = self._attend(f"{name}.attention", states, states, mask)
        if number >= FUSION_LAYER:
            states = self._attend(f"{name}.crossattention", states, picture, None)
        inner = F.gelu(self._linear(f"{name}.intermediate.dense", states))
        return self._norm(f"{name}.output.LayerNorm", self._linear(f"{name}.output.dense", inner) + states)

    def _attend(self, name: str, states: Tensor, context: Tensor, mask: Tensor | None) -> Tensor:
        """Return the states after attention to a context, with what they were, normed."""
        query = self._split_heads(f"{name}.self.query", states)
        key = self._split_heads(f"{name}.self.key", context)
        value = self._split_heads(f"{name}.self.value", context)
        mixed = F.scaled_dot_product_attention(query, key, value, mask).transpose(1, 2).flatten(2)
        return self._norm(f"{name}.output.LayerNorm", self._linear(f"{name}.output.dense", mixed) + states)

    def _split_heads(self, name: str, states: Tensor) -> Tensor:
        return self._linear(name, states).unflatten(-1, (-1, BERT_HEAD)).transpose(1, 2)


def load(ref: str, device: str) -> CrossModel:
    """Open a folder with the authors' weights. Raises UserError where it cannot be opened."""
    require_transformers()
    import transformers

    with explaining(ref, "give a folder with X-VLM's model.th and BERT's vocab.txt"):
        content = torch.load(Path(ref) / "model.th", device, weights_only=True)
        weights = {name.replace(".bert.", "."): weight.float() for name, weight in content["model"].items()}
        tower = build_tower(weights).eval().to(device)
        tokenizer = transformers.BertTokenizer(str(Path(ref) / "vocab.txt"))
    size = tower.patch_embed.img_size
    transform = open_clip.image_transform(size, is_train=False, resize_mode="squash", interpolation="bicubic")
    return CrossModel(tower, transform, weights, tokenizer)


def build_tower(weights: Mapping[str, Tensor]) -> Any:
    """Return timm's Swin, whose sizes are the weights' own."""
    swin = importlib.import_module("timm.models.swin_transformer")  # open_clip brings timm
    prefix = "vision_encoder."
    state = {name.removeprefix(prefix): weight for name, weight in weights.items() if name.startswith(prefix)}
    width = len(state["patch_embed.proj.weight"])
    window = (round(len(state["layers.0.blocks.0.attn.relative_position_bias_table"]) ** 0.5) + 1) // 2
    depths = [len({n.split(".")[3] for n in state if n.startswith(f"layers.{i}.blocks.")}) for i in range(4)]
    heads = [width * 2**stage // SWIN_HEAD for stage in range(4)]
    tower = swin.SwinTransformer(
        window * PATCH, embed_dim=width, depths=depths, num_heads=heads, window_size=window, num_classes=0
    )
    tower.load_state_dict(swin.checkpoint_filter_fn(state, tower))
    return tower
