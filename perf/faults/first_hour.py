"""Play the first hour with real data of docs/install.md by the letter, on this machine, with local hosts and few steps.

    python -m perf.faults.first_hour [--tiny] [--folder FOLDER]

The commands are read out of the page's code blocks and run in a copy of this checkout. What `compclip fetch` brings
comes from a server of this machine: the photographs and texts of COMPCLIP_SHARED_DATA (default: ../shared/data) in the
official archives, and a ViT-B/32 with random weights. Once the grid is checked, perf/faults/first_hour.yaml leaves
one seed of it and few steps. `--tiny` takes drawings, and a model of a second.

Where there is no GPU, a command with --gpu has to refuse in one line. `make setup` has nothing to do, since the
environment of this Python is linked. The page's estimates of time are not compared.

Printed are wall and CPU seconds of each command. Exit code 1, with a line each, where a command fails, or where what is
printed, a path or a count differs from the page.

Takes 10 minutes, 2 with `--tiny`; needs photographs, but for `--tiny`; a port of this machine.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from omegaconf import OmegaConf

from compclip.config import grid, read
from compclip.config.sections import Params
from compclip.fetch.catalogue import load_catalogue
from compclip.interface.method import load_method
from compclip.runs import gpus
from perf import checkout
from perf.faults import first_hour_hosts
from perf.faults.first_hour_page import Page, PageCommand, read_page

GRID = Path("experiments/grids/first_hour.yaml")
CATALOGUE = Path("compclip/fetch/catalogue.yaml")
REPORT = Path("reports/index.html")
SIZES = Path(__file__).with_suffix(".yaml")
CONFIG = "compclip config "
SETUP = ("Makefile", "pyproject.toml", "constraints.txt")  # what `make setup` reads
# What a reader does not have: caches and switches of whoever rehearses.
NOT_A_READERS = ("OMP_NUM_THREADS", "PYTHONDONTWRITEBYTECODE", "HF_HUB_OFFLINE", "HF_TOKEN", "HF_HUB_CACHE")
GIB = 1 << 30
TOLERANCE = 0.1  # of the GiB that the page rounds


@dataclass(frozen=True)
class PlayedCommand:
    """A command of the page, and what came of it."""

    line: str
    code: int
    output: str
    wall_s: float
    cpu_s: float
    in_parallel: bool = False  # ran while another command ran, so its wall time is not added


def main(argv: list[str] | None = None) -> int:
    """Play the hour, print its times and its faults; 1 where there is a fault."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="drawings and a tiny model, in a minute")
    parser.add_argument(
        "--folder", type=Path, help="a new folder for the project, which stays; default: a temporary one"
    )
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as temporary:
        played, faults = rehearse(args.folder or Path(temporary, "project"), Path(temporary), args.tiny)
    print("\n  wall s    CPU s  exit  command")
    for command in played:
        print(f"{command.wall_s:8.1f} {command.cpu_s:8.1f} {command.code:5}  {command.line}")
    wall_s = sum(command.wall_s for command in played if not command.in_parallel)
    print(f"{wall_s:8.1f} {sum(command.cpu_s for command in played):8.1f}        all\n")
    print(*faults or ["as the page says"], sep="\n")
    return int(bool(faults))


def rehearse(root: Path, spare: Path, tiny: bool) -> tuple[list[PlayedCommand], list[str]]:
    """Play the page in a new project; return its commands and a line for each difference from the page."""
    page = read_page(checkout.ROOT / "docs" / "install.md")
    faults = list(compare_counts(page, read.load_params(str(checkout.ROOT / GRID))))
    make_project(root)
    source = first_hour_hosts.make_photographs(spare / "drawn") if tiny else photographs()
    files = first_hour_hosts.official_files(source, tiny)
    with first_hour_hosts.serve(root / CATALOGUE, files) as address:
        environment = checkout.environment(root) | {"HF_ENDPOINT": address, "HF_HOME": str(spare / "hub")}
        environment = {name: value for name, value in environment.items() if name not in NOT_A_READERS}
        played = play(page.commands, root, environment, tiny)
    if failures := [*compare_results(played)]:
        return played, [*faults, *failures, f"{len(page.commands) - len(played)} commands of the page were not played"]
    return played, [*faults, *compare_project(page, played, root)]


