"""Take finished runs over where only code differs: `compclip carry [METHOD ...]`.

    compclip carry                     every cell of the grid whose key has no finished run
    compclip carry fsc_clip negclip    those of two methods
    compclip carry --steps 20          train 20 steps of each instead of 3, as to the first logged one of older runs

Each run is tried by itself: its first steps are trained anew with the code of now, and compared with what was recorded
when it was trained: terms, gradient norm and learning rate, and hashes of the weights and of AdamW's moments. Where
`train.keep_checkpoint` left a state, the last steps are trained anew too, and the finished weights compared. A CPU must
give equal bits; on a GPU, numbers must agree within --tolerance, and hashes are not compared. An equal run is entered
under its new key with a certificate, store/<run key>/final/carried.json; the certificate says what was not compared.
Runs at default options whose code the release itself has found equal are entered without a trial, unless --steps asks
for one.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compclip.base import thread_waiting
from compclip.base.command_line import CommandParser
from compclip.base.errors import UserError, entry, one_line, unknown
from compclip.base.number_text import format_count
from compclip.config import grid, read
from compclip.runs import carried_runs, key_parts, release_proof, result_files, run_store
from compclip.runs.key_parts import KeyParts, RecordedRun
from compclip.runs.run_store import StoredRun

if TYPE_CHECKING:
    from compclip.train.trial_steps import TrialResult

STEPS, TOLERANCE = 3, 1e-3
CARRIED, PARTS, FAILED, NOTHING = "carried", "parts", "failed", "nothing"


@dataclass(frozen=True)
class Machine:
    """Where the trials run, as environment.json describes it; `tolerance` is 0 on a CPU."""

    facts: dict[str, Any]
    tolerance: float


@dataclass
class Comparison:
    """What was compared of a run, and the first thing that is not equal ("" where all is)."""

    fault: str = ""
    steps: list[int] = field(default_factory=list)
    late_steps: list[int] = field(default_factory=list)
    hashes: bool = False
    rates: int = 0
    finished_weights: bool = False
    tolerance: float = 0.0

    def describe(self, steps: int) -> str:
        """Say in one sentence what was compared, of a run of so many steps."""
        how = f"equal within {self.tolerance:g}" if self.tolerance else "equal bits"
        phrases = [f"steps {_format_steps(self.steps)} of {steps}" + " with weights" * self.hashes] * bool(self.steps)
        phrases += [f"steps {_format_steps(self.late_steps)}"] * bool(self.late_steps)
        phrases += ["the finished weights"] * self.finished_weights
        if self.finished_weights or not steps:
            return f"{', '.join(phrases)}: {how}"
        return f"{', '.join(phrases)}: {how}; no later step but its learning rate ({self.rates} logged ones)"


@dataclass(frozen=True)
class Outcome:
    """What became of a cell, and a line that says so."""

    kind: str
    line: str
    seconds: float = 0.0


def carry_cell(cell_run: StoredRun, runs: Sequence[RecordedRun], count: int, machine: Machine) -> Outcome:
    """Try a cell once and enter the newest of its finished runs that agrees, if any."""
    from compclip.train import trial_steps

    started, current = time.perf_counter(), key_parts.describe_key(cell_run.run, cell_run.root)
    candidates = [run for run in runs if key_parts.differs_in_code_alone(run, cell_run, current)]
    if not candidates:
        return Outcome(NOTHING, f"{cell_run.name}: no finished run with equal parameters, data and backbone")
    candidates.sort(key=lambda run: -run.finished_at)
    try:
        trial = trial_steps.run_trial(cell_run.run, cell_run.root, count)
        comparisons = {run.folder.key: _compare(run, cell_run, trial, machine) for run in candidates}
    except UserError as error:  # of the loss, or of what the new code cannot read any more
        return Outcome(PARTS, f"{cell_run.name}: {one_line(str(error))}", time.perf_counter() - started)
    equal = next((run for run in candidates if not comparisons[run.folder.key].fault), None)
    if equal is None:
        run = candidates[0]
        why = f"{comparisons[run.folder.key].fault}; training it again takes about {run.device_seconds:.0f} s"
        return Outcome(PARTS, f"{cell_run.name} from {run.folder.key}: {why}", time.perf_counter() - started)
    certificate = _certify(equal, cell_run, current, comparisons[equal.folder.key], trial.steps, machine)
    try:
        carried_runs.enter_run(equal, cell_run, current, certificate)
    except UserError as error:
        return Outcome(FAILED, f"{cell_run.name}: {error}", time.perf_counter() - started)
    line = f"{cell_run.name} from {equal.folder.key} to {cell_run.key}: {certificate['compared']}"
    return Outcome(CARRIED, line, time.perf_counter() - started)


def _compare(run: RecordedRun, cell_run: StoredRun, trial: TrialResult, machine: Machine) -> Comparison:
    """Compare a finished run with a trial of its cell, and with one from its kept checkpoint where there is one."""
    from compclip.train import first_steps, trial_steps

    if obstacle := _find_obstacle(run, machine):
        return Comparison(obstacle)
    logged, first = result_files.read_curve(run.folder.final), first_steps.read_rows(run.folder.first_steps)
    comparison = Comparison(tolerance=machine.tolerance, rates=len(logged))
    compared = {row["step"] for row in trial.rows} & {row["step"] for row in (*first, *logged)}
    comparison.steps, comparison.hashes = sorted(compared), bool(first) and machine.tolerance == 0
    difference = trial_steps.find_difference([*first, *logged], trial.rows, machine.tolerance)
    difference = difference or trial_steps.find_rate_difference(cell_run.run, logged, trial.steps, trial.per_epoch)
    if not (comparison.steps or trial.weights_fingerprint):
        reach = f"--steps {logged[0]['step']} reaches the first that was" if logged else "train it again"
        return Comparison(f"no number of its first {format_count(len(trial.rows), 'step')} was recorded; {reach}")
    if not difference and run.folder.kept_state.is_dir():
        late = trial_steps.run_trial(cell_run.run, cell_run.root, 0, run.folder.kept_state)
        difference = trial_steps.find_difference(logged, late.rows, machine.tolerance)
        comparison.late_steps = [row["step"] for row in late.rows]
        trial = late
    comparison.fault = str(difference or "")
    if not comparison.fault and trial.weights_fingerprint and machine.tolerance == 0:
        comparison.finished_weights = run.facts.get("weights_fingerprint") == trial.weights_fingerprint
        comparison.fault = "" if comparison.finished_weights else "the finished weights differ, or were not recorded"
    return comparison


def _find_obstacle(run: RecordedRun, machine: Machine) -> str:
    """Return why a run cannot be compared here; empty where it can."""
    device, here = run.facts.get("device"), machine.facts["device"]
    if device != here:
        return f"was trained on {device}, and this is {here}: nothing to compare"
    if (count := run.facts.get("processes", 1)) != 1:
        return f"was trained by {count} processes: trials by several are not supported"
    return ""


def _certify(
    run: RecordedRun, cell_run: StoredRun, current: KeyParts, comparison: Comparison, steps: int, machine: Machine
) -> dict[str, Any]:
    """Return the certificate: keys, modules that differ, what was compared, versions, date."""
    changes = run.key_parts and key_parts.compare_modules(run.key_parts.modules, current.modules)
    values = {name: value for name, value in asdict(comparison).items() if name != "fault"}
    return {
        "from": run.folder.key,
        "to": cell_run.key,
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "compared": comparison.describe(steps),
        "details": {"steps_of_run": steps, **values},
        "inputs": "data and backbone equal" if run.key_parts else "data equal; the backbone was not recorded",
        "modules": asdict(changes) if changes else "not recorded",
        "recorded": {name: run.facts.get(name) for name in ("packages", "device", "git_commit")},
        "tried": {name: machine.facts[name] for name in ("packages", "device", "git_commit")},
        "carried_before": run.facts.get("carried"),
    }


def _format_steps(steps: Sequence[int]) -> str:
    is_range = len(steps) > 2 and steps[-1] - steps[0] == len(steps) - 1
    return f"{steps[0]} to {steps[-1]}" if is_range else ", ".join(map(str, steps))


def carry_by_release(cell_run: StoredRun, runs: Sequence[RecordedRun]) -> Outcome | None:
    """Enter a run that the release has proven equal; None where it has none, and a trial must tell."""
    codes = release_proof.list_equal_codes(cell_run)
    try:
        line = release_proof.take_over_cell(cell_run, runs, codes) if codes else ""
    except UserError as error:
        return Outcome(FAILED, f"{cell_run.name}: {error}")
    return Outcome(CARRIED, line) if line else None


def carry_grid(methods: Sequence[str], params: str, count: int | None, tolerance: float, root: Path = Path(".")) -> int:
    """Carry what can be carried of a grid; return 1 where a run parts or cannot be entered, else 0.

    With a count of steps every run is tried; None tries three of those that the release's proof does not cover.
    """
    loaded = read.load_params(params)
    for name in methods:
        if name not in loaded.grid.methods:
            raise unknown("method", name, loaded.grid.methods, "grid.methods")
    chosen = [run for run in grid.resolve_all(loaded) if not methods or run.cell.method in methods]
    cells = [run_store.locate_run(run, root) for run in chosen]
    missing = list({cell_run.key: cell_run for cell_run in cells if not cell_run.finished}.values())
    machine = _describe_machine(tolerance) if missing else Machine({}, 0.0)
    runs = {name: list(key_parts.list_recorded(root, name)) for name in {s.run.method_name for s in missing}}
    outcomes = []
    for cell_run in missing:
        recorded = runs[cell_run.run.method_name]
        proven = carry_by_release(cell_run, recorded) if count is None else None
        outcomes.append(proven or carry_cell(cell_run, recorded, count or STEPS, machine))
        stream = sys.stderr if outcomes[-1].kind in (PARTS, FAILED) else sys.stdout
        print(f"{outcomes[-1].kind:<7}  {outcomes[-1].line}", file=stream, flush=True)
    tally = {kind: sum(outcome.kind == kind for outcome in outcomes) for kind in (CARRIED, PARTS, FAILED, NOTHING)}
    tried = [outcome.seconds for outcome in outcomes if outcome.seconds]
    cost = f"; {sum(tried) / len(tried):.1f} s a trial" if tried else ""
    print(
        f"{format_count(len(cells), 'cell')}: {tally[CARRIED]} carried, {tally[PARTS]} part, {tally[FAILED]} failed, "
        f"{tally[NOTHING]} with nothing to carry, {len(cells) - len(outcomes)} with a run{cost}"
    )
    return 1 if tally[PARTS] or tally[FAILED] else 0


def _describe_machine(tolerance: float) -> Machine:
    from compclip.train import distributed, job

    device = distributed.process_device()
    return Machine(job.describe_environment(device), 0.0 if device == "cpu" else tolerance)


def main(argv: Sequence[str]) -> int:
    """Run the command `carry`."""
    os.environ.update(thread_waiting.passive_waiting(os.environ))  # before torch is loaded, which reads it
    parser = CommandParser(
        prog="compclip carry", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("methods", nargs="*", metavar="METHOD", help="name or name.variant of the grid; default: all")
    parser.add_argument("--steps", type=int, help=f"try every run with so many first steps (default: {STEPS})")
    parser.add_argument(
        "--tolerance", type=float, default=TOLERANCE, help=f"relative, on a GPU alone ({TOLERANCE:g}; not measured)"
    )
    parser.add_argument("--params", default=read.DEFAULT, help="the file that holds the grid")
    args = parser.parse_args(argv)
    if args.steps is not None and args.steps < 1:
        raise UserError(f"--steps {args.steps}: must be at least 1")
    return carry_grid(args.methods, args.params, args.steps, args.tolerance)


if __name__ == "__main__":
    sys.exit(entry(main))
