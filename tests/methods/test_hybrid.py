"""Hybrid: with one paper's parts it is that paper's method, views, terms and slopes; mistakes are told."""

import itertools

import pytest
import torch

from compclip.base.errors import UserError
from compclip.interface.method import load_method
from compclip.methods import hybrid
from tests.methods.conftest import drawn
from tests.methods.test_variants import slopes

NEGCLIP, FSC = {"negatives": "negclip", "place": "contrast"}, {"negatives": "negclip+wordnet+bigram"}
SIGMOID = {"contrast": "sigmoid"}
CLIC = {"steps": "composites+plain", "place": "s_neg", "lambda_s_neg": 0.5, "caption": "first", "lowercase": True}
ALONE = CLIC | {"steps": "composites"}
HP = {"negatives": "negclip+wordnet", "place": "contrast+s_neg", "hard_positives": "both"}
SVLC = {"negatives": "lists", "place": "contrast+s_neg"}
SAME = [  # a paper's method with its parameters, and hybrid's that make the same of it
    ("finetune", {}, {}),
    ("finetune", {"caption": "first"}, {"caption": "first"}),
    ("finetune", {"loss": "sigmoid"}, SIGMOID),
    ("negclip", {}, NEGCLIP),
    ("negclip", {"swap": "clic"}, NEGCLIP | {"negatives": "clic"}),
    ("clove", {}, NEGCLIP | {"negatives": "clove"}),
    ("crepe", {"kind": "all"}, NEGCLIP | {"negatives": "atoms+wordnet+negate"}),
    ("con_clip", {"distractors": False}, NEGCLIP | {"negatives": "stored"}),
    ("con_clip", {"distractors": False, "negations": "rule"}, NEGCLIP | {"negatives": "conclip"}),
    ("triplet_clip", {"images": False}, NEGCLIP | {"negatives": "stored"}),
    ("fsc_clip", {}, FSC | {"place": "global+local"}),
    ("fsc_clip", {"lambda_local": 0.0, "gamma": 0.0, "epsilon": 0.0}, FSC | {"place": "global", "gamma": 0.0, "epsilon": 0.0}),
    ("fsc_clip", {"lambda_global": 0.0}, FSC | {"place": "local"}),
    ("fsc_clip", {"replace": "clove", "shuffle": "tokens", "lambda_global": 1.0, "lambda_local": 0.5, "gamma": 0.5},
     {"negatives": "negclip+clove+tokens", "place": "global+local", "lambda_global": 1.0, "lambda_local": 0.5, "gamma": 0.5}),
    ("c2lip", {}, SIGMOID | {"concepts": "pooled"}),
    ("c2lip", {"concepts": "encoded", "lambda_xac": 0.0}, SIGMOID | {"concepts": "encoded", "lambda_xac": 0.0}),
    ("c2lip", {"lambda_npc": 0.0, "lambda_xac": 0.1}, SIGMOID | {"concepts": "pooled", "lambda_npc": 0.0, "lambda_xac": 0.1}),
    ("c2lip", {"lambda_npc": 0.0, "lambda_xac": 0.0}, SIGMOID | {"concepts": "pooled", "lambda_npc": 0.0, "lambda_xac": 0.0}),
    ("clic", {}, CLIC),
    ("clic", {"alternate": False}, ALONE),
    ("clic", {"lambda_cont": 0.3, "positives": 2, "partner": "common_noun"},
     CLIC | {"lambda_cont": 0.3, "positives": 2, "partner": "common_noun"}),
    ("clic", {"positives": 1, "lambda_s_neg": 0.0, "lambda_uni": 0.0, "alternate": False},
     ALONE | {"positives": 1, "place": "none", "lambda_uni": 0.0}),
    ("clic", {"composites": False, "lambda_uni": 0.0}, CLIC | {"partner": "own", "lambda_uni": 0.0}),
    ("hard_positives", {}, HP),
    ("hard_positives", {"source": "llm", "hard_positives": "swap"}, HP | {"source": "llm", "hard_positives": "swap"}),
    ("hard_positives", {"negatives_in_contrastive": False, "hard_negatives": "replace", "hard_positives": "none"},
     HP | {"negatives": "wordnet", "place": "s_neg", "hard_positives": "none"}),
    ("svlc", {}, SVLC),
    ("svlc", {"negatives": "masked", "lambda_analogy": 1.0, "negatives_in_contrastive": False, "lambda_s_neg": 4.0},
     {"negatives": "masked", "place": "s_neg", "lambda_s_neg": 4.0, "hard_positives": "paraphrase"}),
]  # fmt: skip
NAMES = {"c2lip": {"contrastive": "sigmoid"}}  # one name here for what two papers' methods have
CASES = [(*case, step) for case, step in itertools.product(SAME, (0, 1))]


