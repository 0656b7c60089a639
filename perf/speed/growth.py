"""What commands cost at two sizes tenfold apart, in CPU seconds and MiB: nothing may grow faster than its input.

    python -m perf.speed.growth [report track status study look]

Runs are made: finished in the store and published, with outcomes of two benchmarks. `report` is over 4 rows (10 cells)
and 43 (98), `track` over 10 and 100 runs, `status` over 50 and 500 cells; `study` is the driver of 100 and 1,000 trials
beside the runs; `look` are ten looks of `track --follow` at 10 and 100 runs that each gain a line, and ten idle ones.
Each size has a process of its own. The last line is a JSON document; exit code 1 where the large size takes more than
13 times the seconds or memory of the small one, or a trial more than 2 s.

Takes 3 minutes; needs nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import sys
import tempfile
from pathlib import Path

import numpy as np

from perf.speed.process_memory import call_in_fresh_process
from tests import driven_sweep, fake_runs, fake_store, fake_sweep
from tests.track import live
from tests.track.project import params

SIZES = {"report": (10, 98), "track": (10, 100), "status": (50, 500), "study": (100, 1000), "look": (10, 100)}
ROWS = {10: 4, 98: 43, 100: 43, 50: 25, 500: 25}  # methods of so many cells
ITEMS = {"swap_att": 2000, "swap_obj": 5000, "bad": 3000, "i2t": 1000, "t2i": 5000}  # outcomes of a run, by metric
BENCHMARKS = "{sugarcrepe: {path: a, images: b}, hard_positives: {path: a, images: b}, retrieval: {path: a, images: b}}"
LOOKS = 10
URI = "sqlite:///mlflow/mlflow.db"
MOST_TIMES, MOST_TRIAL_S = 13.0, 2.0


def cpu() -> float:
    """Seconds of this process and of its children that ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def make_grid(root: Path, cells: int) -> None:
    """A finished, scored and published run for each cell; outcomes are drawn, better from row to row."""
    methods = ROWS[cells]
    fake_store.project(root, methods, -(-cells // methods))
    text = (root / "params.yaml").read_text()
    text = text.replace("{sugarcrepe: {path: world/sugarcrepe, images: world/test}}", BENCHMARKS)
    (root / "params.yaml").write_text(text.replace("[sugarcrepe]", "[sugarcrepe, hard_positives, retrieval]"))
    rng = np.random.default_rng(0)
    for number, run in enumerate(fake_store.runs(root)):
        if number == cells:
            break
        fake_store.finish(run)
        chance = 0.4 + 0.5 * number / cells
        bits = {name: "".join(map(str, (rng.random(count) < chance).astype(int))) for name, count in ITEMS.items()}
        fake_runs.BITS[run.cell.method, run.cell.seed] = bits
        fake_runs._write(run.published.results, run.cell)
        run.publish()


def prepare(name: str, root: Path, size: int) -> None:
    """What a command reads."""
    if name in ("report", "track", "status"):
        make_grid(root, size)
    elif name == "study":
        fake_sweep.make(root)
    elif name == "look":
        grid = [fake_runs.cell("clic", seed=seed) for seed in range(size)]
        params(root, ("clic",), range(size))
        live.plan(root, grid)
        for cell in grid:
            live.begin(root, cell)
            live.log(root, cell, 1)


def measure(name: str, root: str, size: int) -> dict[str, float]:
    """Run a command, in a process of its own; return its CPU seconds, import included, and most memory."""
    os.chdir(root)
    with contextlib.redirect_stdout(sys.stderr):
        figures = globals()[f"measure_{name}"](size) if f"measure_{name}" in globals() else run_command(name)
    used = [resource.getrusage(who).ru_maxrss / 1024 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return {"cpu_s": round(cpu(), 2), "peak_mib": round(max(used)), **figures}


def run_command(name: str) -> dict[str, float]:
    """Run a command of a made grid."""
    from compclip.report import __main__ as report
    from compclip.runs import status
    from compclip.track import __main__ as track

    main = {"report": report.main, "track": track.main, "status": status.main}[name]
    main(["--partial"] if name == "report" else [])
    return {}


def measure_study(trials: int) -> dict[str, float]:
    """Drive a study whose runs are finished as soon as they are sent."""
    begun = cpu()
    driven_sweep.driver(driven_sweep.Here()).drive(trials)
    return {"s_a_trial": round((cpu() - begun) / trials, 3)}


def measure_look(runs: int) -> dict[str, float]:
    """Look at runs under way that each logged a step, and where nothing moved."""
    from compclip.track import sync

    follower = sync.StoreFollower(lambda: sync.load_project("params.yaml", URI), URI)
    follower.poll()
    seconds = {"idle_s": 0.0, "moved_s": 0.0}
    for step in range(2, 2 + LOOKS):
        for kind in seconds:
            if kind == "moved_s":
                for seed in range(runs):
                    live.log(Path(), fake_runs.cell("clic", seed=seed), step)
            begun = cpu()
            follower.poll()
            seconds[kind] += cpu() - begun
    return {kind: round(total / LOOKS, 3) for kind, total in seconds.items()}


def main() -> int:
    """Print what each size costs; say what grew too fast."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(SIZES), metavar="NAME", help=", ".join(SIZES))
    os.environ["COMPCLIP_PROJECT"] = "perf"
    broken = []
    rows = []
    for name in parser.parse_args().names:
        sizes = []
        for size in SIZES[name]:
            with tempfile.TemporaryDirectory(prefix="growth-") as folder:
                prepare(name, Path(folder), size)
                sizes.append(call_in_fresh_process(measure, name, folder, size))
            rows.append({"name": name, "size": size, **sizes[-1]})
            print(rows[-1], flush=True)
        small, large = sizes
        broken += [f"{name}: {key}" for key in small if large[key] > MOST_TIMES * max(small[key], 0.01)]
        if large.get("s_a_trial", 0) > MOST_TRIAL_S:
            broken.append(f"{name}: s_a_trial")
    print(json.dumps({"sizes": rows, "broken": broken}))
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
