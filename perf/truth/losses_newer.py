"""Losses of methods of 2024 to 2026 beside released programs, for `perf/truth/released_losses.py`.

B images, K negatives, D dim.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from compclip.interface.features import Features
from compclip.interface.method import load_method
from perf.truth.loss_comparison import UNITS, B, Compared, load_module, total
from tests.methods.conftest import D, configured, drawn


def compare_cs_clip(folder: Path, seed: int) -> Compared:
    """The caption's and the units' contrast by their configuration."""
    theirs, cfg = load_module(folder / "alignment/losses.py"), load_method("cs_clip").Config()
    f = drawn("cs_clip", cfg, fill="all", seed=seed, B=B)
    value = theirs.multi_caption_contrastive_loss(
        f.image_BD, torch.cat([f.text_BD[:, None], f.positive_BPD], 1), f.negative_BKD, 1 / f.scale, "cpu",
        contrastive_mode="with_components_negatives", lambda_components=0.5, component_loss_type="negclip_hard",
        caption_valid_mask=torch.ones(B, 3, dtype=torch.bool),
    )["loss"]  # fmt: skip
    return total("cs_clip", f, cfg), value, f, ("image_BD", "text_BD", "negative_BKD", "positive_BPD", "scale")


def compare_semclip(folder: Path, seed: int) -> Compared:
    """All terms along the same directions; their contrast takes vectors of any length, here unit vectors."""
    cfg = load_method("semclip").Config()
    f = drawn("semclip", cfg, fill="all", seed=seed, B=B)
    theirs = load_module(folder / "src/custom_loss.py").NegationParaphraseProjectionLoss(embedding_dim=D)
    theirs.basis_vectors = f.heads.weight
    contrast = theirs.clip_loss(f.image_BD, f.text_BD, f.scale)
    value = theirs(f.text_BD, f.positive_BPD[:, 0], f.negative_BKD[:, 0], contrast)["loss"]
    return total("semclip", f, cfg), value, f, ("image_BD", "text_BD", "negative_BKD", "positive_BPD", "scale")


def compare_omni_negclip(folder: Path, seed: int) -> Compared:
    """Both stages on a batch of which a half has negations of what is there, and a half of what is absent."""
    cfg = load_method("omni_negclip").Config()
    f = drawn("omni_negclip", cfg, fill="all", seed=seed, B=B)
    first_B = torch.arange(B) < B // 2
    f = replace(f, mask_BK=first_B[:, None], positive_mask_BP=~first_B[:, None])
    path = folder / "src/training_omni_negclip.py.py"
    start, end = "def symmetric_contrastive_loss", "def compute_stage2"
    head = "import torch\nfrom torch.nn import functional as F\n\n\n"
    stage2 = load_module(path, lambda source: head + source[source.index(start) : source.index(end)])
    texts = torch.cat([f.text_BD[first_B], f.negative_BKD[first_B, 0]])
    value = load_module(folder / "src/training_utils/loss_functions.py").CustomLoss()(
        f.image_BD[first_B], texts, f.scale
    )
    image_BD, text_BD, absent_BD = f.image_BD[~first_B], f.text_BD[~first_B], f.positive_BPD[~first_B, 0]
    for key_BD in (absent_BD, text_BD):
        logits_BB = f.scale * image_BD @ key_BD.T
        value = value + stage2.symmetric_contrastive_loss(logits_BB, logits_BB.T)
    value = value + stage2.text_contrastive_loss(text_BD, absent_BD, margin=0.9)
    return total("omni_negclip", f, cfg), value, f, ("image_BD", "text_BD", "negative_BKD", "positive_BPD", "scale")


def compare_ahnpl(folder: Path, seed: int) -> Compared:
    """All terms; raises AssertionError where the margins of the next step differ."""
    method, cfg = load_method("ahnpl"), load_method("ahnpl").Config()
    f = drawn("ahnpl", cfg, fill="all", seed=seed, B=B)
    K = f.mask_BK.shape[1]
    theirs = load_module(folder / "open_clip/loss.py").Clip_DALoss(
        mar_loss=True, neg_loss=True, hardnegative=True, neg_loss_weight=0.2, mar_loss_weight=0.2
    )
    texts, there_BK = torch.cat([f.text_BD, f.negative_BKD.flatten(0, 1)]), torch.ones(B, K, dtype=torch.float64)
    value, margins, *_ = theirs(f.image_BD, texts, there_BK, f.scale, f.memory["margin_K"].expand(B, K))
    torch.testing.assert_close(method.remember(f, cfg)["margin_K"], margins[0].clamp(0, 10), rtol=0, atol=1e-14)
    return total("ahnpl", f, cfg), value, f, ("image_BD", "text_BD", "negative_BKD", "scale")


def compare_superclip(folder: Path, seed: int) -> Compared:
    """Both terms; padding is a word of its own in theirs, which all captions have and so weighs nothing."""
    cfg, padding = load_method("superclip").Config(vocabulary=40), 39
    f = drawn("superclip", cfg, seed=seed, B=B)
    counts, batches = f.memory["frequency_V"].clone()[None], f.memory["batches"].clone().reshape(1, 1)
    counts[0, padding] = batches[0, 0]
    target_BL = f.named["target"].values
    labels = torch.cat([target_BL.where(target_BL >= 0, padding), torch.full((B, 1), padding)], 1)
    theirs = load_module(folder / "superclip/open_clip/loss.py").SuperClipLoss()
    logits = f.heads(f.patch_BND.mean(1))
    terms = theirs(counts, batches, logits, labels, None, f.image_BD, f.text_BD, f.scale, output_dict=True)
    return total("superclip", f, cfg), sum(terms.values()), f, ("image_BD", "text_BD", "patch_BND", "scale")


def compare_flair(folder: Path, seed: int) -> Compared:
    """Both terms with three texts a picture; the text of another picture is ours, not drawn."""
    K, cfg = 3, configured("flair", texts=3, heads=2)
    f = drawn("flair", cfg, fill="all", seed=seed, B=B)
    text_BKD, head, theirs = (
        torch.cat([f.text_BD[:, None], f.positive_BPD], 1),
        f.heads,
        load_module(folder / "src/flair/loss.py"),
    )

    def pool(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        query = head.norm_query(query * D**0.5)
        return head.attention(query, head.norm_key(key), head.norm_value(value), need_weights=False)[0]

    def choose(**_: Any) -> Tensor:
        rows = [[*text_BKD[i]] if i == j else [text_BKD[j, (i + j) % K]] for i in range(B) for j in range(B)]
        return torch.stack([torch.stack(sum(rows[i * B : i * B + B], [])) for i in range(B)])

    theirs.downsample_text_features = choose
    loss = theirs.FlairLoss(num_cap_per_img=K, added_mps_loss=True)
    value = loss(f.image_BD, text_BKD.flatten(0, 1), f.scale, f.bias, f.patch_BND, pool)
    return total("flair", f, cfg), value, f, (*UNITS[:3], "patch_BND", "scale", "bias")


def compare_labclip(folder: Path, seed: int) -> Compared:
    """The contrast with negatives, with a map and a temperature that are not those of the start."""
    theirs, cfg = load_module(folder / "alignment/learning_alignment.py"), load_method("labclip").Config()
    f, torch_map = drawn("labclip", cfg, fill="all", seed=seed, B=B), theirs.CLIPAlignment(D).double()
    torch.manual_seed(seed)
    with torch.no_grad():
        f.heads.weight.add_(0.3 * torch.randn(D, D))
        f.heads.log_scale.fill_(0.7)
    torch_map.linear.weight, torch_map.t = f.heads.weight, f.heads.log_scale
    texts = torch.cat([torch_map(f.text_BD), torch_map(f.negative_BKD[:, 0])])
    value, _ = theirs.constrastive_loss_with_negatives(f.image_BD, texts, torch_map.t, "cpu")
    return (
        total("labclip", f, cfg),
        value,
        f,
        ("image_BD", "text_BD", "negative_BKD", "heads.weight", "heads.log_scale"),
    )


def compare_codebook_clip(folder: Path, seed: int, name: str = "codebook_clip") -> Compared:
    """CLIP's contrast of sums of codes of whole texts: theirs lets padding answer."""
    sparsemax = load_module(folder / "prototype/model/sparsemax.py").Sparsemax
    cfg = load_method(name).Config(codes=7, code_width=4, temperature=0.5)
    f = drawn(name, cfg, seed=seed, B=B)
    f = replace(f, token_mask_BT=torch.ones_like(f.token_mask_BT))
    query = "import math\nimport torch\nfrom torch import nn\n\n\n"
    module = load_module(
        folder / "prototype/model/clip_fdt.py",
        lambda s: query + s[s.index("class Query_model") : s.index("class AllGather")],
    )
    module.Sparsemax = sparsemax

    def code(network: nn.Module, tokens: Tensor) -> Tensor:
        asks = module.Query_model(D, 4, 0.5, "sparsemax", "max").double()
        asks.q_map.load_state_dict(network.state_dict())
        return F.normalize(asks(tokens, f.heads.code)[1], dim=-1)

    logits_BB = f.scale * code(f.heads.image_query, f.patch_BND) @ code(f.heads.text_query, f.token_BTD).T
    own_B = torch.arange(B)
    value = (F.cross_entropy(logits_BB, own_B) + F.cross_entropy(logits_BB.T, own_B)) / 2
    return total(name, f, cfg), value, f, ("patch_BND", "token_BTD", "scale", "heads.code")


