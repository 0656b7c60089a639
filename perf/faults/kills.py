"""Kill runs and their drivers at random moments, in every way that they are killed, and compare with undisturbed runs.

    python -m perf.faults.kills --kills 50 [--seed 0] [--slurm]

A tiny world, one thread a run, one method with several seeds: `dvc repro` trains them side by side. Whatever ended, the
same command is started again, so that the next kill finds the runs further on. The ways are dealt like cards, all of
them once before any comes again:

    kill, term   SIGKILL (also what a lack of memory gives) and SIGTERM to a process that trains
    write        SIGKILL with a checkpoint's temporary file there: the process is stopped first, so that this is sure
    dvc          SIGTERM to `dvc repro`, with another one started at once; the trainings run on, and the stage says so
    stage        SIGKILL to the method's stage below it; the trainings run on
    requeue      with --slurm, as all below: `scontrol requeue`, what preemption does
    warning      SIGUSR2, what SLURM sends before a time limit; the job saves and puts itself back
    scancel      the job is cancelled, and sent again
    limit        a real limit of two minutes, once: the trainer is held still until SLURM's own warning comes. That may
                 be a minute early: with a limit of one minute a slow machine is warned before its first step

With --slurm, half of the runs that nothing trains are sent to the cluster before `dvc repro` starts, which waits for
them. In the end `dvc repro` collects everything: weights, logged steps and per-item outcomes must equal those of runs
that nobody disturbed, made in this process; no run may have made a step again but for those behind its last checkpoint
when its own trainer was killed; and MLflow must have one run a cell with every step once. The last line printed is a
JSON document; exit code 1 where something differs or fewer kills than asked for met a run alive.

Takes 10 minutes for 50 kills; needs with `--slurm` a SLURM (slurm/local-cluster.sh up).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from compclip.base.safe_names import SafeName
from compclip.evaluate import __main__ as evaluate_command
from compclip.launch.profiles import Profile
from compclip.launch.slurm import Slurm
from compclip.runs import cluster, jobs, lock, run_store
from compclip.runs.progress import read_progress
from compclip.runs.run_store import StoredRun
from compclip.train import __main__ as train_command
from perf.checkout import OUTSIDE, copy, environment
from perf.faults import undisturbed
from perf.processes import hold, in_session, status, wait
from tests.tiny_project import TINY

METHOD = SafeName("fsc_clip", "method")
EVERY = 3  # steps between two checkpoints
PARAMS = """
grid: {{methods: [fsc_clip], backbones: [tiny], data: [scenes], seeds: {seeds}}}
train: {{max_steps: {steps}, batch_size: 8, lr: 1.0e-3, warmup_steps: 2, threads: 1, log_every_steps: 1, checkpoint_every_steps: {every}}}
methods: {{pretrained: {{}}, fsc_clip: {{gamma: 2.0}}}}
backbones: {{tiny: {{model: tiny.json}}}}
data: {{scenes: {{source: karpathy, path: data/scenes_world/train.json, images: data/scenes_world/train, captioner: scenes}}}}
benchmarks: {{sugarcrepe: {{path: data/scenes_world/sugarcrepe, images: data/scenes_world/test}}}}
evaluate: {{benchmarks: [sugarcrepe], threads: 1}}
wise_ft: {{methods: [], seeds: [], benchmarks: [], alphas: [0, 1]}}
scenes: {{seed: 0, train: 40, retrieval: 4, records: 2, per_class: 1, processes: 1}}
"""  # noqa: E501
HIT = {"kill": signal.SIGKILL, "write": signal.SIGKILL, "term": signal.SIGTERM}
DRIVERS = ("dvc", "stage")
COMMANDS = {"requeue": ("scontrol", "requeue"), "warning": ("scancel", "--signal=USR2"), "scancel": ("scancel",)}
SAID = Path("said.log")


def checkout(root: Path, seeds: int, steps: int) -> Path:
    """A copy of the project with a tiny grid, all stages before training done."""
    copy(root, PARAMS.format(seeds=list(range(seeds)), steps=steps, every=EVERY))
    (root / "tiny.json").write_text(json.dumps(TINY))
    repro(root, "keys")
    return root


def start(root: Path, *command: str) -> subprocess.Popen:
    """A Python command with the checkout's own package and one thread, in a session of its own as a shell's job is."""
    with open(root / SAID, "ab") as log:
        return subprocess.Popen([sys.executable, *command], cwd=root, env=environment(root), stdout=log, stderr=log,
                                start_new_session=True)  # fmt: skip


def repro(root: Path, *targets: str) -> None:
    """`dvc repro` to its end; exits with what it said where it fails."""
    if start(root, "-m", "dvc", "repro", *targets).wait():
        sys.exit((root / SAID).read_text()[-4000:])


@dataclass
class Killer:
    """Kills the runs of a grid and what drives them; the current folder is the checkout."""

    slurm: bool
    rng: random.Random
    steps: int
    runs: list[StoredRun] = field(default_factory=list)
    until: float = float("inf")
    done: Counter = field(default_factory=Counter)
    hits: Counter = field(default_factory=Counter)  # of a run's trainer, by the run key
    steps_hit: list[int] = field(default_factory=list)
    side_by_side: list[int] = field(default_factory=list)
    untold: int = 0  # stages that left without a word
    drivers: list[subprocess.Popen] = field(default_factory=list)
    _deck: list[str] = field(default_factory=list)

    def disturb(self, kills: int) -> None:
        """Kill up to so many times, at moments spread over the length of all runs."""
        total = self.steps * len(self.runs)
        while self.done.total() < kills:
            first = self._progress()
            target = self.rng.randint(first, max(first, total * (self.done.total() + 1) // (kills + 1)))
            flying = self._reach(target)
            if not flying or time.time() > self.until:
                print(f"{self.done.total()} kills, then all runs were through, or the time", file=sys.stderr)
                return
            way, run = self._dealt(flying)
            trainer = lock.find_holder(run.folder) or 0
            hit = self._hit(run, way, trainer)
            self.done[way] += hit
            self._deck += [] if hit else [way]
            self.steps_hit += [self._progress()] * hit
            self.side_by_side += [len(flying)] * hit
            report = f"{way} {'at' if hit else 'missed at'} step {self._progress()} of {total}, {len(flying)} in flight"
            print(report, file=sys.stderr, flush=True)

    def _progress(self) -> int:
        """Steps of all runs."""
        return sum(self.steps if run.adopt_if_finished() else step(run) for run in self.runs)

    def _reach(self, target: int) -> list[StoredRun]:
        """Bring the runs to so many steps, driving them where nothing does; those that train then."""
        flying: list[StoredRun] = []

        def target_reached() -> bool:
            nonlocal flying
            if all(run.adopt_if_finished() for run in self.runs):
                flying = []
                return True
            if not self._driven():
                self._drive()
            flying = [run for run in self.runs if self._trains(run)]
            return bool(flying) and self._progress() >= target

        wait(target_reached, 0.01)
        time.sleep(self.rng.uniform(0, 0.03))
        return [run for run in flying if self._trains(run)] or flying

    def _trains(self, run: StoredRun) -> bool:
        pid = lock.find_holder(run.folder)
        return bool(pid and jobs.read_start_time(pid) and step(run) and not run.adopt_if_finished())

    def _driven(self) -> bool:
        """Whether the last `dvc repro` lives."""
        return bool(self.drivers) and self.drivers[-1].poll() is None

    def _drive(self) -> None:
        """Start `dvc repro`; what failed on the cluster goes on anywhere, as after `launch … cancel`."""
        for number, run in enumerate(self.runs):
            if jobs.find_worker(run.folder):
                continue
            jobs.forget_job(run.folder)
            limited = number == 0 and not self.drivers
            if self.slurm and not run.adopt_if_finished() and (limited or self.rng.random() < 0.5):
                profile = Profile(partition="main", memory_gb=2, time_min=2 if limited else 30, signal_s=30)
                Slurm(profile).submit(run, "params.yaml")
        self.drivers.append(start(Path("."), "-m", "dvc", "repro", "--single-item", f"train@{METHOD}"))

    def _dealt(self, flying: list[StoredRun]) -> tuple[str, StoredRun]:
        """The next way that fits a run that trains, and the run."""
        if self.slurm and not self.done["limit"] and self.runs[0] in flying and len(self.drivers) == 1:
            return "limit", self.runs[0]
        on_cluster = [run for run in flying if isinstance(jobs.find_worker(run.folder), jobs.SlurmJob)]
        ways = [*HIT, *DRIVERS, *(COMMANDS if self.slurm else ())]
        for _ in range(2):
            for way in self._deck:
                if fitting := on_cluster if way in COMMANDS else flying:
                    self._deck.remove(way)
                    return way, self.rng.choice(fitting)
            self._deck += self.rng.sample(ways, len(ways))
        raise AssertionError("a full deck has a way for every run")

    def _hit(self, run: StoredRun, way: str, trainer: int) -> bool:
        """Whether the kill met something alive."""
        if way in DRIVERS:
            return self._driven() and (self._hit_driver() if way == "dvc" else self._hit_stage())
        if way in COMMANDS:
            job = jobs.find_worker(run.folder)
            if not isinstance(job, jobs.SlurmJob) or cluster.run_command(*COMMANDS[way], job.id).returncode:
                return False
        elif way == "limit":
            self._hold_still(trainer)
        elif way == "write" and not self._held_in_a_write(run, trainer):
            return False
        if way in HIT:
            with contextlib.suppress(ProcessLookupError):
                os.kill(trainer, HIT[way])
        wait(lambda: not jobs.read_start_time(trainer))
        self.hits[run.key] += 1
        return True

    def _hit_driver(self) -> bool:
        """SIGTERM to `dvc`, and the next one at once; the stage that it leaves behind says what trains on."""
        driver, log_size = self.drivers[-1], SAID.stat().st_size
        stage = in_session(driver.pid, "--method")
        driver.terminate()
        driver.wait()
        self._drive()
        wait(lambda: not (stage and jobs.read_start_time(stage)))
        output = SAID.read_bytes()[log_size:].decode(errors="replace")
        through = " runs trained" in output  # all of them: it came to its own end, and nothing trains on
        self.untold += bool(stage) and not through and f"`compclip repro train@{METHOD}` attaches" not in output
        return bool(stage)

    def _hit_stage(self) -> bool:
        """SIGKILL to the stage; `dvc` then fails by itself."""
        stage = in_session(self.drivers[-1].pid, "--method")
        if not stage:
            return False
        os.kill(stage, signal.SIGKILL)
        wait(lambda: not self._driven())
        return True

    def _held_in_a_write(self, run: StoredRun, trainer: int) -> bool:
        """Stop the trainer with a checkpoint half written; False where it ends before."""
        while jobs.read_start_time(trainer):
            if list(run.folder.path.glob(".step_*.tmp")):
                hold(trainer)
                if list(run.folder.path.glob(".step_*.tmp")):
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

    def collect(self) -> None:
        """Everything that is left, waiting for jobs that live and training here what the cluster gave up."""
        for driver in self.drivers:
            driver.wait()
        for run in self.runs:
            if not jobs.find_worker(run.folder):
                jobs.forget_job(run.folder)
        repro(Path("."))

    def end(self) -> None:
        """Leave no process and no job behind when something went wrong."""
        for driver in self.drivers:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(driver.pid, signal.SIGKILL)  # its session: orphans are in it
            driver.wait()
        for run in self.runs:
            if job := jobs.find_worker(run.folder):
                job.cancel()


def cell(seed: int) -> str:
    """A cell's name."""
    return f"{METHOD}-tiny-scenes-{seed}"


