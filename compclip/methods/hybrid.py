"""Hybrid: parts of the papers' losses combined, each with a switch of its own; with all off, it is plain fine-tuning.

B images, K negatives, p_l captions of an image, D dim. This is no paper's method, but with the parts of one paper it
equals that paper's loss (docs/methods.md lists how, and which parts are not included). Switches are names, so that a
sweep can choose among them, and draws a weight only if its part is on:

`place`      which terms use the negatives, joined by +: contrast (in its softmax; NegCLIP, SVLC), s_neg (SVLC, CLIC),
             global and local (FSC-CLIP, both calibrated by gamma and epsilon)
`negatives`  the rules for negatives of single pictures, joined by +; a composite always has CLIC's negative
`concepts`   C2LIP's terms; `hard_positives`: the analogy term (SVLC, Hard Positives); with `caption`, each caption is
             its own rewrite
`steps`      single pictures, CLIC's composites, or both in turn, composites first. Then single pictures have the plain
             contrast (CLIC), or all their parts

On composites each term is the mean over captions p_l, as in CLIC. The local term is an exception: it uses p1, because
the tokens of the others are not kept. Averaging weights with the backbone's (CLoVe, WiSE-FT) is `train.average_alpha`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from compclip.base.ablation_parts import part
from compclip.base.errors import UserError
from compclip.base.lazy_torch import torch
from compclip.interface.views import Composite, Views
from compclip.methods import _check
from compclip.methods._parts import captions, hard_negative, local_scores, mean_over, uni
from compclip.text import composite_captions, masked_words, negate, positives, replace, shuffle, stored_texts, swap
from compclip.text.text_groups import Rule
from compclip.text.wordlists import WordLists
from compclip.train import losses

if TYPE_CHECKING:
    from torch import Tensor

    from compclip.interface.features import Features

TRAINS = True
CONTRAST, S_NEG, GLOBAL, LOCAL = PLACES = ("contrast", "s_neg", "global", "local")
SINGLE, COMPOSITES, WITH_PLAIN, WITH_SINGLE = STEPS = ("single", "composites", "composites+plain", "composites+single")
NEGATIVES: dict[str, Rule] = {
    **swap.RULES,  # NegCLIP's, and CLIC's of one caption
    "nouns": swap.nouns,  # CE-CLIP's relations
    "atoms": swap.atoms,  # CREPE's
    "atoms_released": swap.atoms_released,
    "negate": negate.crepe,
    "negate_released": negate.crepe_released,
    "conclip": negate.conclip,
    "conclip_released": negate.conclip_released,
    "wordnet": replace.wordnet,
    "clove": replace.RULES["clove"],  # for data with `relatives: true`
    "bigram": shuffle.bigram,
    "tokens": shuffle.tokens,  # FSC-CLIP's, as released
    "masked": masked_words.any_word,  # SVLC's L
    "stored": stored_texts.first_negative,
}
LISTS = "lists"  # SVLC's R
KINDS = {"both": ("swap", "replace"), "swap": ("swap",), "replace": ("replace",), "caption": ()}
PARTNERS = {"random": "random", "common_noun": "common_noun", "own": ""}
CALIBRATED = ("lambda_global", "lambda_local")
COMPOSED = ("steps:composites",)


@dataclass(frozen=True)
class Config(_check.CaptionConfig):
    contrast: str = "softmax"  # CLIP's loss; "sigmoid": SigLIP's (C2LIP Eq. 4)
    init_bias: ClassVar[float] = -10.0  # of the learnt bias that a softmax backbone gets for sigmoid terms; see c2lip
    lowercase: bool = False  # true: as in CLIC
    negatives: str = "none"  # rules, such as "negclip+wordnet+bigram" (FSC-CLIP's)
    place: str = part("none", off="none", name="negatives", negatives="none")  # such as "contrast+s_neg" (SVLC's)
    lambda_s_neg: float = part(1.0, off=0.0, of=("place:s_neg",))  # SVLC; CLIC 0.5
    lambda_global: float = part(0.5, off=0.0, of=("place:global",))  # FSC-CLIP Eq. 11
    lambda_local: float = part(0.2, off=0.0, of=("place:local",))  # FSC-CLIP Eq. 11
    gamma: float = part(2.0, off=0.0, of=CALIBRATED)  # focal exponent of global and local, FSC-CLIP Eq. 9
    epsilon: float = part(0.02, off=0.0, of=CALIBRATED)  # label smoothing of global and local, FSC-CLIP Eq. 10
    attention: ClassVar[str] = "minmax"  # of local, FSC-CLIP Eq. 6
    concepts: str = part("none", off="none")  # "pooled" or "encoded", as in c2lip
    whole_concept: ClassVar[bool] = False  # as in c2lip
    lambda_npc: float = part(1.0, off=0.0, of=("concepts",))  # C2LIP Eq. 8
    lambda_xac: float = part(0.01, off=0.0, of=("concepts",))  # C2LIP Eq. 8
    hard_positives: str = part("none", off="none", of=("lambda_analogy",))  # or a key of KINDS, or "paraphrase"
    source: str = "rules"  # of hard positives, as in hard_positives; "llm": from data.<name>.rewriter
    lambda_analogy: float = 1.0  # SVLC
    steps: str = "single"  # "composites", "composites+plain" (CLIC's), "composites+single"
    positives: int = part(4, off=1, of=COMPOSED, lambda_uni=0.0)  # captions p_l of a composite (CLIC, Table 13)
    # "random", "common_noun", or "own": the sentences of a single picture instead of a composite (CLIC, B1–B4)
    partner: str = part("random", off="own", of=COMPOSED, name="composites", lambda_uni=0.0)
    lambda_cont: float = 0.5  # of the contrast of composites, CLIC Eq. 7
    lambda_uni: float = part(1.0, off=0.0, of=("partner",))  # CLIC Eq. 7
    uni_norm: ClassVar[str] = "squared"  # as in clic

    def __post_init__(self) -> None:
        _check.at_least(self, 0, "gamma", "lambda_s_neg", "lambda_global", "lambda_local", "lambda_npc", "lambda_xac")
        _check.at_least(self, 0, "lambda_analogy", "lambda_cont", "lambda_uni")
        _check.fraction(self, "epsilon")
        _check.at_least(self, 1, "positives")
        _check.one_of(
            self,
            contrast=("softmax", "sigmoid"),
            concepts=("none", "pooled", "encoded"),
            hard_positives=("none", *KINDS, "paraphrase"),
            source=positives.RULES,
            steps=STEPS,
            partner=PARTNERS,
        )
        _check.joined_names(self, "negatives", (*NEGATIVES, LISTS))
        _check.joined_names(self, "place", PLACES)
        _fit(self)


def _fit(cfg: Config) -> None:
    """Raise UserError for parts that cannot be combined, and for a part that no step would use."""
    places = _check.split_names(cfg.place)
    rules = _check.split_names(cfg.negatives)
    has_single_pictures = cfg.steps in (SINGLE, WITH_SINGLE)
    if cfg.contrast == "sigmoid" and CONTRAST in places:
        raise UserError(f"place={cfg.place}: contrast=sigmoid has no softmax for negatives; leave contrast out")
    if has_single_pictures and places and not rules:
        raise UserError(f"place={cfg.place}: single pictures have no negatives; name rules in negatives")
    _check.refuse(rules and not places, f"negatives={cfg.negatives}: no term has them; name one in place")
    for field in ("negatives", "concepts", "hard_positives"):
        value = getattr(cfg, field)
        fault = f"steps={cfg.steps} has no single pictures with parts; set steps to {SINGLE} or {WITH_SINGLE}"
        _check.refuse(not has_single_pictures and value != "none", f"{field}={value}: {fault}")
    fault = f"lambda_uni={cfg.lambda_uni}: compares p1 and p2; set it to 0 with positives=1"
    _check.refuse(cfg.steps != SINGLE and cfg.lambda_uni and cfg.positives < 2, fault)


def needs(cfg: Config) -> dict[str, object]:
    """Return the values that the section of a data set must have."""
    return {"relatives": True} if "clove" in _check.split_names(cfg.negatives) else {}


def needs_bias(cfg: Config) -> bool:
    """Return whether a term is a sigmoid loss."""
    return cfg.contrast == "sigmoid" or with_concepts(cfg)


def with_concepts(cfg: Config) -> bool:
    """Return whether a term uses concepts."""
    return cfg.concepts != "none" and (cfg.lambda_npc > 0 or cfg.lambda_xac > 0)


def composite(cfg: Config, step: int) -> bool:
    """Return whether a step, counted from 0, has composites; the first step has."""
    return cfg.steps == COMPOSITES or (cfg.steps != SINGLE and step % 2 == 0)


def views(cfg: Config, step: int) -> Views:
    """Ask for what the parts of a step need: composites, plain pictures, or pictures with all parts."""
    local = LOCAL in _check.split_names(cfg.place)
    plain = Views(caption=cfg.caption, lowercase=cfg.lowercase)
    if composite(cfg, step):
        return dataclasses.replace(
            plain,
            composite=Composite(cfg.positives, composite_captions.compose, PARTNERS[cfg.partner]),
            tokens=local,
            own_tokens=local,
        )
    if cfg.steps == WITH_PLAIN:
        return plain
    rules = NEGATIVES | {LISTS: WordLists.parse({}).rule}
    hard_positives = tuple(positives.RULES[cfg.source][kind] for kind in KINDS.get(cfg.hard_positives, ()))
    tokens = local or (cfg.concepts != "none" and cfg.lambda_xac > 0)
    return dataclasses.replace(
        plain,
        negatives=tuple(rules[name] for name in _check.split_names(cfg.negatives)),
        positives=(stored_texts.paraphrase,) if cfg.hard_positives == "paraphrase" else hard_positives,
        concepts=cfg.concepts if with_concepts(cfg) else "",
        tokens=tokens,
        own_tokens=tokens,
    )


def loss(f: Features, cfg: Config, step: int) -> dict[str, Tensor]:
    """Return the terms of a step's parts as weighted scalars, without parts that are off or of weight 0."""
    if composite(cfg, step):
        apart = {"uni": cfg.lambda_uni * uni(f, cfg.uni_norm)} if cfg.lambda_uni else {}  # CLIC Eq. 6
        cont = mean_over(captions(f), lambda p_BD: contrast(f, p_BD, cfg, _check.split_names(cfg.place)))  # CLIC Eq. 4
        return {"cont": cfg.lambda_cont * cont} | negative_terms(f, captions(f), cfg) | apart
    if cfg.steps == WITH_PLAIN:
        return {_contrast_name(cfg, ()): contrast(f, f.text_BD, cfg, ())}
    places = _check.split_names(cfg.place)
    terms = {_contrast_name(cfg, places): contrast(f, f.text_BD, cfg, places)} | negative_terms(f, [f.text_BD], cfg)
    return terms | concepts(f, cfg) | analogy(f, cfg)


