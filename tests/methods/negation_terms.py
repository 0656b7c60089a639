"""The terms of methods that teach negation, written from the equations in loops over scalars (`tests.reference`)."""

import torch
from torch import Tensor

from tests import reference
from tests.methods.field_terms import nothing
from tests.reference import dot, mean, unit


def semclip_terms(f, cfg, step):
    """README: L_paraphrase = 1 - cos(p(t), p(t+)), L_negation = max(0, cos(p(t), p(t-))), divided by all weights."""
    terms = {"clip": (1.0, reference.clip(f.image_BD, f.text_BD, f.scale))}
    rows = range(len(f.image_BD))
    paraphrased = [1 - _agreement(f, i, f.positive_BPD[i, 0]) for i in rows if cfg.beta and f.positive_mask_BP[i, 0]]
    negated = [_agreement(f, i, f.negative_BKD[i, 0]) for i in rows if cfg.gamma and f.mask_BK[i, 0]]
    if cfg.beta:
        terms["paraphrase"] = (cfg.beta, mean(paraphrased) if paraphrased else nothing(f))
    if cfg.gamma:
        terms["negation"] = (cfg.gamma, mean([c if c > 0 else 0 * c for c in negated]) if negated else nothing(f))
    return {name: weight * term / (1 + cfg.beta + cfg.gamma) for name, (weight, term) in terms.items()}


def _agreement(f, i: int, other: Tensor) -> Tensor:
    """The cosine of what caption i and another text have along the directions."""
    one, two = (torch.stack([dot(row, text) for row in f.heads.weight]) for text in (f.text_BD[i], other))
    return dot(unit(one), unit(two))


def omni_negclip_terms(f, cfg, step):
    """Stage 1: (L1 + L2 + L3) / 3 of what has a negation; stage 2: of what has a caption that denies what is absent."""
    s, v, t = f.scale, f.image_BD, f.text_BD
    negated = [i for i in range(len(v)) if f.mask_BK[i, 0]]
    rows = (v[negated], t[negated], f.negative_BKD[negated, :1], f.mask_BK[negated, :1], s)
    presence = (2 * reference.negclip(*rows) + reference.s_neg(*rows)) / 3 if negated else nothing(f)
    terms = {"presence": presence}
    absent = [i for i in range(len(v)) if f.positive_BPD.shape[1] and f.positive_mask_BP[i, 0]]
    a = {i: f.positive_BPD[i, 0] for i in absent}
    pulled = {"absent": a, "caption": {i: t[i] for i in absent}}
    for name, texts in pulled.items():
        if weight := getattr(cfg, f"lambda_{name}"):
            term = reference.clip(v[absent], torch.stack(list(texts.values())), s) if absent else nothing(f)
            terms[name] = weight * term
    if cfg.lambda_apart:
        short = [dot(t[i], a[i]) + cfg.margin for i in absent]
        terms["apart"] = cfg.lambda_apart * (mean([x if x > 0 else 0 * x for x in short]) if short else nothing(f))
    return terms


TERMS = {"omni_negclip": omni_negclip_terms, "semclip": semclip_terms}
MORE = [
    ("omni_negclip", {}), ("omni_negclip", {"lambda_apart": 0.0, "lambda_caption": 0.5}), ("omni_negclip", {"margin": -0.1, "lambda_absent": 0.3}),
    ("omni_negclip", {"lambda_absent": 0.0, "lambda_caption": 0.0, "lambda_apart": 0.0}),
    ("semclip", {}), ("semclip", {"directions": 5, "gamma": 0.5}), ("semclip", {"beta": 0.0}), ("semclip", {"gamma": 0.0}),
]  # fmt: skip
