"""NegCLIP and CLIC swaps against outcomes written by hand, and their properties on arbitrary annotations."""

import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compclip.text import sentences, swap, true_edits, word_edits
from compclip.text.annotation import Annotation
from tests.text.conftest import outcomes
from tests.text.strategies import annotations


def bag(text: str) -> Counter:
    """The characters of a text in any order: case, white space, full stops and the "n" of "an" left out."""
    return Counter(c for c in re.sub(r"\ban\b", "a", text.casefold()) if not c.isspace() and c != ".")


CHASE = "A brown dog chases a black cat."
WORDS_OF_CHASE = {"A brown cat chases a black dog.", "A black dog chases a brown cat."}  # nouns, adjectives


@pytest.mark.parametrize(("rule", "text", "expected"), [
    (swap.negclip, CHASE, {*WORDS_OF_CHASE, "A black cat chases a brown dog."}),  # the capital stays in its place
    (swap.negclip, "Two dogs and three cats sleep.", {"Two cats and three dogs sleep."}),  # plurals
    (swap.negclip, "A couch and a television in a room.",  # another pair of the kind than that around "and"
     {"A room and a television in a couch.", "A couch and a room in a television."}),
    (swap.negclip, "The man's dog sees the woman's cat.",  # only bounded nouns move; chunks are long enough
     {"The woman's cat sees the man's dog.", "The man's cat sees the woman's dog."}),
    (swap.negclip, "A boy eats an apple.", {"An apple eats a boy."}),  # articles follow
    (swap.nouns, "A boy eats an apple.", {"An apple eats a boy."}),
    (swap.single, CHASE, WORDS_OF_CHASE),
    (swap.single, "running quickly", {"quickly running"}),  # any two words, where no category has two
    (swap.single, "Nice.", {None}),
    (swap.atoms, CHASE, WORDS_OF_CHASE),  # things or attributes: no verbs, plurals or whole phrases
    (swap.atoms, "The sky is blue.", {None}),
    (swap.atoms, "a dog dog", {None}),
    (swap.read_clip, CHASE,  # tokens joined by spaces, as its program has them
     {"A brown cat chases a black dog .", "A black dog chases a brown cat .", "a black cat chases A brown dog ."}),
    (swap.read_clip, "The sky is blue.", {None}),
])  # fmt: skip
def test_all_exchanges_and_no_other(annotated, rule, text, expected):
    assert outcomes(rule, annotated[text], tries=200) == expected


def test_verb_phrases_move(annotated):
    output = outcomes(swap.negclip, annotated["A wet street. Cars pass slowly. A red bus stops quickly."])
    assert "A wet street. Cars stops slowly. A red bus pass quickly." in output
    assert "A wet street. Cars pass quickly. A red bus stops slowly." in output
    assert "A red street. Cars pass slowly. A wet bus stops quickly." in output
    output = outcomes(swap.read_clip, annotated["There is a man wearing glasses and holding a bottle."])
    assert "There is a man holding glasses and wearing a bottle ." in output


ORDERS = {  # what no exchange by negclip may give: the same things in another order
    "A blue and white clock shows the time.": {"A white and blue clock shows the time."},
    "A couch and a television in a room.": {"A television and a couch in a room."},
    "Two giraffes near trees and bushes.": {"Two giraffes near bushes and trees."},
    "A bathroom with a sink, toilet and shower.": {
        "A bathroom with a toilet, sink and shower.",
        "A bathroom with a shower, toilet and sink.",
        "A bathroom with a sink, shower and toilet.",
    },
}


@pytest.mark.parametrize("text", ORDERS)
def test_negclip_exchanges_nothing_around_an_and(annotated, text):
    """ "White and blue" for "blue and white" is true of the same picture; the authors' program takes it as a negative."""
    output = outcomes(swap.negclip, annotated[text])
    assert not output & ORDERS[text]
    assert ORDERS[text] <= outcomes(swap.negclip_released, annotated[text])


LISTS = {  # captions, and what no rule may make of them
    "Brown and white dog": "White and brown dog",
    "A black dog and a brown dog run .": "A brown dog and a black dog run .",
    "Two girls and two boys play .": "Two boys and two girls play .",
    "A small black dog sleeps on a big bed.": "A black small dog sleeps on a big bed.",  # a list without a comma
}


