"""No view has a text on both sides: none of its negatives is its caption or one of its positives."""

from __future__ import annotations

from dataclasses import replace

import pytest

from compclip.data.sample import Sample
from compclip.interface.views import Views
from compclip.methods import cs_clip, hard_positives, hybrid
from compclip.text import composite_captions, positives, swap
from compclip.text.spacy_parser import annotate
from compclip.train.view_maker import ViewMaker
from tests.prepared_set import prepared
from tests.text.conftest import SENTENCES

DOGS = "A black dog and a white dog."
EPOCHS = 12


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The sentences of the rules' tests, each a picture's only caption, and one with stored texts."""
    captions = [*filter(None, SENTENCES), DOGS]
    stored = {"negative": (DOGS.upper(), "A red dog."), "paraphrase": ("A red dog.",), "dense": ("A red dog.",)}
    annotations = [(a,) for a in annotate(captions)]
    annotations += [(replace(annotations[-1][0], stored=stored),)]
    samples = [Sample(str(i), f"{i}.jpg", (own[0].text,), width=4, height=4) for i, own in enumerate(annotations)]
    return prepared(tmp_path_factory.mktemp("data"), samples, annotations)


def views_of(data, views: Views) -> list:
    """The view of every sample in some epochs."""
    maker = ViewMaker(data, 0, 8, lambda sample: None)
    return [maker.view(i, epoch, views) for i in range(len(data)) for epoch in range(EPOCHS)]


def shared_texts(view) -> set[str]:
    """Texts that a view has both as a negative and as its caption or a positive."""
    said = {view.caption.casefold(), *(text.casefold() for text in view.positives if text is not None)}
    return said & {text.casefold() for text in view.negatives if text is not None}


WITHOUT_MORE = [name for name in hybrid.NEGATIVES if name not in ("clove", "masked")]


@pytest.mark.parametrize(
    "views",
    [
        hard_positives.views(hard_positives.Config(), 0),
        Views(negatives=(swap.negclip_released,), positives=(positives.swap,), caption="full"),
        hybrid.views(hybrid.Config(negatives="+".join(WITHOUT_MORE), place="s_neg", hard_positives="both"), 0),
        hybrid.views(hybrid.Config(negatives="stored", place="s_neg", hard_positives="paraphrase"), 0),
        Views(bag=4, bag_rule=lambda text, rng: "A red dog.", caption="full"),
        Views(negatives=(lambda a, rng: a.text.upper(),), lowercase=True, caption="full"),
        cs_clip.views(cs_clip.Config(), 0),
        Views(negatives=(swap.negclip,), pairs=(lambda a, rng: ("A thing.", a.text),), caption="full"),
    ],
    ids=["hard_positives", "released", "every_rule", "stored", "bag", "caption", "units", "foils"],
)
def test_no_text_is_on_both_sides(data, views):
    assert not [texts for view in views_of(data, views) if (texts := shared_texts(view))]


def test_a_negative_that_is_a_positive_is_drawn_again(data):
    """Other negatives stay as they are; one that the rule can only make so is masked."""
    views = Views(negatives=(swap.negclip_released,), caption="full")
    both = replace(views, positives=(positives.swap_released,))
    pairs = list(zip(views_of(data, views), views_of(data, both), strict=True))
    clashes = [(a, b) for a, b in pairs if a.negatives[0] is not None and a.negatives[0] in b.positives]
    assert all(b.negatives == a.negatives for a, b in pairs if (a, b) not in clashes)
    assert any(b.negatives[0] is not None for _, b in clashes) and any(b.negatives == (None,) for _, b in clashes)


def test_a_true_text_and_its_foil_stand_at_one_place(data):
    """Behind the rules' texts; a foil that says what the caption says is masked and not drawn again."""
    rules = (lambda a, rng: ("A thing.", a.text), lambda a, rng: ("A place.", "No place."), lambda a, rng: None)
    for view in views_of(data, Views(negatives=(swap.negclip,), pairs=rules, caption="full")):
        assert view.positives == ("A thing.", "A place.", None) and view.negatives[1:] == (None, "No place.", None)


def test_a_composite_s_negative_is_none_of_its_captions(data):
    views = Views(composite=4, compose=composite_captions.compose, partner="")
    assert not [texts for view in views_of(data, views) if (texts := shared_texts(view))]
