"""Agreement in rewritten texts: an article by the sound that follows it, a noun by the number of its place."""

from __future__ import annotations

import re

from compclip.text.annotation import Annotation
from compclip.text.inflect import inflect
from compclip.text.word_edits import word_set

SINGULAR, PLURAL = "NN", "NNS"
ONE = word_set("a an one each every another either neither this that")  # a countable singular stands behind them
IRREGULAR = {
    "person": ("people",), "child": ("children",), "foot": ("feet",), "tooth": ("teeth",), "goose": ("geese",),
    "mouse": ("mice",), "leaf": ("leaves",), "shelf": ("shelves",), "knife": ("knives",), "wolf": ("wolves",),
    "calf": ("calves",), "loaf": ("loaves",), "half": ("halves",), "life": ("lives",), "wife": ("wives",),
    "scarf": ("scarves",), "stomach": ("stomachs",), "hoof": ("hooves",), "elf": ("elves",),
    "thief": ("thieves",), "ox": ("oxen",),
}  # fmt: skip
MASS = word_set(
    "air asphalt bacon baggage beer bread broccoli butter cardboard cement cheese chicken chocolate clothing "
    "coffee concrete corn cotton darkness daylight denim dirt dust equipment fabric fire fishing flour foam "
    "foliage food fruit fun furniture gear glitter gold graffiti grass gravel greenery hair hay hockey ice "
    "jewelry juice land laundry lava leather light lighting luggage lumber makeup meat metal milk mud music paint "
    "paper paperwork pasta pavement plastic play pork rain rice rock rubber rubble salad sand scenery seating "
    "seaweed shade silverware sky smoke snow soap soccer soda soup stuff sugar sunlight sunshine surf tea tennis "
    "terrain tofu traffic transportation trash underwear vegetation water wheat wildlife wind wine wood wool work "
    "writing chess baseball basketball football golf rugby volleyball karate"
)
PLURAL_ONLY = word_set(
    "binoculars boxers clothes earphones fatigues glasses goggles headphones jeans leggings overalls pajamas "
    "pyjamas pants pliers scissors shorts slacks sunglasses surroundings swings tights trousers trunks tweezers "
    "scrubs khakis"
)
_SPOKEN_WITH_CONSONANT = re.compile(r"(?:uni(?!n|m)|use|usu|uti|eu|ewe|one\b|once|u\b|ufo|urin|ubiq)", re.IGNORECASE)
_SILENT_H = re.compile(r"(?:hour|honest|honou?r|heir)", re.IGNORECASE)
_ARTICLE = re.compile(r"\b(an?)(\s+[\"“‘']?)([^\W_][\w-]*)", re.IGNORECASE)


def article_for(word: str) -> str:
    """Return "a" or "an", by the sound that a word begins with."""
    vowel = word[:1].lower() in "aeiou" and not _SPOKEN_WITH_CONSONANT.match(word)
    return "an" if vowel or _SILENT_H.match(word) else "a"


def fix_articles(text: str, original: str) -> str:
    """Return `text` with "a" or "an" as the word behind it asks; articles that `original` has so are left alone."""
    written = {match[0].casefold() for match in _ARTICLE.finditer(original)}

    def fit(match: re.Match[str]) -> str:
        if match[0].casefold() in written:
            return match[0]
        article = article_for(match[3])
        return (article.capitalize() if match[1][0].isupper() else article) + match[2] + match[3]

    return _ARTICLE.sub(fit, text)


def pluralise(noun: str) -> str:
    """Return the plural of a noun's lemma."""
    return inflect(noun, PLURAL, IRREGULAR) or noun


def noun_for_place(a: Annotation, noun: int, place: int, determiner: tuple[int, ...]) -> str | None:
    """Return a noun in the number of another noun's place, None where it has no such form.

    `determiner`: the token that determines the place, () without one. Places without a determiner in the singular are
    those of mass nouns.
    """
    lemma, is_plural = a.lemma[noun].lower(), a.tag[place] in ("NNS", "NNPS")
    lemma = "person" if lemma == "people" else lemma
    if is_plural:
        if a.tag[noun] in ("NNS", "NNPS"):
            return a.word(noun)
        return None if lemma in MASS else pluralise(a.word(noun))
    determiner_word = a.word(determiner[0]).lower() if determiner else ""
    if a.word(noun).lower() in PLURAL_ONLY or (lemma in MASS and determiner_word in ONE):
        return None
    if not determiner and (lemma in MASS) != (a.lemma[place].lower() in MASS):
        return None
    return a.word(noun) if a.tag[noun] in ("NN", "NNP") else lemma
