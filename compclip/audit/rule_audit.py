"""Audit what methods show as negatives and positives: every rule's texts of a data set's captions.

Texts are made by training's own `train.view_maker`, of epoch 0 and seed 0; no picture is opened. A row counts of each
rule: coverage, edits, how far a blind judge tells its texts from captions, new words, and what is still true by rules.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from PIL import Image

from compclip import report
from compclip.config import grid
from compclip.config.sections import Params
from compclip.data.prepared_dataset import PreparedDataset
from compclip.evaluate.blind_rows import iterate_captions
from compclip.interface.views import Views
from compclip.text import true_edits
from compclip.text.blind_language import (
    BIGRAM_COLUMN,
    FOLDS,
    FREQUENCY_COLUMN,
    LENGTH_COLUMN,
    FoldedLanguage,
    split_words,
)
from compclip.text.text_groups import Rule
from compclip.train.view_maker import ViewMaker
from compclip.train.view_shares import rule_name

NEGATIVE = "negative"
POSITIVE = "positive"
FOIL = "foil"
COMPOSITE = "composite"
PICTURES = 5_000  # looked at, evenly spaced
SAMPLES = 20
EXAMPLES = 12  # new words that are named


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
    edits: dict[str, float]
    blind: BlindShares | None  # None where there are too few texts
    new_words: float
    examples: list[str]
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


def audit_data(
    params: Params,
    data: str,
    methods: Sequence[str],
    root: Path,
    pictures: int = PICTURES,
) -> Audit:
    """Audit the texts that methods make of a data set. Raises UserError where it is not annotated."""
    dataset = PreparedDataset(root / "data" / data)
    indices = range(0, len(dataset), max(1, -(-len(dataset) // pictures)))
    captions_of = {index: _texts_of(dataset, index) for index in indices}
    fold_of = {index: number % FOLDS for number, index in enumerate(indices)}
    flat = [(text, fold_of[index]) for index in indices for text in captions_of[index]]
    language = FoldedLanguage([text for text, _ in flat], [fold for _, fold in flat])
    pos_of = count_pos(dataset, indices)
    caption_words = frozenset(word for caption in iterate_captions(dataset.folder) for word in split_words(caption))
    rule_texts = []
    for method in methods:
        config, _ = grid.method_config(params, method, data)
        views = grid.first_views(method.partition(".")[0], config)
        rule_texts += make_texts(dataset, indices, method, views)
    rules = [_audit_rule(texts, captions_of, fold_of, language, caption_words, pos_of) for texts in rule_texts]
    return Audit(data, len(dataset), len(indices), rules)


def _texts_of(dataset: PreparedDataset, index: int) -> list[str]:
    return [dataset.annotation(index, which).text for which in range(dataset.captions(index))]


def count_pos(dataset: PreparedDataset, indices: Sequence[int]) -> dict[str, str]:
    """Return the most frequent part of speech of each word of some samples' captions."""
    pos: dict[str, Counter[str]] = defaultdict(Counter)
    for index in indices:
        for annotation in (dataset.annotation(index, which) for which in range(dataset.captions(index))):
            for token, tag in enumerate(annotation.pos):
                pos[annotation.word(token).lower()][tag] += 1
    return {word: tags.most_common(1)[0][0] for word, tags in pos.items()}


def make_texts(dataset: PreparedDataset, indices: Sequence[int], method: str, views: Views) -> list[RuleTexts]:
    """Make a method's texts of some samples: of each rule, of a composite its negative, of parts their foils."""
    names = _name_rules(views)
    texts = [RuleTexts(method, role, name) for role, name in names]
    pairs = [group.name for group in views.groups if group.is_pair]
    foils = {name: RuleTexts(method, FOIL, name) for name in pairs}
    maker = ViewMaker(dataset, seed=0, side=8, load=lambda _: Image.new("RGB", (8, 8)))
    for index in indices if texts or foils else ():
        view = maker.view(index, 0, views)
        negatives = view.negatives[: sum(role == NEGATIVE for role, _ in names)]
        positives = view.positives[: len(names) - len(negatives)]
        for of_rule, text in zip(texts, (*negatives, *positives), strict=True):
            of_rule.add(view.caption, text, index)
        parts_and_foils = zip(view.positives[len(positives) :], view.negatives[len(negatives) :], strict=False)
        for name, (caption_part, foil) in zip(pairs, parts_and_foils, strict=False):
            foils[name].add(caption_part, foil, index)
    return [*texts, *foils.values()]


