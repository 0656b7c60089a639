"""Bring the whole grid up to date, with a line for each stage that works.

    compclip repro                  every stage
    compclip repro report track     these, and what they need

`dvc repro` does the work and takes the same words. Whatever it prints is in .work/repro.log; notes, warnings and errors
are shown as they come. The time that trainings will take follows from a step of each method, timed while data are read.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from tqdm import tqdm

from compclip.base.command_line import GRID_FILE, CommandParser
from compclip.base.errors import UserError, entry
from compclip.base.lazy_torch import torch
from compclip.base.messages import format_count, format_counts
from compclip.config import grid, read
from compclip.config.grid import Run
from compclip.config.least_memory import least_bytes, machine_memory
from compclip.config.sections import Params
from compclip.data.shard_files import read_manifest
from compclip.fetch import missing_inputs
from compclip.interface.method import load_method
from compclip.runs import gpus, run_folder
from compclip.runs.shard_tasks import ANNOTATE

LOG = Path(".work/repro.log")
STAGES_FILE = Path("dvc.yaml")
BEGIN = re.compile(r"Running stage '(.+)'")
UNCHANGED = re.compile(r"Stage '.+' (didn't change|is cached)")
LOCK_FILE = ("Updating lock file", "Generating lock file")  # what dvc prints after a stage
SHARE = re.compile(r"\b(\d+)/(\d+)\b")
SHOWN = ("note: ", "warning: ", "error: ", "ERROR: ")
CLOCK = "{desc} {elapsed}"
BAR = "{desc} {elapsed} |{bar:30}| {n_fmt} of {total_fmt}"
MOST = 12  # schedules of which a step is timed
TIMED_SHARE = 4  # of a batch a fourth is timed
# nice: the stages come first on machines that they fill
TIMING = "import os; os.nice(19); from compclip.launch import repro; repro.print_time()"


def main(argv: list[str]) -> int:
    """Say what will be done and how long it takes, and do it; dvc's exit code."""
    parser = CommandParser(prog="compclip repro", description=__doc__, example="report")
    parser.add_argument("stages", nargs="*", metavar="STAGE", help="a stage of dvc.yaml; default: all")
    args, options = parser.parse_known_args(argv)
    if not STAGES_FILE.is_file():
        raise UserError(f"{STAGES_FILE}: not here; start this in a project, which `compclip init FOLDER` makes")
    params = read.load_params(GRID_FILE)
    missing_inputs.require_inputs(params)
    stages = list_stages()
    print(*describe_grid(params), "", sep="\n")
    for name, (count, what) in stages.items():
        print(f"  {name:<10} {f'{count} x' if count > 1 else '':>5}  {what}")
    print(f"\nDetails are in {LOG}. Ctrl-C stops; the same command continues.\n", flush=True)
    # A process of its own: its memory is free when it ends, and it can be stopped in the middle of a step.
    timing = subprocess.Popen(
        [sys.executable, "-c", TIMING], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    threading.Thread(target=_show_time, args=(timing,), daemon=True).start()
    try:
        return run_dvc([*args.stages, *options], sum(count for count, _ in stages.values()))
    finally:
        timing.kill()


def list_stages() -> dict[str, tuple[int, str]]:
    """Return for each stage of dvc.yaml how often it is there and what it does."""
    params = OmegaConf.load(GRID_FILE)
    declared: Any = OmegaConf.to_container(OmegaConf.load(STAGES_FILE), resolve=False)
    stages = {}
    for name, stage in declared["stages"].items():
        key = stage.get("foreach", "").strip("${}")
        count = len(OmegaConf.select(params, key) or ()) if key else 1
        if count:
            stages[name] = count, stage.get("do", stage)["desc"]
    return stages


def describe_grid(params: Params) -> list[str]:
    """Describe in two lines what is compared, and on what."""
    section = params.grid
    counts = (
        format_count(len(section.methods), "method"),
        format_count(len(section.backbones), "pretrained model"),
        format_count(len(section.data), "data set"),
        format_count(len(section.seeds), "seed"),
    )
    benchmarks = format_count(len(params.evaluate.benchmarks), "benchmark")
    trained = len(_list_trained(params))
    return [
        f"This compares {', '.join(counts)}:",
        f"{format_count(trained, 'model')} to train, {benchmarks} to score them on, one page: reports/index.html",
    ]


def _list_trained(params: Params) -> list[Run]:
    return [run for run in grid.resolve_all(params) if load_method(run.method_name).TRAINS]


def print_time() -> None:
    """Print how long the trainings of the current grid will take."""
    print(estimate_time(read.load_params(GRID_FILE)))


def _show_time(timing: subprocess.Popen[str]) -> None:
    line = timing.communicate()[0].strip()
    if timing.returncode >= 0:  # else it was stopped
        tqdm.write(line or "How long training takes could not be estimated.")


def estimate_time(params: Params) -> str:
    """Return a line on how long the trainings that are missing will take, or on why that is not known."""
    runs = [r for r in _list_trained(params) if not run_folder.Published(Path(), r.cell).trained.environment.is_file()]
    if not runs:
        return "All models are trained."
    if gpus.list_gpus():  # whose memory the trainings need
        return "`compclip config cost` estimates how long training takes on a GPU."
    if max(map(least_bytes, runs)) > machine_memory() / 2:
        return "How long training takes is not estimated: a step would take most of this machine's memory."
    from compclip.launch import cost_table

    groups = cost_table.group_runs(runs)
    if len(groups) > MOST:
        return f"{len(groups)} schedules: `compclip launch PROFILE --dry-run` estimates their time."
    seconds = 0.0
    try:
        for group in groups:
            seconds += len(group) * _count_steps(group[0], params) * time_step(group[0])
    except UserError as error:
        return f"How long training takes is not known yet: {error}."
    cores = len(os.sched_getaffinity(0))
    minutes = max(1, round(seconds / cores / 60))
    steps = f"The steps of training take at most {format_count(minutes, 'minute')} on {format_count(cores, 'core')}"
    return f"{steps}; starting, reading and scoring come on top."


def _count_steps(run: Run, params: Params) -> int:
    """Return a run's number of steps. Raises UserError where the data set was not read yet."""
    cfg = run.train
    if cfg.max_steps:
        return cfg.max_steps
    manifest = Path("data") / run.cell.data / "manifest.json"
    if manifest.is_file():
        samples = read_manifest(manifest, ANNOTATE).samples
    elif str(run.data.path).startswith("data/scenes_world"):
        samples = params.scenes.train
    else:
        raise UserError(f"data {run.cell.data} was not read yet")
    return max(1, round(cfg.epochs * samples / cfg.batch_size))


def time_step(run: Run) -> float:
    """Return the seconds of a core that a step of a run takes at most: made-up captions fill the model's context."""
    from compclip.model import backbone
    from compclip.train import simulated_step

    if run.train.threads:  # more of them than the run's would wait for each other, and count that as work
        torch.set_num_threads(run.train.threads)
    size = math.ceil(run.train.batch_size / TIMED_SHARE)
    small = replace(run, train=replace(run.train, batch_size=size, micro_batch=0))
    architecture = backbone.read_architecture(run.backbone.model)
    take_step = simulated_step.open_step(small, load_method(run.method_name), architecture, "cpu")
    take_step(0)
    started = time.process_time()
    take_step(1)
    return (time.process_time() - started) * run.train.batch_size / size


class StageLines:
    """Shows a line for each stage that is over, and on a terminal a bar for the one that works."""

    def __init__(self, total: int) -> None:
        self.total = total
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
        if begin or UNCHANGED.match(line):
            self.end()
            self.number += 1
            self.unchanged += begin is None
        if begin:
            self.begin(begin[1].replace("@", " "))
        elif line.startswith(LOCK_FILE):
            self.end()
        elif line.startswith(SHOWN):
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
        self.bar.set_description_str(f"{self.number:>3}/{self.total} {name:<28}", refresh=False)
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
            tqdm.write(f"{self.number:>3}/{self.total} {self.name:<28} {seconds:>6.0f} s  {self.summary[:100]}")
            sys.stdout.flush()
        self.name = ""


def run_dvc(words: Sequence[str], total: int) -> int:
    """Run `dvc repro` and show its stages; return its exit code, 130 where Ctrl-C stopped it."""
    LOG.parent.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "dvc", "repro", *words]
    lines = StageLines(total)
    is_over = threading.Event()
    threading.Thread(target=_draw, args=(lines, is_over), daemon=True).start()
    is_stopped = False
    with LOG.open("w", encoding="utf-8") as log, subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as dvc:  # fmt: skip
        while True:
            try:
                line = dvc.stdout.readline()  # type: ignore[union-attr]
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
    lines.bar.close()
    if lines.unchanged:
        print(f"{format_count(lines.unchanged, 'stage')} had nothing to do")
    if failed:
        print(*lines.last_lines, sep="\n", file=sys.stderr)
        print(f"{failed}: stopped or failed; {LOG} has all that it printed", file=sys.stderr)
    return 130 if is_stopped else dvc.returncode


def _draw(lines: StageLines, is_over: threading.Event) -> None:
    """Let the bar's clock go on while nothing is printed."""
    while not is_over.wait(1.0):
        if lines.name:
            lines.bar.refresh()


if __name__ == "__main__":
    sys.exit(entry(main))
