"""English word forms by Penn tags: a lemma to its plural, -ing form, past, participle, comparative.

Irregular forms come from WordNet's exception lists (form -> lemma), read backwards; small rules do the rest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from compclip.text.words import words

VOWELS = "aeiou"
# lists do not hold forms equal to their lemma
_SAME_PAST = words(
    "bet bid burst bust cast cost cut hit hurt let put quit read rid set shed shut split spread "
    "thrust wed broadcast forecast upset offset reset"
)
_SAME_PLURAL = words(
    "sheep deer fish moose bison salmon trout shrimp squid swine aircraft watercraft spacecraft "
    "series species offspring cattle elk"
)
_MAN_PLURAL_S = ("human", "german", "roman", "ottoman", "talisman", "caiman", "shaman", "norman")
_OES = words("potato tomato hero echo torpedo mosquito tornado volcano mango buffalo domino cargo")
_PLURAL_S = words("bus gas")  # the lists prefer "busses"


def inflect(lemma: str, tag: str, irregular: Mapping[str, tuple[str, ...]]) -> str | None:
    """The form of `lemma` that a Penn tag asks for, or None where one word cannot say it ("more beautiful").

    `irregular`: the irregular forms of lemmas of this part of speech, in any order.
    """
    if tag in ("NN", "JJ", "RB", "VB", "VBP", "CD"):
        return lemma
    forms = tuple(f for f in irregular.get(lemma, ()) if f.isalpha())
    if tag == "NNS":
        return _plural(lemma, forms)
    if tag in ("JJR", "JJS"):
        return _compared(lemma, "er" if tag == "JJR" else "est", forms)
    rules = {"VBZ": _third, "VBG": _progressive, "VBD": _past, "VBN": _participle}
    return rules[tag](lemma, forms) if tag in rules else None


def _add_s(lemma: str) -> str:
    if re.search(r"(s|x|z|ch|sh)$", lemma):
        return lemma + "es"
    return lemma[:-1] + "ies" if re.search(rf"[^{VOWELS}]y$", lemma) else lemma + "s"


def _plural(lemma: str, forms: tuple[str, ...]) -> str:
    if lemma in _SAME_PLURAL:
        return lemma
    if forms and lemma not in _PLURAL_S:
        return min(forms, key=lambda f: (f.endswith(("i", "ae", "ata")), f))
    if lemma.endswith("man") and not lemma.endswith(_MAN_PLURAL_S):
        return lemma[:-3] + "men"
    return lemma + "es" if lemma in _OES else _add_s(lemma)


def _third(lemma: str, forms: tuple[str, ...]) -> str:
    known = {"have": "has", "be": "is", "do": "does", "go": "goes"}
    return known.get(lemma) or (lemma + "es" if re.search(rf"[^{VOWELS}]o$", lemma) else _add_s(lemma))


def _doubled(lemma: str) -> str:
    """The stem before a vowel: "stop" gives "stopp"; words of several syllables stay ("open", "visit")."""
    one_syllable = re.fullmatch(rf"[^{VOWELS}]*(?:qu)?[{VOWELS}][^{VOWELS}wxy]", lemma)
    return lemma + lemma[-1] if one_syllable else lemma


def _progressive(lemma: str, forms: tuple[str, ...]) -> str:
    listed = [f for f in forms if f.endswith("ing")]
    if listed:
        return min(listed)
    if lemma.endswith("ie"):
        return lemma[:-2] + "ying"
    if re.search(r"[^eoy]e$", lemma):
        return lemma[:-1] + "ing"
    return _doubled(lemma) + "ing"


def _regular_past(lemma: str) -> str:
    if lemma.endswith("e"):
        return lemma + "d"
    return lemma[:-1] + "ied" if re.search(rf"[^{VOWELS}]y$", lemma) else _doubled(lemma) + "ed"


def _finite(forms: tuple[str, ...]) -> list[str]:
    return sorted(f for f in forms if not f.endswith(("ing", "s")))


def _is_participle(form: str) -> bool:
    """Of two irregular forms, whether this is the participle: "eaten", "gone", "sung"."""
    return form.endswith(("n", "ne")) or re.fullmatch(r"[a-z]*[^aeiou]u(?:ng|nk|m|n)", form) is not None


def _past(lemma: str, forms: tuple[str, ...]) -> str:
    listed = _finite(forms)
    if lemma in _SAME_PAST:
        return lemma
    finite = [f for f in listed if not _is_participle(f)] or listed
    return finite[0] if finite else _regular_past(lemma)


def _participle(lemma: str, forms: tuple[str, ...]) -> str:
    if lemma in _SAME_PAST or lemma.endswith(("come", "run")):
        return lemma
    listed = _finite(forms)
    finite = [f for f in listed if _is_participle(f)] or listed
    return finite[0] if finite else _regular_past(lemma)


def _compared(lemma: str, ending: str, forms: tuple[str, ...]) -> str | None:
    listed = sorted(f for f in forms if f.endswith((ending, "re" if ending == "er" else "st")))
    if listed:
        return listed[0]
    if len(re.findall(rf"[{VOWELS}y]+", lemma)) > (2 if lemma.endswith(("y", "e", "ow")) else 1):
        return None
    if lemma.endswith("e"):
        return lemma + ending[1:]
    return lemma[:-1] + "i" + ending if re.search(rf"[^{VOWELS}]y$", lemma) else _doubled(lemma) + ending
