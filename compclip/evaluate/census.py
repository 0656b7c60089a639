"""What a benchmark's files hold: `python -m compclip.evaluate.census --name sugarcrepe` (the `benchmark` stage).

Writes data/benchmarks/<name>.json: records, pictures found and missing, and the fingerprint of the files.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from compclip.base.errors import entry
from compclip.base.files import write_json
from compclip.config import read
from compclip.evaluate import score
from compclip.evaluate.benchmark import Benchmark
from compclip.evaluate.embeddings import BOX


def census(benchmark: Benchmark) -> dict:
    """Counts and fingerprint of a benchmark, no model needed."""
    paths = [Path(ref.partition(BOX)[0]) for ref in benchmark.images]
    missing = sum(not path.is_file() for path in paths)
    return {
        "records": len(benchmark),
        "images": len(paths),
        "missing_images": missing,
        "texts": len(benchmark.texts),
        **benchmark.dropped,
        "fingerprint": benchmark.fingerprint(),
    }


def main(argv: list[str]) -> int:
    """The `benchmark` stage."""
    parser = argparse.ArgumentParser(prog="python -m compclip.evaluate.census", description=__doc__.splitlines()[0])
    parser.add_argument("--name", required=True)
    parser.add_argument("--params", default="params.yaml")
    args = parser.parse_args(argv)
    benchmarks, _ = score.load_benchmarks(read.load(args.params), [args.name])
    found = census(benchmarks[args.name])
    write_json(Path("data/benchmarks") / f"{args.name}.json", found)
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(entry(main))
