"""Bring the whole grid up to date, with a line for each stage that works.

    compclip repro                        every stage
    compclip repro report track           these, and what they need
    compclip repro --on slurm/a100.yaml   every stage; the stale runs are jobs of a cluster
    compclip repro --dry-run              what would be done, and what it takes

With --on, Ctrl-C and a lost connection leave jobs alone; the same command attaches to them and goes on. `dvc repro`
does the work and takes the same words. Whatever it prints is in .work/repro.log; notes, warnings and errors are shown
as they come.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from tqdm import tqdm

from compclip.base import environment_variables, messages
from compclip.base.command_line import GRID_FILE, CommandParser, positive_int, refuse_values
from compclip.base.errors import UserError, entry
from compclip.base.files import hold_exclusively
from compclip.base.messages import format_count, format_counts
from compclip.config import grid, plan, read
from compclip.config.cell import PRETRAINED
from compclip.config.sections import Params
from compclip.fetch import missing_inputs
from compclip.interface.method import load_method
from compclip.launch import forecast, grid_check, profiles
from compclip.launch.profiles import Profile
from compclip.report import heading

LOG = Path(".work/repro.log")
LOCK = Path(".work/repro.lock")
BUSY = "process {} brings this project up to date already (`compclip repro`, launch or sweep); wait for it or stop it"
# What DVC says where another one, started by hand, holds its lock, or writes what this one needs.
LOCKED = ("Unable to acquire lock", "is busy, it is being blocked by")
STAGES_FILES = (Path("dvc.yaml"), Path("experiments/scenes/dvc.yaml"))
DVC_LOCK = Path(".dvc/tmp/lock")
BUSY_FILES = Path(".dvc/tmp/rwlock")  # DVC's list of who reads and writes what
BEGIN = re.compile(r"Running stage '(?:.*:)?(.+)'")
UNCHANGED = re.compile(r"Stage '(?:.*:)?(.+)' (didn't change|is cached)")
LOCK_FILE = ("Updating lock file", "Generating lock file")  # what dvc prints after a stage
SKIPPED = "will be skipped due to this failure"  # with --keep-going, of stages behind one that failed
SHARE = re.compile(r"\b(\d+)/(\d+)\b")
SHOWN = ("note: ", "warning: ", "error: ", "ERROR: ")
CLOCK = "{desc} {elapsed}"
BAR = "{desc} {elapsed} |{bar:30}| {n_fmt} of {total_fmt}"
PLAN, REPORT, TRACK = "plan", "report", "track"  # the first stage, and the last two
TRAINED = {"train", "evaluate", "wise_ft", REPORT, TRACK}  # what trains, and what needs that
REPORTS = Path("reports")
INTERRUPTED = 130


def main(argv: list[str]) -> int:
    """Say what will be done and what it takes, do it, and say what came of it; dvc's exit code."""
    refuse_values(argv)
    args, options = _parse_arguments(argv)
    if not STAGES_FILES[0].is_file():
        raise UserError(f"{STAGES_FILES[0]}: not here; start this in a project, which `compclip init FOLDER` makes")
    params = read.load_params(GRID_FILE)
    profile = profiles.load_profile(args.on) if args.on else Profile(executor="local")
    if not args.dry_run:
        missing_inputs.require_inputs(params)
    if not args.stages or not TRAINED.isdisjoint(stage.partition("@")[0] for stage in args.stages):
        grid_check.require_towers(grid.resolve_all(params), processes=profile.processes)
    idle = plan.list_idle(params)
    with contextlib.nullcontext() if args.dry_run else hold_exclusively(LOCK, BUSY):
        total = 0 if args.stages else describe_work(params, idle, profile)
        if args.dry_run:
            print(*_describe_jobs(profile, params) if args.on else (), sep="\n", flush=True)
            missing_inputs.require_inputs(params)
            return 0
        print(f"Details are in {LOG}. Ctrl-C stops; the same command continues.\n", flush=True)
        lines = StageLines(total, idle)
        code = run_on(args, profile, params, lines) if args.on else run_dvc([*args.stages, *options], lines)
    if not code and not args.send and (not args.stages or REPORT in args.stages):
        print(*describe_end(is_tracked=not args.stages or TRACK in args.stages), sep="\n")
    return code


