"""Noun phrases around an "and" that say the same in the other order, told by the words beside them.

Two phrases are joined where they begin the sentence, or stand behind a word that relates each of them alike ("near a
baby and a dog"), or where the parser joins them; both are animate, or neither. What follows must be said of both, or
of neither. Each phrase takes its determiner along; one that has none, and needs it, gets its own: "a white shirt and
tie" gives "a tie and a white shirt".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from compclip.text import agreement, caption_words, exchangeable_atoms, fitting_words, lexicon, word_edits
from compclip.text.annotation import Annotation, Span
from compclip.text.word_edits import word_set

_LISTS = lexicon.TABLES["joined_phrases"]
ARTICLES = ("a", "an")
SHARED = {"the", "some", *exchangeable_atoms.QUANTITIES}  # before two plain nouns they are said of both
DETERMINERS = ("det", "poss", "nummod")
IN_PHRASE = ("DET", "NUM", "ADJ", "NOUN", "PROPN")
CLOTHES = word_set(_LISTS["clothes"])
WORN_BEHIND = ("in", "with", "wearing", "wears", "wear")
RELATING = word_set("near beside with by between to of")  # "next to"
HAVING = word_set(_LISTS["having"])
PERSONS = word_set(_LISTS["persons"])
ANIMALS = word_set("dog puppy cat kitten horse bird cow sheep bear elephant giraffe zebra goat ram pigeon animal robot")
LIVING = PERSONS | ANIMALS
ALIKE = ({"man", "woman"}, {"boy", "girl"}, {"lady", "gentleman"})  # "a young man and woman" are both young
AGES = word_set("young old elderly little small middle-aged asian smiling happy")
TAGS_APART = word_set("PRP PRP$ WP JJR JJS")  # pronouns, and adjectives that compare
TOLD_APART = word_set("other others another same each rest both more left right")
SCENE_PARTS = word_set("background foreground front distance hand hands side sides middle top back")
NO_HEADS = (SCENE_PARTS - CLOTHES) | {"one", "ones"}  # nor colours: "a red and a white boat"
WORN = CLOTHES | word_set("red blue green yellow black white orange pink purple brown gray grey")
PARTS_OF_ALL = SCENE_PARTS | {"it"}
PARTS_OF_BODY = fitting_words.BODY - {"it"}
PLACES = word_set("in on at near under behind beside outside inside by along over against around through across")
LASTING = word_set(_LISTS["lasting"])
ONLY_NOUNS = caption_words.WORDS["n"] - caption_words.WORDS["v"]
VERBS = caption_words.WORDS["v"] | LASTING
SUBJECTS = LIVING | fitting_words.ANIMATE
OF_ONE = word_set("wear hold carry dress cover fill surround top make show contain tie use pull push say have lead")


class Exchange(NamedTuple):
    """Two token spans that change places, and the word that the second takes along, "" for none."""

    first: Span
    second: Span
    word_before: str = ""


def find_exchanges(a: Annotation, conjunction: int) -> Iterator[Exchange]:
    """Find the exchanges of noun phrases around an "and"."""
    end = conjunction - 1 if a.word(conjunction - 1) == "," else conjunction
    first = _read_back(a, end)
    second = _read_phrase(a, conjunction + 1)
    if first is None or second is None:
        return
    twins = _find_twins(a, first, conjunction, second)
    if twins is not None:
        yield twins
    members = _exchange_members(a, first)
    if members is not None:
        yield members
    first = _with_whole(a, first, second)
    measured_phrase = _with_part(a, second)
    if measured_phrase != second and not _is_determined(a, first):  # "a jar of honey and lemons"
        return
    second = measured_phrase
    may_be_apart = end < conjunction and (first[0] == 0 or a.word(first[0] - 1) != ",")
    are_bounded = word_edits.are_bounded(a, first, second)
    if are_bounded and not may_be_apart and are_alike(a, first, second) and _are_joined(a, first, second):
        exchange = exchange_phrases(a, first, second)
        if exchange is not None:
            yield exchange


# --- phrases --------------------------------------------------------------------------------------------------


def _read_phrase(a: Annotation, start: int) -> Span | None:
    """Return the noun phrase that begins at a token."""
    end = start
    while end < len(a) and _is_inside(a, end) and not _is_verb(a, start, end) and not (end > start and _opens(a, end)):
        end += 1
    while end > start and (not _is_noun(a, end - 1) or (end - start > 1 and _is_action(a, end - 1))):
        end -= 1
    return (start, end) if end > start else None


def _read_back(a: Annotation, end: int) -> Span | None:
    """Return the noun phrase that ends before a token."""
    if end < 1 or not _is_noun(a, end - 1) or (end > 1 and _is_verb(a, end - 2, end - 1)):
        return None
    low = end - 1
    while low and _is_inside(a, low - 1) and not _opens(a, low):
        low -= 1
    return low, end


def _is_inside(a: Annotation, token: int) -> bool:
    if a.pos[token] == "ADV":  # "very pointy"
        return token + 1 < len(a) and a.heads[token] == token + 1 and a.pos[token + 1] == "ADJ"
    return a.pos[token] in IN_PHRASE or a.dep[token] in ("amod", "compound") or _is_noun(a, token)


def _opens(a: Annotation, token: int) -> bool:
    return a.pos[token] in ("DET", "NUM") or a.dep[token] == "poss"


def _is_noun(a: Annotation, token: int) -> bool:
    """Return whether a token is a noun, or one that is read as a verb: "meat and broccoli"."""
    word = a.word(token).lower()
    return a.pos[token] in ("NOUN", "PROPN") or word in CLOTHES or (a.pos[token] == "VERB" and word in ONLY_NOUNS)


def _is_verb(a: Annotation, start: int, token: int) -> bool:
    """Return whether a token is a verb behind a noun: "a black dog play", "earrings smiles", "an orange shirt jump"."""
    if token > start and a.tag[token] == "VBG" and _is_noun(a, token - 1):
        return True
    if token == start or a.lemma[token].lower() not in VERBS:
        return False
    is_last = token + 1 == len(a) or a.pos[token + 1] not in ("NOUN", "PROPN")
    is_like_verb = is_last and a.lemma[token].lower() in LASTING and _is_noun(a, token - 1)
    return a.lemma[token - 1].lower() in SUBJECTS or a.tag[token - 1] == "NNS" or is_like_verb


def _is_action(a: Annotation, token: int) -> bool:
    """Return whether a word in -ing behind a noun says what its things do: "a calculator and phone sitting on it"."""
    word = a.word(token).lower()
    return word.endswith("ing") and word not in exchangeable_atoms.THINGS_IN_ING and _is_noun(a, token - 1)


def _with_part(a: Annotation, phrase: Span) -> Span:
    """Return a phrase with what it is a measure of: "a cup of tea"."""
    is_measure = phrase[1] < len(a) and a.word(phrase[1]).lower() == "of"
    thing = _read_phrase(a, phrase[1] + 1) if is_measure else None
    return (phrase[0], thing[1]) if thing else phrase


def _with_whole(a: Annotation, first: Span, second: Span) -> Span:
    """Return a phrase with the measure before it, if the second has a determiner: "bottles of beer and two bananas"."""
    is_thing = first[0] > 1 and a.word(first[0] - 1).lower() == "of" and not _is_determined(a, first)
    measure = _read_back(a, first[0] - 1) if is_thing and _is_determined(a, second) else None
    return (measure[0], first[1]) if measure else first


def _is_determined(a: Annotation, phrase: Span) -> bool:
    is_quantity = a.word(phrase[0]).lower() in exchangeable_atoms.QUANTITIES
    return is_quantity or a.dep[phrase[0]] in DETERMINERS or a.pos[phrase[0]] in ("DET", "NUM")


def _head(a: Annotation, phrase: Span) -> int:
    """Return the noun that a phrase is about: "cup" of "a cup of tea"."""
    words = [*a.lower_words(*phrase), "of"]
    return phrase[0] + words.index("of") - 1


# --- joined ---------------------------------------------------------------------------------------------------


def are_alike(a: Annotation, first: Span, second: Span) -> bool:
    """Return whether neither of two phrases is told from the other, and both are things."""
    of_first = a.lower_words(*first)
    of_second = a.lower_words(*second)
    y = _head(a, second)
    heads = {a.word(_head(a, first)).lower(), a.word(y).lower()}
    if not TOLD_APART.isdisjoint(of_first + of_second) or heads & NO_HEADS:
        return False
    if not heads.isdisjoint(fitting_words.alternatives("color")):
        return False
    are_unlike = (of_first[0] == "the") != (of_second[0] == "the")
    if are_unlike and _is_determined(a, first) and _is_determined(a, second):
        return False
    # "brown, leather furniture"
    goes_on = first[0] > 1 and a.word(first[0] - 1) == "," and a.pos[first[0] - 2] == "ADJ"
    if goes_on or _may_share_head(a, first, second):
        return False
    if not TAGS_APART.isdisjoint(a.tag[slice(*second)]):
        return False
    follows_conjunction = False
    for t in range(max(first[0] - 2, 0), first[0]):
        if a.word(t).lower() == "and" and (not t or not _is_noun(a, t - 1)):
            follows_conjunction = True
    is_activity = a.word(y).lower().endswith("ing") and a.tag[y] == "NN"
    is_thing = not is_activity or a.word(y).lower() in exchangeable_atoms.THINGS_IN_ING
    before = first[0] - 1
    is_begun = before >= 0 and a.pos[before] == "ADV" and a.heads[before] in range(*first)  # "about 12 kids"
    may_be_verb = second[1] - second[0] == 1 and a.lemma[second[0]].lower() in LASTING  # "has a drink and smiles"
    return is_thing and not (follows_conjunction or is_begun or may_be_verb)


def _may_share_head(a: Annotation, first: Span, second: Span) -> bool:
    """Return whether the first noun may describe the second's head: "towel and soap dispensers"."""
    is_compound = second[1] - second[0] > 1 and a.dep[second[1] - 2] == "compound" and not _is_determined(a, second)
    is_lone = first[1] - first[0] == 1 and a.tag[first[0]] == "NN"
    return is_compound and (is_lone or a.tag[second[1] - 2] == "NNS")


