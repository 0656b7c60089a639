"""Write the proof that a release ships (compclip/runs/equal_code.json) from what carry has compared.

    python -m perf.carried_commits --methods finetune negclip fsc_clip --log carried.jsonl -- TAG_BEFORE TAG_BEFORE_THAT
    python -m perf.release_proof carried.jsonl

A commit counts for a method where all steps and the finished weights of its tiny project were equal. Classes that are
in the file stay, and those that share a hash become one.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from compclip.base.files import read_mapping, write_json
from compclip.runs import release_proof

COMPARED = "all steps and the finished weights of a tiny project at default options, bit by bit, on a CPU"
WHOLE = "the finished weights: equal bits"


def list_pairs(rows: Iterable[dict[str, Any]]) -> dict[str, list[tuple[str, str]]]:
    """Return of each method the pairs of hashes, a commit's and ours, that were compared whole."""
    pairs: dict[str, list[tuple[str, str]]] = {}
    for row in rows:
        for method, (kind, why) in row["outcomes"].items():
            if kind == "carried" and WHOLE in why and method in row["code"]:
                pairs.setdefault(method, []).append((row["code"][method], row["carried_by"][method]))
    return pairs


def join_classes(classes: Iterable[Iterable[str]]) -> list[list[str]]:
    """Join sets that share a member until none do; sorted."""
    joined: list[set[str]] = []
    for members in map(set, classes):
        touching = [other for other in joined if other & members]
        joined = [other for other in joined if other not in touching] + [members.union(*touching)]
    return sorted(sorted(members) for members in joined)


def main(argv: Sequence[str]) -> int:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log", type=Path, help="what perf/carried_commits.py wrote")
    args = parser.parse_args(argv)
    pairs = list_pairs(map(json.loads, args.log.read_text(encoding="utf-8").splitlines()))
    old = read_mapping(release_proof.PROOF)["methods"]
    names = sorted({*old, *pairs})
    methods = {name: join_classes([*old.get(name, []), *pairs.get(name, [])]) for name in names}
    write_json(release_proof.PROOF, {"compared": COMPARED, "methods": methods})
    for name, classes in methods.items():
        print(f"{name}: {', '.join(str(len(members)) for members in classes)} hashes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