@pytest.mark.parametrize("text", LISTS)
@pytest.mark.parametrize("rule", [swap.negclip, swap.single, swap.nouns])
def test_a_list_in_another_order_is_no_negative(annotated, rule, text):
    """Words alone tell it, also where the parser takes a colour for a name."""
    assert LISTS[text] not in outcomes(rule, annotated[text], tries=30)


def test_clic_exchanges_words_of_one_category(annotated):
    a, b = annotated["The horse is eating the green grass."], annotated["A woman rides a red bike."]
    nouns = [("horse", "woman"), ("horse", "bike"), ("grass", "woman"), ("grass", "bike")]
    pairs = [*nouns, ("eating", "rides"), ("green", "red")]
    expected = set()
    for x, y in pairs:
        changed = a.text.replace(x, y), b.text.replace(y, x)
        expected |= {f"{changed[0][:-1]}. {changed[1]}", f"{changed[1][:-1]}. {changed[0]}"}
    assert outcomes(swap.clic, a, b) == expected


@pytest.mark.parametrize(
    ("second", "expected"),
    [("The cat.", {None}), ("The dog.", {"Dog dog. The the.", "The the. Dog dog."})],
)
def test_clic_never_gives_a_positive_back(annotated, second, expected):
    """Exchanging dog and cat would give the sentences in the other order, which is p2; of two equal ones others change."""
    assert outcomes(swap.clic, annotated["The dog."], annotated[second]) == expected


def test_clic_leaves_common_words_out(annotated):
    """Or keeps them in their places if asked."""
    a, b = annotated["The dog chases the cat."], annotated["A brown dog chases a black cat."]
    # dog, cat and chases are common and no category is left: any two words then, but never a word with itself
    output = outcomes(swap.clic, a, b)
    assert None not in output
    for text in output:
        assert bag(text) == bag(a.text + b.text)
        assert text.casefold() not in {sentences.join(*p).casefold() for p in ((a.text, b.text), (b.text, a.text))}
    output = outcomes(lambda a, b, rng: swap.clic(a, b, rng, keep_common=True), a, b)
    assert len(output) == 16 and None not in output  # two "the", four words of b, two orders
    halves = [half.split() for text in output for half in text.rstrip(".").split(". ")]
    assert all(half.count(word) == 1 for half in halves for word in ("dog", "chases", "cat"))


def test_clic_falls_back_to_any_word(annotated):
    """One occurrence by its place: "a" also stands within other words, which a pattern would damage."""
    output = outcomes(swap.clic, annotated["Nice."], annotated["He stops and she runs."])
    assert {"He nice and she runs. Stops.", "Nice stops and she runs. He."} <= output
    a, b = annotated["A boy eats an apple."], annotated["Two giraffes near trees and bushes."]
    assert "A boy eats an giraffes. Two apple near trees and bushes." in outcomes(swap.clic, a, b)


def test_single_stays_within_a_sentence(annotated):
    text = "A wet street. Cars pass slowly. A red bus stops quickly."
    for output in outcomes(swap.single, annotated[text]):
        same = [a == b for a, b in zip(output.split(". "), text.split(". "), strict=True)]
        assert same.count(False) == 1


@given(annotations(), st.integers(0, 99))
def test_swaps_keep_the_words_and_change_the_text(annotation, seed):
    for rule in (swap.negclip, swap.single):
        output = rule(annotation, np.random.default_rng(seed))
        assert output is None or bag(output) == bag(annotation.text)
        assert output is None or output.casefold() != annotation.text.casefold()


@given(annotations(), annotations(), st.integers(0, 99))
def test_clic_keeps_the_words_of_both(a, b, seed):
    output = swap.clic(a, b, np.random.default_rng(seed))
    assert output is None or bag(output) == bag(a.text + b.text)


