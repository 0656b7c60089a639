"""Every variant of every grid, term by term, against the equations in loops: values and slopes to 1e-6 in float64."""

import functools
import importlib
from dataclasses import fields, replace

import pytest
import torch

from compclip.config import grid, read
from compclip.interface.method import load_method
from tests import reference
from tests.conftest import ROOT
from tests.methods.conftest import configured, drawn
from tests.methods.field_terms import negclip_terms, s_neg
from tests.shipped_files import list_shipped

# Each file `<kind>_terms.py` beside this one has the equations of some methods (TERMS), and parameters to compare (MORE).
REFERENCES = [
    importlib.import_module(f"tests.methods.{path.stem}")
    for path in sorted((ROOT / "tests" / "methods").glob("*_terms.py"))
]
EVERYTHING = {"negatives": "negclip+wordnet+bigram", "place": "contrast+s_neg+global+local", "concepts": "pooled",
              "hard_positives": "both", "steps": "composites+single"}  # fmt: skip
PARTLESS = {"steps": "composites", "negatives": "none", "concepts": "none", "hard_positives": "none"}
MORE = [  # parameters that a paper or its code names and that no grid varies
    ("clic", {"uni_norm": "l2"}), ("clic", {"lambda_cont": 0.0}), ("clic", {"positives": 5}), ("clic", {"positives": 1, "lambda_uni": 0.0}),
    ("negclip", {"swap": "negclip"}),
    ("fsc_clip", {"gamma": 0.5, "epsilon": 0.2, "attention": "softmax"}), ("c2lip", {"lambda_npc": 0.0}),
    ("hard_positives", {"negatives_in_contrastive": False, "hard_positives": "none"}),
    ("hard_positives", {"negatives_in_contrastive": False, "source": "rules"}),
    ("finetune", {"loss": "sigmoid"}), ("hybrid", EVERYTHING), ("hybrid", EVERYTHING | PARTLESS),
    ("hybrid", EVERYTHING | {"contrast": "sigmoid", "place": "s_neg+global+local"}), *(entry for module in REFERENCES for entry in module.MORE),
]  # fmt: skip


@functools.cache
def variants() -> dict[str, tuple[str, object]]:
    """Each different Config of the grids, by the name that has it first; read by the one process that runs the tests."""
    configs: dict[str, tuple[str, object]] = {}
    for path in list_shipped("experiments/grids/*.yaml"):
        params = read.load_params(path)
        for cell in grid.list_cells(params):
            base = cell.method.partition(".")[0]
            entry = (base, without_large_model(grid.resolve(params, cell).method))
            if load_method(base).TRAINS and entry not in configs.values():
                configs[f"{path.stem}: {cell.method}"] = entry
    for base, changes in MORE:
        config = configured(base, **changes)
        configs[f"{base}, {', '.join(f'{k} {v}' for k, v in changes.items())}"] = (base, config)
    return configs


def without_large_model(cfg):
    """The same with the small decoder of the defaults, and with as few codes and tokens as loops can take."""
    small = {"decoder": type(cfg)().decoder} if hasattr(cfg, "decoder") else {}
    small |= {"codes": 6, "code_width": 4} if hasattr(cfg, "codes") else {}
    return replace(cfg, **small | ({"tokens": 3} if getattr(cfg, "tokens", 0) > 3 else {}))


def finetune_terms(f, cfg, step):
    if cfg.loss == "clip":
        return clip_terms(f, cfg, step)
    return {"sigmoid": reference.sigmoid(f.image_BD, f.text_BD, torch.arange(len(f.image_BD)), f.scale, f.bias)}


def clip_terms(f, cfg, step):
    return {"clip": reference.clip(f.image_BD, f.text_BD, f.scale)}


def distance(one_BD, other_BD, cfg) -> torch.Tensor:
    """CLIC Eq. 6: the mean over rows."""
    squared = [reference.dot(a - b, a - b) for a, b in zip(one_BD, other_BD, strict=True)]
    return reference.mean(squared if cfg.uni_norm == "squared" else [x.sqrt() for x in squared])