def _parse_arguments(argv: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """Return the arguments, and the options of DVC."""
    parser = CommandParser(prog="compclip repro", description=__doc__, example="report", allow_abbrev=False)
    parser.add_argument("stages", nargs="*", metavar="STAGE", help="a stage of dvc.yaml; default: all")
    parser.add_argument("--on", default="", metavar="PROFILE", help="where runs are jobs, a file of slurm/")
    help_text = "with --on: processes of this machine at a time; default: the profile's"
    parser.add_argument("-j", "--jobs", type=positive_int, metavar="N", help=help_text)
    parser.add_argument("--send", action="store_true", help="with --on a cluster: return after submission")
    parser.add_argument("--dry-run", action="store_true", help="do nothing, say what would be done and what it costs")
    args, options = parser.parse_known_args(argv)
    if args.on and args.stages + options:
        parser.error(f"--on brings all stages up to date; leave out {' '.join(args.stages + options)}")
    if not args.on and (args.jobs or args.send):
        parser.error("-j and --send are of a profile; give --on PROFILE too")
    return args, options


def describe_work(params: Params, idle: Collection[str], profile: Profile) -> int:
    """Print what is compared, the stages, and what they take; return how many stages there are."""
    stages = list_stages(idle)
    total = sum(count for count, _ in stages.values())
    print(*describe_grid(params), "", sep="\n")
    for name, (count, what) in stages.items():
        print(f"  {name:<10} {f'{count} x' if count > 1 else '':>5}  {what}")
    print("", *forecast.describe_costs(params, total, trains_here=profile.executor == "local"), sep="\n")
    return total


def run_on(args: argparse.Namespace, profile: Profile, params: Params, lines: StageLines) -> int:
    """Prepare the runs, send the stale ones, wait for them and collect; return dvc's exit code.

    With `--send` nothing is waited for.
    """
    from compclip.launch import run_jobs  # loads submitit

    run_jobs.check_place(profile, args.send)
    environment = environment_variables.without_place(os.environ)
    if profile.executor != "local":
        environment[profiles.VARIABLE] = args.on
    code = run_dvc(list_preparation(params), lines, environment=environment)
    try:
        if not code:
            run_jobs.send(profile, params, args.jobs or profile.jobs)
        if not code and not args.send:
            code = run_dvc(["--keep-going"], lines, environment=environment)
    except KeyboardInterrupt:
        code = INTERRUPTED
    again = f"`compclip repro --on {args.on}` attaches to them and collects"
    if args.send and not code:
        print(f"Jobs are on their way: {again}, `compclip status --watch` shows them")
    elif code == INTERRUPTED:
        print(f"stopped; jobs that run go on: {again}, `compclip launch {args.on} cancel` ends them", file=sys.stderr)
    return code


def list_preparation(params: Params) -> list[str]:
    """List the stages after which every run has its key, and can be trained and scored."""
    return ["keys", *(f"benchmark@{name}" for name in params.evaluate.benchmarks)]


def _describe_jobs(profile: Profile, params: Params) -> Iterator[str]:
    from compclip.launch import run_jobs  # loads submitit

    return run_jobs.describe_sending(profile, params)


def make_stages(targets: Sequence[str], params: Params, root: Path) -> None:
    """Bring some stages and what they need up to date, where DVC has the project.

    Raises UserError where one fails, or where another program does so already.
    """
    if not (root / STAGES_FILES[0]).is_file() or not (root / ".dvc").is_dir():
        return
    environment = environment_variables.without_place(os.environ)
    with hold_exclusively(root / LOCK, BUSY):
        code = run_dvc(targets, StageLines(0, plan.list_idle(params)), root, environment)
    if code == INTERRUPTED:
        raise KeyboardInterrupt
    if code:
        raise UserError(f"compclip repro {' '.join(targets)}: failed, see above")


def list_stages(idle: Collection[str]) -> dict[str, tuple[int, str]]:
    """Return for each stage of DVC that is not idle how often it is there and what it does."""
    params = OmegaConf.load(GRID_FILE)
    main_stages, scenes_stages = map(_read_stages, STAGES_FILES)
    declared = {PLAN: main_stages[PLAN], **scenes_stages, **main_stages}  # in the order in which they run
    stages: dict[str, tuple[int, str]] = {}
    for name, stage in declared.items():
        if key := stage.get("foreach", "").strip("${}"):
            items = [f"{name}@{item}" for item in OmegaConf.select(params, key) or ()]
        else:
            items = [name]
        if count := len(set(items) - set(idle)):
            stages[name] = count, stage.get("do", stage)["desc"]
    return stages


def _read_stages(path: Path) -> dict[str, dict[str, Any]]:
    content: Any = OmegaConf.to_container(OmegaConf.load(path), resolve=False) if path.is_file() else {"stages": {}}
    return content["stages"]


def describe_grid(params: Params) -> list[str]:
    """Describe in two lines what is compared, and on what."""
    section = params.grid
    counts = (
        format_count(len(set(section.methods) - {PRETRAINED}), "method"),
        format_count(len(section.backbones), "pretrained model"),
        format_count(len(section.data), "data set"),
        format_count(len(section.seeds), "seed"),
    )
    benchmarks = format_count(len(params.evaluate.benchmarks), "benchmark")
    trained = sum(load_method(run.method_name).TRAINS for run in grid.resolve_all(params))
    return [
        f"This compares {', '.join(counts)}:",
        f"{format_count(trained, 'model')} to train, {benchmarks} to score them on, one page: reports/index.html",
    ]


def describe_end(is_tracked: bool) -> list[str]:
    """Return the report's heading, its page, and the command that shows all runs."""
    runs = "`compclip dashboard` shows all runs in MLflow"
    if not is_tracked:
        runs = "MLflow follows with `compclip repro track`"
    return ["", heading.read_heading(REPORTS), f"{REPORTS / heading.PAGE}; {runs}"]


class StageLines:
    """Shows a line for each stage that is over, and on a terminal a bar for the one that works.

    `total`: how many stages there are, 0 where that is not known; `idle`: those that are neither counted nor shown.
    A stage is shown once, also where dvc is run a second time.
    """

    def __init__(self, total: int, idle: Collection[str] = ()) -> None:
        self.total = f"/{total}" if total else ""
        self.idle = set(idle)
        self.number = 0
        self.unchanged = 0
        self.name = ""
        self.summary = ""
        self.last_lines: deque[str] = deque(maxlen=15)
        self.started = 0.0
        shown = {"disable": not sys.stderr.isatty(), "leave": False, "delay": 1.0, "dynamic_ncols": True}
        self.bar = tqdm(bar_format=CLOCK, **shown)

    def read(self, line: str) -> None:
        """Show what a line of the output means."""
        begin = BEGIN.match(line)
        stage = begin or UNCHANGED.match(line)
        if stage:
            self.end()
        if stage and stage[1] not in self.idle:
            self.idle.add(stage[1])
            self.number += 1
            self.unchanged += begin is None
            if begin:
                self.begin(begin[1].replace("@", " "))
        elif line.startswith(LOCK_FILE):
            self.end()
        elif line.endswith(SKIPPED):
            self.summary = "failed; what needs it is left out"
        elif line.startswith(SHOWN) and not any(words in line for words in LOCKED):
            tqdm.write(line, file=sys.stderr)
        elif self.name and line and not line.startswith("> "):
            self.show(line)

    def begin(self, name: str) -> None:
        """Begin a stage."""
        self.name = name
        self.summary = ""
        self.last_lines.clear()
        self.started = time.monotonic()
        self.bar.bar_format = CLOCK
        self.bar.set_description_str(f"{self.number:>3}{self.total} {name:<28}", refresh=False)
        self.bar.reset()

    def show(self, line: str) -> None:
        """Show how far a stage is where it says so, as `3/12`; the last that it says is its summary."""
        self.last_lines.append(line)
        self.summary = line
        with contextlib.suppress(ValueError):  # a line that is no JSON
            counts = json.loads(line)
            self.summary = format_counts(counts) if isinstance(counts, dict) else line
        share = SHARE.search(line)
        if share and int(share[1]) <= int(share[2]):
            self.bar.bar_format = BAR
            self.bar.n = int(share[1])
            self.bar.total = int(share[2])

    def end(self) -> None:
        """End the stage that works with its line."""
        if self.name:
            seconds = time.monotonic() - self.started
            tqdm.write(f"{self.number:>3}{self.total} {self.name:<28} {seconds:>6.0f} s  {self.summary[:100]}")
            sys.stdout.flush()
        self.name = ""


def remove_cut_files(root: Path) -> None:
    """Move away the lock files that a killed dvc left half-written: it writes them in place, and refuses such ones.

    Nothing made is lost: DVC finds cached outputs by its list of runs, and trained models have keys. A file that ends
    with a whole line is left, as a merge conflict does, and so is everything while another dvc is at work.
    """
    if not (root / DVC_LOCK).is_file():
        return
    with open(root / DVC_LOCK, encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        for path in (BUSY_FILES, *(file.with_suffix(".lock") for file in STAGES_FILES)):
            if (root / path).is_file() and _is_cut(root / path):
                aside = LOG.parent / f"{'-'.join(path.parts)}.cut"
                (root / path).replace(root / aside)
                messages.note(f"{path}: half-written by a dvc that was killed; moved to {aside}")


def _is_cut(path: Path) -> bool:
    text = path.read_text(encoding="utf-8", errors="replace")
    if path.name != BUSY_FILES.name:
        return not text.endswith("\n")
    try:
        json.loads(text)
    except ValueError:
        return True
    return False


def run_dvc(
    words: Sequence[str], lines: StageLines, root: Path = Path("."), environment: Mapping[str, str] | None = None
) -> int:
    """Run `dvc repro` and show its stages; return its exit code, 130 where Ctrl-C stopped it.

    Raises UserError where another dvc holds the project.
    """
    log_path = root / LOG
    log_path.parent.mkdir(exist_ok=True)
    remove_cut_files(root)
    command = [sys.executable, "-m", "dvc", "repro", *words]
    environment = environment_variables.with_own_python(environment or os.environ)
    is_over = threading.Event()
    threading.Thread(target=_draw, args=(lines, is_over), daemon=True).start()
    is_stopped = False
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "errors": "replace"}
    with (
        log_path.open("w", encoding="utf-8") as log,
        subprocess.Popen(command, cwd=root, env=environment, **pipes) as dvc,  # type: ignore[call-overload]
    ):
        while True:
            try:
                line = dvc.stdout.readline()
            except KeyboardInterrupt:  # dvc has it too, and waits until trainings have saved
                is_stopped = True
                continue
            if not line:
                break
            log.write(line)
            log.flush()
            lines.read(line.rstrip())
    is_over.set()
    failed = lines.name if dvc.returncode else ""
    if not failed:
        lines.end()
    lines.bar.clear()
    if dvc.returncode and any(words in log_path.read_text(encoding="utf-8") for words in LOCKED):
        raise UserError("another dvc is at work in this project; wait for it or stop it")
    if lines.unchanged:
        print(f"{format_count(lines.unchanged, 'stage')} had nothing to do")
        lines.unchanged = 0
    if failed:
        print(*lines.last_lines, sep="\n", file=sys.stderr)
        print(f"{failed}: stopped or failed; {LOG} has all that it printed", file=sys.stderr)
    return INTERRUPTED if is_stopped else dvc.returncode


def _draw(lines: StageLines, is_over: threading.Event) -> None:
    """Let the bar's clock go on while nothing is printed."""
    while not is_over.wait(1.0):
        if lines.name:
            lines.bar.refresh()


if __name__ == "__main__":
    sys.exit(entry(main))
