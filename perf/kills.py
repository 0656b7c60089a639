"""Kill runs at random moments, in every way that runs are killed, and compare them with undisturbed ones.

    python perf/kills.py --kills 50 [--seed 0] [--slurm]

A tiny world, one thread. After each kill the run is started again, so that the next kill finds it further on; a trainer
without `dvc` or SLURM is forked from this process, which saves its start. The ways:

    kill, term   SIGKILL (also what a lack of memory gives) and SIGTERM to the process that trains
    write        SIGKILL with a checkpoint's temporary file there: the process is stopped first, so that this is sure
    dvc          SIGTERM to `dvc repro`; its trainer lives on, and another `dvc repro` is started at once
    requeue      with --slurm, as all below: `scontrol requeue`, what preemption does
    warning      SIGUSR2, what SLURM sends before a time limit; the job saves and puts itself back
    scancel      the job is cancelled, and sent again
    limit        a real limit of two minutes, once: the trainer is held still until SLURM's own warning comes. That may
                 be a minute early: with a limit of one minute a slow machine is warned before its first step

In the end `dvc repro` collects everything: weights, logged steps and per-item outcomes must equal those of runs that
nobody disturbed, made in this process, and MLflow must have one run a cell with every step once. The last line
printed is a JSON document; exit code 1 where something differs or fewer kills than asked for met a run alive.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from compclip.evaluate import __main__ as evaluate_command  # noqa: E402
from compclip.launch.profiles import Profile  # noqa: E402
from compclip.launch.slurm import Slurm  # noqa: E402
from compclip.runs import cluster, jobs, lock  # noqa: E402  # noqa: E402
from compclip.runs.progress import (  # noqa: E402
    CLOCK,  # noqa: E402
    progress,  # noqa: E402
)
from compclip.runs.store import StoredRun  # noqa: E402
from compclip.train import __main__ as train_command  # noqa: E402
from perf.checkout import copy  # noqa: E402

PARAMS = """
grid: {{methods: [fsc_clip], backbones: [tiny], data: [scenes], seeds: {seeds}}}
train: {{max_steps: {steps}, batch_size: 8, lr: 1.0e-3, warmup_steps: 2, threads: 1, log_every_steps: 1, checkpoint_every_steps: 3}}
methods: {{pretrained: {{}}, fsc_clip: {{gamma: 2.0}}}}
backbones: {{tiny: {{model: tiny.json}}}}
data: {{scenes: {{source: karpathy, path: data/scenes_world/train.json, images: data/scenes_world/train, captioner: scenes}}}}
benchmarks: {{sugarcrepe: {{path: data/scenes_world/sugarcrepe, images: data/scenes_world/test}}}}
evaluate: {{benchmarks: [sugarcrepe], threads: 1}}
wise_ft: {{methods: [], seeds: [], benchmarks: [], alphas: [0, 1]}}
report: {{bootstrap_samples: 200}}
scenes: {{seed: 0, train: 40, retrieval: 4, records: 2, per_class: 1, processes: 1}}
"""  # noqa: E501
TINY = {
    "embed_dim": 16,
    "vision_cfg": {"image_size": 64, "patch_size": 16, "width": 32, "layers": 1, "head_width": 16},
    "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 16, "heads": 1, "layers": 1},
}
HIT = {"kill": signal.SIGKILL, "write": signal.SIGKILL, "term": signal.SIGTERM}
COMMANDS = {"requeue": ("scontrol", "requeue"), "warning": ("scancel", "--signal=USR2"), "scancel": ("scancel",)}
PATIENCE_S = 300


def checkout(root: Path, seeds: int, steps: int) -> Path:
    """A copy of the project with a tiny grid, all stages before training done."""
    copy(root, PARAMS.format(seeds=list(range(seeds)), steps=steps))
    (root / "tiny.json").write_text(json.dumps(TINY))
    repro(root, "annotate@scenes", "backbone@tiny", "methods")
    return root


def start(root: Path, *command: str) -> subprocess.Popen:
    """A Python command with the checkout's own package and one thread, in a session of its own as a shell's job is."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "PYTHONPATH": str(root.resolve()), "OMP_NUM_THREADS": "1"}
    env.pop("MLFLOW_TRACKING_URI", None)
    with open(root / "said.log", "ab") as log:
        return subprocess.Popen([sys.executable, *command], cwd=root, env=env, stdout=log, stderr=log,
                                start_new_session=True)  # fmt: skip


