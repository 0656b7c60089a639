"""Agreement in rewritten texts: an article by the sound that follows it, a noun by the number of its place."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from compclip.text import lexicon
from compclip.text.annotation import Annotation
from compclip.text.word_edits import word_set

_LISTS = lexicon.TABLES["agreement"]
PLURAL = "NNS"
ONE = word_set("a an one each every another either neither this that")  # a countable singular is behind them
IRREGULAR = _LISTS["irregular"]
MASS = word_set(_LISTS["mass"])
PLURAL_ONLY = word_set(_LISTS["plural_only"])
SUBJECTS = ("nsubj", "nsubjpass")
FINITE = {"VBZ": False, "VBP": True}  # tags of present verbs: whether of a plural
IN_PLURAL = {"is": "are", "was": "were", "has": "have", "does": "do"}
IN_SINGULAR = {many: one for one, many in IN_PLURAL.items()}
RELATIVE = ("WDT", "WP")
_SPOKEN_WITH_CONSONANT = re.compile(r"(?:uni(?!n|m)|use|usu|uti|eu|ewe|one\b|once|u\b|ufo|urin|ubiq)", re.IGNORECASE)
_SILENT_H = re.compile(r"(?:hour|honest|honou?r|heir)", re.IGNORECASE)
_ARTICLE = re.compile(r"\b(an?)(\s+[\"“‘']?)([^\W_][\w-]*)", re.IGNORECASE)


def article_for(word: str) -> str:
    """Return "a" or "an", by the sound that a word begins with."""
    first = word[:1].lower()
    if first == "h":
        return "an" if _SILENT_H.match(word) else "a"
    return "an" if first in "aeiou" and not _SPOKEN_WITH_CONSONANT.match(word) else "a"


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
    """Return the plural of a noun's lemma; a plural without a singular ("shorts") is its own."""
    return noun if noun in PLURAL_ONLY else inflect(noun, PLURAL, IRREGULAR) or noun


def noun_for_place(a: Annotation, noun: int, place: int, determiners: list[int]) -> str | None:
    """Return a noun in the number of another noun's place, None where it has no such form.

    `determiners`: the tokens that determine the place. Places without a determiner in the singular are
    those of mass nouns.
    """
    lemma = a.lemma[noun].lower()
    is_plural = a.tag[place] in ("NNS", "NNPS")
    lemma = "person" if lemma == "people" else lemma
    if is_plural:
        if a.tag[noun] in ("NNS", "NNPS"):
            return a.word(noun)
        return None if lemma in MASS else pluralise(a.word(noun))
    determiner_word = a.word(determiners[0]).lower() if determiners else ""
    if a.word(noun).lower() in PLURAL_ONLY or (lemma in MASS and determiner_word in ONE):
        return None
    if not determiners and (lemma in MASS) != (a.lemma[place].lower() in MASS):
        return None
    return a.word(noun) if a.tag[noun] in ("NN", "NNP") else lemma


def find_agreeing_verbs(a: Annotation, noun: int) -> list[int] | None:
    """Return the finite verbs that a noun decides the number of; None where that cannot be told.

    Those of a noun with "and" are in the plural whatever the noun is.
    """
    if a.dep[noun] == "conj" or a.dependents(noun, "conj", start=noun):
        return []
    head = a.heads[noun]
    is_counted_there = a.dep[noun] == "attr" and a.dependents(head, "expl", stop=head)  # "there are two dogs"
    clauses = [head] if a.dep[noun] in SUBJECTS or is_counted_there else []
    for clause in a.dependents(noun, "relcl", start=noun + 1):
        if any(a.tag[t] in RELATIVE for t in a.dependents(clause, *SUBJECTS, stop=clause)):
            clauses.append(clause)
    verbs = []
    for clause in clauses:
        for token in a.dependents(clause, "conj", start=clause + 1):
            if a.pos[token] in ("VERB", "AUX") and not a.dependents(token, *SUBJECTS, stop=token):
                clauses.append(token)  # joined by "and", without a subject of its own
        verb = _find_finite(a, clause)
        if verb is not None:
            verbs.append(verb)
    return verbs if all(_change_number(a, verb, True) and _change_number(a, verb, False) for verb in verbs) else None


def verbs_in_number(a: Annotation, noun: int, is_plural: bool) -> list[tuple[int, str]] | None:
    """Return the verbs of a noun as they are written when it becomes a singular or plural; None as above."""
    verbs = find_agreeing_verbs(a, noun)
    return None if verbs is None else [(verb, _change_number(a, verb, is_plural)) for verb in verbs]


def _find_finite(a: Annotation, verb: int) -> int | None:
    """Return the first of a verb's auxiliaries and itself if that agrees with a subject."""
    first = (*a.dependents(verb, "aux", "auxpass", stop=verb), verb)[0]
    return first if a.tag[first] in FINITE or a.word(first).lower() in ("was", "were") else None