def _are_joined(a: Annotation, first: Span, second: Span) -> bool:
    before = a.word(first[0] - 1).lower() if first[0] else ""
    x = a.lemma[_head(a, first)].lower()
    y = a.lemma[_head(a, second)].lower()
    if x in CLOTHES and y in CLOTHES and before in WORN_BEHIND:
        return second[1] == len(a) or a.word(second[1]).lower() not in ("of", "with", "that", "which", "and", "or")
    if before == "in" and (x in CLOTHES) != (y in CLOTHES):
        return False
    leads = a.begins_sentence(first[0])
    is_living = x in LIVING
    is_related = leads or before in RELATING or (before in HAVING and not is_living)
    is_parsed_so = a.dep[_head(a, second)] == "conj" and a.heads[_head(a, second)] == _head(a, first)
    are_of_a_kind = is_living == (y in LIVING)
    behind = a.pos[second[1]] if second[1] < len(a) else "PUNCT"
    may_differ = (leads and behind != "VERB") or (is_parsed_so and behind == "PUNCT")
    if not (are_of_a_kind or may_differ) or not (is_related or is_parsed_so):
        return False
    return not _is_counted(a, first, second) and _is_free(a, second[1], before)


def _is_counted(a: Annotation, first: Span, second: Span) -> bool:
    """Return whether a verb before them counts the first: "there is a man and two dogs"."""
    x = _head(a, first)
    return a.tag[x] != a.tag[_head(a, second)] and a.dep[x] in ("attr", "nsubj") and a.heads[x] < x


