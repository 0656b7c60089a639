"""SVLC's rule R."""

import numpy as np
import pytest

from compclip.base.errors import UserError
from compclip.interface.method import load_method
from compclip.text import wordlists
from compclip.text.annotation import Annotation
from compclip.text.wordlists import WordLists
from tests.text.conftest import outcomes

OUT_OF = ("outside", "under", "behind")
COLOURED = {"red", "blue", "green", "yellow", "orange", "purple", "pink", "brown", "gray", "beige", "wall"}

TWO = WordLists({"color": ("red", "blue", "light blue"), "material": ("wood", "iron")})


@pytest.mark.parametrize(("text", "expected"), [
    ("a red cup of wood", {"a blue cup of wood", "a light blue cup of wood", "a red cup of iron"}),
    ("a reddish tired dog, red's", {None}),  # words are whole
    ("a red cup, a red hat.", {"a blue cup, a red hat.", "a light blue cup, a red hat.", "a red cup, a blue hat.",
                               "a red cup, a light blue hat."}),  # one of them changes
    ("Light  blue sky", {"Red sky", "Blue sky"}),  # phrases come before their words
    ("a red and blue and light blue flag", {None}),  # what the caption says is not put there
])  # fmt: skip
def test_one_word_for_another_of_its_list(text, expected):
    assert outcomes(TWO.rule_of_text, Annotation(text), tries=200) == expected


def test_kinds_have_the_same_chance():
    output = [TWO.rule_of_text(Annotation("red red red iron"), np.random.default_rng(seed)) for seed in range(400)]
    assert 150 < sum("wood" in text for text in output) < 250


def test_our_lists_are_of_the_authors_sizes():
    """34 colours, 47 actions, 71 materials, 104 sizes, 48 states; each word once in its list."""
    sizes = {kind: len(words) for kind, words in wordlists.default_lists().kinds.items()}
    authors_sizes = {"color": 34, "action": 47, "material": 71, "size": 104, "state": 48}
    assert all(abs(sizes[kind] - size) <= size // 10 for kind, size in authors_sizes.items())
    for words in wordlists.default_lists().kinds.values():
        assert len(set(words)) == len(words) and words == tuple(map(str.lower, words))
    lists = WordLists.parse({"color": ["Mauve", "ochre"], "state": ["half  open", "ajar"]})
    assert lists.kinds == {"color": ("mauve", "ochre"), "state": ("half open", "ajar")}
    assert WordLists.parse({}) is wordlists.default_lists()


@pytest.mark.parametrize(("text", "expected"), [
    ("A couch and a television in a room.", {f"A couch and a television {p} a room." for p in OUT_OF}),
    ("An old gentleman in a white shirt and black tie.", {"A young gentleman in a white shirt and black tie."}),
    ("An upright sign is 3 feet long.", {None}),  # a measure
    ("A long road near a wall painted by a man.", {"A short road near a wall painted by a man."}),  # not "by a man"
    ("He stops and she runs.", {None}),
    ("A man walks at night.", {None}),
    ("A man flies a kite at the beach.", {"A man flies a kite far from the beach."}),
    ("A girl looks at a dog.", {"A girl looks away from a dog."}),
    ("A woman is kayaking down a river.", {"A woman is kayaking up a river."}),
    ("A man holds up a sign.", {None}),  # "down" is no way here
    ("A kitchen with a counter.", {"A kitchen without a counter."}),
    ("A tall man with a rope.", {"A short man with a rope."}),  # "without" is for captions with nothing else
    ("A bench between two trees.", {"A bench behind two trees.", "A bench far from two trees."}),
])  # fmt: skip
def test_words_that_fit_their_place(annotated, text, expected):
    """Colours aside; "in a white shirt" says what is worn."""
    output = outcomes(wordlists.default_lists().rule, annotated[text], tries=60)
    changed = {t for t in output if t is None or not set(t.lower().split()) & COLOURED}
    assert expected <= output and all(t is None or "shirt" in t or t in expected or " a wall" in t for t in changed)


def test_articles_follow_colours(annotated):
    """The rule as released takes annotations, and knows nothing of articles."""
    output = outcomes(wordlists.default_lists().rule, annotated["A woman rides a red bike."], tries=80)
    assert {"A woman rides an orange bike.", "A woman rides a blue bike."} <= output and len(output) == 11
    assert outcomes(wordlists.default_lists().rule_any, Annotation("nothing"), tries=3) == {None}
    output = outcomes(wordlists.default_lists().rule_any, Annotation("a wooden chair"), tries=50)
    assert None not in output and all(text.startswith("a ") and text.endswith(" chair") for text in output)


@pytest.mark.parametrize("method", ["svlc", "dac"])
def test_methods_take_words_of_ones_own(method):
    words = {"color": ["mauve", "ochre"]}
    module = load_method(method)
    (rule,) = module.views(module.Config(words=words), 0).negatives
    caption = Annotation("a mauve car by a red house")
    assert rule(caption, np.random.default_rng(0)) == "an ochre car by a red house"
    (as_released,) = module.views(module.Config(words=words, lists="any"), 0).negatives
    assert as_released(caption, np.random.default_rng(0)) == "a ochre car by a red house"
    with pytest.raises(UserError, match="unknown kind of words 'colour'; did you mean 'color'"):
        module.Config(words={"colour": ["red", "blue"]})