def _change_number(a: Annotation, verb: int, is_plural: bool) -> str:
    """Return a present verb, or "was" and "were", in a number; "" where it has no such form."""
    word = a.word(verb)
    same, other = (IN_SINGULAR, IN_PLURAL) if is_plural else (IN_PLURAL, IN_SINGULAR)
    if word in same or FINITE.get(a.tag[verb]) == is_plural:
        return word
    if word in other or not word.isalpha() or not word.islower():
        return other.get(word, "")
    return a.lemma[verb] if is_plural else inflect(a.lemma[verb], "VBZ", {}) or ""


# --- word forms by Penn tags ----------------------------------------------------------------------------------------
# English word forms by Penn tags: a lemma to its plural, -ing form, past, participle, comparative.
#
# Irregular forms come from WordNet's exception lists (form -> lemma), read backwards; small rules do the rest.


VOWELS = "aeiou"
# lists do not hold forms equal to their lemma
_SAME_PAST = word_set(_LISTS["same_past"])
_SAME_PLURAL = word_set(_LISTS["same_plural"])
_MAN_PLURAL_S = ("human", "german", "roman", "ottoman", "talisman", "caiman", "shaman", "norman")
_OES = word_set("potato tomato hero echo torpedo mosquito tornado volcano mango buffalo domino cargo")
_PLURAL_S = word_set("bus gas")  # the lists prefer "busses"
_THIRD_PERSON = {"have": "has", "be": "is", "do": "does", "go": "goes"}
_PARTICIPLE = re.compile(r".*(?:n|ne)|[a-z]*[^aeiou]u(?:ng|nk|m|n)")  # "eaten", "gone", "sung"


def inflect(lemma: str, tag: str, irregular: Mapping[str, Sequence[str]]) -> str | None:
    """Return the form of `lemma` for a Penn tag, None where it takes two words ("more beautiful").

    `irregular`: the irregular forms of lemmas of this part of speech, in any order.
    """
    if tag in ("NN", "JJ", "RB", "VB", "VBP", "CD"):
        return lemma
    forms = tuple(f for f in irregular.get(lemma, ()) if f.isalpha())
    if tag == "NNS":
        return _to_plural(lemma, forms)
    if tag in ("JJR", "JJS"):
        return _to_comparison(lemma, "er" if tag == "JJR" else "est", forms)
    if tag == "VBZ":
        return _THIRD_PERSON.get(lemma) or (lemma + "es" if re.search(rf"[^{VOWELS}]o$", lemma) else _add_s(lemma))
    if tag == "VBG":
        return _to_progressive(lemma, forms)
    return _to_past(lemma, forms, tag == "VBN") if tag in ("VBD", "VBN") else None


def _add_s(lemma: str) -> str:
    if re.search(r"(s|x|z|ch|sh)$", lemma):
        return lemma + "es"
    return lemma[:-1] + "ies" if re.search(rf"[^{VOWELS}]y$", lemma) else lemma + "s"


def _to_plural(lemma: str, forms: tuple[str, ...]) -> str:
    if lemma in _SAME_PLURAL:
        return lemma
    if forms and lemma not in _PLURAL_S:
        return min(forms, key=lambda f: (f.endswith(("i", "ae", "ata")), f))
    if lemma.endswith("man") and not lemma.endswith(_MAN_PLURAL_S):
        return lemma[:-3] + "men"
    return lemma + "es" if lemma in _OES else _add_s(lemma)


def _double_consonant(lemma: str) -> str:
    """Return the stem before a vowel: "stop" gives "stopp"; words of several syllables stay ("open", "visit")."""
    one_syllable = re.fullmatch(rf"[^{VOWELS}]*(?:qu)?[{VOWELS}][^{VOWELS}wxy]", lemma)
    return lemma + lemma[-1] if one_syllable else lemma


def _to_progressive(lemma: str, forms: tuple[str, ...]) -> str:
    for form in sorted(forms):
        if form.endswith("ing"):
            return form
    if lemma.endswith("ie"):
        return lemma[:-2] + "ying"
    if re.search(r"[^eoy]e$", lemma):
        return lemma[:-1] + "ing"
    return _double_consonant(lemma) + "ing"


def _to_past(lemma: str, forms: tuple[str, ...], is_participle: bool) -> str:
    """Return the past tense or the participle: "ate" or "eaten"."""
    if lemma in _SAME_PAST or (is_participle and lemma.endswith(("come", "run"))):
        return lemma
    irregular = sorted(f for f in forms if not f.endswith(("ing", "s")))
    fitting = [f for f in irregular if (_PARTICIPLE.fullmatch(f) is not None) == is_participle] or irregular
    if fitting:
        return fitting[0]
    if lemma.endswith("e"):
        return lemma + "d"
    return lemma[:-1] + "ied" if re.search(rf"[^{VOWELS}]y$", lemma) else _double_consonant(lemma) + "ed"


def _to_comparison(lemma: str, ending: str, forms: tuple[str, ...]) -> str | None:
    for form in sorted(forms):
        if form.endswith((ending, "re" if ending == "er" else "st")):
            return form
    if len(re.findall(rf"[{VOWELS}y]+", lemma)) > (2 if lemma.endswith(("y", "e", "ow")) else 1):
        return None
    if lemma.endswith("e"):
        return lemma + ending[1:]
    return lemma[:-1] + "i" + ending if re.search(rf"[^{VOWELS}]y$", lemma) else _double_consonant(lemma) + ending
