"""Audit training texts: what rules and released lists show beside captions, and how far they are told apart blindly.

compclip audit DATA                      the texts of all methods of the grid
compclip audit DATA --method NAME        of one method, name or name.variant; several may follow
compclip audit DATA --json               print JSON

Prints coverage, how often captions are told from the texts without the picture (cross-validated by picture), texts
that are still true by rules, and samples of each rule. Texts are made by training's own `train.view_maker`, of epoch 0
and seed 0; no picture is opened. Needs the annotated data set (`compclip repro annotate@DATA`).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image

from compclip.base.command_line import CommandParser
from compclip.base.errors import UserError, entry, one_line, unknown
from compclip.config import grid, read
from compclip.config.sections import Params
from compclip.data import column_hashes
from compclip.data.prepared_dataset import PreparedDataset
from compclip.interface.views import Views
from compclip.text import true_edits
from compclip.text.blind_language import FOLDS, FoldedLanguage
from compclip.text.text_groups import Rule
from compclip.train.view_maker import ViewMaker
from compclip.train.view_shares import rule_name

NEGATIVE = "negative"
POSITIVE = "positive"
FOIL = "foil"
COMPOSITE = "composite"
PICTURES = 5_000  # looked at, evenly spaced
SAMPLES = 10


@dataclass
class RuleTexts:
    """The texts of one rule: pairs of a caption and a text, with the number of the picture; `attempts` counts captions.

    A foil is beside the part of the caption that it belies, and `attempts` counts parts.
    """

    method: str
    role: str
    rule: str
    attempts: int = 0
    pairs: list[tuple[str, str]] = field(default_factory=list)
    pictures: list[int] = field(default_factory=list)

    def add(self, caption: str | None, text: str | None, picture: int) -> None:
        """Count a caption of a picture, and add its pair if the rule made a text of it."""
        self.attempts += 1
        if caption is not None and text is not None:
            self.pairs.append((caption, text))
            self.pictures.append(picture)


@dataclass(frozen=True)
class RuleAudit:
    """What was found of one rule; shares are of its texts, `coverage` of captions."""

    method: str
    role: str
    rule: str
    texts: int
    coverage: float
    recognised: float | None  # None where there are too few texts
    still_true: float
    may_be_true: float
    samples: list[tuple[str, str]]


@dataclass(frozen=True)
class Audit:
    """A data set's audit."""

    data: str
    samples: int  # of the data set
    looked_at: int
    rules: list[RuleAudit]


