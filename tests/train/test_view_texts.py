"""No view has a text on both sides: none of its negatives is its caption, as the model reads it, or a positive."""

from dataclasses import replace

import open_clip
import pytest

from compclip.data.sample import Sample
from compclip.interface.views import Composite, Views
from compclip.methods import cs_clip, hard_positives, hybrid, mosaiclip
from compclip.model.tokenizers import ClipTokenizer, StandInTokenizer
from compclip.text import composite_captions, dense_texts, positives, shuffle, swap
from compclip.text.spacy_parser import annotate
from compclip.text.text_groups import DrawnTexts, TextGroup, pair
from compclip.train import view_shares
from compclip.train.view_maker import PLAIN_READER, ContextReader, TrueTexts, ViewMaker
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
    samples = [Sample(str(i), f"{i}.jpg", (a.text,), width=4, height=4) for i, (a,) in enumerate(annotations)]
    return prepared(tmp_path_factory.mktemp("data"), samples, annotations)


def views_of(data, views: Views) -> list:
    """The view of every sample in some epochs."""
    maker = ViewMaker(data, 0, 8, lambda sample: None)
    return [maker.view(i, epoch, views) for i in range(len(data)) for epoch in range(EPOCHS)]


def shared_texts(view) -> set[str]:
    """Texts that a view has both as a negative and as its caption or a positive."""
    true_texts = {view.caption.casefold(), *(text.casefold() for text in view.positives if text is not None)}
    return true_texts & {text.casefold() for text in view.negatives if text is not None}


WITHOUT_MORE = "+".join(name for name in hybrid.NEGATIVES if name not in ("clove", "masked"))
BOTH_SIDES = {
    "hard_positives": hard_positives.views(hard_positives.Config(), 0),
    "released": Views(negatives=(swap.negclip_released,), positives=(positives.swap,), caption="full"),
    "every_rule": hybrid.views(hybrid.Config(negatives=WITHOUT_MORE, place="s_neg", hard_positives="both"), 0),
    "stored": hybrid.views(hybrid.Config(negatives="stored", place="s_neg", hard_positives="paraphrase"), 0),
    "bag": Views(groups=(dense_texts.bag(4, lambda text, rng: "A red dog."),), caption="full"),
    "caption": Views(negatives=(lambda a, rng: a.text.upper(),), lowercase=True, caption="full"),
    "units": cs_clip.views(cs_clip.Config(), 0),
    "sub_graphs": mosaiclip.views(mosaiclip.Config(single_steps=0), 0),
    "group": Views(
        groups=(TextGroup("g", lambda s, rng: DrawnTexts(["A thing."], [s.caption.text, "a THING."]), 1, 2),),
        caption="full",
    ),
    "foils": Views(negatives=(swap.negclip,), groups=(pair("p", lambda a, rng: ("A thing.", a.text)),), caption="full"),
    "composite": Views(composite=Composite(4, composite_captions.compose, "")),
}


@pytest.mark.parametrize("views", BOTH_SIDES.values(), ids=BOTH_SIDES)
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


def test_a_group_fills_its_places_and_what_it_cannot_make_is_missing(data):
    """Behind the rules' texts, a foil beside its true text; what says what the caption says is masked, not drawn again."""
    groups = (
        pair("pair", lambda a, rng: ("A place.", "No place.")),
        pair("foil", lambda a, rng: ("A sky.", a.text)),
        pair("none", lambda a, rng: None),
        TextGroup("things", lambda s, rng: DrawnTexts(["A thing."], [s.caption.text, "Nothing."]), true=2, false=3),
        dense_texts.bag(1, lambda a, rng: "Else."),
    )
    views = Views(negatives=(lambda a, rng: "Never.",), groups=groups, caption="full")
    assert (views.positive_texts, views.negative_texts) == (6, 8)
    for view in views_of(data, views):
        assert view.positives[:5] == ("A place.", "A sky.", None, "A thing.", None) and len(view.positives) == 6
        assert view.negatives == ("Never.", "No place.", None, None, None, "Nothing.", None, "Else.")


def test_a_group_has_texts_under_a_name_of_its_own(data):
    """A method that wants what no other one does has a rule and its loss: batch and features carry its block by name."""
    questions = TextGroup("questions", lambda s, rng: DrawnTexts(named=[f"{s.caption.text}?"]), named=2)
    views = Views(groups=(questions,), caption="full")
    view = views_of(data, views)[0]
    assert view.texts == {"questions": (f"{view.caption}?", None)} and (view.positives, view.negatives) == ((), ())
    assert view_shares.shares(view_shares.tally_parts([view], views, 1))["questions"] == 0.5
    assert views.work_kind() != Views(caption="full").work_kind()