def _is_free(a: Annotation, token: int, before: str) -> bool:
    """Return whether what follows two phrases is said of both, or of neither."""
    if token + 1 < len(a) and a.word(token) == "," and a.pos[token + 1] in ("VERB", "AUX"):
        return False
    if token >= len(a) or a.pos[token] in ("PUNCT", "AUX", "ADV", "SPACE"):
        return True
    if a.pos[token] == "ADP":
        return _is_place_of_both(a, token, before in ("with", "of", ",") or before in HAVING)
    is_said = a.tag[token] in ("VBZ", "VBP", "VBD") or a.lemma[token].lower() not in OF_ONE
    is_verb = a.pos[token] == "VERB" or a.lemma[token].lower() in LASTING or a.word(token).lower().endswith("ing")
    is_verb = is_verb or _is_verb(a, token - 1, token)
    return is_verb and is_said and a.pos[token] != "ADJ"


def _is_place_of_both(a: Annotation, token: int, are_parts: bool) -> bool:
    """Return whether a place is that of two things; `are_parts`: of something that has both."""
    words = a.lower_words(token + 1, token + 4)
    lemmas = a.lower_lemmas(token + 1, token + 4)
    place = a.word(token).lower()
    if "PRP$" in a.tag[token + 1 : token + 4] or not PARTS_OF_BODY.isdisjoint(lemmas):
        return False
    if place not in PLACES or (place == "in" and not WORN.isdisjoint(words)):
        return False
    return are_parts or PARTS_OF_ALL.isdisjoint(words)


