"""Audit what methods show as negatives and positives: every rule's texts of a data set's captions.

Texts are made by training's own `train.view_maker`, of epoch 0 and seed 0; no picture is opened. A row counts of each
rule: coverage, edits, how far a blind judge tells its texts from captions, new words, and what is still true by rules.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from PIL import Image

from compclip.audit import blind_judge, text_edits
from compclip.audit.blind_judge import BlindShares
from compclip.config import grid
from compclip.config.sections import Params
from compclip.data.prepared_dataset import PreparedDataset
from compclip.evaluate.blind_rows import iterate_captions
from compclip.interface.views import Views
from compclip.text import true_edits
from compclip.text.blind_language import FOLDS, FoldedLanguage, split_words
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
    new_words = [text_edits.list_new_words(text, caption_words) for _, text in pairs]
    edits = Counter(text_edits.describe_edit(caption, text, pos_of) for caption, text in pairs)
    rows = list(zip(pairs, (captions_of[index] for index in texts.pictures), strict=True))
    return RuleAudit(
        method=texts.method,
        role=texts.role,
        rule=texts.rule,
        texts=len(pairs),
        coverage=len(pairs) / max(1, texts.attempts),
        edits={kind: number / count for kind, number in edits.most_common()},
        blind=blind_judge.judge_pairs(pairs, folds, language) if len(set(folds)) > 1 else None,
        new_words=sum(map(bool, new_words)) / count,
        examples=blind_judge.most_common(Counter(word for words in new_words for word in words), EXAMPLES),
        still_true=sum(true_edits.is_still_true(*pair, captions) for pair, captions in rows) / count,
        may_be_true=sum(true_edits.uses_other_captions(*pair, captions) for pair, captions in rows) / count,
        samples=pairs[:: max(1, -(-len(pairs) // SAMPLES))],
    )
