"""Whether two folders of runs hold the same: weights, logged steps, metrics and per-item outcomes, bit for bit.

    python perf/same_runs.py runs /other/checkout/runs

Only what the clock and the machine say may differ: times and speeds, and environment.json but for key and data.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from compclip.base.files import read_json
from compclip.runs.progress import CLOCK

WHOLE = ("checkpoint/open_clip_model.safetensors", "checkpoint/open_clip_config.json", "config.yaml")
SAME_FACTS = ("run_key", "data_fingerprint", "dropped", "packages")


def differences(a: Path, b: Path) -> list[str]:
    """What differs between two folders of one run."""
    found = [name for name in WHOLE if (a / name).read_bytes() != (b / name).read_bytes()]
    if log(a) != log(b):
        found.append("metrics.jsonl")
    names = {p.name for folder in (a, b) for p in (folder / "results").glob("*.json")} - {"summary.json"}
    found += [f"results/{name}" for name in sorted(names) if result(a, name) != result(b, name)]
    facts = [read_json(folder / "environment.json") for folder in (a, b)]
    return found + [f"environment.json: {key}" for key in SAME_FACTS if facts[0].get(key) != facts[1].get(key)]


def log(folder: Path) -> list[dict]:
    """The logged steps without the clock's part."""
    rows = map(json.loads, (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    return [{k: v for k, v in row.items() if k not in CLOCK} for row in rows]


def result(folder: Path, name: str) -> dict | None:
    """A benchmark's metrics, counts and items, without how long it took."""
    path = folder / "results" / name
    return {k: v for k, v in read_json(path).items() if k != "seconds"} if path.is_file() else None


def main() -> int:
    """A line a run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path)
    args = parser.parse_args()
    names = sorted({p.parent.name for root in (args.first, args.second) for p in root.glob("*/environment.json")})
    wrong = 0
    for name in names:
        missing = [str(root) for root in (args.first, args.second) if not (root / name / "environment.json").is_file()]
        found = [f"not in {', '.join(missing)}"] if missing else differences(args.first / name, args.second / name)
        wrong += bool(found)
        print(f"{name}: {'; '.join(found) or 'the same'}")
    print(f"{len(names)} runs, {wrong} differ")
    return 1 if wrong or not names else 0


if __name__ == "__main__":
    sys.exit(main())