def _contrast_name(cfg: Config, places: tuple[str, ...]) -> str:
    """Return the name of the contrast's term, as in the papers' methods."""
    return "sigmoid" if cfg.contrast == "sigmoid" else "negclip" if CONTRAST in places else "clip"


def contrast(f: Features, text_BD: Tensor, cfg: Config, places: tuple[str, ...]) -> Tensor:
    """Return CLIP's loss (CLIC Eq. 1), also with the batch's negatives (CLIC Eq. 2), or SigLIP's (C2LIP Eq. 4)."""
    if cfg.contrast == "sigmoid":
        own_B = torch.arange(len(f.image_BD), device=f.image_BD.device)
        return losses.sigmoid(f.image_BD, text_BD, own_B, f.scale, f.bias)
    if CONTRAST in places:
        return losses.negclip(f.image_BD, text_BD, f.negative_BKD, f.mask_BK, f.scale)
    return losses.clip(f.image_BD, text_BD, f.scale)


def negative_terms(f: Features, captions: list[Tensor], cfg: Config) -> dict[str, Tensor]:
    """Contrast captions with their image's negatives: plain (CLIC Eq. 3, 5), global and local (FSC-CLIP Eq. 3–10)."""
    places = _check.split_names(cfg.place)
    terms = {}
    if S_NEG in places and cfg.lambda_s_neg:
        s_neg = mean_over(captions, lambda p_BD: losses.s_neg(f.image_BD, p_BD, f.negative_BKD, f.mask_BK, f.scale))
        terms["s_neg"] = cfg.lambda_s_neg * s_neg
    if GLOBAL in places and cfg.lambda_global:
        scores = [losses.candidate_scores(f.image_BD, p_BD, f.negative_BKD, f.scale) for p_BD in captions]
        terms["global"] = cfg.lambda_global * mean_over(scores, lambda scores_BC: _calibrated(scores_BC, f, cfg))
    if LOCAL in places and cfg.lambda_local:
        terms["local"] = cfg.lambda_local * _calibrated(local_scores(f, cfg.attention), f, cfg)
    return terms


def _calibrated(scores_BC: Tensor, f: Features, cfg: Config) -> Tensor:
    return hard_negative(scores_BC, f, cfg.gamma, cfg.epsilon)


def concepts(f: Features, cfg: Config) -> dict[str, Tensor]:
    """Return C2LIP's terms of concepts (Eq. 5–7)."""
    if cfg.concepts == "none":
        return {}
    from compclip.train import own_rows

    terms = {}
    concept_features = (f.concept_MD, f.owner_M, f.scale, f.bias)
    if cfg.lambda_npc:
        terms["npc"] = cfg.lambda_npc * losses.sigmoid(f.image_BD, *concept_features)
    if cfg.lambda_xac:
        terms["xac"] = cfg.lambda_xac * own_rows.cross_attended(f)
    return terms


def analogy(f: Features, cfg: Config) -> dict[str, Tensor]:
    """Return SVLC's term of the rewritten caption."""
    if cfg.hard_positives == "none" or not cfg.lambda_analogy:
        return {}
    rewrites = (f.positive_BPD, f.positive_mask_BP)
    return {"analogy": cfg.lambda_analogy * losses.analogy(f.image_BD, f.text_BD, *rewrites, f.scale)}
