"""Sub-graphs and their negatives: all that they make of sentences, read by eye."""

import numpy as np
import pytest

from compclip.text import agreement, scene_graph, sub_graphs
from compclip.text.sub_graphs import ATTRIBUTE, OBJECT, RELATION, WordSets
from tests.text.conftest import SENTENCES

SETS = WordSets(("pizza", "kite"), ("wooden", "shiny"), ("above", "holding"))
EVEN = (1.0, 1.0, 1.0)
CHASE = "A brown dog chases a black cat."


def graph_texts(a, kind: str) -> list[str]:
    return [graph.write() for graph in sub_graphs.read_sub_graphs(a)[kind]]


def negatives_of(a, kind: str, positive: str) -> set[str]:
    """All negatives of one kind of a caption whose sub-graph `positive` was drawn alone."""
    shares = tuple(float(name == kind) for name in sub_graphs.KINDS)
    draws = [sub_graphs.draw_one(SETS, shares, a, np.random.default_rng(seed)) for seed in range(400)]
    return {foil for true_ones, foils in draws if true_ones == [positive] for foil in foils}


@pytest.mark.parametrize(("text", "objects", "relations"), [
    (CHASE, ["brown dog", "black cat"], ["brown dog chases black cat", "dog chases cat"]),
    ("A small brown dog is chasing a big black cat.",
     ["small dog", "brown dog", "big cat", "black cat", "small brown dog", "big black cat"],
     ["small brown dog chasing big black cat", "dog chasing cat"]),
    ("A cow on top of an old hill.", ["old hill"], ["cow on top of old hill", "cow on top of hill"]),
    ("A sitting man in a white shirt.", ["sitting man", "white shirt"],
     ["sitting man in white shirt", "man in shirt"]),
    ("The man's dog sees the woman's cat.", [], ["dog sees cat"]),
    ("Two giraffes near trees and bushes.", [], ["giraffes near trees"]),
    ("The sky is blue.", ["blue sky"], []),
    ("An upright sign is 3 feet long.", ["upright sign"], []),  # not "long sign"
    ("A long road near a wall painted by a man.", ["long road"], ["long road near wall", "road near wall"]),
    ("A mug of red tea and a green apple. It is next to the mug of red tea.", ["red tea", "green apple"],
     ["mug of red tea", "mug of tea"]),  # "it" is no object
    ("He stops and she runs.", [], []),
])  # fmt: skip
def test_the_sub_graphs_of_a_sentence(annotated, text, objects, relations):
    assert graph_texts(annotated[text], OBJECT) == objects
    assert graph_texts(annotated[text], RELATION) == relations
    assert graph_texts(annotated[text], ATTRIBUTE) == [r for r in relations[:1] if len(relations) > 1]


def test_several_things_are_several_others(annotated):
    """No "shortses", no "rices"; a mass stands for one thing alone. Sets of one's own are cleaned."""
    sets = WordSets(("shorts", "rice", "people", "bus"), ("shiny",), ("above",))
    a = annotated["Two giraffes near trees and bushes."]
    shares = tuple(float(kind == RELATION) for kind in sub_graphs.KINDS)
    draws = [sub_graphs.draw_one(sets, shares, a, np.random.default_rng(seed)) for seed in range(100)]
    foils = {foil for _, of_draw in draws for foil in of_draw}
    subjects = {foil.removesuffix(" near trees") for foil in foils if foil.endswith(" near trees")}
    assert subjects - {"giraffes"} == {"shorts", "people", "buses"}
    assert agreement.pluralise("shirt") == "shirts" and agreement.pluralise("person") == "people"
    sets = sub_graphs.parse_sets({"objects": ["Hot  dog", "hot dog", "cup"]})
    assert sets.objects == ("hot dog", "cup") and sets.relations == sub_graphs.default_sets().relations
    assert len(set(sets.relations)) == len(sets.relations) and "during" not in sets.relations


@pytest.mark.parametrize(("text", "texts"), [
    ("A small kitchen with no old people.", {"small kitchen"}),
    ("The dog is not black.", set()),
    ("A tall man who isn't wearing a red hat.", {"tall man"}),
    ("A large room without white furniture.", {"large room"}),
    ("There are no cars on the wet street.", set()),  # the street is where they are not
])  # fmt: skip
def test_what_is_denied_is_no_sub_graph(annotated, text, texts):
    assert {graph for kind in sub_graphs.KINDS for graph in graph_texts(annotated[text], kind)} == texts