def _name_rules(views: Views) -> list[tuple[str, str]]:
    """Name what rules make, negatives first; a composite's positives are captions and none of a rule's."""
    if views.composite:
        return [(NEGATIVE, COMPOSITE)]
    roles: list[tuple[str, tuple[Rule, ...]]] = [(NEGATIVE, views.negatives), (POSITIVE, views.positives)]
    return [(role, rule_name(rule)) for role, rules in roles for rule in rules]


def _audit_rule(
    texts: RuleTexts,
    captions_of: Mapping[int, Sequence[str]],
    fold_of: Mapping[int, int],
    language: FoldedLanguage,
    caption_words: frozenset[str],
    pos_of: Mapping[str, str],
) -> RuleAudit:
    pairs = texts.pairs
    count = max(1, len(texts.pairs))
    folds = [fold_of[index] for index in texts.pictures]
    new_words = [list_new_words(text, caption_words) for _, text in pairs]
    edits = Counter(describe_edit(caption, text, pos_of) for caption, text in pairs)
    rows = list(zip(pairs, (captions_of[index] for index in texts.pictures), strict=True))
    return RuleAudit(
        method=texts.method,
        role=texts.role,
        rule=texts.rule,
        texts=len(pairs),
        coverage=len(pairs) / max(1, texts.attempts),
        edits={kind: number / count for kind, number in edits.most_common()},
        blind=judge_pairs(pairs, folds, language) if len(set(folds)) > 1 else None,
        new_words=sum(map(bool, new_words)) / count,
        examples=most_common(Counter(word for words in new_words for word in words), EXAMPLES),
        still_true=sum(true_edits.is_still_true(*pair, captions) for pair, captions in rows) / count,
        may_be_true=sum(true_edits.uses_other_captions(*pair, captions) for pair, captions in rows) / count,
        samples=pairs[:: max(1, -(-len(pairs) // SAMPLES))],
    )


# --- what a rule changed --------------------------------------------------------------------------------------------
# What a text changes of its caption, by words alone: the kind of the edit, new words, and the places.


ORDER = "order of words"
ADD = "words added"
REMOVE = "words removed"
REPLACE = "replaced"
SAME = "no word"
FEW = 3  # words of a replacement whose kind is named


def describe_edit(caption: str, text: str, pos_of: Mapping[str, str]) -> str:
    """Return the kind of an edit: order, words added or removed, or the parts of speech exchanged or replaced."""
    before = split_words(caption)
    after = split_words(text)
    if before == after:
        return SAME
    if Counter(before) == Counter(after):
        exchanged = [word for word, other in zip(before, after, strict=True) if word != other]
        return f"exchanged {name_kinds(exchanged, pos_of)}" if len(exchanged) == 2 else ORDER
    removed = list((Counter(before) - Counter(after)).elements())
    added = Counter(after) - Counter(before)
    if not removed:
        return ADD
    if not added:
        return REMOVE
    return f"{REPLACE} {name_kinds(removed, pos_of)}" if len(removed) <= FEW else f"{REPLACE}, more than {FEW} words"


def name_kinds(words: Sequence[str], pos_of: Mapping[str, str]) -> str:
    """Return the different parts of speech of words, joined."""
    return "+".join(sorted({pos_of.get(word, "other") for word in words}))


def list_new_words(text: str, caption_words: Collection[str]) -> list[str]:
    """Return the words of a text that are not among those of any caption."""
    return [word for word in split_words(text) if word not in caption_words]


def mark_changes(caption: str, text: str) -> list[tuple[str, bool]]:
    """Return the text in pieces, each with whether the caption has it otherwise."""
    before = caption.split()
    after = text.split()
    pieces = []
    for kind, _, _, low, high in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if low < high:
            pieces.append((" ".join(after[low:high]), kind != "equal"))
    return pieces


# --- a judge that sees no picture -----------------------------------------------------------------------------------
# Tell a text from its caption without the picture: by single blind scores, and by a judge that is trained on them.
#
# N pairs of a caption and a text made of it, F features.
#
# Pairs are in folds by picture. The scores of a pair come from word counts of the other folds' captions alone, and
# the judge that decides a pair was trained on the pairs of the other folds: logistic regression on the differences of
# the features, without an intercept. Chance is one half; a tie counts half. A text that is another picture's own
# caption is among the counts, and so too likely.


RIDGE = 1.0  # weight of the squares of the judge's weights, of standardised features
STEPS = 25  # of Newton's method; it converges in less than ten


@dataclass(frozen=True)
class BlindShares:
    """Shares of pairs in which the caption is preferred to the text: by each score, and by the judge (`recognised`)."""

    length: float
    frequency: float
    bigram: float
    recognised: float


def judge_pairs(pairs: Sequence[tuple[str, str]], fold_of: Sequence[int], language: FoldedLanguage) -> BlindShares:
    """Return how often captions are told from the texts, which are the second of each pair."""
    features = [[language.features(text, fold) for text in pair] for pair, fold in zip(pairs, fold_of, strict=True)]
    feature_N2F = np.array(features)
    gap_NF = feature_N2F[:, 0] - feature_N2F[:, 1]
    length, frequency, bigram = (
        count_preferred(gap_NF[:, i]) for i in (LENGTH_COLUMN, FREQUENCY_COLUMN, BIGRAM_COLUMN)
    )
    return BlindShares(length, frequency, bigram, count_preferred(cross_judge(gap_NF, np.array(fold_of))))


def count_preferred(margin_N: np.ndarray) -> float:
    """Return the share of pairs with a positive margin, ties counted half."""
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


def most_common(words: Counter[str], limit: int = 10) -> list[str]:
    """Return the most frequent words, equals in alphabetical order."""
    return [word for word, _ in sorted(words.items(), key=lambda item: (-item[1], item[0]))[:limit]]


# --- the page -------------------------------------------------------------------------------------------------------
# The page of an audit, in the style of the report, and its table for a terminal.


FIELDS = ("coverage", "recognised", "length", "frequency", "bigram", "new words", "still true", "may be true")


def list_shares(rule: RuleAudit) -> list[float | None]:
    """Return the shares of a rule's row, in the order of FIELDS."""
    blind = rule.blind
    shares = (blind.recognised, blind.length, blind.frequency, blind.bigram) if blind else (None,) * 4
    return [rule.coverage, *shares, rule.new_words, rule.still_true, rule.may_be_true]


def format_share(share: float | None) -> str:
    """Format a share in percent."""
    return "–" if share is None else f"{100 * share:.1f}"


def format_table(audit: Audit) -> str:
    """Return a line a rule, shares in percent."""
    names = [f"{rule.method}: {rule.rule} ({rule.role})" for rule in audit.rules]
    width = max(map(len, names))
    lines = [f"{'percent':<{width}}" + "".join(f"{field:>13}" for field in FIELDS)]
    for name, rule in zip(names, audit.rules, strict=True):
        lines.append(f"{name:<{width}}" + "".join(f"{format_share(share):>13}" for share in list_shares(rule)))
    return "\n".join(lines)


def render_page(audit: Audit) -> str:
    """Render the page's HTML, the same bytes for the same audit."""
    folders = [Path(__file__).parent, Path(report.__file__).parent]  # the report's style
    environment = Environment(
        loader=FileSystemLoader(folders),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("audit.html.j2").render(
        audit=audit,
        fields=FIELDS,
        list_shares=list_shares,
        format_share=format_share,
        mark_changes=mark_changes,
    )