# --- exchanges ------------------------------------------------------------------------------------------------


def exchange_phrases(a: Annotation, first: Span, second: Span) -> Exchange | None:
    """Return the exchange of two noun phrases, each with the determiner that it has or needs."""
    x = _head(a, first)
    of_first = _is_determined(a, first)
    of_second = _is_determined(a, second)
    if not of_first and of_second:
        return Exchange(first, second) if _stands_bare(a, x) else None
    if of_first == of_second or a.word(first[0]).lower() not in (*ARTICLES, *SHARED, "one"):
        return Exchange(first, second) if of_first == of_second else None
    return _share_article(a, first, second)


def _share_article(a: Annotation, first: Span, second: Span) -> Exchange | None:
    """Return the exchange of two phrases behind one article."""
    inner = (first[0] + 1, first[1])
    are_plain = inner[1] - inner[0] == second[1] - second[0] == 1
    are_described = inner[1] - inner[0] > 1 and second[1] - second[0] > 1
    if a.word(first[0]).lower() in SHARED:
        return Exchange(inner, second) if are_plain or are_described else None
    if _stands_bare(a, _head(a, second)):
        return Exchange(first, second)
    if (are_plain or are_described) and not _stands_bare(a, _head(a, first)):
        return Exchange(inner, second)
    heads = {a.lemma[first[1] - 1].lower(), a.lemma[second[1] - 1].lower()}
    described = a.lower_words(inner[0], inner[1] - 1)
    if heads in ALIKE and described and AGES.issuperset(described) and second[1] - second[0] == 1:
        return Exchange((inner[1] - 1, inner[1]), second)
    return Exchange(first, second, agreement.article_for(a.word(second[0])))


def _stands_bare(a: Annotation, noun: int) -> bool:
    """Return whether a noun needs no article."""
    return a.tag[noun] in ("NNS", "NNPS") or a.lemma[noun].lower() in agreement.MASS


def _exchange_members(a: Annotation, second: Span) -> Exchange | None:
    """Return the exchange of the two members of a list before the last one: "a table, chairs, and a bed"."""
    if second[0] < 2 or a.word(second[0] - 1) != ",":
        return None
    first = _read_back(a, second[0] - 1)
    if first is None or not are_alike(a, first, second):
        return None
    x = first[1] - 1
    y = second[1] - 1
    return exchange_phrases(a, first, second) if a.dep[y] == "conj" and a.heads[y] == x else None


def _find_twins(a: Annotation, first: Span, conjunction: int, second: Span) -> Exchange | None:
    """Return the exchange of two living things told by what they have: "a man in red and a man in a blue shirt"."""
    person = _read_back(a, first[0] - 1) if first[0] > 1 else None
    if person is None or first[1] != conjunction or second[1] + 1 >= len(a):
        return None
    thing = _read_phrase(a, second[1] + 1)
    is_same = a.word(person[1]).lower() == a.word(second[1]).lower() in ("in", "with", "wearing", "on")
    are_living = {a.lemma[person[1] - 1].lower(), a.lemma[second[1] - 1].lower()} <= LIVING
    if thing is None or not is_same or not are_living or _is_determined(a, person) != _is_determined(a, second):
        return None
    return Exchange((person[0], first[1]), (second[0], thing[1]))
