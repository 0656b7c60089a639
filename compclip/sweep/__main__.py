"""Search a method's parameters by a declared study.

    compclip sweep --study NAME --on slurm/a100.yaml -j 8
                                    each trial a job of a cluster; with --dry-run, what a trial costs
    compclip sweep --study NAME --confirm FILE --seeds 5
                                    write a grid of the study's front
    compclip sweep --study NAME --verdict FILE
                                    what that grid's runs say of the front

A trial is a run of the method with other values. The same command after a crash continues the study and repeats no
finished trial. studies/<name>/ holds trials.json, best.yaml (for `compclip config use`) and index.html.
"""

# One driver asks, submits and tells; jobs never open the study. A trial's run key is in the study before anything is
# submitted, so that a new driver attaches what runs and submits what was lost with the same values. What a trial draws
# depends on (seed, trial number, parameter) and on the trials that had finished, or were running, when it was asked:
# one at a time, the same seed gives the same trials. With -j N that holds for the first N and for all random ones.

from __future__ import annotations

import argparse
import os
import re
import sys
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import optuna
import sqlalchemy

from compclip.base import messages, yaml_text
from compclip.base.command_line import CommandParser, positive_int
from compclip.base.errors import UserError, entry, one_line
from compclip.base.files import fingerprint, read_mapping, write_atomic, write_json
from compclip.base.messages import format_count
from compclip.base.safe_names import SafeName
from compclip.base.urls import check_url, mask_message, mask_url, warn_of_password
from compclip.base.yaml_text import dump_yaml
from compclip.config import plan, read
from compclip.config.grid import Run, first_views, list_cells
from compclip.config.sections import Params
from compclip.evaluate import result_store
from compclip.fetch import missing_inputs
from compclip.launch import grid_check, profiles, repro
from compclip.launch.profiles import Profile
from compclip.launch.slurm import Slurm
from compclip.report.run_details import collect_runs
from compclip.runs import notify, run_store
from compclip.runs.local_runs import MachineSender
from compclip.runs.notify import News
from compclip.runs.run_folder import Inputs
from compclip.sweep import confirmation, findings, study_results
from compclip.sweep import study_declaration as studies
from compclip.sweep.study_declaration import Study
from compclip.sweep.study_driver import RunSender, StudyDriver, open_study
from compclip.track import sync, tracking_store

STORAGE = "COMPCLIP_STORAGE"


def storage_url(url_option: str, name: str, root: Path) -> str:
    """Return the storage's address: one given, by the option or the variable, else SQLite in .work/studies.

    Raises UserError for one whose parts cannot be told.
    """
    warn_of_password(url_option, "--storage", STORAGE)
    url = url_option or os.environ.get(STORAGE, "")
    if url:
        return check_url(url, "--storage" if url_option else STORAGE)
    path = root / ".work" / "studies" / f"{name}.db"
    path.parent.mkdir(parents=True, exist_ok=True)
    return f"sqlite:///{path}"


def fixed_params(study: Study, source: Path, overrides: Sequence[str], root: Path) -> Path:
    """Return the params.yaml that all trials start from and jobs read, with all overrides applied."""
    merged = read.read_with_overrides(source, (*study.overrides, *overrides))
    path = root / ".work" / "studies" / f"{study.name}.params.yaml"
    write_atomic(path, dump_yaml(yaml_text.to_unresolved(merged)))
    return path


def base_key(study: Study, params: Path) -> str:
    """Return what all trials have in common: code, data and fixed parameters, of the training and of the evaluation."""
    corner = studies.trial_overrides(study, studies.corner_values(study), read.load_params(params).methods)
    loaded = read.load_params(params, corner)
    base = run_store.locate_run(studies.trial_run(study, loaded))
    weights = fingerprint(Inputs(base.root, base.cell).backbone)
    return f"{base.key} {result_store.task_from_params(loaded).identity(weights)}"


def make_sender(profile: Profile) -> RunSender:
    """Return the sender of runs: processes of this machine, with a GPU each, or a cluster."""
    if profile.executor == "local":
        profile.require_local_gpus()
        return MachineSender()
    return Slurm(profile)


