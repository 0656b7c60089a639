"""English word forms by Penn tags: a lemma to its plural, -ing form, past, participle, comparative.

Irregular forms come from WordNet's exception lists (form -> lemma), read backwards; small rules do the rest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from compclip.text.word_edits import word_set

VOWELS = "aeiou"
# lists do not hold forms equal to their lemma
_SAME_PAST = word_set(
    "bet bid burst bust cast cost cut hit hurt let put quit read rid set shed shut split spread "
    "thrust wed broadcast forecast upset offset reset"
)
_SAME_PLURAL = word_set(
    "sheep deer fish moose bison salmon trout shrimp squid swine aircraft watercraft spacecraft "
    "series species offspring cattle elk"
)
_MAN_PLURAL_S = ("human", "german", "roman", "ottoman", "talisman", "caiman", "shaman", "norman")
_OES = word_set("potato tomato hero echo torpedo mosquito tornado volcano mango buffalo domino cargo")
_PLURAL_S = word_set("bus gas")  # the lists prefer "busses"
_THIRD_PERSON = {"have": "has", "be": "is", "do": "does", "go": "goes"}
_PARTICIPLE = re.compile(r".*(?:n|ne)|[a-z]*[^aeiou]u(?:ng|nk|m|n)")  # "eaten", "gone", "sung"


def inflect(lemma: str, tag: str, irregular: Mapping[str, tuple[str, ...]]) -> str | None:
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
    irregular = [f for f in forms if f.endswith("ing")]
    if irregular:
        return min(irregular)
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
    irregular = sorted(f for f in forms if f.endswith((ending, "re" if ending == "er" else "st")))
    if irregular:
        return irregular[0]
    if len(re.findall(rf"[{VOWELS}y]+", lemma)) > (2 if lemma.endswith(("y", "e", "ow")) else 1):
        return None
    if lemma.endswith("e"):
        return lemma + ending[1:]
    return lemma[:-1] + "i" + ending if re.search(rf"[^{VOWELS}]y$", lemma) else _double_consonant(lemma) + ending