def photographs() -> Path:
    """Return the folder of the shared data. Raises FileNotFoundError where it is not there."""
    path = Path(os.environ.get("COMPCLIP_SHARED_DATA", checkout.ROOT.parent / "shared" / "data"))
    if not path.is_dir():
        raise FileNotFoundError(f"no photographs at {path}; set COMPCLIP_SHARED_DATA, or give --tiny")
    return path


def make_project(root: Path) -> None:
    """Make a clone in which `make setup` has run."""
    small_grid = (
        checkout.ROOT / GRID.parent / "try.yaml"
    )  # the page chooses another, and a checkout's own may be anything
    checkout.copy(root, read.write_out(small_grid))
    for name in SETUP:
        shutil.copy(checkout.ROOT / name, root / name)
    (root / ".venv").mkdir()
    (root / ".venv" / "bin").symlink_to(Path(sys.prefix) / "bin")
    (root / ".venv" / ".installed").touch()
    identity = ["-c", "user.name=reader", "-c", "user.email=reader@localhost"]
    for words in (["add", "-A"], [*identity, "commit", "-qm", "a clone"]):
        subprocess.run(["git", *words], cwd=root, check=True)


def lower_sizes(params: Path, tiny: bool) -> None:
    """Give the grid that the reader has chosen few steps, where the page says what to lower on a smaller machine."""
    sizes = OmegaConf.load(SIZES)
    overlays = [sizes.steps, sizes.tiny] if tiny else [sizes.steps]
    OmegaConf.save(OmegaConf.merge(OmegaConf.load(params), *overlays), params)


# --- commands ---------------------------------------------------------------------------------------------------------