def test_mosaiclip_begins_with_one_sub_graph(data):
    """And one negative of it; from step `single_steps` on there are as many as the caption has, up to three and six."""
    views = [mosaiclip.views(mosaiclip.Config(single_steps=4), step) for step in range(8)]
    assert len({*views[:4]}) == len({*views[4:]}) == 1 and views[3] != views[4]

    def most(stage: Views) -> tuple[int, int]:
        stage_views = views_of(data, stage)
        true_ones = max(sum(text is not None for text in view.positives) for view in stage_views)
        return true_ones, max(sum(text is not None for text in view.negatives[1:]) for view in stage_views)

    assert most(views[0]) == (1, 1) and most(views[7]) == (3, 6)


# --- a text that the model reads as the caption is none either: it is drawn again, masked and counted ---------------

LENGTH = 24
SENTENCE = "a man in a red shirt stands next to a grey horse and a small dog behind the old wooden fence of a farm"
LONG = " ".join([SENTENCE, "while", *["two children watch a brown cow and a white sheep near the blue barn"] * 2])


def reader(length: int = LENGTH) -> ContextReader:
    tokenizer = ClipTokenizer(length)
    return ContextReader(tokenizer, tokenizer.room)


@pytest.fixture(scope="module")
def long_caption(tmp_path_factory):
    """One picture with a caption that a short context cuts."""
    annotations = [(annotate([LONG])[0],)]
    samples = [Sample("0", "0.jpg", (LONG,), width=4, height=4)]
    return prepared(tmp_path_factory.mktemp("data"), samples, annotations)


def read_views(data, views: Views, how: ContextReader) -> list:
    maker = ViewMaker(data, 0, 8, lambda sample: None, reader=how)
    return [maker.view(0, epoch, views) for epoch in range(6)]


@pytest.mark.parametrize(("text", "other", "alike"), [
    (SENTENCE, SENTENCE.upper(), True),
    (SENTENCE, SENTENCE.replace("a farm", "a house"), True),  # behind 22 tokens
    (SENTENCE, SENTENCE.replace("red shirt", "blue shirt"), False),
    ("a dog , a cat", "a dog, a cat", True),
    ("a dog", "a dog and", False),
])  # fmt: skip
def test_what_the_model_reads_as_one_text(text, other, alike):
    """By its tokens within the context, as open_clip makes them."""
    ids = open_clip.SimpleTokenizer(context_length=LENGTH)([text, other])
    assert bool((ids[0, :-1] == ids[1, :-1]).all()) is alike
    assert reader().reads_alike(text, other) is alike and (other in TrueTexts([text], reader())) is alike
    assert (other in TrueTexts([text], PLAIN_READER)) is (text.casefold() == other.casefold())


@pytest.mark.parametrize("tokenizer", [ClipTokenizer(9), StandInTokenizer(2000, 9)])
def test_room_is_what_is_left_for_a_text(tokenizer):
    """As many words as fit are read; one more changes nothing."""
    whole, longer = " a" * tokenizer.room, " a" * (tokenizer.room + 1)
    assert tokenizer.count(whole) == tokenizer.room
    ids = tokenizer([whole, longer, " a" * (tokenizer.room - 1)])
    assert (ids[0] == ids[1]).all() and (ids[0] != ids[2]).any()


def test_negatives_are_drawn_again_within_the_context(long_caption):
    """Every draw by its own generator; none that the model reads as the caption is left, and few are masked."""
    views = Views(negatives=(swap.negclip, swap.single, shuffle.bigram), caption="full")
    unread = list_alike(read_views(long_caption, views, PLAIN_READER))
    assert len(unread) > 1
    drawn = read_views(long_caption, views, reader())
    assert list_alike(drawn) == [] and {view.caption for view in drawn} == {LONG}
    assert sum(n is None for view in drawn for n in view.negatives) < len(unread) / 2
    assert [view.negatives for view in drawn] == [view.negatives for view in read_views(long_caption, views, reader())]


def list_alike(views) -> list[str]:
    """Negatives that the model reads as the caption."""
    return [n for view in views for n in view.negatives if n and reader().reads_alike(n, LONG)]


def test_what_cannot_be_drawn_again_is_masked_and_counted(long_caption):
    """Negatives and positives that differ behind the context; the caption itself stays a positive."""
    behind = LONG.replace("blue barn", "red barn")
    views = Views(
        negatives=(lambda a, rng: behind, lambda a, rng: "a cat", lambda a, rng: a.text),
        positives=(lambda a, rng: behind, lambda a, rng: a.text),
        caption="full",
    )
    view = read_views(long_caption, views, reader())[0]
    assert view.negatives == (None, "a cat", None) and view.positives == (None, LONG)
    assert (view.faults["cut/negatives"], view.faults["cut/positives"]) == (1, 1)
    counts = view_shares.tally_parts([view], views, 1)
    shares = view_shares.shares(counts)
    assert (shares["cut/negatives"], shares["cut/positives"]) == (round(1 / 3, 6), 0.5)
    long_context = read_views(long_caption, views, reader(77))[0]
    assert long_context.negatives[0] is None  # a text on both sides is no negative
    assert long_context.positives[0] == behind
    assert not any(long_context.faults.values())
    assert not [name for name in view_shares.shares(view_shares.tally_parts([long_context], views, 1)) if "cut" in name]