def trainer_of(cell: str) -> multiprocessing.Process:
    """The `train` stage in a process forked from this one, which has imported all that it needs."""
    child = multiprocessing.get_context("fork").Process(target=_train, args=(cell,))
    child.start()
    return child


def _train(cell: str) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with open("said.log", "ab") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    sys.exit(train_command.main(["--cell", cell]))


def repro(root: Path, *targets: str) -> None:
    """`dvc repro` to its end; exits with what it said where it fails."""
    if start(root, "-m", "dvc", "repro", *targets).wait():
        sys.exit((root / "said.log").read_text()[-4000:])


def wait(true: Callable[[], object], poll_s: float = 0.02) -> None:
    """Until a condition holds. Raises TimeoutError where it does not for long."""
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        if time.monotonic() > deadline:
            raise TimeoutError(f"nothing moved for {PATIENCE_S} s")
        time.sleep(poll_s)


def status(pid: int) -> dict[str, str]:
    """What the kernel says of a process; empty for one that is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def hold(pid: int) -> None:
    """Stop a process where it is."""
    os.kill(pid, signal.SIGSTOP)
    wait(lambda: status(pid).get("State", "Z")[0] in "TZX", 0.001)


@dataclass
class Killer:
    """One run after another is killed again and again; the current folder is the checkout."""

    slurm: bool
    rng: random.Random
    steps: int
    done: Counter = field(default_factory=Counter)
    steps_hit: list[int] = field(default_factory=list)
    until: float = float("inf")
    drivers: list[subprocess.Popen] = field(default_factory=list)
    trainers: list[multiprocessing.Process] = field(default_factory=list)

    def disturb(self, seed: int, kills: int) -> None:
        """Kill the cell with this seed up to `kills` times, at moments spread over its length."""
        made = at(name(seed))
        for number in range(kills):
            if time.time() > self.until:
                return
            timed = self.slurm and number == seed == 0
            way = "limit" if timed else self.rng.choice(self._possible(made))
            first = step(made)
            target = self.rng.randint(first, max(first, self.steps * (number + 1) // (kills + 1)))
            trainer = self._reach(made, way, target)
            if not trainer:
                print(f"seed {seed}: through before the kill at step {target}", file=sys.stderr, flush=True)
                return
            hit = self._hit(made, way, trainer)
            self.done[way] += hit
            self.steps_hit += [step(made)] * hit
            print(f"seed {seed}: {way} {'at' if hit else 'missed at'} step {step(made)}", file=sys.stderr, flush=True)

    def _possible(self, made: StoredRun) -> list[str]:
        """The ways that fit what trains the run now; all where nothing does."""
        if jobs.attach(made.folder):
            return [*HIT, *COMMANDS]
        if lock.holder(made.folder) is not None or self._driven():
            return [*HIT, *(["dvc"] if self._driven() else [])]
        return [*HIT] * 4 + ["dvc"] * 2 + [*(COMMANDS if self.slurm else ())]

    def _driven(self) -> bool:
        """Whether the last `dvc repro` lives."""
        return bool(self.drivers) and self.drivers[-1].poll() is None

    def _reach(self, made: StoredRun, way: str, target: int) -> int:
        """Bring the run to a step, starting it where nothing trains it; its process, 0 where it is through before."""
        trainer = 0

        def there() -> bool:
            nonlocal trainer
            trainer = lock.holder(made.folder) or 0
            if not trainer and not self._alive(made) and not made.finished:
                self._start(made, way)
            return made.finished or bool(trainer and jobs.started(trainer) and step(made) >= target)

        wait(there, 0.01)
        time.sleep(self.rng.uniform(0, 0.03))
        return 0 if made.finished else trainer

    def _alive(self, made: StoredRun) -> bool:
        here = self._driven() or any(child.is_alive() for child in self.trainers)
        return bool(here or lock.holder(made.folder) is not None or jobs.attach(made.folder))

    def _start(self, made: StoredRun, way: str) -> None:
        jobs.forget(made.folder)  # as `launch … cancel` does: what failed on the cluster may go on anywhere
        if way in (*COMMANDS, "limit"):
            profile = Profile(partition="main", memory_gb=2, time_min=2 if way == "limit" else 30, signal_s=30)
            Slurm(profile).submit(made, "params.yaml")
        elif way == "dvc":
            self.drivers.append(start(Path("."), "-m", "dvc", "repro", "--single-item", f"train@{made.run.cell.name}"))
        else:
            self.trainers.append(trainer_of(made.run.cell.name))

    def _hit(self, made: StoredRun, way: str, trainer: int) -> bool:
        """Whether the kill met something alive."""
        if way == "dvc":
            return self._hit_driver(made)
        if way in COMMANDS:
            job = jobs.attach(made.folder)
            if not job or cluster.run(*COMMANDS[way], job.id).returncode:
                return False
        elif way == "limit":
            self._hold_still(trainer)
        elif way == "write" and not self._held_in_a_write(made, trainer):
            return False
        else:
            with contextlib.suppress(ProcessLookupError):
                os.kill(trainer, HIT[way])
        wait(lambda: not jobs.started(trainer))
        return True

    def _hit_driver(self, made: StoredRun) -> bool:
        if not self._driven():
            return False
        self.drivers[-1].terminate()
        self.drivers[-1].wait()
        self._start(made, "dvc")
        return True

    def _held_in_a_write(self, made: StoredRun, trainer: int) -> bool:
        """Stop the trainer with a checkpoint half written; False where it ends before."""
        while jobs.started(trainer):
            if list(made.folder.path.glob(f".step_*.{trainer}.tmp")):
                hold(trainer)
                if list(made.folder.path.glob(f".step_*.{trainer}.tmp")):
                    return True
                os.kill(trainer, signal.SIGCONT)
            time.sleep(0.001)
        return False

    def _hold_still(self, trainer: int) -> None:
        """Hold a trainer until SLURM's warning waits for it; it may have had it before."""
        with contextlib.suppress(ProcessLookupError):
            hold(trainer)
            wait(lambda: int(status(trainer).get("ShdPnd", "1"), 16), 0.2)
            os.kill(trainer, signal.SIGCONT)

    def end(self) -> None:
        """Leave no process and no job behind when something went wrong."""
        for driver in self.drivers:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(driver.pid, signal.SIGKILL)  # its session: orphans are in it
            driver.wait()
        for child in self.trainers:
            child.kill()
        for path in Path("store").glob("*/job.json"):
            if job := jobs.attach(path.parent.name):
                job.cancel()