def step(run: StoredRun) -> int:
    """The last logged one."""
    progress = read_progress(run.folder.metrics, run.resolved["train"])
    return progress.step if progress else 0


@contextlib.contextmanager
def inside(root: Path) -> Iterator[None]:
    """The folder as the current one, for submission to a cluster too."""
    previous_folder, path = Path.cwd(), os.environ.get("PYTHONPATH")
    os.chdir(root)
    os.environ |= {"PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
    try:
        yield
    finally:
        os.chdir(previous_folder)
        os.environ.pop("PYTHONPATH") if path is None else os.environ.update(PYTHONPATH=path)


def disturb(root: Path, killer: Killer, kills: int) -> None:
    """All kills, then `dvc repro` for what is left to do."""
    with inside(root):
        killer.runs = run_store.load_planned(METHOD)
        try:
            killer.disturb(kills)
            killer.collect()
        except BaseException:
            killer.end()
            raise


def calm(root: Path, seeds: int) -> None:
    """All runs, one after another, in this process."""
    with inside(root):
        for seed in range(seeds):
            if train_command.main(["--cell", cell(seed)]) or evaluate_command.main(["--cell", cell(seed)]):
                sys.exit(f"{root}: the undisturbed run with seed {seed} failed")


def experiment(folder: Path, args: argparse.Namespace) -> dict:
    """Disturb, collect, compare."""
    began = time.time()
    root = checkout(folder / "disturbed", args.seeds, args.steps)
    calm_root = Path(shutil.copytree(root, folder / "calm", symlinks=True))
    killer = Killer(args.slurm, random.Random(args.seed), args.steps, until=began + 60 * args.minutes)
    disturb(root, killer, args.kills)
    calm(calm_root, args.seeds)
    pairs = zip(run_store.load_planned(METHOD, root), run_store.load_planned(METHOD, calm_root), strict=True)
    return {
        "kills": killer.done.total(), "ways": dict(sorted(killer.done.items())), "at_steps": killer.steps_hit,
        "side_by_side": killer.side_by_side, "runs": args.seeds, "steps": args.steps,
        "differing": [a.cell.name for a, b in pairs if undisturbed.outcome(a) != undisturbed.outcome(b)],
        "trained_again": undisturbed.trained_again(run_store.load_planned(METHOD, root), killer.hits, EVERY),
        "stages_that_left_untold": killer.untold,
        "mlflow": undisturbed.in_mlflow(root, args.seeds, args.steps) or "one run a cell, every step once",
        "left_behind": undisturbed.left_behind(root), "seconds": round(time.time() - began),
    }  # fmt: skip


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seeds", type=int, default=4, help="runs of the method")
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--seed", type=int, default=0, help="of the moments and ways")
    parser.add_argument("--slurm", action="store_true", help="also kill as a cluster does; needs local-cluster.sh up")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="no kill after so long; fewer is a failure")
    return parser.parse_args(argv)


def main() -> int:
    """Print what became of it."""
    args = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # so that nothing is left behind then either
    for name in OUTSIDE:
        os.environ.pop(name, None)
    with tempfile.TemporaryDirectory(prefix="kills-") as folder:
        summary = experiment(Path(folder), args)
    print(json.dumps(summary), flush=True)
    empty = ("differing", "trained_again", "stages_that_left_untold", "left_behind")
    wrong = any(summary[name] for name in empty) or isinstance(summary["mlflow"], list)
    return 1 if wrong or summary["kills"] < args.kills else 0


if __name__ == "__main__":
    sys.exit(main())
