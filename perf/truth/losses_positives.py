"""Losses of methods with rewrites, bags and local scores beside released programs, for `perf/truth/released_losses.py`.

B images, K negatives, P positives, N patches, T tokens, D dim.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from compclip.interface.features import Features
from compclip.interface.method import load_method
from perf.truth.loss_comparison import B, Compared, load_module, total
from tests.methods.conftest import drawn

LOSS = "src/open_clip/loss.py"
SVLC_DEFAULTS = {"no_neg_in_contrastive": False, "symmetric": False, "kl_pos": False, "common_batch_pos": False}
TEXTS = ("image_BD", "text_BD", "negative_BKD", "positive_BPD", "scale")


def compute_svlc(folder: Path, f: Features, negatives: bool, positives: bool, outside: bool = False) -> Tensor:
    """Return TSVLC's loss of one process; `outside`: --no_neg_in_contrastive.

    A rewrite is a caption's first positive. A row of zeros stands for a negative that is missing, as in its batches.
    """
    args = SimpleNamespace(
        **SVLC_DEFAULTS | {"no_neg_in_contrastive": outside}, vl_negs=negatives, vl_pos=positives, neg_w=1,
        device="cpu", num_negs=f.negative_BKD.shape[1],
    )  # fmt: skip
    texts = torch.cat([f.positive_BPD[:, 0], f.text_BD]) if positives else f.text_BD
    owners = None
    if negatives:
        texts, owners = load_batches(folder)(f.negative_BKD * f.mask_BK[..., None], args, "cpu", texts)
    value, _ = load_module(folder / LOSS).ClipLoss(args=args)(f.image_BD, texts, f.scale, owners)
    return value


def load_batches(folder: Path) -> Callable[..., tuple[Tensor, list[int] | None]]:
    """Return TSVLC's function that puts negatives behind the texts, without the rest of its training loop."""
    start, end = "def prepare_data_for_neg_loss", "def prepare_data_for_pos_loss"
    path = folder / "src/training/train.py"
    return load_module(path, lambda s: "import torch\n" + s[s.index(start) : s.index(end)]).prepare_data_for_neg_loss


def compare_svlc(folder: Path, seed: int) -> Compared:
    """R: the contrast with negatives, and the negatives' own term; FOLDER is of TSVLC."""
    cfg = load_method("svlc").Config()
    f = drawn("svlc", cfg, fill="all", seed=seed, B=B)
    value = compute_svlc(folder, f, negatives=True, positives=False)
    return total("svlc", f, cfg), value, f, ("image_BD", "text_BD", "negative_BKD", "scale")


def compare_svlc_missing(folder: Path, seed: int) -> Compared:
    """R where some captions have no negative; FOLDER is of TSVLC."""
    cfg = load_method("svlc").Config()
    f = drawn("svlc", cfg, seed=seed, B=B)
    value = compute_svlc(folder, f, negatives=True, positives=False)
    return total("svlc", f, cfg), value, f, ("image_BD", "text_BD", "negative_BKD", "scale")


def compare_svlc_positives(folder: Path, seed: int) -> Compared:
    """The rewrite's term without negatives, which `drawn` gives unasked; FOLDER is of TSVLC."""
    cfg = load_method("svlc").Config(negatives="none", lambda_analogy=1.0)
    f = drawn("svlc", cfg, fill="all", seed=seed, B=B)
    f = replace(f, negative_BKD=f.negative_BKD[:, :0], mask_BK=f.mask_BK[:, :0])
    value = compute_svlc(folder, f, negatives=False, positives=True)
    return total("svlc", f, cfg), value, f, ("image_BD", "text_BD", "positive_BPD", "scale")


def compare_svlc_both(folder: Path, seed: int) -> Compared:
    """Negatives and rewrites at once; FOLDER is of TSVLC."""
    cfg = load_method("svlc").Config(lambda_analogy=1.0)
    f = drawn("svlc", cfg, fill="all", seed=seed, B=B)
    return total("svlc", f, cfg), compute_svlc(folder, f, negatives=True, positives=True), f, TEXTS


