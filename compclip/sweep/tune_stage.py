"""Choose each method's parameters on validation items: the stage `tune`, before a run has its key.

    compclip sweep tune                                   bring all studies up to date, a trial for each GPU or core
    compclip sweep tune --profile slurm/a100.yaml -j 8    each trial a job of a cluster
    compclip sweep tune --method negclip                  of one method

The studies are those of plan/tune/tune.json, one for each trained method, backbone and data set, driven as `compclip
sweep` drives one: the same command goes on where a killed one was, and equal runs of the store are shared. A study has
a name of its own for all that its trials depend on. tuned/<method>.json has the chosen values, which the runs of all
seeds take, and what the report says of them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compclip.base import links
from compclip.base.command_line import CommandParser
from compclip.base.errors import UserError, entry, unknown
from compclip.base.files import read_mapping, update_json
from compclip.base.safe_names import SafeName
from compclip.config import tuning
from compclip.runs import run_store

if TYPE_CHECKING:
    from compclip.launch.profiles import Profile
    from compclip.sweep.study_declaration import Study

NAME_DIGITS = 8


def main(argv: list[str], root: Path = Path(".")) -> int:
    """Bring the studies up to date and write what they chose."""
    args = _parse_arguments(argv)
    path = root / run_store.TUNE_PLAN
    if not path.is_file():
        raise UserError(f"{path}: not there; run `dvc repro plan` first")
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

    profile = profiles.load_profile(args.profile) if args.profile else profiles.Profile(executor="local")
    values_by_place = {}
    for place, request in places.items():
        values_by_place[place] = {"request": request, **choose_values(place, request, profile, args, root)}
    update_json(root / tuning.TUNED / f"{SafeName(method, 'method')}.json", values_by_place)


def choose_values(
    place: str, request: Mapping[str, Any], profile: Profile, args: argparse.Namespace, root: Path
) -> dict[str, Any]:
    """Drive one study to its budget and return the best trial's values, as training has them, and all trials."""
    from compclip.config import read
    from compclip.sweep import __main__ as sweep_command
    from compclip.sweep import study_declaration, study_results
    from compclip.sweep.study_driver import StudyDriver, open_study

    params = Path(args.params)
    study = name_study(place, request, params, root)
    with study_results.lock_study(study.name, root):
        fixed = sweep_command.fixed_params(study, params, [], root)
        study_declaration.check_study(study, read.load_params(fixed), str(params))
        opened = open_study(
            study, sweep_command.storage_url("", study.name, root), sweep_command.base_key(study, fixed)
        )
        workers = args.jobs or (profile.jobs if args.profile else _count_slots(request))
        limit_s = 3600 * request["device_hours"]
        driver = StudyDriver(study, opened, sweep_command.make_sender(profile), fixed, root, workers, limit_s=limit_s)
        driver.drive(study.trials)
        document = driver.document()
    if document["best"] is None:
        raise UserError(f"study {study.name}: no trial was finished; see studies/{study.name}/trials.json")
    trials = {trial["number"]: trial for trial in document["trials"]}
    values = _resolve_values(study, trials[document["best"]]["params"], fixed)
    complete = [trial for trial in document["trials"] if trial["state"] == "complete"]
    return {
        "values": values,
        "study": str(study.name),
        "best": document["best"],
        "reference": document["reference"]["values"],
        "trials": [{key: trial[key] for key in ("number", "params", "values", "paper")} for trial in complete],
        "failed": len(document["trials"]) - len(complete),
        "device_seconds": driver.sum_device_seconds(),
    }


def name_study(place: str, request: Mapping[str, Any], params: Path, root: Path) -> Study:
    """Return a request's study under a name for all that its trials depend on: declaration, code, data, parameters."""
    from compclip.sweep import __main__ as sweep_command
    from compclip.sweep import study_declaration

    study = study_declaration.parse_study(f"tune.{request['study']['method']}-{place}", request["study"])
    fixed = sweep_command.fixed_params(study, params, [], root)
    identity = json.dumps([study.identity(), sweep_command.base_key(study, fixed)], sort_keys=True)
    digest = hashlib.sha256(identity.encode()).hexdigest()[:NAME_DIGITS]
    return replace(study, name=SafeName(f"{study.name}-{digest}", "study"))


def _resolve_values(study: Study, trial_values: Mapping[str, Any], params: Path) -> dict[str, Any]:
    """Return drawn values as the run has them: a whole number for a float is one."""
    from compclip.config import read
    from compclip.sweep import study_declaration

    overrides = study_declaration.trial_overrides(study, trial_values, read.load_params(params).methods)
    run = study_declaration.trial_run(study, read.load_params(params, overrides))
    settings = {"method": run.plain["method"], "train": run.plain["train"]}
    return {name: tuning.get_value(settings, name) for name in trial_values}


def _count_slots(request: Mapping[str, Any]) -> int:
    """Return how many trials this machine carries at a time: one on each GPU, or as its cores carry."""
    from compclip.runs import local_runs

    return len(local_runs.list_slots(request["settings"]["train"]["threads"]))


def _parse_arguments(argv: list[str]) -> argparse.Namespace:
    parser = CommandParser(
        prog="compclip sweep tune", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--method", default="", help="a method of the grid; default: all that are trained")
    parser.add_argument(
        "-j", "--jobs", type=int, default=0, help="trials at a time; default: the profile's, or GPUs or cores"
    )
    parser.add_argument("--profile", default="", help="a file of slurm/; default: processes of this machine")
    parser.add_grid()
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(entry(main))