def audit_data(params: Params, data: str, methods: Sequence[str], root: Path, pictures: int) -> Audit:
    """Audit the texts that methods make of a data set. Raises UserError where it is not annotated."""
    column_hashes.check_files(root / "data" / data)
    dataset = PreparedDataset(root / "data" / data)
    indices = range(0, len(dataset), max(1, -(-len(dataset) // pictures)))
    captions_of = {}
    fold_of = {}
    captions: list[str] = []
    folds: list[int] = []
    for number, index in enumerate(indices):
        captions_of[index] = [dataset.annotation(index, which).text for which in range(dataset.captions(index))]
        fold_of[index] = number % FOLDS
        captions += captions_of[index]
        folds += [fold_of[index]] * len(captions_of[index])
    language = FoldedLanguage(captions, folds)
    rule_texts = []
    for method in methods:
        config, _ = grid.method_config(params, method, data)
        views = grid.first_views(method.partition(".")[0], config)
        rule_texts += make_texts(dataset, indices, method, views)
    rules = [_audit_rule(texts, captions_of, fold_of, language) for texts in rule_texts]
    return Audit(data, len(dataset), len(indices), rules)


def make_texts(dataset: PreparedDataset, indices: Sequence[int], method: str, views: Views) -> list[RuleTexts]:
    """Make a method's texts of some samples: of each rule, of a composite its negative, of parts their foils."""
    texts = [RuleTexts(method, role, name) for role, name in _name_rules(views)]
    negative_count = [of_rule.role for of_rule in texts].count(NEGATIVE)
    foils = [RuleTexts(method, FOIL, group.name) for group in views.groups if group.is_pair]
    maker = ViewMaker(dataset, seed=0, side=8, load=lambda _: Image.new("RGB", (8, 8)))
    for index in indices if texts or foils else ():
        view = maker.view(index, 0, views)
        negatives = view.negatives[:negative_count]
        positives = view.positives[: len(texts) - len(negatives)]
        for of_rule, text in zip(texts, (*negatives, *positives), strict=True):
            of_rule.add(view.caption, text, index)
        parts_and_foils = zip(view.positives[len(positives) :], view.negatives[len(negatives) :], strict=False)
        for of_pair, (caption_part, foil) in zip(foils, parts_and_foils, strict=False):
            of_pair.add(caption_part, foil, index)
    return [*texts, *foils]


def _name_rules(views: Views) -> list[tuple[str, str]]:
    """Name what rules make, negatives first; a composite's positives are captions and none of a rule's."""
    if views.composite:
        return [(NEGATIVE, COMPOSITE)]
    roles: list[tuple[str, tuple[Rule, ...]]] = [(NEGATIVE, views.negatives), (POSITIVE, views.positives)]
    return [(role, rule_name(rule)) for role, rules in roles for rule in rules]


def _audit_rule(
    texts: RuleTexts, captions_of: Mapping[int, Sequence[str]], fold_of: Mapping[int, int], language: FoldedLanguage
) -> RuleAudit:
    pairs = texts.pairs
    folds = [fold_of[index] for index in texts.pictures]
    still_true = 0
    may_be_true = 0
    for (caption, text), index in zip(pairs, texts.pictures, strict=True):
        still_true += true_edits.is_still_true(caption, text, captions_of[index])
        may_be_true += true_edits.uses_other_captions(caption, text, captions_of[index])
    return RuleAudit(
        texts.method,
        texts.role,
        texts.rule,
        len(pairs),
        coverage=len(pairs) / max(1, texts.attempts),
        recognised=share_recognised(pairs, folds, language) if len(set(folds)) > 1 else None,
        still_true=still_true / max(1, len(pairs)),
        may_be_true=may_be_true / max(1, len(pairs)),
        samples=pairs[:: max(1, -(-len(pairs) // SAMPLES))],
    )


# --- a judge that sees no picture -----------------------------------------------------------------------------------
# Tell a text from its caption without the picture, by a judge that is trained on blind scores.
#
# N pairs of a caption and a text made of it, F features.
#
# Pairs are in folds by picture. The scores of a pair come from word counts of the other folds' captions alone, and
# the judge that decides a pair was trained on the pairs of the other folds: logistic regression on the differences of
# the features, without an intercept. Chance is one half; a tie counts half. A text that is another picture's own
# caption is among the counts, and so too likely.


RIDGE = 1.0  # weight of the squares of the judge's weights, of standardised features
STEPS = 25  # of Newton's method; it converges in less than ten


def share_recognised(pairs: Sequence[tuple[str, str]], fold_of: Sequence[int], language: FoldedLanguage) -> float:
    """Return the share of pairs in which the judge prefers the first, the caption; a tie counts half."""
    gaps = []
    for (caption, text), fold in zip(pairs, fold_of, strict=True):
        gaps.append(np.subtract(language.features(caption, fold), language.features(text, fold)))
    margin_N = cross_judge(np.array(gaps), np.array(fold_of))
    return float(((margin_N > 0) + 0.5 * (margin_N == 0)).mean())


def cross_judge(gap_NF: np.ndarray, fold_N: np.ndarray) -> np.ndarray:
    """Return each pair's margin by the judge that was trained on the other folds; 0 where those are empty."""
    margin_N = np.zeros(len(gap_NF))
    for fold in range(FOLDS):
        train_N = fold_N != fold
        test_N = fold_N == fold
        if train_N.any() and test_N.any():
            scale_F = np.sqrt((gap_NF[train_N] ** 2).mean(axis=0))
            scale_F[scale_F == 0] = 1.0
            weight_F = fit_judge(gap_NF[train_N] / scale_F)
            margin_N[test_N] = np.round(gap_NF[test_N] / scale_F @ weight_F, 9)
    return margin_N


def fit_judge(gap_NF: np.ndarray) -> np.ndarray:
    """Return the weights that maximise the log likelihood of the captions, less the ridge, by Newton's method."""
    weight_F = np.zeros(gap_NF.shape[1])
    for _ in range(STEPS):
        wrong_N = 1 / (1 + np.exp(np.clip(gap_NF @ weight_F, -50, 50)))
        gradient_F = gap_NF.T @ wrong_N - RIDGE * weight_F
        spread_N = wrong_N * (1 - wrong_N)
        hessian_FF = (gap_NF * spread_N[:, None]).T @ gap_NF + RIDGE * np.eye(len(weight_F))
        weight_F += np.linalg.solve(hessian_FF, gradient_F)
    return weight_F


# --- the table ------------------------------------------------------------------------------------------------------


def format_audit(audit: Audit) -> str:
    """Return a line a rule, shares in percent, and below them samples of each rule: a caption and its text."""
    names = [f"{rule.method}: {rule.rule} ({rule.role})" for rule in audit.rules]
    width = max(map(len, names))
    lines = [f"{'percent':<{width}}{'coverage':>13}{'recognised':>13}{'still true':>13}{'may be true':>13}"]
    samples = []
    for name, rule in zip(names, audit.rules, strict=True):
        recognised = "–" if rule.recognised is None else f"{100 * rule.recognised:.1f}"
        lines.append(
            f"{name:<{width}}{100 * rule.coverage:>13.1f}{recognised:>13}"
            f"{100 * rule.still_true:>13.1f}{100 * rule.may_be_true:>13.1f}"
        )
        samples += ["", name]
        for caption, text in rule.samples:
            samples += [f"  {one_line(caption)}", f"    {one_line(text)}"]
    lines += [*samples, "", f"{audit.data}: {audit.looked_at} of {audit.samples} pictures' captions"]
    return "\n".join(lines)


# --- the command -----------------------------------------------------------------------------------------------------


def main(argv: Sequence[str], root: Path = Path(".")) -> int:
    """Audit a data set and print what is found."""
    args = _parser().parse_args(argv)
    params = read.load_params(args.params)
    if args.data not in params.data:
        raise unknown("data", args.data, params.data, "data")
    audit = audit_data(params, args.data, args.method or params.grid.methods, root, args.pictures)
    if not audit.rules:
        raise UserError(f"{args.data}: no method shows a text that a rule makes; name one with --method")
    print(json.dumps(asdict(audit), indent=1) if args.json else format_audit(audit))
    return 0


def _parser() -> CommandParser:
    parser = CommandParser(prog="compclip audit", description=__doc__, example="scenes --method fsc_clip")
    parser.add_argument("data", metavar="DATA", help="a data set of params.yaml")
    parser.add_argument("--method", nargs="+", default=[], help="methods, name or name.variant; default: the grid's")
    parser.add_argument("--pictures", type=_positive, default=PICTURES, help="how many are looked at, evenly spaced")
    parser.add_grid()
    parser.add_json()
    return parser


def _positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise UserError(f"--pictures {text}: must be a whole number above 0, as 5000")
    return int(text)


if __name__ == "__main__":
    sys.exit(entry(main))