def name(seed: int) -> str:
    """A cell's name."""
    return f"fsc_clip-tiny-scenes-{seed}"


def step(made: StoredRun) -> int:
    """The last logged one."""
    seen = progress(made.folder.metrics, made.run.train)
    return seen.step if seen else 0


def outcome(root: Path, seed: int) -> dict:
    """What must be equal: weights, steps without the clock's part, results without their time."""
    folder = root / "runs" / name(seed)
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    result = json.loads((folder / "results" / "sugarcrepe.json").read_text())
    return {
        "checkpoint": {p.name: p.read_bytes() for p in (folder / "checkpoint").iterdir()},
        "log": [{k: v for k, v in row.items() if k not in CLOCK} for row in rows],
        "results": {k: v for k, v in result.items() if k != "seconds"},
    }


def mlflow_faults(root: Path, seeds: int, steps: int) -> list[str]:
    """What is wrong in the store: not one run a cell, or a step of its loss missing or there twice."""
    with contextlib.closing(sqlite3.connect(root / "mlflow" / "mlflow.db")) as store:
        rows = store.execute("SELECT r.name, r.run_uuid, m.step, COUNT(*) FROM runs r JOIN metrics m USING (run_uuid) "
                             "WHERE m.key = 'train/loss' GROUP BY 1, 2, 3").fetchall()  # fmt: skip
    by_run: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for run, uuid, at, count in rows:
        by_run.setdefault((run, uuid), []).append((at, count))
    faults = [] if len(by_run) == seeds else [f"{len(by_run)} runs with a loss for {seeds} cells"]
    wanted = [(at, 1) for at in range(1, steps + 1)]
    return faults + [f"run {run}: steps differ" for (run, _), seen in by_run.items() if sorted(seen) != wanted]


