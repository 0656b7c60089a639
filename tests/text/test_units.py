"""Units with their foils, sub-captions, and shuffled nouns and adjectives: all that they make of sentences read by eye."""

import numpy as np
import pytest

from compclip.text import scene_graph, shuffle, sub_captions, units
from compclip.text.annotation import Annotation
from compclip.text.spacy_parser import annotate
from tests.text.conftest import outcomes


def test_the_relations_of_a_sentence(annotated):
    """Subject, what relates, object: a verb, a preposition below it, and one of several words."""

    def relations(text: str) -> list[tuple[str, ...]]:
        a = annotated[text]
        triples = scene_graph.read_relations(a)
        return [(a.word(r.subject), a.text[slice(*a.chars(r.span))], a.word(r.object)) for r in triples]

    assert relations("A woman rides a red bike.") == [("woman", "rides", "bike")]
    bench = [("man", "on", "bench"), ("man", "near", "van")]
    assert relations("A man is sitting on a bench near a white van.") == bench
    assert relations("A cow on top of an old hill.") == [("cow", "on top of", "hill")]
    assert relations("Two dogs and three cats sleep.") == []


def test_a_relation_and_its_foils(annotated):
    a = annotated["A brown dog chases a black cat."]
    pairs = outcomes(units.relation, a)
    assert {unit for unit, _ in pairs} == {"brown dog chases black cat"}
    words = {token: set(a.candidates[token]) for token in range(len(a))}
    expected = {"black cat chases brown dog"}
    expected |= {f"brown {word} chases black cat" for word in words[2]}
    expected |= {f"brown dog {word} black cat" for word in words[3]}
    expected |= {f"brown dog chases black {word}" for word in words[6]}
    foils = {foil for _, foil in pairs}
    assert foils <= expected and "black cat chases brown dog" in foils
    for token in (2, 3):  # each kind of foil is drawn
        assert any(f" {word} " in f" {foil} " for word in words[token] for foil in foils)


@pytest.mark.parametrize(("text", "left"), [
    ("A man looks at it while she sits on a bench.", []),  # pronouns
    ("This is a picture of two girls.", ["of"]),
    ("A lake surrounded by trees.", []),  # not "lake by trees"
    ("Signs attached to a wooden pole.", []),
    ("A man poses for a photograph.", []),
    ("A child looking at a cake on a table.", ["on"]),
    ("A cat sits there, staring at a bird.", []),
    ("A child sitting at a table.", ["at"]),
    ("The road to a village.", ["to"]),
    ("A bathroom with no windows.", []),  # it has none
    ("A man without a hat.", []),
])  # fmt: skip
def test_relations_that_say_nothing_by_themselves_are_left_out(text, left):
    (a,) = annotate([text], replacements=False)
    assert [a.text[slice(*a.chars(r.span))] for r in scene_graph.read_relations(a)] == left


def test_what_stands_beside_each_other_does_not_change_places(annotated):
    """A dog near a cat is a cat near a dog; a word of place gives way to one that excludes it."""
    beside, group = annotate(["A dog near a cat.", "A group of people."])
    foils = {foil for _, foil in outcomes(units.relation, beside)}
    assert "cat near dog" not in foils and {"dog far from cat", "dog under cat", "dog on top of cat"} <= foils
    assert all(" of " in foil for _, foil in outcomes(units.relation, group))
    pairs = outcomes(units.relation, annotated["A cow on top of an old hill."])
    places = {foil.removeprefix("cow ").removesuffix(" old hill") for _, foil in pairs
              if foil.startswith("cow ") and foil.endswith(" old hill")}  # fmt: skip
    assert places == {"under", "below", "behind"}


def test_an_entity_alone_or_with_another_one(annotated):
    """Without a relation. The other entity is on the same side of the unit and of its foil. A pronoun is none."""
    (a,) = annotate(["A girl who is wearing a glove."])
    assert {word for unit, _ in outcomes(units.entity, a) for word in unit.split(" and ")} <= {"girl", "glove"}
    assert units.draw(annotated["running quickly"], np.random.default_rng(0)) is None
    a = annotated["Two dogs and three cats sleep."]
    pairs = outcomes(units.draw, a)
    expected = {"Two dogs", "three cats", "Two dogs and three cats", "three cats and Two dogs"}
    assert {unit for unit, _ in pairs} == expected
    for unit, foil in pairs:
        changed = [(x, y) for x, y in zip(unit.split(" and "), foil.split(" and "), strict=True) if x != y]
        [(before, after)] = changed
        assert before.split()[0] == after.split()[0] and before.split()[1] != after.split()[1]


def test_a_captions_own_foil(annotated):
    """Two parts exchanged; a single entity gives way to another."""
    chase = annotated["A brown dog chases a black cat."]
    assert "A black dog chases a brown cat." in outcomes(units.caption_foil, chase)
    single = outcomes(units.caption_foil, annotated["The dog."])
    assert single and all(foil.startswith("The ") and foil != "The dog." for foil in single)


def test_nouns_and_adjectives_among_their_places(annotated):
    words = (("brown cat", "black dog"), ("black dog", "brown cat"), ("black cat", "brown dog"))
    expected = {f"A {first} chases a {second}." for first, second in words}
    assert outcomes(shuffle.nouns_and_adjectives, annotated["A brown dog chases a black cat."]) == expected
    bike = annotated["A woman rides a red bike."]
    assert outcomes(shuffle.nouns_and_adjectives, bike) == {"A bike rides a red woman."}
    for text in ("The dog.", "a dog dog", "running quickly"):
        assert shuffle.nouns_and_adjectives(annotated[text], np.random.default_rng(0)) is None


def test_sub_captions_have_one_to_three_sentences():
    """Of the caption and of what is stored beside it: single ones, consecutive ones, and some from anywhere."""
    stored = {"dense": ("C.", "D.")}
    texts = outcomes(sub_captions.draw, Annotation("A. B.", sentences=((0, 2), (3, 5)), stored=stored))
    assert {"A.", "B.", "C.", "D.", "A. B.", "C. D.", "B. C. D.", "D. A.", "D. B. A."} <= texts
    sizes = {len(text.split()) for text in texts}
    assert sizes == {1, 2, 3} and all(len(set(text.split())) == len(text.split()) for text in texts)
    assert set(outcomes(sub_captions.draw, Annotation("A.", sentences=((0, 2),)))) <= {"A.", "A. A.", "A. A. A."}
