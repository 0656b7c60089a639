"""The terms of the field's other methods, written from the equations in loops over scalars (`tests.reference`)."""

import torch
from torch import Tensor

from tests import reference
from tests.reference import dot, log_share, mean


def nothing(f) -> Tensor:
    """0 with a path to the features."""
    return 0 * (f.image_BD.sum() + f.text_BD.sum() + f.negative_BKD.sum() + f.scale)


def negclip(f) -> Tensor:
    return reference.negclip(f.image_BD, f.text_BD, f.negative_BKD, f.mask_BK, f.scale)


def s_neg(f) -> Tensor:
    return reference.s_neg(f.image_BD, f.text_BD, f.negative_BKD, f.mask_BK, f.scale)


def lse(values: list[Tensor]) -> Tensor:
    return sum(v.exp() for v in values).log()


def negclip_terms(f, cfg, step):
    return {"negclip": negclip(f)}


def degla_terms(f, cfg, step):
    """Eq. 4-10."""
    B, K = f.mask_BK.shape
    terms = {"negclip": negclip(f), "image": cfg.lambda_image * s_neg(f)}
    flat = [(f.negative_BKD[i, k], f.mask_BK[i, k]) for i in range(B) for k in range(K)]
    rows = []
    for i in range(B):
        places = [i * K + k if cfg.text_negatives == "own" else i + k * B for k in range(K)]
        row_negatives = [flat[place] for place in places]
        valid_logits = [cfg.text_scale * dot(f.text_BD[i], n) for n, there in row_negatives if there]
        if valid_logits:
            rows.append(-log_share([cfg.text_scale * dot(f.text_BD[i], f.teacher.text_BD[i]), *valid_logits], 0))
    terms["text"] = cfg.lambda_text * (mean(rows) if rows else nothing(f))
    apart = nothing(f)
    for i in range(B):
        pairs = [(f.image_BD[i], f.teacher.image_BD[i]), (f.text_BD[i], f.teacher.text_BD[i])]
        pairs += [(f.negative_BKD[i, k], f.teacher.negative_BKD[i, k]) for k in range(K) if f.mask_BK[i, k]]
        apart = apart + sum(dot(a - b, a - b) for a, b in pairs)
    terms["distill"] = cfg.lambda_distill * apart
    return {name: term for name, term in terms.items() if name == "negclip" or getattr(cfg, f"lambda_{name}")}


def ce_clip_terms(f, cfg, step):
    """Rank with thresholds of the step before; a softmax over the image and negative captions."""
    B, K = f.mask_BK.shape
    s, threshold = f.scale, f.memory["threshold_K"]
    led = nothing(f)
    for i in range(B):
        for k in range(K):
            short = threshold[k] + s * dot(f.image_BD[i], f.negative_BKD[i, k]) - s * dot(f.image_BD[i], f.text_BD[i])
            if f.mask_BK[i, k] and short > 0:
                led = led + short
    rows = []
    for i in range(B):
        texts = [f.negative_BKD[j, k] for j in range(B) for k in range(K) if f.mask_BK[j, k]]
        scores = [s * dot(f.image_BD[i], f.text_BD[i]), *(s * dot(f.text_BD[i], n) for n in texts)]
        rows.append(-log_share(scores, 0))
    return {"negclip": negclip(f), "rank": cfg.lambda_rank * led / (B * K), "intra": cfg.lambda_intra * mean(rows)}


def con_clip_terms(f, cfg, step):
    """Captions and negations for an image, images and distractors for a caption, negations for a distractor."""
    if not cfg.distractors:
        return negclip_terms(f, cfg, step)
    B, s = len(f.image_BD), f.scale
    negation = {i: f.negative_BKD[i, 0] for i in range(B) if f.mask_BK[i, 0]}
    distractor = {i: f.named["negative_images"].values[i, 0] for i in range(B) if f.named["negative_images"].mask[i, 0]}
    texts, images = [*f.text_BD, *negation.values()], [*f.image_BD, *distractor.values()]
    to_text = mean([-log_share([s * dot(v, t) for t in texts], i) for i, v in enumerate(f.image_BD)])
    to_image = mean([-log_share([s * dot(v, t) for v in images], i) for i, t in enumerate(f.text_BD)])
    rows = []
    for i in sorted(negation.keys() & distractor.keys()):
        keys = [negation[i], *(n for j, n in negation.items() if j != i), *f.text_BD]
        rows.append(-log_share([s * dot(distractor[i], t) for t in keys], 0))
    last = mean(rows) if rows else nothing(f)
    return {"to_text": to_text / 3, "to_image": to_image / 3, "to_negation": last / 3}


def triplet_clip_terms(f, cfg, step):
    """NC(v, t; t') + NC(v', t'; t)."""
    terms = {"negclip": negclip(f)}
    if not cfg.images:
        return terms
    pair_rows = [i for i in range(len(f.image_BD)) if f.mask_BK[i, 0] and f.named["negative_images"].mask[i, 0]]
    image, text = f.named["negative_images"].values[pair_rows, 0], f.negative_BKD[pair_rows, 0]
    every = torch.ones(len(f.text_BD), 1, dtype=torch.bool)
    terms["negative"] = reference.negclip(image, text, f.text_BD[:, None], every, f.scale) if pair_rows else nothing(f)
    return terms


def gnm_clip_terms(f, cfg, step):
    """CLIP over all whole pairs; pictures that have one may be left out."""
    B, J = f.named["negative_images"].mask.shape
    pairs = [(i, j) for i in range(B) for j in range(J) if f.named["negative_images"].mask[i, j] and f.mask_BK[i, j]]
    plain = [i for i in range(B) if cfg.original == "beside" or i not in dict(pairs)]
    image = torch.stack([*f.image_BD[plain], *(f.named["negative_images"].values[i, j] for i, j in pairs)])
    text = torch.stack([*f.text_BD[plain], *(f.negative_BKD[i, j] for i, j in pairs)])
    return {"clip": reference.clip(image, text, f.scale)}