def compare_il_clip(folder: Path, seed: int) -> Compared:
    """Codebook-CLIP's contrast: their generations are of the trainer."""
    return compare_codebook_clip(folder, seed, "il_clip")


def compare_llip(folder: Path, seed: int) -> Compared:
    """The sigmoid loss of pictures as texts mix their tokens; their query is of the end token, here of the text."""
    cfg = configured("llip", tokens=3, heads=2)
    f, H = drawn("llip", cfg, seed=seed, B=B), cfg.heads
    theirs = load_module(folder / "llip/open_clip/loss.py")
    theirs.checkpoint = lambda function, *inputs, **_: function(*inputs)  # no slopes by torch.autograd.grad through it
    imports = "import torch\nfrom torch import nn\n\n\n"
    mixer = load_module(
        folder / "llip/open_clip/model.py", lambda s: imports + s[s.index("class xAttnPred") : s.index("class CMP")]
    ).xAttnPred(D)
    mixer.out_proj = f.heads.out
    keys, values = (  # as CMP.encode_image and CMP.encode_text
        (f.patch_BND.transpose(0, 1) @ weight).unflatten(-1, (H, -1)).permute(1, 2, 0, 3)
        for weight in (f.heads.key, f.heads.value)
    )
    queries = (f.text_BD * D**0.5 @ f.heads.query).unflatten(-1, (H, -1))
    value = theirs.CMPLoss()(keys, queries, values, f.text_BD, mixer, cfg.temperature, f.scale, f.bias)
    weights = ("heads.key", "heads.value", "heads.query", "heads.out")
    return total("llip", f, cfg), value, f, ("text_BD", "patch_BND", "scale", "bias", *weights)