def run_study(study: Study, args: argparse.Namespace) -> None:
    """Drive a study to its number of trials."""
    root = Path(".")
    profile = profiles.load_profile(args.on) if args.on else Profile(executor="local")
    with study_results.lock_study(study.name, root):
        missing_inputs.require_inputs(read.load_params(args.params, (*study.overrides, *args.overrides)), root)
        params = fixed_params(study, Path(args.params), args.overrides, root)
        loaded = read.load_params(params)
        studies.check_study(study, loaded, args.params)
        grid_check.require_towers([corner_trial(study, params)], root, profile.processes)
        make_inputs(study, loaded, root)
        opened = open_study(study, storage_url(args.storage, study.name, root), base_key(study, params))
        driver = StudyDriver(study, opened, make_sender(profile), params, root, args.jobs or profile.jobs)
        if args.retry_failed:
            print(f"{format_count(driver.retry_failed(), 'failed trial')} to be tried again", flush=True)
        drive_and_notify(driver, profile.notify, args.trials or study.trials)
        print(f"studies/{study.name}/index.html: {study_results.format_counts(driver.document())}", flush=True)
        record_in_mlflow(study.name, args.params)
        print(*findings.describe(driver.document()), sep="\n", flush=True)


def corner_trial(study: Study, params: str | Path, overrides: Sequence[str] = ()) -> Run:
    """Return the run of the paper's values, or of the lowest ones."""
    methods = read.load_params(params, overrides).methods
    corner = studies.trial_overrides(study, studies.corner_values(study), methods)
    return studies.trial_run(study, read.load_params(params, (*overrides, *corner)))


def describe_study(study: Study, args: argparse.Namespace) -> None:
    """Print what a study would try and what a trial costs. Makes nothing; raises UserError where inputs are missing."""
    from compclip.launch import run_jobs  # loads submitit

    root = Path(".")
    profile = profiles.load_profile(args.on) if args.on else Profile(executor="local")
    overrides = (*study.overrides, *args.overrides)
    loaded = read.load_params(args.params, overrides)
    studies.check_study(study, loaded, args.params)
    trial = corner_trial(study, args.params, overrides)
    grid_check.require_towers([trial], root, profile.processes)
    path = root / "studies" / study.name / "trials.json"
    tried = read_mapping(path)["trials"] if path.is_file() else []
    over = sum(trial["state"] not in ("running", "waiting") for trial in tried)
    target = args.trials or study.trials
    counts = f"{over} over, {max(0, target - over)} to try, {args.jobs or profile.jobs} at a time"
    print(f"{study.name}: {format_count(target, 'trial')} of {study.method}: {counts}; one of them:")
    print(*run_jobs.describe_costs(profile, [run_jobs.name_unprepared(trial, root)], root), sep="\n")
    missing_inputs.require_inputs(loaded, root)


def make_inputs(study: Study, params: Params, root: Path) -> None:
    """Make what the trials read: the data set, the backbone, the benchmarks, and pictures' neighbours where asked for.

    DVC reads params.yaml alone: what another file says otherwise is taken as it is.
    """
    current = read.load_params(read.DEFAULT) if Path(read.DEFAULT).is_file() else params
    inputs: tuple[tuple[str, dict[Any, Any], dict[Any, Any], Sequence[str]], ...] = (
        ("annotate", params.data, current.data, [study.data]),
        ("backbone", params.backbones, current.backbones, [study.backbone]),
        ("benchmark", params.benchmarks, current.benchmarks, params.evaluate.benchmarks),
    )
    targets = []
    for stage, sections, current_sections, names in inputs:
        targets += [f"{stage}@{name}" for name in names if current_sections.get(name) == sections[name]]
    repro.make_stages(targets, current, root)
    run = studies.trial_run(study, params)
    if first_views(run.method_name, run.method).neighbours:
        from compclip.train import neighbours  # loads Pillow

        pair = SafeName(study.data, "data"), SafeName(study.backbone, "backbone")
        neighbours.write_missing([pair], plan.hash_stage_code(neighbours.STAGE))


def confirm_grid(study: Study, args: argparse.Namespace) -> None:
    """Write the grid by which a study's front is confirmed. Raises UserError where its file is there already."""
    out = Path(args.confirm)
    if out.exists():
        raise UserError(f"--confirm {out}: is there already; remove it, or give another name")
    trials = confirmation.load_front(study, Path("."))
    text = confirmation.confirmation_grid(study, Path(args.params), args.overrides, trials, args.seeds)
    read.check_params(yaml_text.parse_yaml(text, str(out), read.NO_SECTIONS), str(out), together=True)
    write_atomic(out, text)
    count = format_count(len(trials), "trial")
    print(f"{out}: {count} of the front; `compclip config use {out}` makes it the current grid")


