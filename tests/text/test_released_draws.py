"""Draws as released programs make them, by hand and beside slow loops of the released rules."""

import itertools
import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compclip.text import dense_texts, masked_words, stored_texts, sub_captions, swap
from compclip.text.annotation import Annotation
from tests.text.conftest import outcomes


def words_of(text: str, pos: dict[str, str], masked: dict[int, str] | None = None, **stored) -> Annotation:
    """An annotation of words and marks; `pos` by word, a predicted word by token."""
    spans = [match.span() for match in re.finditer(r"\w+|[^\w\s]", text)]
    starts, ends = tuple(low for low, _ in spans), tuple(high for _, high in spans)
    tags = tuple(pos.get(text[low:high].lower(), "X") for low, high in spans)
    words = tuple((masked[t],) if t in masked else () for t in range(len(spans))) if masked else ()
    return Annotation(text, starts, ends, tags, masked=words, stored=stored)


# --- CE-CLIP's first two nouns ----------------------------------------------------------------------------------

NOUNS = dict.fromkeys(("dog", "cat", "cattle", "tree", "man", "woman"), "NOUN")


@pytest.mark.parametrize(("text", "expected"), [
    ("A dog chases a cat near a tree.", "A cat chases a dog near a tree."),
    ("A dog chases a cat.", None),  # two nouns
    ("A dog, a cat and a dog.", "A cat, a dog and a cat."),  # wherever they stand
    ("A dog, a dog and a cat.", None),  # the first two are one word
    ("A cat by cattle and a dog.", "A cattle by cattletle and a dog."),  # and within words
    ("A man, a woman and a cat.", "A woman, a wowoman and a cat."),
])  # fmt: skip
def test_the_first_two_nouns_change_places(text, expected):
    assert outcomes(swap.nouns_released, words_of(text, NOUNS), tries=3) == {expected}


def put_in_place(text: str, old: str, new: str) -> str:
    """Every occurrence from the left, one by one."""
    output, at = "", 0
    while at < len(text):
        is_here = text[at : at + len(old)] == old
        output, at = output + (new if is_here else text[at]), at + (len(old) if is_here else 1)
    return output


@given(st.lists(st.sampled_from(["dog", "cat", "cattle", "man", "woman", "and", "a"]), max_size=7))
def test_nouns_change_places_as_three_replacements_do(words):
    """As the program's lines 131 to 134 write them, with its own word between."""
    text = " ".join(words)
    nouns = [word for word in words if word in NOUNS]
    expected = None
    if len(nouns) > 2:
        with_placeholder = put_in_place(put_in_place(text, nouns[0], "temp1"), nouns[1], nouns[0])
        expected = put_in_place(with_placeholder, "temp1", nouns[1])
    output = swap.nouns_released(words_of(text, NOUNS), np.random.default_rng(0))
    assert output == (None if expected == text else expected)


# --- CE-CLIP's masked words -------------------------------------------------------------------------------------


def released_texts(text: str, nouns: list[str], fourth: str) -> Counter[str]:
    """What the program's lines 143 to 144 make of each noun that it may draw, filled with one prediction."""
    return Counter(text.replace(noun, "<mask>", 1).replace("<mask>", fourth) for noun in nouns)


def test_a_word_is_drawn_and_replaced_where_it_first_stands():
    """The dog that stands twice is drawn twice as often, and the first one gives way whichever was drawn."""
    text = "A dog sees a cat and a dog."
    a = words_of(text, NOUNS, {1: "fox", 4: "fox", 7: "hen"})
    drawn = [masked_words.of_pos_released("NOUN")(a, np.random.default_rng(seed)) for seed in range(900)]
    expected = released_texts(text, ["dog", "cat", "dog"], "fox")
    assert expected == {"A fox sees a cat and a dog.": 2, "A dog sees a fox and a dog.": 1}
    assert Counter(drawn).keys() == expected.keys()
    assert 560 < drawn.count("A fox sees a cat and a dog.") < 640


def test_a_word_without_its_prediction_gives_no_text():
    """The fourth prediction was the word, or within another word; without such a word the one for a mask alone is the text."""
    a = words_of("A dog sees a cat.", NOUNS, {1: "fox"})
    assert outcomes(masked_words.of_pos_released("NOUN"), a) == {None, "A fox sees a cat."}
    within = words_of("A woman and a man.", {"man": "NOUN"}, {4: "boy"})
    assert outcomes(masked_words.of_pos_released("NOUN"), within, tries=5) == {None}
    a = words_of("A dog here.", NOUNS, {1: "fox"}, bare=("The",))
    assert outcomes(masked_words.of_pos_released("VERB"), a, tries=5) == {"The"}
    assert outcomes(masked_words.of_pos_released("NOUN"), a, tries=5) == {"A fox here."}
    assert outcomes(masked_words.of_pos_released("VERB"), words_of("A dog.", NOUNS), tries=5) == {None}


# --- DAC's coin over texts of a bag -----------------------------------------------------------------------------


def never(a: Annotation, rng: np.random.Generator) -> str:
    """A rule of lists, told from the model's words."""
    return f"not {a.text}"


def test_a_coin_decides_between_a_rule_and_the_model():
    """The model's word or nothing on one side, whatever the other side has."""
    a = words_of("A dog here.", NOUNS, {1: "fox"})
    drawn = [masked_words.either(never, a, np.random.default_rng(seed)) for seed in range(400)]
    for seed, text in enumerate(drawn):
        assert text == ("not A dog here." if np.random.default_rng(seed).random() < 0.5 else "A fox here.")
    assert 160 < drawn.count("A fox here.") < 240
    without = {masked_words.either_of_dense(never, Annotation("A dog."), np.random.default_rng(s)) for s in range(40)}
    assert without == {None, "not A dog."}