class Shell:
    """A command in a shell of its own; the variables that it exports are those of the next."""

    def __init__(self, line: str, root: Path, environment: dict[str, str]) -> None:
        self.line = line
        self._folder = tempfile.TemporaryDirectory(prefix="shell-")
        self._output, self._variables = Path(self._folder.name, "output"), Path(self._folder.name, "variables")
        script = f"{line}\ncode=$?\nenv -0 > {self._variables}\nexit $code"
        self._started = time.perf_counter()
        # a job in the background of a script ignores Ctrl-C, and so would all that it starts
        command = ["env", "--default-signal=INT", "bash", "-c", script]
        with open(self._output, "wb") as output:
            self._process = subprocess.Popen(
                command, cwd=root, env=environment, stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip

    def __enter__(self) -> Shell:
        return self

    def __exit__(self, *_: object) -> None:
        """End what still works where the rehearsal ends early."""
        if self._process.returncode is None:
            self.stop()
        self._folder.cleanup()

    def stop(self) -> PlayedCommand:
        """Press Ctrl-C, every five seconds until it ends: one press was once not heard."""
        while True:
            os.killpg(self._process.pid, signal.SIGINT)
            for _ in range(50):
                if os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                    return self.wait()
                time.sleep(0.1)

    def wait(self) -> PlayedCommand:
        """Wait for its end; its seconds of CPU are those of all processes that it has waited for."""
        _, status, usage = os.wait4(self._process.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        wall_s = time.perf_counter() - self._started
        output = self._output.read_text(encoding="utf-8", errors="replace")
        return PlayedCommand(self.line, self._process.returncode, output, wall_s, usage.ru_utime + usage.ru_stime)

    def read_environment(self) -> dict[str, str]:
        """Read the variables that it left."""
        variables = filter(None, self._variables.read_text(encoding="utf-8").split("\0"))
        return dict(variable.split("=", 1) for variable in variables)


def play(commands: list[PageCommand], root: Path, environment: dict[str, str], tiny: bool) -> list[PlayedCommand]:
    """Run the commands one after the other as a reader does, who stops where one fails.

    What is typed beside another ends with it. After the last command of `compclip config` the grid gets few steps.
    """
    played: list[PlayedCommand] = []
    last_config = [command for command in commands if command.line.startswith(CONFIG)][-1]
    for command, following in zip(commands, [*commands[1:], None], strict=True):
        if command.in_parallel or any(compare_results(played)):
            continue
        with contextlib.ExitStack() as terminals:
            watch = None
            if following and following.in_parallel:
                watch = terminals.enter_context(Shell(following.line, root, environment))
            shell = terminals.enter_context(Shell(command.line, root, environment))
            played.append(shell.wait())
            print(f"$ {command.line}\n{played[-1].output.rstrip()}", flush=True)
            if watch:
                played.append(replace(watch.stop(), in_parallel=True))
            environment = shell.read_environment()
        if command is last_config:
            lower_sizes(root / "params.yaml", tiny)
    return played


# --- what the page says -----------------------------------------------------------------------------------------------


def compare_counts(page: Page, params: Params) -> Iterator[str]:
    """Compare the numbers of the text with what the shipped grid and the catalogue give."""
    runs = [run for run in grid.resolve_all(params) if load_method(run.method_name).TRAINS]
    [data_set] = params.data.values()
    pictures = int(data_set.limit * params.train.epochs)
    counts = {
        "methods": len({run.method_name for run in runs}), "pictures": data_set.limit, "seeds": len(params.grid.seeds),
        "batch": params.train.batch_size, "steps between two lines": params.train.log_every_steps,
        "trained cells": len(runs), "pictures a cell": pictures, "steps a cell": pictures // params.train.batch_size,
    }  # fmt: skip
    for name, count in counts.items():
        if page.counts[name] != count:
            yield f"{name}: the page says {page.counts[name]}, {GRID} gives {count}"
    offers = load_catalogue()
    fetched = [offers[word] for command in page.commands for word in command.line.split() if word in offers]
    gib = sum(file.size for offer in fetched for file in offer.files.values()) / GIB
    if abs(gib - page.counts["GiB to fetch"]) > TOLERANCE * gib:
        yield f"GiB to fetch: the page says {page.counts['GiB to fetch']}, the catalogue's sizes give {gib:.1f}"


def compare_results(played: list[PlayedCommand]) -> Iterator[str]:
    """Compare exit codes: 0, or 2 and one line of what asks for a GPU that is not there."""
    has_gpu = bool(gpus.list_gpus())
    for command in played:
        expected = 0 if has_gpu or "--gpu" not in command.line else 2
        last_line = (command.output.strip().splitlines() or [""])[-1]
        if command.code != expected or (expected and command.output.count("\n") != 1):
            yield f"{command.line}: exit code {command.code}, expected {expected}: {last_line}"


def compare_project(page: Page, played: list[PlayedCommand], root: Path) -> Iterator[str]:
    """Compare what was printed, the files and the report with the page."""
    yield from compare_outputs(page, played)
    for path in page.paths:
        if not (root / path).exists():
            yield f"{path}: the page names it, and it does not exist"
    report = (root / REPORT).read_text(encoding="utf-8")
    for text in page.report_texts:
        if text not in report:
            yield f"{REPORT}: has no {text}, which the page explains"


def compare_outputs(page: Page, played: list[PlayedCommand]) -> Iterator[str]:
    """Compare what commands print with what the page says that they print."""
    for name, text in page.outputs:
        outputs = [command.output for command in played if name in command.line]
        if not any(text in output for output in outputs):
            yield f"{name}: does not print {text!r}"
    for command in played:
        if command.line.startswith("compclip fetch"):
            for name in command.line.split()[2:]:
                if not re.search(rf"^{name}: \d+ fetched", command.output, re.M):
                    yield f"{command.line}: {name} was not fetched"
        if match := re.search(r"train\.max_steps=(\d+)", command.line):
            yield from compare_steps(page, command.output, int(match[1]))


def compare_steps(page: Page, output: str, steps: int) -> Iterator[str]:
    """Compare the steps that are tried, and how often a line is printed, with the page."""
    if steps != page.counts["steps to try"]:
        yield f"steps to try: the heading says {page.counts['steps to try']}, the command {steps}"
    expected = steps // page.counts["steps between two lines"]
    count = sum("loss" in line and "samples/s" in line for line in output.splitlines())
    if count != expected:
        yield f"{count} lines with loss and samples per second, expected {expected}"


if __name__ == "__main__":
    sys.exit(main())
