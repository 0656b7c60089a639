"""A text that the model reads as the caption is no negative and no positive: it is drawn again, masked and counted."""

import open_clip
import pytest

from compclip.data.sample import Sample
from compclip.interface.views import Views
from compclip.model.tokenizers import ClipTokenizer, StandInTokenizer
from compclip.text import shuffle, swap
from compclip.text.spacy_parser import annotate
from compclip.train import view_shares
from compclip.train.view_maker import PLAIN_READER, ContextReader, TrueTexts, ViewMaker
from tests.prepared_set import prepared

LENGTH = 24
SENTENCE = "a man in a red shirt stands next to a grey horse and a small dog behind the old wooden fence of a farm"
LONG = " ".join([SENTENCE, "while", *["two children watch a brown cow and a white sheep near the blue barn"] * 2])


def reader(length: int = LENGTH) -> ContextReader:
    tokenizer = ClipTokenizer(length)
    return ContextReader(tokenizer, tokenizer.room)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """One picture with a caption that a short context cuts."""
    annotations = [(annotate([LONG])[0],)]
    samples = [Sample("0", "0.jpg", (LONG,), width=4, height=4)]
    return prepared(tmp_path_factory.mktemp("data"), samples, annotations)


def views_of(data, views: Views, how: ContextReader) -> list:
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


def test_negatives_are_drawn_again_within_the_context(data):
    """Every draw by its own generator; none that the model reads as the caption is left, and few are masked."""
    views = Views(negatives=(swap.negclip, swap.single, shuffle.bigram), caption="full")
    unread = list_alike(views_of(data, views, PLAIN_READER))
    assert len(unread) > 1
    drawn = views_of(data, views, reader())
    assert list_alike(drawn) == [] and {view.caption for view in drawn} == {LONG}
    assert sum(n is None for view in drawn for n in view.negatives) < len(unread) / 2
    assert [view.negatives for view in drawn] == [view.negatives for view in views_of(data, views, reader())]


def list_alike(views) -> list[str]:
    """Negatives that the model reads as the caption."""
    return [n for view in views for n in view.negatives if n and reader().reads_alike(n, LONG)]


def test_what_cannot_be_drawn_again_is_masked_and_counted(data):
    """Negatives and positives that differ behind the context; the caption itself stays a positive."""
    behind = LONG.replace("blue barn", "red barn")
    views = Views(
        negatives=(lambda a, rng: behind, lambda a, rng: "a cat", lambda a, rng: a.text),
        positives=(lambda a, rng: behind, lambda a, rng: a.text),
        caption="full",
    )
    view = views_of(data, views, reader())[0]
    assert view.negatives == (None, "a cat", None) and view.positives == (None, LONG)
    assert (view.faults["cut/negatives"], view.faults["cut/positives"]) == (1, 1)
    counts = view_shares.tally_parts([view], views, 1)
    shares = view_shares.shares(counts)
    assert (shares["cut/negatives"], shares["cut/positives"]) == (round(1 / 3, 6), 0.5)
    long_context = views_of(data, views, reader(77))[0]
    assert long_context.negatives[0] is None  # a text on both sides is no negative
    assert long_context.positives[0] == behind
    assert not any(long_context.faults.values())
    assert not [name for name in view_shares.shares(view_shares.tally_parts([long_context], views, 1)) if "cut" in name]
