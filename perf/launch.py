"""What `launch -j 2` and the collecting `dvc repro` add to the bare time of training and evaluation.

    python perf/launch.py --max-steps 0                 the grid as params.yaml has it
    python perf/launch.py [--max-steps 120] [--methods negclip clic] [--pictures 24000]

A copy of the project in a temporary folder, its grid with one thread a run and without WiSE-FT. First every run goes
through `python -m compclip.launch slurm/local.yaml -j 2`, and `dvc repro` collects; then all is made again, one process
after another. The bare sum is taken three times: `seconds` of training and evaluation as the files of the launched runs
have them, the same of the serial pass, and the wall time of the serial pass's processes, start-up and imports counted.
Prints one JSON document; exit code 1 where a run has other weights than its twin, or where the launched grid took more
than 1.15 times half of what the serial pass's files say. Start-up is no part of that half: it dominates short runs.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from omegaconf import OmegaConf

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from compclip.base.files import fingerprint, read_json  # noqa: E402
from compclip.config import read  # noqa: E402
from compclip.launch import grid  # noqa: E402
from compclip.runs import jobs  # noqa: E402
from compclip.runs.folder import results  # noqa: E402
from compclip.runs.store import StoredRun  # noqa: E402
from perf.checkout import OUTSIDE, copy, environment  # noqa: E402

WORKERS, LIMIT = 2, 1.15


def checkout(root: Path, asked: argparse.Namespace) -> Path:
    """A copy of the project with the grid that is measured."""
    params = OmegaConf.load(ROOT / "params.yaml")
    params.grid.methods = asked.methods or params.grid.methods
    params.train.threads = params.evaluate.threads = 1
    params.train.max_steps = asked.max_steps
    params.scenes.train = asked.pictures or params.scenes.train
    params.wise_ft.methods, params.wise_ft.seeds = [], []
    return copy(root, OmegaConf.to_yaml(params))


def wall(root: Path, *command: str) -> float:
    """Seconds that `python -m command` takes with the copy's code and one thread; what it says goes to stderr."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", *command], cwd=root, env=environment(root), check=True, stdout=sys.stderr)
    return time.perf_counter() - began


def seconds(made: StoredRun) -> float:
    """Training and evaluation of a run, as its own files have them; one pass scores all benchmarks."""
    scoring = next(read_json(path)["seconds"] for path in results(made.folder.results))
    return read_json(made.folder.final.environment)["seconds"] + scoring


def weights(made: StoredRun) -> str:
    """Of the checkpoint's files."""
    return fingerprint(made.folder.final.checkpoint)


def forget(root: Path) -> None:
    """Leave the prepared data alone."""
    for name in ("store", "runs", "results"):
        shutil.rmtree(root / name)


def serial(root: Path, runs: list[StoredRun]) -> float:
    """Wall time of all runs, one fresh process after another."""
    total = 0.0
    for made in runs:
        jobs.write_inputs(made, root / "params.yaml")
        total += wall(root, jobs.SCORES, made.key)
    return total


def measure(root: Path) -> dict:
    """Prepare, launch, collect, and make all of it again serially."""
    wall(root, "dvc", "repro", "--quiet", "keys", "benchmark")
    runs = list(grid.runs(read.load(str(root / "params.yaml")), root).values())
    launched = wall(root, "compclip.launch", "slurm/local.yaml", "-j", str(WORKERS))
    own, ours = sum(map(seconds, runs)), [weights(made) for made in runs]
    published, shown = wall(root, "dvc", "repro", "--quiet", "evaluate"), wall(root, "dvc", "repro", "--quiet")
    forget(root)
    alone = serial(root, runs)
    bare = {"launched_runs_files": own, "serial_runs_files": sum(map(seconds, runs)), "serial_processes": alone}
    return {
        "runs": len(runs), "steps": runs[-1].run.train.max_steps or "all", "launch_s": round(launched, 1),
        "bare_s": {name: round(s, 1) for name, s in bare.items()},
        "ratio_to_half": {name: round(launched * WORKERS / s, 3) for name, s in bare.items()},
        "collect_s": round(published, 1), "report_and_track_s": round(shown, 1),
        "differing": [made.cell.name for made, before in zip(runs, ours, strict=True) if weights(made) != before],
    }  # fmt: skip


def main() -> int:
    """Measure and say."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--max-steps", type=int, default=120, help="of each run; 0: as params.yaml has it")
    parser.add_argument("--methods", nargs="+", default=[], help="default: the grid's")
    parser.add_argument("--pictures", type=int, default=0, help="of the training world; 0: as params.yaml has it")
    for name in OUTSIDE:
        os.environ.pop(name, None)
    with tempfile.TemporaryDirectory(prefix="launch-") as folder:
        found = measure(checkout(Path(folder) / "p", parser.parse_args()))
    print(json.dumps(found, indent=1))
    return 1 if found["differing"] or found["ratio_to_half"]["serial_runs_files"] > LIMIT else 0


if __name__ == "__main__":
    sys.exit(main())
