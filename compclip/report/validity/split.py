"""Which rows and columns are looked at while a world is chosen, by a rule that nobody can tune: SHA-256 of names."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence

CHOOSING, HELD_OUT = "choosing", "held_out"
HALVES = (CHOOSING, HELD_OUT)
SEVERAL = "several papers"


def alternate(strata: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """The half of each name: among those of a stratum, by ascending SHA-256, the first, third, … are choosing."""
    found: dict[str, str] = {}
    for names in strata.values():
        ordered = sorted(names, key=lambda name: hashlib.sha256(name.encode()).hexdigest())
        found |= {name: HALVES[place % 2] for place, name in enumerate(ordered)}
    return found


def of_rows(papers: Mapping[str, Sequence[str]], same: Mapping[str, str]) -> dict[str, str]:
    """The half of each row of ours; `papers` are those that print it, `same` which other row it is like."""
    strata: dict[str, list[str]] = {}
    for row, names in papers.items():
        strata.setdefault(names[0] if len(names) == 1 else SEVERAL, []).append(row)
    found = alternate(strata)
    return found | {row: found[like] for row, like in same.items()}


def of_families(kinds: Mapping[str, str], made_of: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """The half of each family of columns; one that is made of others is choosing if all of them are."""
    strata: dict[str, list[str]] = {}
    for family, kind in kinds.items():
        if not made_of.get(family):
            strata.setdefault(kind, []).append(family)
    found = alternate(strata)
    whole = {family: all(found[part] == CHOOSING for part in parts) for family, parts in made_of.items() if parts}
    return found | {family: CHOOSING if seen else HELD_OUT for family, seen in whole.items()}