def named(case) -> str:
    return f"{case[0]}-{case[1]}-{case[3]}"


@pytest.mark.parametrize("case", CASES, ids=named)
def test_with_one_papers_parts_it_is_that_papers_method(case):
    """What is asked of samples, data and backbone is equal; terms and slopes agree to 1e-12 in float64."""
    name, theirs, ours, step = case
    method = load_method(name)
    paper, cfg = method.Config(**theirs), hybrid.Config(**ours)
    assert hybrid.views(cfg, step) == method.views(paper, step)
    assert (hybrid.needs(cfg), hybrid.needs_bias(cfg)) == (method.needs(paper), method.needs_bias(paper))
    f = drawn(name, paper, step=step, seed=step)
    expected, terms = method.loss(f, paper, step), hybrid.loss(f, cfg, step)
    expected = {NAMES.get(name, {}).get(term, term): value for term, value in expected.items()}
    assert list(terms) == list(expected) and f.image_BD.dtype == torch.float64
    for term in expected:
        torch.testing.assert_close(terms[term], expected[term], rtol=0, atol=1e-12)
    theirs, ours = slopes(f, expected), slopes(f, terms)
    for leaf in theirs:
        torch.testing.assert_close(ours[leaf], theirs[leaf], rtol=0, atol=1e-12)


COMBINED = [
    dict(zip(("contrast", "place", "negatives", "concepts", "hard_positives", "steps"), options, strict=True))
    for options in itertools.product(
        ("softmax", "sigmoid"), ("none", "contrast", "s_neg+local"), ("none", "negclip+bigram"),
        ("none", "pooled"), ("none", "swap"), hybrid.STEPS,
    )
]  # fmt: skip


def test_what_is_not_refused_trains():
    """Every combination of switches is refused with a line, or has finite terms with slopes on images and texts."""
    refused = 0
    for switches in COMBINED:
        try:
            cfg = hybrid.Config(**switches)
        except UserError as error:
            assert "\n" not in str(error)
            refused += 1
            continue
        for step in (0, 1):
            f = drawn("hybrid", cfg, step=step)
            sum(hybrid.loss(f, cfg, step).values()).backward()
            assert torch.isfinite(f.image_BD.grad).all() and torch.isfinite(f.text_BD.grad).all()
    assert 0 < refused < len(COMBINED)


@pytest.mark.parametrize(
    "changes,message",
    [
        ({"contrast": "sigmoid", "place": "contrast", "negatives": "clic"}, "place=contrast: contrast=sigmoid has no softmax"),
        ({"place": "s_neg"}, "place=s_neg: single pictures have no negatives; name rules in negatives"),
        ({"place": "s_neg", "steps": "composites+single"}, "place=s_neg: single pictures have no negatives"),
        ({"negatives": "negclip"}, "negatives=negclip: no term has them; name one in place"),
        ({"negatives": "negclip", "place": "s_neg", "steps": "composites"}, "negatives=negclip: steps=composites has no single"),
        ({"concepts": "pooled", "steps": "composites+plain"}, "concepts=pooled: steps=composites[+]plain has no single"),
        ({"hard_positives": "swap", "steps": "composites"}, "hard_positives=swap: steps=composites has no single pictures"),
        ({"steps": "composites", "positives": 1}, "lambda_uni=1.0: compares p1 and p2; set it to 0 with positives=1"),
        ({"place": "globl", "negatives": "clic"}, "place=globl: unknown part 'globl'; did you mean 'global'"),
        ({"place": "local", "negatives": "clic+clic"}, "negatives=clic[+]clic: names a part twice; name it once"),
        ({"place": "local", "negatives": "clic+"}, "negatives=clic[+]: unknown part ''"),
    ],
)  # fmt: skip
def test_bad_values_are_refused_by_name(changes, message):
    with pytest.raises(UserError, match=message) as caught:
        hybrid.Config(**changes)
    assert "\n" not in str(caught.value)