def compare_svlc_processes(folder: Path, seed: int, processes: int = 2) -> Compared:
    """Slopes of R on several processes, relative to the contrast's; FOLDER is of TSVLC.

    Each computes the whole contrast, to which its own rows alone have slopes, so that all together give it once and the
    negatives' term as often as there are processes. The scale, of which that is not so, is not trained there. Rewrites
    depart: each process tells its own apart alone.
    """
    cfg = load_method("svlc").Config(lambda_s_neg=float(processes), negatives_in_contrastive=False)
    f = drawn("svlc", cfg, fill="all", seed=seed, B=B)
    losses = [compute_svlc_rank(folder, f, rank, processes) for rank in range(processes)]
    alone, _ = load_module(folder / LOSS).ClipLoss(args=SimpleNamespace(vl_negs=False, vl_pos=False))(
        f.image_BD, f.text_BD, f.scale, None
    )
    repeated = (processes - 1) * alone.detach()
    return total("svlc", f, cfg), torch.stack(losses).sum() - repeated, f, ("image_BD", "text_BD", "negative_BKD")


def compute_svlc_rank(folder: Path, f: Features, rank: int, processes: int) -> Tensor:
    """Return TSVLC's loss on one of several processes; the features of the others have no slopes."""
    theirs = load_module(folder / LOSS)
    images, texts, negatives = (x.chunk(processes) for x in (f.image_BD, f.text_BD, f.negative_BKD[:, 0]))
    theirs.dist = SimpleNamespace(all_gather=gather_from([images, texts], rank))
    args = SimpleNamespace(**SVLC_DEFAULTS, vl_negs=True, vl_pos=False, neg_w=1, device="cpu")
    loss = theirs.ClipLoss(rank=rank, world_size=processes, args=args)
    texts_of_rank = torch.cat([texts[rank], negatives[rank]])
    value, _ = loss(images[rank], texts_of_rank, f.scale, list(range(len(images[rank]))))
    return value


def gather_from(tensors_by_rank: Sequence[Sequence[Tensor]], rank: int) -> Callable[[list[Tensor], Tensor], None]:
    """Return an all_gather in one process: fills in the rows of all ranks that go with the given rows of `rank`."""

    def all_gather(gathered: list[Tensor], rows: Tensor) -> None:
        if len(rows):  # their negatives: cut off before
            gathered[:] = [
                x.detach() for x in next(by_rank for by_rank in tensors_by_rank if torch.equal(by_rank[rank], rows))
            ]

    return all_gather


def compare_hard_positives(folder: Path, seed: int) -> Compared:
    """TSVLC's loss with two negatives a caption; FOLDER is of TSVLC, since the paper's release trains nothing."""
    cfg = load_method("hard_positives").Config()
    f = drawn("hard_positives", cfg, fill="all", seed=seed, B=B)
    return total("hard_positives", f, cfg), compute_svlc(folder, f, negatives=True, positives=True), f, TEXTS


def compare_hard_positives_outside(folder: Path, seed: int) -> Compared:
    """TSVLC's loss with negatives outside the contrast, which is how E.1 reads; FOLDER is of TSVLC."""
    cfg = load_method("hard_positives").Config(negatives_in_contrastive=False)
    f = drawn("hard_positives", cfg, fill="all", seed=seed, B=B)
    value = compute_svlc(folder, f, negatives=True, positives=True, outside=True)
    return total("hard_positives", f, cfg), value, f, TEXTS


def compare_hard_positives_none(folder: Path, seed: int) -> Compared:
    """TSVLC's loss with two negatives a caption and no rewrites (HN only); FOLDER is of TSVLC."""
    cfg = load_method("hard_positives").Config(hard_positives="none")
    f = drawn("hard_positives", cfg, fill="all", seed=seed, B=B)
    value = compute_svlc(folder, f, negatives=True, positives=False)
    return total("hard_positives", f, cfg), value, f, ("image_BD", "text_BD", "negative_BKD", "scale")


def compute_dac(folder: Path, f: Features, bag: int, bag_negatives: bool) -> Tensor:
    """Return DAC's loss of one process, with bags of texts, or of texts and as many negatives."""
    args = SimpleNamespace(
        vl_negs=True, vl_pos=False, no_neg_in_contrastive=False, neg_w=1, mil_dense=True, mil_batch=bag,
        mil_dense_negs=bag_negatives, device="cpu",
    )  # fmt: skip
    theirs = load_module(folder / LOSS, lambda s: s.replace(".cuda()", ""))
    texts = torch.cat([f.text_BD, f.negative_BKD[:, 0]])
    bags = torch.cat([f.positive_BPD, f.negative_BKD[:, 1:]], 1) if bag_negatives else f.positive_BPD
    value, _ = theirs.ClipLoss(args=args)(f.image_BD, texts, f.scale, list(range(B)), bags.flatten(0, 1))
    return value