@contextlib.contextmanager
def inside(root: Path) -> Iterator[None]:
    """The folder as the current one, for submission to a cluster too."""
    before, path = Path.cwd(), os.environ.get("PYTHONPATH")
    os.chdir(root)
    os.environ |= {"PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
    try:
        yield
    finally:
        os.chdir(before)
        os.environ.pop("PYTHONPATH") if path is None else os.environ.update(PYTHONPATH=path)


def disturb(root: Path, killer: Killer, kills: int, each: int, seeds: int) -> None:
    """All kills, then `dvc repro` for what is left to do."""
    with inside(root):
        try:
            for seed in range(seeds):
                killer.disturb(seed, min(each, kills - killer.done.total()))
            collect(killer)
        except BaseException:
            killer.end()
            raise


def collect(killer: Killer) -> None:
    """Everything that is left, waiting for jobs that live and training here what the cluster gave up."""
    for driver in killer.drivers:
        driver.wait()
    for child in killer.trainers:
        child.join()
    for path in sorted(Path("store").glob("*/job.json")):
        if not jobs.attach(path.parent.name):
            jobs.forget(path.parent.name)
    repro(Path("."))


def experiment(folder: Path, args: argparse.Namespace) -> dict:
    """Disturb, collect, compare."""
    began, seeds = time.time(), -(-args.kills // args.each) + (args.kills > args.each)
    root = checkout(folder / "disturbed", seeds, args.steps)
    calm = Path(shutil.copytree(root, folder / "calm", symlinks=True))
    killer = Killer(args.slurm, random.Random(args.seed), args.steps, until=time.time() + 60 * args.minutes)
    disturb(root, killer, args.kills, args.each, seeds)
    with inside(calm):
        for seed in range(seeds):
            if train_command.main(["--cell", name(seed)]) or evaluate_command.main(["--cell", name(seed)]):
                sys.exit(f"{calm}: the undisturbed run with seed {seed} failed")
    return {
        "kills": killer.done.total(), "ways": dict(sorted(killer.done.items())), "at_steps": sorted(killer.steps_hit),
        "runs": seeds, "steps": args.steps,
        "differing": [seed for seed in range(seeds) if outcome(root, seed) != outcome(calm, seed)],
        "mlflow": mlflow_faults(root, seeds, args.steps) or "one run a cell, every step once",
        "left_behind": sorted(str(p.relative_to(root)) for p in (root / ".work").glob("*/.*.tmp")),
        "seconds": round(time.time() - began),
    }  # fmt: skip


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--each", type=int, default=25, help="kills a run")
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--seed", type=int, default=0, help="of the moments and ways")
    parser.add_argument("--slurm", action="store_true", help="also kill as a cluster does; needs local-cluster.sh up")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="no kill after so long; fewer is a failure")
    return parser.parse_args(argv)


def main() -> int:
    """Print what became of it."""
    args = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # so that nothing is left behind then either
    with tempfile.TemporaryDirectory(prefix="kills-") as folder:
        found = experiment(Path(folder), args)
    print(json.dumps(found), flush=True)
    wrong = found["differing"] or found["left_behind"] or isinstance(found["mlflow"], list)
    return 1 if wrong or found["kills"] < args.kills else 0


if __name__ == "__main__":
    sys.exit(main())