def test_negatives_of_a_relation(annotated):
    """The objects exchanged, one of them or the relation replaced, or a graph of other things joined; of an object its attribute."""
    assert negatives_of(annotated[CHASE], OBJECT, "brown dog") == {"wooden dog", "shiny dog"}
    negatives = negatives_of(annotated[CHASE], RELATION, "dog chases cat")
    joined = {text for text in negatives if text.startswith("dog chases cat ")}
    assert negatives - joined == {"cat chases dog", "pizza chases cat", "kite chases cat", "dog chases pizza",
                                  "dog chases kite", "dog above cat", "dog holding cat"}  # fmt: skip
    tails = {text.removeprefix("dog chases cat ") for text in joined}
    places = (SETS.relations, SETS.attributes, SETS.objects, SETS.relations, SETS.objects)
    assert {len(tail.split()) for tail in tails} == {3, 5}
    assert all(word in words for tail in tails for word, words in zip(tail.split(), places, strict=False))


def test_negatives_of_attributes(annotated):
    """The attributes exchanged, or one of them replaced; the objects keep their places, and each has its own attributes."""
    assert negatives_of(annotated[CHASE], ATTRIBUTE, "brown dog chases black cat") == {
        "black dog chases brown cat", "wooden dog chases black cat", "shiny dog chases black cat",
        "brown dog chases wooden cat", "brown dog chases shiny cat",
    }  # fmt: skip
    alone = negatives_of(annotated["A woman rides a red bike."], ATTRIBUTE, "woman rides red bike")
    assert alone == {"woman rides wooden bike", "woman rides shiny bike"}
    a = annotated["A blue and white clock shows the time."]
    attributes = scene_graph.read_attributes(a)
    assert {a.word(e): [a.word(t) for t in tokens] for e, tokens in attributes.items()} == {"clock": ["blue", "white"]}
    assert scene_graph.read_attributes(annotated["Two dogs and three cats sleep."]) == {}


def test_a_noun_keeps_its_number_and_no_word_of_the_caption_is_drawn(annotated):
    giraffes = annotated["Two giraffes near trees and bushes."]
    sets = WordSets(("giraffe", "bush", "knife"), ("red",), ("near", "on top of"))
    draws = [sub_graphs.draw_one(sets, EVEN, giraffes, np.random.default_rng(seed)) for seed in range(200)]
    foils = {foil for _, drawn_foils in draws for foil in drawn_foils if not foil.startswith("giraffes near trees ")}
    assert foils == {"knives near trees", "giraffes near knives", "giraffes on top of trees"}


@pytest.mark.parametrize(
    ("relation", "changes_places"),
    [("stands next to", False), ("is near", False), ("sits beside", False), ("stands close to", False),
     ("jumps over", True), ("stands behind", True), ("is under", True)],
)  # fmt: skip
def test_objects_change_places_unless_both_stand_beside_each_other(annotated, relation, changes_places):
    a = annotated[f"A dog {relation} a cat."]
    (positive,) = graph_texts(a, RELATION)
    negatives = negatives_of(a, RELATION, positive)
    assert (f"cat{positive.removeprefix('dog').removesuffix('cat')}dog" in negatives) == changes_places
    assert {positive.replace("dog", "pizza"), positive.replace("cat", "kite")} <= negatives


def test_texts_of_a_group_stand_once_and_on_one_side(annotated):
    """At most three and six; negatives are no sub-graph of the caption, and of those that were drawn."""
    for text in SENTENCES:
        a = annotated[text]
        true_ones = {t for kind in sub_graphs.KINDS for t in graph_texts(a, kind)}
        for seed in range(20):
            drawn, foils = sub_graphs.draw(sub_graphs.default_sets(), EVEN, 3, 6, a, np.random.default_rng(seed))
            assert len(drawn) == min(3, len(set(drawn))) and set(drawn) <= true_ones
            assert len(foils) == len(set(foils)) <= 6 and not {*foils} & true_ones
            assert bool(drawn) == bool(true_ones) and len(foils) >= 2 * bool(drawn)


def test_kinds_are_drawn_by_their_shares(annotated):
    """Of a caption that has all three; one of share 0 is never drawn."""
    shares, a = (0.2, 0.8, 0.0), annotated[CHASE]
    draws = [sub_graphs.draw(SETS, shares, 1, 0, a, np.random.default_rng(seed))[0][0] for seed in range(2000)]
    of_objects = sum(len(text.split()) == 2 for text in draws) / len(draws)
    assert 0.17 < of_objects < 0.23  # five deviations: 0.045
    assert sub_graphs.draw(SETS, (0.0, 0.0, 1.0), 3, 6, annotated["The dog chases the cat."],
                           np.random.default_rng(0)) == ([], [])  # fmt: skip