def confirm_verdict(study: Study, args: argparse.Namespace) -> None:
    """Judge a study's front by the runs of its confirmation, and write that beside the study."""
    from compclip.sweep import study_page

    params = read.load_params(args.verdict)
    folder = Path("studies") / study.name
    runs, _ = collect_runs(list_cells(params), params.evaluate.benchmarks, Path("."))
    verdicts = confirmation.judge_front(study, params, runs)
    write_json(folder / study_results.CONFIRMED, verdicts)
    study_page.write_page(read_mapping(folder / "trials.json"), folder)
    lines = confirmation.verdict_lines(verdicts)
    print("\n".join([*lines, f"{folder}/index.html: confirmed by seeds {verdicts['seeds']}"]), flush=True)


def drive_and_notify(driver: StudyDriver, variable: str, target: int) -> None:
    """Drive a study, and post that it ended, also where it gave up."""
    try:
        driver.drive(target)
    except UserError:
        notify.post(variable, describe_end(driver, "gave up"))
        raise
    notify.post(variable, describe_end(driver, "ended"))


def describe_end(driver: StudyDriver, outcome: str) -> News:
    """Describe what became of a study's trials."""
    document = driver.document()
    counts: Counter[str] = Counter()
    failures = {}
    for trial in document["trials"]:
        counts[trial["state"]] += 1
        if trial["state"] == "failed":
            failures[f"{driver.study.name}#{trial['number']}"] = trial["reason"]
    text = f"study {driver.study.name} {outcome}: {study_results.format_counts(document)}"
    return News(text, dict(counts), failures)


def record_in_mlflow(name: str, params: str) -> None:
    """Bring MLflow up to date, as `compclip track` does; a failure is a warning, since files have everything."""
    try:
        uri = tracking_store.store_uri(None)
        sync.update_store(sync.load_project(params, uri), uri)
    except UserError as error:
        messages.warn(f"study {name} is not in MLflow: {error}")


def main(argv: list[str]) -> int:
    """Drive one study."""
    args = _arguments(argv)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
    study = studies.load_study(args.study)
    args.params = args.params or study.params
    if args.confirm or args.verdict:
        (confirm_grid if args.confirm else confirm_verdict)(study, args)
        return 0
    try:
        (describe_study if args.dry_run else run_study)(study, args)
    except KeyboardInterrupt:
        print("stopped; jobs that run go on, and the same command goes on with them", file=sys.stderr)
        return 130
    except (optuna.exceptions.StorageInternalError, sqlalchemy.exc.SQLAlchemyError) as error:
        text = mask_message(one_line(str(error.__cause__ or error)), args.storage or os.environ.get(STORAGE, ""))
        if re.search("is locked|lock timeout", text):
            text = "another program has locked it; end that one, or wait for it, then start this again"
        elif "disk is full" in text:
            place = mask_url(storage_url(args.storage, study.name, Path(".")))
            text = f"{place}: the disk is full; free space, then start this again"
        raise UserError(f"study {study.name}: storage: {text}") from error
    return 0


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = CommandParser(prog="compclip sweep", description=__doc__, example="--study fsc_gamma -j 2")
    parser.add_argument("--study", required=True, help="a file of experiments/studies")
    parser.add_argument(
        "-j", "--jobs", type=positive_int, default=0, help="trials at a time; default: the profile's, or 1"
    )
    parser.add_argument(
        "--on", default="", metavar="PROFILE", help="a file of slurm/; default: processes of this machine"
    )
    parser.add_argument("--trials", type=positive_int, default=0, help="how many in total; default: as declared")
    parser.add_argument("--storage", default="", help=f"database URL; default: {STORAGE}, or SQLite in .work/studies")
    parser.add_argument("--retry-failed", action="store_true", help="try failed trials once more")
    parser.add_argument("--dry-run", action="store_true", help="do nothing, say what would be tried and what it costs")
    parser.add_argument("--confirm", default="", metavar="FILE", help="write the grid that confirms the study's front")
    parser.add_argument("--seeds", type=positive_int, default=5, help="with --confirm: how many new seeds")
    parser.add_argument("--verdict", default="", metavar="FILE", help="judge the front by that grid's runs")
    parser.add_grid("parameters to override")
    parser.set_defaults(params="")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(entry(main))
