"""Choose each method's parameters on validation items: the stage `tune`, before a run has its key.

    compclip sweep tune                                   bring all studies up to date, a trial for each GPU or core
    compclip sweep tune --on slurm/a100.yaml -j 8         each trial a job of a cluster
    compclip sweep tune --method negclip                  of one method

plan/tune/tune.json has the searches of each trained method, backbone and data set: of its schedule, then with the
chosen schedule of its own parameters. Where nothing beyond the best trial was tried on a side of a range, the space is
widened there, and a further study searches what is new; `widenings` bounds how often. Studies are driven as `compclip
sweep` drives one: the same command goes on where a killed one was, and equal runs of the store are shared. A study has
a name of its own for all that its trials depend on. tuned/<method>.json has the chosen values, which the runs of all
seeds take, and what the report says of them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compclip.base import links
from compclip.base.command_line import CommandParser
from compclip.base.errors import UserError, entry, unknown
from compclip.base.files import read_mapping, update_json
from compclip.base.safe_names import SafeName
from compclip.config import tuning
from compclip.runs import progress, run_store

if TYPE_CHECKING:
    from compclip.launch.profiles import Profile
    from compclip.sweep.study_declaration import Study

NAME_DIGITS = 8
WIDENED_BY = (0.5, 0.25, 0.125)  # of its length: the largest with which the method still takes the new end


def main(argv: list[str], root: Path = Path(".")) -> int:
    """Bring the studies up to date and write what they chose."""
    args = _parse_arguments(argv)
    path = root / run_store.TUNE_PLAN
    if not path.is_file():
        raise UserError(f"{path}: not there; run `compclip repro plan` first")
    requests = read_mapping(path)["studies"]
    if args.method and args.method not in requests:
        raise unknown("tuned method", args.method, requests, "--method")
    for old in (root / tuning.TUNED).glob("*.json"):
        if old.stem not in requests and old.name != tuning.LIST:
            links.remove(old)
    for method, places in requests.items():
        if args.method in ("", method):
            tune_method(method, places, args, root)
    update_json(root / tuning.TUNED / tuning.LIST, {"methods": list(requests)})
    print(f"{len(requests)} methods tuned" if requests else "nothing to tune", flush=True)
    return 0


def tune_method(method: str, places: Mapping[str, Any], args: argparse.Namespace, root: Path) -> None:
    """Write tuned/<method>.json: for each backbone and data set the request, the values, and how they were found."""
    from compclip.launch import profiles

    args.on = args.on or os.environ.get(profiles.VARIABLE, "")
    profile = profiles.load_profile(args.on) if args.on else profiles.Profile(executor="local")
    values_by_place = {}
    for place, request in places.items():
        tuning_run = TuningRun(place, request, profile, args, root)
        for search in request["searches"]:
            tuning_run.run_search(search)
        values_by_place[place] = {"request": request, **tuning_run.describe()}
    update_json(root / tuning.TUNED / f"{SafeName(method, 'method')}.json", values_by_place)


@dataclass
class TuningRun:
    """The studies of one method at one place. `trials` are the finished ones, each with every searched parameter."""

    place: str
    request: Mapping[str, Any]
    profile: Profile
    args: argparse.Namespace
    root: Path
    trials: list[dict[str, Any]] = field(default_factory=list)
    studies: list[Study] = field(default_factory=list)
    space: dict[str, Any] = field(default_factory=dict)  # what was searched, in the end
    reference: list[float] = field(default_factory=list)  # the pretrained model's objectives
    seconds_by_run: dict[str, float] = field(default_factory=dict)
    failed: int = 0

    @property
    def best(self) -> dict[str, Any]:
        """The finished trial with the largest sum of objectives; the earliest of equals."""
        return max(self.trials, key=lambda trial: sum(trial["values"]))

    def run_search(self, search: Mapping[str, Any]) -> None:
        """Search a space, and what lies beyond it as long as the best trial lies at an edge."""
        chosen = self.best["params"] if self.trials else {}
        self.space |= search["space"]
        if self.is_spent:
            return
        self._drive(search, chosen)
        for _ in range(self.request["widenings"]):
            space = {name: self.space[name] for name in search["space"]}
            strips = self.list_strips(space)
            if self.is_spent or not strips:
                break
            half = -(-search["trials"] // 2)  # rounded up
            self._drive({"space": space | strips, "trials": half, "paper": []}, chosen)
            for name, strip in strips.items():
                self.space[name] = join_ranges(space[name], strip)

    @property
    def is_spent(self) -> bool:
        """Whether the device-hours of all trials are spent, where they are limited."""
        limit_s = 3600 * self.request["device_hours"]
        return bool(limit_s) and sum(self.seconds_by_run.values()) >= limit_s

    def list_strips(self, space: Mapping[str, Any]) -> dict[str, Any]:
        """List the ranges beyond the edges at which the best trial lies, where the method takes such values."""
        best = self.best["params"]
        strips = {}
        for name, dimension in space.items():
            tried = [trial["params"][name] for trial in self.trials]
            for end, strip in extend_range(dimension, find_edge(dimension, best[name], tried)):
                if self._is_allowed(name, end):
                    strips[name] = strip
                    break
        return strips

    def _is_allowed(self, name: str, value: Any) -> bool:
        try:
            self._resolve({**self.best["params"], name: value})
        except UserError:
            return False
        return True

    def _resolve(self, trial_values: Mapping[str, Any]) -> dict[str, Any]:
        """Return drawn values as the run has them: a whole number for a float is one."""
        from compclip.config import read
        from compclip.sweep import study_declaration

        params = Path(self.args.params)
        study = self.studies[-1]
        overrides = study_declaration.trial_overrides(study, trial_values, read.load_params(params).methods)
        run = study_declaration.trial_run(study, read.load_params(params, overrides))
        settings = {"method": run.plain["method"], "train": run.plain["train"]}
        return tuning.get_values(settings, trial_values)

    def _drive(self, search: Mapping[str, Any], chosen: Mapping[str, Any]) -> None:
        """Drive one study to its number of trials, with the values chosen before, and take over its trials."""
        from compclip.config import read
        from compclip.sweep import __main__ as sweep_command
        from compclip.sweep import study_declaration, study_results
        from compclip.sweep.study_driver import StudyDriver, open_study

        params = Path(self.args.params)
        left_s = 3600 * self.request["device_hours"] - sum(self.seconds_by_run.values())
        study = name_study(self.place, self.request, search, chosen, params, self.root)
        with study_results.lock_study(study.name, self.root):
            fixed = sweep_command.fixed_params(study, params, [], self.root)
            study_declaration.check_study(study, read.load_params(fixed), str(params))
            url = sweep_command.storage_url("", study.name, self.root)
            opened = open_study(study, url, sweep_command.base_key(study, fixed))
            workers = self.args.jobs or (self.profile.jobs if self.args.on else _count_slots(self.request))
            sender = sweep_command.make_sender(self.profile)
            driver = StudyDriver(study, opened, sender, fixed, self.root, workers, limit_s=max(left_s, 0.0))
            driver.drive(study.trials)
            document = driver.document()
        if document["best"] is None:
            raise UserError(f"study {study.name}: no trial was finished; see studies/{study.name}/trials.json")
        self.studies.append(study)
        self.reference = document["reference"]["values"]
        self._take_trials(document["trials"], chosen)

    def _take_trials(self, trials: Sequence[Mapping[str, Any]], chosen: Mapping[str, Any]) -> None:
        present: dict[str, Any] = {}
        for search in self.request["searches"]:
            present |= tuning.get_values(self.request["settings"], search["space"])
        for trial in trials:
            if trial["run_key"]:
                folder = run_store.find_folder(trial["run_key"], self.root)
                self.seconds_by_run[trial["run_key"]] = progress.sum_device_seconds(folder)
            if trial["state"] == "complete":
                values = {**present, **chosen, **trial["params"]}
                self.trials.append({"params": values, "values": trial["values"], "paper": values == present})
            else:
                self.failed += 1

    def describe(self) -> dict[str, Any]:
        """Return what tuned/<method>.json has of a place, beside the request; `best` counts the trials from 0."""
        best = self.best
        return {
            "values": self._resolve(best["params"]),
            "studies": [str(study.name) for study in self.studies],
            "best": self.trials.index(best),
            "space": self.space,
            "edges": list(self.list_strips(self.space)),  # whose best value lies at an edge after all widenings
            "reference": self.reference,
            "trials": self.trials,
            "failed": self.failed,
            "device_seconds": sum(self.seconds_by_run.values()),
        }


def name_study(
    place: str,
    request: Mapping[str, Any],
    search: Mapping[str, Any],
    chosen: Mapping[str, Any],
    params: Path,
    root: Path,
) -> Study:
    """Return a search's study under a name for all that its trials depend on: declaration, code, data, parameters.

    `chosen` are values of an earlier search, with which all trials of this one run.
    """
    from compclip.config import read
    from compclip.sweep import __main__ as sweep_command
    from compclip.sweep import study_declaration

    name = f"tune.{request['study']['method']}-{place}"
    study = study_declaration.parse_study(name, {**request["study"], **search})
    fixed_values = {key: value for key, value in chosen.items() if key not in search["space"]}
    overrides = study_declaration.trial_overrides(study, fixed_values, read.load_params(params).methods)
    study = replace(study, overrides=tuple(overrides))
    fixed = sweep_command.fixed_params(study, params, [], root)
    identity = json.dumps([study.identity(), sweep_command.base_key(study, fixed)], sort_keys=True)
    digest = hashlib.sha256(identity.encode()).hexdigest()[:NAME_DIGITS]
    return replace(study, name=SafeName(f"{study.name}-{digest}", "study"))


# --- the edges of a space: a dimension is as a study's file has it


def find_edge(dimension: Mapping[str, Any], best: Any, tried: Sequence[Any]) -> int:
    """Return 1 where no tried value lies above the best one, -1 where none lies below it, else 0."""
    if "categorical" in dimension:
        return 0
    return 1 if best >= max(tried) else -1 if best <= min(tried) else 0


def extend_range(dimension: Mapping[str, Any], side: int) -> list[tuple[Any, dict[str, Any]]]:
    """List what can lie beyond one end of a range, the widest first: the new end, and the range up to it."""
    if not side:
        return []
    kind = "int" if "int" in dimension else "float"
    low, high = dimension[kind]
    old_end = high if side > 0 else low
    length = _to_scale(dimension, high) - _to_scale(dimension, low)
    extensions = []
    for share in WIDENED_BY:
        scaled = _to_scale(dimension, old_end) + side * share * length
        end = float(f"{math.exp(scaled) if dimension['log'] else scaled:.6g}")
        end = round(end) if kind == "int" else end
        if end != old_end:
            extensions.append((end, {**dimension, kind: sorted([old_end, end])}))
    return extensions


def join_ranges(dimension: Mapping[str, Any], strip: Mapping[str, Any]) -> dict[str, Any]:
    """Return the range that holds both of two neighbours."""
    kind = "int" if "int" in dimension else "float"
    both = [*dimension[kind], *strip[kind]]
    return {**dimension, kind: [min(both), max(both)]}


def _to_scale(dimension: Mapping[str, Any], value: float) -> float:
    return math.log(value) if dimension["log"] else value


def _count_slots(request: Mapping[str, Any]) -> int:
    """Return how many trials this machine carries at a time: one on each GPU, or as its cores carry."""
    from compclip.runs import local_runs

    return len(local_runs.list_slots(request["settings"]["train"]["threads"]))


def _parse_arguments(argv: list[str]) -> argparse.Namespace:
    parser = CommandParser(prog="compclip sweep tune", description=__doc__, example="--method negclip")
    parser.add_argument("--method", default="", help="a method of the grid; default: all that are trained")
    parser.add_argument(
        "-j", "--jobs", type=int, default=0, help="trials at a time; default: the profile's, or GPUs or cores"
    )
    help_text = "a file of slurm/; default: that of `compclip repro --on`, or processes of this machine"
    parser.add_argument("--on", default="", metavar="PROFILE", help=help_text)
    parser.add_grid()
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(entry(main))