def clic_terms(f, cfg, step):
    """Eq. 4–7; every second step Eq. 1 where steps alternate."""
    if cfg.alternate and step % 2:
        return clip_terms(f, cfg, step)
    p = [f.text_BD, *(f.positive_BPD[:, i] for i in range(cfg.positives - 1))]
    negative = (f.negative_BKD, f.mask_BK, f.scale)
    terms = {
        "cont": (cfg.lambda_cont, reference.mean([reference.clip(f.image_BD, t, f.scale) for t in p])),
        "s_neg": (cfg.lambda_s_neg, reference.mean([reference.s_neg(f.image_BD, t, *negative) for t in p])),
        "uni": (cfg.lambda_uni, distance(p[0], p[min(1, len(p) - 1)], cfg)),
    }  # fmt: skip
    return {name: weight * term for name, (weight, term) in terms.items() if weight or name == "cont"}


def candidates(f) -> torch.Tensor:
    """Which of an image's texts count: its own, and the negatives that a rule made."""
    return torch.cat([torch.ones(len(f.mask_BK), 1, dtype=torch.bool), f.mask_BK], 1)


def near(f, text_BD) -> torch.Tensor:
    """FSC-CLIP Eq. 3: each image against its texts."""
    every = [[text_BD[i], *f.negative_BKD[i]] for i in range(len(text_BD))]
    scores = [[f.scale * reference.dot(v, t) for t in texts] for v, texts in zip(f.image_BD, every, strict=True)]
    return torch.stack([torch.stack(row) for row in scores])


def far(f, attention) -> torch.Tensor:
    """FSC-CLIP Eq. 6–8: its patches against their tokens."""
    texts = [(f.token_BTD, f.token_mask_BT)]
    texts += [(f.negative_token_BKTD[:, k], f.negative_token_mask_BKT[:, k]) for k in range(f.mask_BK.shape[1])]
    return torch.stack([reference.local_similarity(f.patch_BND, t, m, f.scale, attention) for t, m in texts], 1)


def fsc_clip_terms(f, cfg, step):
    """Eq. 2–11."""
    focal_options, terms = (candidates(f), cfg.gamma, cfg.epsilon, None), clip_terms(f, cfg, step)
    if cfg.lambda_global:
        terms["global"] = cfg.lambda_global * reference.focal_smoothed(near(f, f.text_BD), *focal_options)
    if cfg.lambda_local:
        terms["local"] = cfg.lambda_local * reference.focal_smoothed(far(f, cfg.attention), *focal_options)
    return terms


def c2lip_terms(f, cfg, step):
    """Eq. 4–8."""
    owner_B, concept_options = torch.arange(len(f.image_BD)), (f.owner_M, f.scale, f.bias)
    terms = {"contrastive": reference.sigmoid(f.image_BD, f.text_BD, owner_B, f.scale, f.bias)}
    if cfg.lambda_npc:
        terms["npc"] = cfg.lambda_npc * reference.sigmoid(f.image_BD, f.concept_MD, *concept_options)
    if cfg.lambda_xac:
        terms["xac"] = cfg.lambda_xac * reference.cross_attended(f.patch_BND, f.concept_MD, *concept_options)
    return terms


def hard_positives_terms(f, cfg, step):
    """E.1: contrast, hard negatives, analogy."""
    terms = (negclip_terms if cfg.negatives_in_contrastive else clip_terms)(f, cfg, step)
    terms["s_neg"] = cfg.lambda_s_neg * s_neg(f)
    if cfg.hard_positives != "none":
        terms["analogy"] = cfg.lambda_analogy * reference.analogy(f)
    return terms