def svlc_terms(f, cfg, step):
    """Contrast, hard negatives, analogy."""
    if cfg.negatives_in_contrastive:
        terms = {"negclip": negclip(f)}
    else:
        terms = {"clip": reference.clip(f.image_BD, f.text_BD, f.scale)}
    if cfg.lambda_s_neg:
        terms["s_neg"] = cfg.lambda_s_neg * s_neg(f)
    if cfg.lambda_analogy:
        terms["analogy"] = cfg.lambda_analogy * reference.analogy(f)
    return terms


def dac_terms(f, cfg, step):
    """The first negative is the caption's, the others those of its bag's texts."""
    v, bag, s, B, M = f.image_BD, f.positive_BPD, f.scale, *f.positive_BPD.shape[:2]
    first = (f.image_BD, f.text_BD, f.negative_BKD[:, :1], f.mask_BK[:, :1], f.scale)
    mil, against = [], []
    for i in range(B):
        bag_logits = [s * dot(v[i], bag[i, m]) for m in range(M)]
        texts = [s * dot(v[i], bag[j, m]) for j in range(B) for m in range(M)]
        images = [s * dot(v[j], bag[i, m]) for j in range(B) for m in range(M)]
        mil.append(lse(texts + images) - lse(bag_logits))
        wrong = [s * dot(v[i], f.negative_BKD[i, 1 + m]) for m in range(M) if f.mask_BK[i, 1 + m]]
        against.append(lse(bag_logits + wrong) - lse(bag_logits))
    terms = {"s_neg": reference.s_neg(*first), "mil": mean(mil), "bag": mean(against)}
    weighted = {name: getattr(cfg, f"lambda_{name}") * term for name, term in terms.items()}
    return {"negclip": reference.negclip(*first)} | weighted


def read_clip_terms(f, cfg, step):
    """Token by token from the decoder's own logits, and one softmax for each whole pair."""
    terms, s, B = {"negclip": negclip(f)}, f.scale, len(f.text_BD)
    if cfg.lambda_reconstruct:
        log_p = []
        seen = f.named["raw_captions"].values if cfg.reads == "state" else f.text_BD
        for i in range(B):
            for place in range(1, f.named["target"].values.shape[1]):
                if f.named["target"].values[i, place] >= 0:
                    logits = f.heads(seen[i : i + 1], f.named["target"].values[i : i + 1, : place + 1])[0][0, -1]
                    log_p.append(log_share(list(logits), int(f.named["target"].values[i, place])))
        terms["reconstruct"] = -cfg.lambda_reconstruct * mean(log_p)
    if cfg.lambda_align:
        positive_rows = [i for i in range(B) if f.positive_mask_BP[i, 0]]
        other, text = f.positive_BPD[positive_rows, 0], f.text_BD[positive_rows]
        rows = [-log_share([s * dot(q, k) for k in text], i) for i, q in enumerate(other)]
        terms["align"] = cfg.lambda_align * (mean(rows) if rows else nothing(f))
    return terms


def mosaiclip_terms(f, cfg, step):
    """Sec. 3.5: an image with each of its texts among all texts of the batch, and each text among the images."""
    B, s = len(f.image_BD), f.scale
    image_texts = [[f.text_BD[i], *f.positive_BPD[i][f.positive_mask_BP[i]]] for i in range(B)]
    negatives = list(f.negative_BKD[f.mask_BK])
    every = [text for texts in image_texts for text in texts] + negatives
    to_text, to_image = nothing(f), nothing(f)
    for i in range(B):
        total = sum((s * dot(f.image_BD[i], text)).exp() for text in every)
        shares = [((s * dot(f.image_BD[i], text)).exp() / total).log() for text in image_texts[i]]
        to_text = to_text - mean(shares)
        for text in image_texts[i]:
            to_image = to_image - log_share([s * dot(image, text) for image in f.image_BD], i)
    return {"to_text": to_text / B / 2, "to_image": to_image / B / 2}


TERMS = {
    "ce_clip": ce_clip_terms, "clove": negclip_terms, "con_clip": con_clip_terms, "crepe": negclip_terms, "dac": dac_terms,
    "degla": degla_terms, "gnm_clip": gnm_clip_terms, "mosaiclip": mosaiclip_terms, "read_clip": read_clip_terms, "svlc": svlc_terms, "triplet_clip": triplet_clip_terms,
}  # fmt: skip
MORE = [
    ("ce_clip", {}), ("clove", {}), ("con_clip", {}), ("con_clip", {"distractors": False}),
    ("crepe", {"kind": "all"}), ("dac", {"bag": 3}), ("dac", {"bag": 2, "lambda_bag": 0.5}),
    ("degla", {}), ("degla", {"text_negatives": "released", "lambda_distill": 0.1}), ("degla", {"lambda_text": 0.0}),
    ("gnm_clip", {}), ("gnm_clip", {"draw": "scores", "original": "left_out"}),
    ("mosaiclip", {}), ("mosaiclip", {"positives": 1, "negatives": 0, "swapped": False}), ("mosaiclip", {"positives": 2, "negatives": 3, "single_steps": 0}), ("read_clip", {}), ("read_clip", {"reads": "state"}), ("read_clip", {"lambda_reconstruct": 0.0, "negatives": 1}), ("svlc", {}), ("svlc", {"lambda_analogy": 1.0, "negatives_in_contrastive": False}),
    ("svlc", {"negatives": "both", "lambda_s_neg": 4.0}), ("triplet_clip", {}), ("triplet_clip", {"images": False}),
]  # fmt: skip