@pytest.mark.parametrize(("text", "expected"), [
    ("Two dogs walk through the snow.", {"The snow walks through two dogs."}),
    ("Three dogs were in the water and barked.", {"The water was in three dogs and barked."}),
    ("There are two large boats that are in the water.", {"There is the large water that is in two boats."}),
    ("Two dogs wag their tails in the snow.", {"Two tails wag their dogs in the snow."}),  # whose would "their" be
    ("A light-colored dog runs on the beach.", {"A light-colored beach runs on the dog."}),  # "runs" read as a noun
    ("Red laptop on a table.", {"Red table on a laptop."}),
    ("A man sits at sunset.", {"Sunset sits at a man."}),
    ("A train on the train track.", {None}),  # "the train train"
    ("A jacket, a scarf and a hat.", {None}),  # the same list in another order
    ("A boy jumps into a body of water.", {None}),
    ("A woman in blue teaches climbing.", {None}),
])  # fmt: skip
def test_atoms_agree_with_their_places(annotated, text, expected):
    """Verbs and determiners follow where a noun has no form of its new place's number."""
    assert outcomes(swap.atoms, annotated[text], tries=12) == expected


@pytest.mark.parametrize(("caption", "text", "expected"), [
    ("A cat, an owl and a dog.", "A cat, a dog and an owl.", True),
    ("A cat, an owl and a dog.", "A dog, an owl and a cat.", True),
    ("A cat, an owl and a dog.", "A cat, a dog and a cat.", False),
    ("A man sits and a dog runs.", "A dog sits and a man runs.", False),
    ("Two dogs, one black and one white, run.", "Two dogs, one white and one black, run.", True),
    ("A yellow dog and a black and white dog run.", "A black and white dog and a yellow dog run.", True),
    ("A man in red and a man in blue sit.", "A man in blue and a man in red sit.", True),
    ("A red hat & a red coat.", "A red coat & a red hat.", True),
    ("A red hat and a blue coat.", "A red coat and a blue hat.", False),
    ("A red hat on a coat.", "A red coat on a hat.", False),
    ("A cat, and a dog near a tree.", "A cat, and a tree near a dog.", False),
])  # fmt: skip
def test_the_same_list_in_another_order(caption, text, expected):
    """Its members may begin or end alike."""
    assert true_edits.reorders_list(caption, text) is expected


def test_full_stops_as_in_clic_s_code():
    """Of joined sentences, and of one without its own."""
    pairs = (("A dog", "A cat."), ("Is it?", "Yes!"), ("A dog. ", "a"))
    joined = [sentences.join_ended(*pair) for pair in pairs]
    assert joined == ["A dog. A cat.", "Is it?. Yes!.", "A dog. a."]
    for text, expected in (("A dog .", "A dog"), ("Is it?", "Is it?"), ("Well...", "Well"), (".", "")):
        assert sentences.strip_full_stop(text) == expected


def test_drawn_indices_are_those_of_numpy_and_leave_the_same_state() -> None:
    ours = np.random.default_rng(0)
    theirs = np.random.default_rng(0)
    counts = [*range(1, 200), 2**16 + 1, 2**31 - 1]
    assert [word_edits.draw_index(ours, count) for count in counts] == [int(theirs.integers(count)) for count in counts]
    assert ours.bit_generator.state == theirs.bit_generator.state


def test_hundreds_of_equal_nouns_are_looked_at_once_each(monkeypatch):
    """Their pairs are as many as their square, and a sentence's tokens are read for each that is tried."""
    count = 600
    nouns = {"pos": ("NOUN",) * count, "tag": ("NN",) * count, "lemma": ("dog",) * count, "dep": ("dep",) * count}
    starts, ends = (tuple(range(first, 4 * count, 4)) for first in (0, 3))
    spans = {"chunks": tuple((n, n + 1) for n in range(count)), "sentences": ((0, 4 * count - 1),)}
    spam = Annotation(" ".join(["dog"] * count), starts, ends, **nouns, heads=(0,) * count, **spans)
    dependents = Annotation.dependents
    calls = []
    monkeypatch.setattr(Annotation, "dependents", lambda *words, **span: calls.append(1) or dependents(*words, **span))
    assert swap.atoms(spam, np.random.default_rng(0)) is None
    assert len(calls) < 10 * count