def hybrid_terms(f, cfg, step):
    """Each part by its paper's equations; on composites the mean over captions, of local p1 alone."""
    composite = cfg.steps != "single" and (cfg.steps == "composites" or step % 2 == 0)
    plain = cfg.steps == "composites+plain" and not composite
    places = () if plain else cfg.place.split("+")
    p = [f.text_BD, *f.positive_BPD.unbind(1)] if composite else [f.text_BD]
    name, each = hybrid_contrast(f, cfg, places)
    if composite:
        terms = {"cont": cfg.lambda_cont * reference.mean([each(t) for t in p])}
        terms |= {"uni": cfg.lambda_uni * distance(p[0], p[1], cfg)} if cfg.lambda_uni else {}
    else:
        terms = {name: each(f.text_BD)}
    focal_options = (candidates(f), cfg.gamma, cfg.epsilon, None)
    if "s_neg" in places:
        of = [reference.s_neg(f.image_BD, t, f.negative_BKD, f.mask_BK, f.scale) for t in p]
        terms["s_neg"] = cfg.lambda_s_neg * reference.mean(of)
    if "global" in places:
        of = [reference.focal_smoothed(near(f, t), *focal_options) for t in p]
        terms["global"] = cfg.lambda_global * reference.mean(of)
    if "local" in places:
        terms["local"] = cfg.lambda_local * reference.focal_smoothed(far(f, cfg.attention), *focal_options)
    if not composite and cfg.concepts != "none":
        terms |= {name: term for name, term in c2lip_terms(f, cfg, step).items() if name != "contrastive"}
    if not composite and cfg.hard_positives != "none":
        terms["analogy"] = cfg.lambda_analogy * reference.analogy(f)
    return terms


def hybrid_contrast(f, cfg, places):
    """The contrast of the batch: its name, and it of one caption an image."""
    if cfg.contrast == "sigmoid":
        owner_B = torch.arange(len(f.image_BD))
        return "sigmoid", lambda t: reference.sigmoid(f.image_BD, t, owner_B, f.scale, f.bias)
    if "contrast" in places:
        return "negclip", lambda t: reference.negclip(f.image_BD, t, f.negative_BKD, f.mask_BK, f.scale)
    return "clip", lambda t: reference.clip(f.image_BD, t, f.scale)


TERMS = {name: terms for module in REFERENCES for name, terms in module.TERMS.items()} | {
    "finetune": finetune_terms,
    "negclip": negclip_terms,
    "clic": clic_terms,
    "fsc_clip": fsc_clip_terms,
    "c2lip": c2lip_terms,
    "hard_positives": hard_positives_terms,
    "hybrid": hybrid_terms,
}
IN_TURN = ("clic", "flair", "hybrid")  # whose steps may differ


def slopes(f, terms) -> dict[str, torch.Tensor]:
    """Of the sum of terms, with respect to every feature."""
    leaves = {field.name: getattr(f, field.name) for field in fields(f)}
    leaves = {name: x for name, x in leaves.items() if isinstance(x, torch.Tensor) and x.requires_grad}
    gradients = torch.autograd.grad(sum(terms.values()), list(leaves.values()), allow_unused=True)
    return {n: torch.zeros_like(x) if g is None else g for (n, x), g in zip(leaves.items(), gradients, strict=True)}


@pytest.mark.parametrize("base", TERMS)
def test_every_term_of_every_variant_is_its_equation(base):
    """Values and slopes of each Config that a grid or the list above has of a method."""
    configs = {name: cfg for name, (method, cfg) in variants().items() if method == base}
    assert configs
    for name, cfg in configs.items():
        for step in (0, 1) if base in IN_TURN else (0,):
            check_terms(base, cfg, step, f"{name}, step {step}")


def check_terms(base: str, cfg: object, step: int, label: str) -> None:
    """Compare a method's terms and their slopes with the equations."""
    f = drawn(base, cfg, step=step, B=3, M=4, seed=step)
    terms = load_method(base).loss(f, cfg, step)
    expected = TERMS[base](f, cfg, step)
    assert set(terms) == set(expected) and f.image_BD.dtype == torch.float64, label
    ours, theirs = slopes(f, terms), slopes(f, expected)
    for values, references in ((terms, expected), (ours, theirs)):
        for key, value in values.items():
            say = f"{label}: {key}: {{}}".format
            torch.testing.assert_close(value, references[key], rtol=1e-6, atol=1e-6, msg=say)


@pytest.mark.parametrize("base", [b for b in TERMS if b not in IN_TURN])
def test_terms_do_not_depend_on_the_step(base):
    cfg, method = load_method(base).Config(), load_method(base)
    f = drawn(base, cfg, seed=0)
    assert method.loss(f, cfg, 0) == method.loss(f, cfg, 1) and method.views(cfg, 0) == method.views(cfg, 1)