def test_texts_beside_a_caption_have_the_words_of_their_places():
    """Places by their first character; a word ends where white space or a mark bounds it; the caption is the last."""
    stored = {"dense": ("A dog, a cat.", "Rain.", "Big"), "dense_masked": ("2\tfox\them\n9\tcow", "", "0\tsmall")}
    caption = Annotation("The caption.", stored=stored)
    first, second, third, last = dense_texts.list_texts(caption)
    assert last is caption and (second.text, second.masked) == ("Rain.", ())
    assert [first.word(t) for t in range(len(first))] == ["dog", "cat"] and first.masked == (("fox", "hem"), ("cow",))
    assert outcomes(masked_words.any_word, first) == {"A fox, a cat.", "A hem, a cat.", "A dog, a cow."}
    assert outcomes(masked_words.any_word, third, tries=3) == {"Small"}  # as a sentence begins
    assert [a.text for a in dense_texts.list_texts(Annotation("B.", stored={"dense": ("C.",)}))] == ["C.", "B."]


# --- GNM-CLIP's variations by score -----------------------------------------------------------------------------

VARIATIONS = ("0.9\tA red dog.", "", "0.2\tA cat!\tThe (cat)", "0.5\tA cow\tCows\tA calf", "0.4\tA hen")


def ordered_shares(scores: dict[int, float]) -> dict[tuple[int, int], float]:
    """How likely each ordered pair is: by score above the lowest plus a half, the second among those that are left."""
    weights = {number: score - min(scores.values()) + 0.5 for number, score in scores.items()}
    total = sum(weights.values())
    return {
        (a, b): weights[a] / total * weights[b] / (total - weights[a]) for a, b in itertools.permutations(weights, 2)
    }


def test_two_variations_are_drawn_by_score_without_repetition():
    caption = Annotation("x", stored={"variation": VARIATIONS})
    draws = [stored_texts.draw_variations(2, caption, np.random.default_rng(seed)) for seed in range(4000)]
    counted = Counter(tuple(number for number, _ in drawn) for drawn in draws)
    expected = ordered_shares({0: 0.9, 2: 0.2, 3: 0.5, 4: 0.4})
    assert abs(sum(expected.values()) - 1) < 1e-12 and counted.keys() == expected.keys()
    assert all(abs(counted[pair] / 4000 - share) < 0.025 for pair, share in expected.items())


def test_each_caption_of_a_variation_has_the_same_chance():
    caption = Annotation("x", stored={"variation": VARIATIONS[:3]})
    draws = [stored_texts.draw_variations(2, caption, np.random.default_rng(seed)) for seed in range(600)]
    # no more than two: all, in their order
    assert all(len(variations) == 2 and variations[0] == (0, "a red dog") for variations in draws)
    assert {variations[1][0] for variations in draws} == {2}
    texts = Counter(variations[1][1] for variations in draws)
    assert texts.keys() == {"a cat", "the cat"} and 240 < texts["a cat"] < 360
    assert stored_texts.draw_variations(2, Annotation("x"), np.random.default_rng(0)) == []


@given(st.text(st.sampled_from('aB .!"()*#:;~,-?'), max_size=130))
def test_captions_are_written_as_released(text):
    """By the program's five lines (training/helpers.py:7-12), letter by letter."""
    lowered = "".join(" " if c in '.!"()*#:;~' else c for c in text.lower())
    while "  " in lowered:
        lowered = lowered.replace("  ", " ")
    assert stored_texts.plain_words(text) == " ".join(lowered.strip(" ").split(" ")[:50])


# --- FLAIR's sub-captions ---------------------------------------------------------------------------------------


def test_pieces_of_all_texts_are_cut_at_every_full_stop():
    """The rule of the program's line 26; of fewer pieces than asked for consecutive ones are all, from anywhere they come twice."""
    caption = Annotation("A 1.5 m pole. ", stored={"dense": ("Two men</s>", "...")})
    pieces = {text for text in outcomes(sub_captions.draw_released, caption) if ". " not in text}
    assert pieces == {"A 1", "5 m pole", "Two men"}
    assert outcomes(sub_captions.draw_released, Annotation("a. b.")) >= {"a", "b", "a. b", "b. a", "a. a. b"}


def test_shares_of_sub_captions():
    """One, two or three pieces alike often; of consecutive ones the last is none, so "d. e" comes from anywhere alone.

    By the program's lines 158 to 178: a pair's share is 1/3 · 1/2 · (1/3 if it begins at one of three places, + 1/20).
    """
    pieces = Annotation("a. b", stored={"dense": ("c.", "d", "e")})
    generator = np.random.default_rng(0)
    drawn = Counter(sub_captions.draw_released(pieces, generator) for _ in range(12000))
    sizes = Counter()
    for text, count in drawn.items():
        sizes[text.count(". ") + 1] += count
    assert [sizes[n] / 12000 for n in (1, 2, 3)] == pytest.approx([1 / 3] * 3, abs=0.015)
    for pair in ("a. b", "b. c", "c. d"):
        assert drawn[pair] / 12000 == pytest.approx(1 / 6 * (1 / 3 + 1 / 20), abs=0.008)
    assert drawn["d. e"] / 12000 == pytest.approx(1 / 120, abs=0.003)
    assert drawn["c. d. e"] / 12000 == pytest.approx(1 / 360, abs=0.002)
    assert drawn["a. b. c"] / 12000 == pytest.approx(1 / 6 * (1 / 2 + 1 / 60), abs=0.01)
