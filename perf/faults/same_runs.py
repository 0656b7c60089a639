"""Whether two folders of runs hold the same: weights, logged steps, per-item outcomes, WiSE-FT lines, bit for bit.

    python -m perf.faults.same_runs runs /other/checkout/runs

Of a run in runs/<method>/<backbone-data-seed>/ the results are found beside `runs`; a checkout from before that layout
has runs/<cell>/ with results/ and wise_ft.json inside. Only what the clock, the machine and the place say may differ:
times and speeds, where a checkpoint lies, the run key, and environment.json but for what it says of data and packages.

Takes seconds; needs two folders of runs.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compclip.base.files import read_json
from compclip.runs.progress import CLOCK
from compclip.runs.run_folder import LINES, RESULTS, Trained, result_paths

CONFIG = "open_clip_config.json"
SAME_FACTS = ("data_fingerprint", "dropped", "packages", "view_shares")
SAME_RESULTS = ("metrics", "counts", "items", "means", "n")


@dataclass(frozen=True)
class Place:
    """Where the files of one cell are."""

    trained: Trained
    results: Path
    line: Path

    def result(self, name: str) -> dict[str, Any] | None:
        """What a benchmark's file says of the model; None where there is none."""
        path = self.results / name
        return {k: v for k, v in read_json(path).items() if k in SAME_RESULTS} if path.is_file() else None

    def points(self) -> list | None:
        """The scores of the models between the pretrained one and this; None where they were not asked for."""
        return read_json(self.line)["points"] if self.line.is_file() else None

    def steps(self) -> list[dict]:
        """The logged steps without the clock's part."""
        rows = map(json.loads, self.trained.metrics.read_text(encoding="utf-8").splitlines())
        return [{k: v for k, v in row.items() if k not in CLOCK} for row in rows]


def cells(runs: Path) -> dict[str, Place]:
    """The finished cells below a folder of runs, by name, in either layout."""
    finished = {p.parent.name: p.parent for p in runs.glob("*/environment.json")}
    places = {name: Place(Trained(path), path / "results", path / "wise_ft.json") for name, path in finished.items()}
    results = runs.resolve().parent / RESULTS
    for path in (p.parent for p in runs.glob("*/*/environment.json")):
        cell_path = path.relative_to(runs)
        places["-".join(cell_path.parts)] = Place(
            Trained(path), results / cell_path, results / LINES / f"{cell_path}.json"
        )
    return places


def differences(a: Place, b: Place) -> Iterable[str]:
    """What differs between the files of one cell."""
    for first, second in zip(files_compared_bytewise(a.trained), files_compared_bytewise(b.trained), strict=True):
        if first.read_bytes() != second.read_bytes():
            yield first.name
    if a.steps() != b.steps():
        yield a.trained.metrics.name
    names = {path.name for side in (a, b) for path in result_paths(side.results)}
    yield from (f"results/{name}" for name in sorted(names) if a.result(name) != b.result(name))
    if a.points() != b.points():
        yield "the line of WiSE-FT"
    facts = [read_json(side.trained.environment) for side in (a, b)]
    yield from (f"environment.json: {key}" for key in SAME_FACTS if facts[0].get(key) != facts[1].get(key))


def files_compared_bytewise(trained: Trained) -> tuple[Path, ...]:
    """The files whose every byte must be the same."""
    return trained.weights, trained.checkpoint / CONFIG, trained.config


def main() -> int:
    """A line a run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path)
    args = parser.parse_args()
    first, second = cells(args.first), cells(args.second)
    names, wrong = sorted(first.keys() | second.keys()), 0
    for name in names:
        missing_from = [
            str(root)
            for root, cells_of_root in ((args.first, first), (args.second, second))
            if name not in cells_of_root
        ]
        faults = [f"not in {', '.join(missing_from)}"] if missing_from else list(differences(first[name], second[name]))
        wrong += bool(faults)
        print(f"{name}: {'; '.join(faults) or 'the same'}")
    print(f"{len(names)} runs, {wrong} differ")
    return 1 if wrong or not names else 0


if __name__ == "__main__":
    sys.exit(main())