def compare_dac(folder: Path, seed: int) -> Compared:
    """All terms by the README's commands, with bags of four; that no text of a bag lacks its negative is drawn so."""
    cfg = load_method("dac").Config(bag=4)
    f = drawn("dac", cfg, fill="all", seed=seed, B=B)
    return total("dac", f, cfg), compute_dac(folder, f, cfg.bag, bag_negatives=True), f, TEXTS


def compare_dac_positives(folder: Path, seed: int) -> Compared:
    """Bags without negatives: no --mil_dense_negs."""
    cfg = load_method("dac").Config(bag=4, lambda_bag=0.0)
    f = drawn("dac", cfg, fill="all", seed=seed, B=B)
    return total("dac", f, cfg), compute_dac(folder, f, cfg.bag, bag_negatives=False), f, TEXTS


def compare_fsc_clip(folder: Path, seed: int, **options: Any) -> Compared:
    """All terms by the README's commands; what a missing negative weighs departs, and none is missing."""
    cfg = load_method("fsc_clip").Config(**options)
    f = drawn("fsc_clip", cfg, fill="all", seed=seed, B=B)
    negatives, tokens, masks = (  # all of the first kind, all of the second, …
        x.transpose(0, 1).flatten(0, 1) for x in (f.negative_BKD, f.negative_token_BKTD, f.negative_token_mask_BKT)
    )
    terms = load_fsc_clip(folder, cfg)(
        f.image_BD, f.patch_BND, torch.cat([f.text_BD, negatives]), torch.cat([f.token_BTD, tokens]),
        torch.cat([f.token_mask_BT, masks]).long(), torch.ones(len(negatives), dtype=torch.long), f.scale,
        output_dict=True,
    )  # fmt: skip
    names = ("image_BD", "text_BD", "negative_BKD", "patch_BND", "token_BTD", "negative_token_BKTD", "scale")
    return total("fsc_clip", f, cfg), sum(terms.values(), torch.zeros(())), f, names


def load_fsc_clip(folder: Path, cfg: Any) -> Callable[..., dict[str, Tensor]]:
    """Return their loss by our options; without focus and smoothing by what their program then takes."""
    count = "valid_neg_mask.sum(dim=-1)"  # an integer, whose reciprocal is of float32
    theirs = load_module(folder / "src/training/losses/loss.py", lambda s: s.replace(count, f"{count}.double()"))
    return theirs.Local_HNLoss(
        local_batch_size=B,
        apply_global_neg_loss=True,
        neg_loss_weight=cfg.lambda_global,
        neg_loss_name="focal_loss" if cfg.gamma else "cross_entropy",
        focal_gamma=cfg.gamma,
        neg_label_smoothing=cfg.epsilon or None,
        local_neg_weight=cfg.lambda_local,
        sim_normalizer="softmax" if cfg.attention == "softmax" else "minmax",
        sim_sparsify=cfg.attention == "minmax_sparse",
    )


def compare_fsc_clip_sparse(folder: Path, seed: int) -> Compared:
    """All terms with small weights of patches cut off: --sim-sparsify."""
    return compare_fsc_clip(folder, seed, attention="minmax_sparse")


def compare_fsc_clip_softmax(folder: Path, seed: int) -> Compared:
    """All terms with patches by softmax: --sim-normalizer softmax."""
    return compare_fsc_clip(folder, seed, attention="softmax")


def compare_fsc_clip_focal(folder: Path, seed: int) -> Compared:
    """All terms without smoothing: no --neg-label-smoothing."""
    return compare_fsc_clip(folder, seed, epsilon=0.0)


def compare_fsc_clip_smoothed(folder: Path, seed: int) -> Compared:
    """All terms with smoothing and without focus: --neg-loss-name cross_entropy."""
    return compare_fsc_clip(folder, seed, gamma=0.0)


def compare_fsc_clip_plain(folder: Path, seed: int) -> Compared:
    """All terms without focus and smoothing: the program's defaults."""
    return compare_fsc_clip(folder, seed, gamma=0.0, epsilon=0.0)
