"""Kill a sweep's driver at random moments, and count what became of its trials.

    python perf/sweep.py [--trials 24] [--kills 3] [--workers 2] [--seed 0]

A tiny world and a tiny model, but real runs: every trial is a process that trains, scores and writes its files, on this
machine. The driver gets SIGKILL; its jobs live on, and the same command goes on. Prints one JSON document; exit code 1
where a trial is lost or repeated, where a step of a run was logged twice or not at all, or where MLflow lacks a trial.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from compclip.runs import store  # noqa: E402
from perf.checkout import OUTSIDE, environment  # noqa: E402
from tests import tiny_project  # noqa: E402

STEPS = 4
STUDY = """
method: fsc_clip
backbone: tiny
data: scenes
space: {{gamma: {{float: [0, 5]}}, train.lr: {{float: [1.0e-4, 1.0e-2], log: true}}}}
paper: [{{gamma: 2.0, train.lr: 1.0e-3}}]
objectives: [sugarcrepe/replace]
trials: {trials}
"""


def project(root: Path, trials: int) -> Path:
    """A folder with data, backbone, the study and a copy of the package, which edits of the checkout do not reach."""
    tiny_project.make(root, STEPS)
    shutil.copytree(ROOT / "compclip", root / "compclip", ignore=shutil.ignore_patterns("__pycache__"))
    path = root / "experiments" / "studies" / "killed.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(STUDY.format(trials=trials))
    return root


def start(root: Path, workers: int) -> subprocess.Popen:
    """The driver."""
    command = [sys.executable, "-m", "compclip.sweep", "--study", "killed", "-j", str(workers)]
    return subprocess.Popen(command, cwd=root, env=environment(root))


def finished(root: Path) -> int:
    """Runs with results."""
    return len(list(root.glob("store/*/scored.json")))


def kill(driver: subprocess.Popen, root: Path, enough: int, more_s: float) -> dict:
    """SIGKILL, some time after so many runs have finished; what there was then."""
    while finished(root) < enough:
        if driver.poll() is not None:
            raise SystemExit(f"the driver ended by itself with {driver.returncode}")
        time.sleep(0.02)
    time.sleep(more_s)
    driver.kill()
    driver.wait()
    sent = len(list(root.glob("store/*/run.yaml")))
    return {"finished_runs": finished(root), "sent_runs": sent}


def faults(root: Path, trials: int) -> list[str]:
    """What went wrong."""
    found = json.loads((root / "studies/killed/trials.json").read_text())["trials"]
    wrong = []
    if [t["number"] for t in found] != list(range(trials)) or any(t["state"] != "complete" for t in found):
        wrong.append(f"trials: {dict(Counter(t['state'] for t in found))}")
    keys = Counter(t["run_key"] for t in found)
    wrong += [f"run {key} serves {count} trials" for key, count in keys.items() if count > 1]
    for key in keys:
        log = store.folder(key, root).final.metrics.read_text().splitlines()
        if (steps := [json.loads(line)["step"] for line in log]) != list(range(1, STEPS + 1)):
            wrong.append(f"run {key}: steps {steps}")
    folders = {p.parent.name for p in root.glob("store/*/run.yaml")}
    if len(folders) != trials + 1:  # and the pretrained model
        wrong.append(f"{len(folders)} runs were sent for {trials} trials and the pretrained model")
    with sqlite3.connect(root / "mlflow" / "mlflow.db") as tracked:
        (logged,) = tracked.execute("SELECT COUNT(*) FROM tags WHERE key = 'mlflow.parentRunId'").fetchone()
    return wrong + ([] if logged == trials else [f"MLflow has {logged} trials"])


def main() -> int:
    """Kill, go on, count."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=24)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    args = parser.parse_args()
    rng = random.Random(args.seed)
    for name in OUTSIDE:
        os.environ.pop(name, None)
    with tempfile.TemporaryDirectory(prefix="sweep-") as folder:
        root = project(Path(folder) / "p", args.trials)
        began, kills = time.time(), []
        for enough in sorted(rng.sample(range(1, args.trials), args.kills)):
            kills.append(kill(start(root, args.workers), root, enough, rng.uniform(0, 2)))
            print(json.dumps(kills[-1]), file=sys.stderr, flush=True)
        code = start(root, args.workers).wait()
        wrong = faults(root, args.trials) if code == 0 else [f"the driver ended with {code}"]
        print(json.dumps({"trials": args.trials, "workers": args.workers, "kills": kills, "faults": wrong,
                          "seconds": round(time.time() - began)}))  # fmt: skip
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