def compare_fineclip(folder: Path, seed: int) -> Compared:
    """All terms, with as many regions of each picture as there can be: theirs pads up to that."""
    R, cfg = 3, load_method("fineclip").Config(regions=3)
    f = drawn("fineclip", cfg, fill="all", seed=seed, B=B)
    contrast = load_module(folder / "open_clip/eva_clip/loss.py").ClipLoss()
    give = {
        "encode_image": f.named["region_crops"].values,
        "encode_pseudo_boxes": f.named["regions"].values,
        "encode_text": f.named["region_texts"].values[:, :, 0],
    }

    class Model:
        """Gives the drawn features, whatever it is shown."""

        logit_scale = SimpleNamespace(exp=lambda: f.scale)

        def __getattr__(self, name: str) -> Any:
            return lambda *_, **__: give[name].flatten(0, 1)

        def __call__(self, *_: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            return f.image_BD, f.text_BD, f.scale

    args = SimpleNamespace(
        multiscale=False, extract_type="v2", loss_type="distill,global_itc,region_itc", batch_size=B, max_boxes=R
    )
    batch = (torch.zeros(B, 1), torch.ones(B, R, 5), torch.zeros(B, R, 1), torch.zeros(B, 1, 1), torch.zeros(B, R, 1))
    theirs = load_module(folder / "training/clipself.py").CLIPSelf()
    terms, *_ = theirs(batch, Model(), None, contrast, "cpu", torch.float64, False, args)
    names = ("image_BD", "text_BD", "regions", "region_texts", "region_crops", "scale")
    return total("fineclip", f, cfg), sum(terms.values()), f, names


FG_CLIP_2 = {"contrast": "sigmoid", "lambda_regions": 0.2, "lambda_choice": 1.5, "lambda_hard": 0.3, "lambda_rank": 0.2,
             "lambda_texts": 0.1, "map_regions": True}  # fmt: skip


def open_fg_clip(path: Path, f: Features, first_names: Sequence[str]) -> tuple[Any, dict[str, float]]:
    """Return an object with the losses of their model, in this process alone, and the weights in its forward pass.

    `first_names`: names of classes and of the first loss, behind which the file is taken.
    """
    head = "import torch\nfrom torch import nn\nimport torch.nn.functional as F\n"
    source = path.read_text()

    def cut(text: str) -> str:
        classes = "".join(
            text[text.index(name) : text.index("\n\n\n", text.index(name))] + "\n\n\n" for name in first_names[:-1]
        )
        return (head + classes + "class Losses:\n" + text[text.index(first_names[-1]) :]).replace(
            "torch.float)", "torch.float64)"
        )

    module = load_module(path, cut)
    module.nn_dist = SimpleNamespace(all_gather=lambda x: [x])
    losses = module.Losses()
    losses.logit_scale = SimpleNamespace(exp=lambda: f.scale)
    return losses, {name: float(value) for name, value in re.findall(r"(\w+_weight) = ([\d.]+)", source)}


def compare_fg_clip(folder: Path, seed: int) -> Compared:
    """All terms of the second stage; FOLDER is the branch v1.0."""
    cfg = load_method("fg_clip").Config(init_scale=5.0)
    f = drawn("fg_clip", cfg, fill="all", seed=seed, B=B)
    theirs, weight = open_fg_clip(folder / "fgclip/model/clip_strc/fgclip.py", f, ["    def clip_loss"])
    long, heads = map_long(f), f.heads
    region, texts = (f.named[name].values.flatten(0, 1) for name in ("regions", "region_texts"))
    to_long, to_short = theirs.clip_loss(f.image_BD, long, f.positive_BPD[:, 0], 0, f.image_BD)
    regions = theirs.pairwise_contrastive_loss(region, texts[:, 0], "cpu", heads.log_scale_regions)
    hard = theirs.hard_contrastive_loss(region, texts[:, 1:].flatten(0, 1), "cpu", heads.log_scale_hard)
    value = to_long + to_short + weight["box_loss_weight"] * regions + weight["hard_box_loss_weight"] * hard
    names = ("image_BD", "text_BD", "positive_BPD", "regions", "region_texts", "scale")
    return (
        total("fg_clip", f, cfg),
        value,
        f,
        (*names, *(f"heads.{n}" for n in ("log_scale_regions", "log_scale_hard", "long.weight"))),
    )


def compare_fg_clip_2(folder: Path, seed: int) -> Compared:
    """All terms of FG-CLIP 2; FOLDER is the branch main. Raises AssertionError where the next margin differs."""
    method = load_method("fg_clip")
    cfg = method.Config(init_scale=5.0, **FG_CLIP_2)
    f = drawn("fg_clip", cfg, fill="all", seed=seed, B=B)
    path = folder / "fgclip2/model/strcs/fgclip2.py"
    theirs, weight = open_fg_clip(path, f, ["class PNTextLoss", "    def pairwise_contrastive_loss"])
    region, heads = f.named["regions"].values.flatten(0, 1), f.heads
    texts = F.normalize(heads.region(f.named["region_texts"].values.flatten(0, 1)), dim=-1)
    value = sum(theirs._loss(f.image_BD, t, f.scale, f.bias) for t in (map_long(f), f.positive_BPD[:, 0]))
    regions = theirs.pairwise_contrastive_loss(region, texts[:, 0], "cpu", heads.log_scale_regions)
    like = theirs.hard_category_contrastive_loss(texts[:, 0])
    hard, margin = theirs.hard_contrastive_total_loss(
        region, texts[:, 1:].flatten(0, 1), "cpu", f.memory["margin"], heads.log_scale_hard
    )
    torch.testing.assert_close(method.remember(f, cfg)["margin"], margin.clamp(0, 10), rtol=0, atol=1e-14)
    value = (
        value
        + weight["box_loss_weight"] * regions
        + weight["region_cc_loss_weight"] * like
        + weight["hard_box_loss_weight"] * hard
    )
    names = ("image_BD", "text_BD", "positive_BPD", "regions", "region_texts", "scale", "bias")
    of_heads = ("log_scale_regions", "log_scale_hard", "long.weight", "region.weight")
    return total("fg_clip", f, cfg), value, f, (*names, *(f"heads.{n}" for n in of_heads))


def map_long(f: Features) -> Tensor:
    """Return the long captions as the head maps them."""
    return F.normalize(f.heads.long(f.text_BD), dim=-1)
