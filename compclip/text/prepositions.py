"""Prepositions of English, of one word or several, and how often each stands in captions of photographs.

Counted by `python perf/text_shares.py --prepositions` over the captions of COCO (770) and Flickr8k (5,000) in the
shared data: as a relation between two things, by `scene_graph.read_scene`.
"""

from __future__ import annotations

import functools

from compclip.text.annotation import Weighted

COUNTS = """
about 3
above 29
across 50
after 16
against 16
ahead of 1
along 67
along with 3
alongside 6
amid 0
amidst 2
among 5
around 47
at 409
at the back of 0
at the bottom of 4
at the edge of 6
at the end of 2
at the foot of 2
at the side of 0
at the top of 11
atop 5
away from 7
before 3
behind 73
below 5
beneath 2
beside 35
between 7
beyond 0
by 178
by the side of 3
close to 2
down 143
during 18
far from 0
for 106
from 117
from behind 1
in 2148
in back of 1
in between 2
in front of 192
in the back of 1
in the center of 0
in the corner of 1
in the front of 0
in the middle of 18
inside 14
inside of 5
into 173
like 12
near 174
near to 3
next to 159
of 649
off 40
off of 14
on 1488
on the back of 1
on the edge of 9
on the left of 0
on the other side of 1
on the right of 0
on the side of 14
on top of 39
onto 27
opposite 0
out of 54
outside 10
outside of 10
over 133
past 15
through 267
throughout 0
to 120
to the left of 1
to the right of 2
toward 14
towards 29
under 52
underneath 4
until 0
up 29
up against 2
upon 0
via 0
with 1106
within 0
without 5
"""
TABLE = {name: int(number) for name, number in (line.rsplit(maxsplit=1) for line in COUNTS.strip().splitlines())}
PHRASES = frozenset(tuple(name.split()) for name in TABLE if " " in name)
LONGEST = max(map(len, PHRASES), default=0)


@functools.lru_cache(maxsize=1 << 10)
def other_prepositions(preposition: str) -> Weighted:
    """Return all other prepositions, each with its count as weight, at least 1."""
    preposition = " ".join(preposition.lower().split())
    counts = {name: max(count, 1) for name, count in TABLE.items() if name != preposition}
    return tuple(counts), tuple(counts.values())
