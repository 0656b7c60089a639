"""One study's ask, submit, tell. Jobs never open the study; they are those of `launch`, sent one by one."""

from __future__ import annotations

import contextlib
import itertools
import json
import shlex
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import optuna
import sqlalchemy
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import FrozenTrial, TrialState

from compclip.base import messages, urls
from compclip.base.errors import UserError, one_line
from compclip.base.files import read_text, write_json
from compclip.base.messages import format_count
from compclip.config import drawn_scenes, read
from compclip.config.cell import PRETRAINED
from compclip.config.sections import Params
from compclip.evaluate import result_store
from compclip.launch.slurm import Slurm
from compclip.report.tables import Column
from compclip.runs import jobs, picture_splits, progress, run_store
from compclip.runs.jobs import DONE, FAILED, PENDING, RUNNING, Holder, Worker
from compclip.runs.local_runs import MachineSender
from compclip.runs.picture_splits import PictureSplit
from compclip.runs.result_files import FinishedRun
from compclip.runs.run_store import StoredRun
from compclip.sweep import findings, study_results
from compclip.sweep import study_declaration as studies
from compclip.sweep.sampling_and_pruning import make_sampler, should_stop
from compclip.sweep.study_declaration import Study
from compclip.sweep.study_results import NOTED

STATES = {state: state.name.lower() for state in TrialState} | {TrialState.FAIL: "failed"}
AT_START = 3  # failures before any trial came through, and the driver stops: the cause is not the trials' values
IN_A_ROW = 10  # the same later on, when a disk filled up
LOCKED_S = 15  # how long a statement waits for another program that has the storage locked
PAGES_APART = 20  # times its own cost: the page, which is made of all trials, takes a twentieth of the time
POLL_SHARE = 0.01  # of the time since a trial was over, between two looks: a long one costs few of them
LONGEST_POLL_S = 10.0
LATER = "remove the cause, then start again with --retry-failed"
RunSender: TypeAlias = MachineSender | Slurm
Result = TypeVar("Result")


class ResumableStudy(optuna.Study):
    """A study whose running trials can be taken up again by their numbers."""

    def __init__(self, name: str, storage: optuna.storages.RDBStorage, study: Study) -> None:
        super().__init__(name, storage, make_sampler(study), optuna.pruners.NopPruner())
        self.storage = storage

    def resume(self, number: int) -> optuna.Trial:
        """Return a trial that a driver began which is gone."""
        study_id = self.storage.get_study_id_from_name(self.study_name)
        return optuna.Trial(self, self.storage.get_trial_id_from_study_id_trial_number(study_id, number))


def open_study(study: Study, url: str, base_key: str) -> ResumableStudy:
    """Return the study in its storage, made where it is not there.

    Raises UserError where it was begun as another one.
    """
    try:
        _check_storage(url)
        storage = optuna.storages.RDBStorage(url, engine_kwargs=_engine_options(url))
    except ImportError as error:
        text = "its driver is not installed; PostgreSQL's is psycopg"
        raise UserError(f"storage {urls.mask_url(url)}: {text}") from error
    except RuntimeError as error:
        raise UserError(_explain_schema(url, error)) from error
    directions = [o.direction for o in study.objectives]
    optuna.create_study(storage=storage, study_name=study.name, load_if_exists=True, directions=directions)
    opened = ResumableStudy(study.name, storage, study)
    attributes = {"declared": study.identity(), "base_key": base_key}
    for name, value in attributes.items():
        recorded = opened.user_attrs.get(name)
        if recorded is None:
            opened.set_user_attr(name, value)
        elif recorded != value:
            change = "the code, the data or the fixed parameters have changed"
            if isinstance(value, dict):
                names = [key for key in value if recorded.get(key) != value[key]]
                change = f"{', '.join(names)} changed"
            raise UserError(
                f"study {study.name}: {change} since it was begun in {urls.mask_url(url)}; its trials would not "
                "compare: undo that, or give the study another name"
            )
    return opened


def _explain_schema(url: str, error: RuntimeError) -> str:
    """Return what to do about tables of another release, of which Optuna says whether it can upgrade them."""
    if "storage upgrade" in str(error):
        command = f"copy it, then run `optuna storage upgrade --storage {shlex.quote(urls.mask_url(url))}`"
    else:
        command = "run `pip install -U optuna`"
    return f"storage {urls.mask_url(url)}: is of another release of Optuna; {command}"


def _engine_options(url: str) -> dict[str, Any]:
    """Return how SQLAlchemy connects: no statement waits for a lock without end, as PostgreSQL's would."""
    if url.startswith("sqlite:"):
        return {"connect_args": {"timeout": LOCKED_S}}
    events = [(_bound_lock_wait, "connect")] if url.startswith("postgresql") else []
    return {"pool_pre_ping": True, "pool_events": events}


def _bound_lock_wait(connection: Any, record: object) -> None:
    with contextlib.closing(connection.cursor()) as cursor:
        cursor.execute(f"SET lock_timeout = '{1000 * LOCKED_S:.0f}ms'")
    connection.commit()


def _check_storage(url: str) -> None:
    """Raise UserError for another program's database, as MLflow's: Optuna would leave tables there, and then end."""
    engine = sqlalchemy.create_engine(url, **_engine_options(url))
    names = sqlalchemy.inspect(engine).get_table_names()
    engine.dispose()
    if names and "studies" not in names and (url.startswith("sqlite:") or "alembic_version" in names):
        raise UserError(f"storage {urls.mask_url(url)}: is another program's database; give one of the study's own")


def draw_values(trial: optuna.Trial, study: Study) -> dict[str, Any]:
    """Draw the trial's values in the order of the space; those already drawn stay."""
    values: dict[str, Any] = {}
    for d in study.space:
        if not d.active(values):
            continue
        if d.kind == "categorical":
            values[d.name] = trial.suggest_categorical(d.name, list(d.choices))
        elif d.kind == "int":
            values[d.name] = trial.suggest_int(d.name, int(d.low), int(d.high), log=d.log)
        else:
            values[d.name] = trial.suggest_float(d.name, d.low, d.high, log=d.log)
    return values


@dataclass
class RunningTrial:
    """A trial on its way; no job where its run had finished before."""

    trial: optuna.Trial
    run: StoredRun
    job: Worker | None
    rungs: int = 0  # reported ones

    @property
    def key(self) -> str:
        """The run's."""
        return self.run.key


@dataclass
class StudyDriver:
    """One study's ask, submit, tell. `scored`: whether a run is finished with results that the study may take."""

    study: Study
    opened: ResumableStudy
    sender: RunSender
    params: Path
    root: Path = Path(".")
    workers: int = 1
    poll_s: float = 0.5
    scored: Callable[[Params, StoredRun], bool] = result_store.is_scored
    limit_s: float = 0.0  # device-seconds of all trials after which none is begun; 0: no limit
    columns: tuple[Column, ...] = ()  # the objectives, known when the pretrained model is scored
    split: PictureSplit = field(default_factory=PictureSplit)  # the items that the objectives are of
    methods: Mapping[str, Any] = field(default_factory=dict)  # params.yaml's
    notice: str = ""
    budget: int = 0  # trials, as they were asked for
    found: dict | None = None  # at the end: `findings.find`
    page_due: float = 0.0  # when the page is written next
    finished_trials: dict[int, dict] = field(default_factory=dict)  # as trials.json has them
    finished_seconds: dict[str, float] = field(default_factory=dict)  # by run key
    failures: list[str] = field(default_factory=list)  # since the last trial that came through
    shown_drivers: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.other_drivers = OtherDrivers(self.opened, self.root)
        if isinstance(self.sender, Slurm):
            self.sender.while_waiting = self.other_drivers.exchange_beats

    def drive(self, target: int) -> None:
        """Bring the study to `target` trials. Raises UserError where nothing but failures comes back."""
        self.budget = target
        for values in self.study.paper:
            self.opened.enqueue_trial(dict(values), skip_if_exists=True)
        self._score_pretrained()
        running: list[RunningTrial] = []
        drivers: dict[int, str] = {}
        waited_s = 0.0  # since a trial was over
        while True:
            if self.other_drivers.exchange_beats() or not running:
                drivers = self._find_drivers(running)
                for number, driver in drivers.items():
                    if not driver:
                        running += self._start_trial(self.opened.resume(number))
            while len(running) < self.workers and not self._is_over(target):
                running += self._start_trial(self.opened.ask())
            unfinished = list(itertools.filterfalse(self._finish_trial, running))
            if not running and self._is_over(target) and (self._keeps_failing() or not drivers):
                break
            wait_s = min(LONGEST_POLL_S, max(self.poll_s, POLL_SHARE * waited_s))
            waited_s = waited_s + wait_s if len(unfinished) == len(running) else 0.0
            if waited_s:
                time.sleep(wait_s)
            running = unfinished
        self._find()
        self.write()
        if self._keeps_failing():
            raise UserError(
                f"study {self.study.name}: {format_count(len(self.failures), 'trial')} failed in a row, the last: "
                f"{self.failures[-1]}; {LATER}"
            )

    def _find(self) -> None:
        """Work out what the study found, from the items of the finished trials whose results are there."""
        document = self.document()
        loaded = read.load_params(self.params)
        cell = studies.trial_run(self.study, loaded).cell

        def read_run(key: str) -> FinishedRun:
            return studies.read_run(self.columns, run_store.find_folder(key, self.root), cell, self.split)

        trials = []
        for trial in study_results.list_complete(document["trials"]):
            key = trial["run_key"]  # one that a script told has none
            if key and run_store.find_folder(key, self.root).results:
                trials.append(trial)
        runs = {trial["number"]: read_run(trial["run_key"]) for trial in trials}
        if document["best"] in runs:
            pretrained = read_run(document["reference"]["run_key"])
            self.found = findings.find(self.study, loaded, self.columns, trials, document["best"], runs, pretrained)

    def _find_drivers(self, running: Sequence[RunningTrial]) -> dict[int, str]:
        """Return who works on each running trial not in `running`, by number; "" where its driver is gone."""
        own_numbers = {trial.trial.number for trial in running}
        drivers = {}
        for t in self._in_state(TrialState.RUNNING):
            if t.number not in own_numbers:
                drivers[t.number] = self.other_drivers.find_driver(t)
        for name in sorted(set(drivers.values()) - self.shown_drivers - {""}):
            print(f"{name} drives study {self.study.name} as well, and has trials of it", flush=True)
            self.shown_drivers.add(name)
        return drivers

    def _is_over(self, target: int) -> bool:
        """Return whether no more trial is to be started.

        Of the budget are all that were started, without failed ones that were tried again.
        """
        begun = self._in_state(*set(TrialState) - {TrialState.WAITING})
        retried = {t.user_attrs.get("retry_of") for t in begun} - {None}
        is_spent = bool(self.limit_s) and self.sum_device_seconds() >= self.limit_s
        return len(begun) - len(retried) >= target or is_spent or self._keeps_failing()

    def sum_device_seconds(self) -> float:
        """Sum seconds x devices of all trials' runs, those included that somebody else trained."""
        running_seconds: dict[str, float] = {}
        for t in self.opened.get_trials(deepcopy=False):
            key = t.user_attrs.get("run_key")
            if not key or key in self.finished_seconds:
                continue
            by_key = self.finished_seconds if t.state.is_finished() else running_seconds
            by_key[key] = progress.sum_device_seconds(run_store.find_folder(key, self.root))
        return sum((running_seconds | self.finished_seconds).values())

    def _keeps_failing(self) -> bool:
        """Return whether going on would only use up the budget."""
        if len(self.failures) < AT_START:
            return False
        return len(self.failures) >= IN_A_ROW or not self._in_state(TrialState.COMPLETE, TrialState.PRUNED)

    def _in_state(self, *states: TrialState) -> list[FrozenTrial]:
        return self.opened.get_trials(deepcopy=False, states=states)

    def retry_failed(self) -> int:
        """Enqueue failed trials that were not tried again yet; how many."""
        retried = {t.user_attrs.get("retry_of") for t in self.opened.get_trials(deepcopy=False)}
        failed = [t for t in self._in_state(TrialState.FAIL) if t.number not in retried]
        for t in failed:
            self.opened.enqueue_trial(t.params, user_attrs={"retry_of": t.number})
        return len(failed)

    def _score_pretrained(self) -> None:
        """Score the pretrained model once; a wrong column is found here, before any training."""
        loaded = read.load_params(self.params)
        self.methods = loaded.methods
        self.notice = drawn_scenes.describe_drawings(loaded)
        self.split = picture_splits.make_split(loaded, self.study.split)
        pretrained = run_store.locate_run(studies.trial_run(self.study, loaded, PRETRAINED), self.root)
        if not self.scored(loaded, pretrained):
            job = self.sender.attach(pretrained) or self.sender.submit(pretrained, self.params)
            if jobs.wait_for_job(job, lambda: None, self.poll_s) == FAILED:
                raise UserError(f"study {self.study.name}: the pretrained model was not scored: {job.reason()}")
        self.columns = studies.objective_columns(self.study, pretrained, self._results(pretrained.key), loaded)
        if "reference" in self.opened.user_attrs:
            return
        values = studies.read_scores(self.columns, self._results(pretrained.key), self.split)
        folder = study_results.shown_folder(pretrained.key, self.root)
        self.opened.set_user_attr("reference", {"run_key": pretrained.key, "folder": folder, "values": values})
        print(f"pretrained: {self._format_values(values)}", flush=True)

    def _results(self, key: str) -> Path:
        folder = run_store.find_folder(key, self.root)
        if folder.results is None:
            raise UserError(f"{folder.path}: no results; start again with --retry-failed")
        return folder.results

    def _start_trial(self, trial: optuna.Trial) -> list[RunningTrial]:
        """Begin a trial, or go on with it; empty where it is over already."""
        return self._unless_told(trial, lambda: self._send_trial(trial), [])

    def _send_trial(self, trial: optuna.Trial) -> list[RunningTrial]:
        """Draw what is not drawn yet, note the run key, then submit. A trial with impossible values fails here."""
        trial.set_user_attr(DRIVER, self.other_drivers.own_name)
        values = draw_values(trial, self.study)
        try:
            loaded = read.load_params(self.params, studies.trial_overrides(self.study, values, self.methods))
            stored_run = run_store.locate_run(studies.trial_run(self.study, loaded), self.root)
        except UserError as error:
            self._fail(trial, str(error))
            return []
        trial.set_user_attr("run_key", stored_run.key)
        if self.scored(loaded, stored_run):
            return [RunningTrial(trial, stored_run, None)]
        live = self.sender.attach(stored_run)
        if live is None:
            if self.study.pruner != "none":
                request = {"shares": self.study.rungs, "benchmarks": studies.list_benchmarks(self.columns)}
                write_json(stored_run.folder.rungs, request)
            trial.set_user_attr("sent", True)
        self.write_trials()  # `status` has its number while it runs
        return [RunningTrial(trial, stored_run, live or self.sender.submit(stored_run, self.params))]

    def _finish_trial(self, running: RunningTrial) -> bool:
        """Return whether a trial is over; its end is told."""
        return self._unless_told(running.trial, lambda: self._judge_trial(running), True)

    def _judge_trial(self, running: RunningTrial) -> bool:
        state = DONE if running.job is None else running.job.state()
        if self._should_prune(running):
            if state in (PENDING, RUNNING):
                self._cancel(running)
            self._tell(running.trial, state=TrialState.PRUNED)
        elif state == FAILED and isinstance(running.job, Holder):  # who held the run left before its results
            running.job = self.sender.submit(running.run, self.params)
            return False
        elif state == FAILED and running.job:
            self._fail(running.trial, running.job.reason())
        elif state == DONE:
            try:
                values = studies.read_scores(self.columns, self._results(running.key), self.split)
            except UserError as error:
                self._fail(running.trial, str(error))
            else:
                self._tell(running.trial, values)
        else:
            return False
        return True

    def _fail(self, trial: optuna.Trial, reason: str) -> None:
        reason = reason.replace(f"{self.params}: ", "")  # a copy, whose name the reader never gave
        trial.set_user_attr("reason", one_line(reason))
        self._tell(trial, state=TrialState.FAIL)
        self.failures.append(one_line(reason))

    def _tell(self, trial: optuna.Trial, values: list[float] | None = None, state: TrialState | None = None) -> None:
        """Tell the study what became of a trial, and show it; one that came through ends a row of failures."""
        self.opened.tell(trial, values, state=state)
        if state != TrialState.FAIL:
            self.failures.clear()
        self._print_trial(trial.number)
        self.write_trials()

    def _unless_told(self, trial: optuna.Trial, change: Callable[[], Result], otherwise: Result) -> Result:
        """Change a trial; one that another driver or a script has told meanwhile stays as that one told it."""
        try:
            return change()
        except (UpdateFinishedTrialError, ValueError):  # Optuna's storage raises the one, `tell` the other
            if not self.opened.get_trials(deepcopy=False)[trial.number].state.is_finished():
                raise
            self._print_trial(trial.number, " (told by somebody else)")
            self.write_trials()
            return otherwise

    def _cancel(self, running: RunningTrial) -> None:
        """Stop a pruned trial's job, unless another command sent it: a grid may want the run to its end.

        The run counts as never sent then: should a grid have the same cell, that goes on from the checkpoint.
        """
        if running.job is None or not running.trial.user_attrs.get("sent"):
            return
        try:
            running.job.cancel()
        except UserError as error:
            messages.warn(f"trial {running.trial.number}: {error}; it runs on")
            return
        jobs.forget_job(run_store.find_folder(running.key, self.root))

    def _should_prune(self, running: RunningTrial) -> bool:
        """Report new intermediate scores, rung by rung, so that the verdict does not depend on when we look."""
        path = run_store.find_folder(running.key, self.root).intermediate
        if self.study.pruner == "none" or not path.is_file():
            return False
        trial = running.trial
        lines = read_text(path).split("\n")[:-1]  # the last one may be half-written
        for line in lines[running.rungs :]:
            rung = json.loads(line)
            step = str(rung["step"])
            values = studies.column_values(self.columns, rung["metrics"])
            running.rungs += 1
            trial.set_user_attr(NOTED, {**trial.user_attrs.get(NOTED, {}), step: values})
            other_values = []
            for ended in self._in_state(TrialState.COMPLETE, TrialState.PRUNED):
                if ended.number != trial.number and step in ended.user_attrs.get(NOTED, {}):
                    other_values.append(ended.user_attrs[NOTED][step])
            if should_stop(self.study, values, other_values):
                return True
        return False

    def _print_trial(self, number: int, note: str = "") -> None:
        t = self.opened.get_trials(deepcopy=False)[number]
        params = " ".join(f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}" for k, v in t.params.items())
        outcome = self._format_values(t.values) if t.state == TrialState.COMPLETE else t.user_attrs.get("reason", "")
        line = f"trial {number} {STATES[t.state]}{note}: {params}"
        print(f"{line}: {outcome}" if outcome else line, flush=True)

    def _format_values(self, values: list[float]) -> str:
        objectives_json = [{"metric": column.name, "score": column.score} for column in self.columns]
        return study_results.format_values({"objectives": objectives_json}, values)

    def document(self) -> dict:
        """Return what trials.json holds: the study, its reference and every trial."""
        trials = []
        for t in self.opened.get_trials(deepcopy=False):
            trial = self.finished_trials.get(t.number)
            if trial is None:
                trial = study_results.trial_to_json(t, STATES[t.state], self.study, self.root)
            if t.state.is_finished():
                self.finished_trials[t.number] = trial
            trials.append(trial)
        reference = self.opened.user_attrs.get("reference")
        return study_results.study_to_json(
            self.study, trials, reference, self.columns, self.notice, self.budget, self.found
        )

    def write(self) -> None:
        """Write the files of studies/<name>/."""
        began = time.monotonic()
        from compclip.sweep import study_page  # matplotlib: half a second for whoever only looks at parameters

        document = self.document()
        study_results.write_files(document, self.study, self.params, self.folder)
        study_page.write_page(document, self.folder)
        ended = time.monotonic()
        self.page_due = ended + PAGES_APART * (ended - began)

    def write_trials(self) -> None:
        """Write trials.json; all files where they are due, since the page costs more with every trial."""
        if time.monotonic() >= self.page_due:
            self.write()
        else:
            write_json(self.folder / "trials.json", self.document())

    @property
    def folder(self) -> Path:
        """Where the study's files are."""
        return self.root / "studies" / self.study.name


# Who drives a study: several drivers of one storage share its trials, and take over those of one that is gone.

DRIVER = "driver"  # of a trial: who asked for it, or took it over
BEAT_S = 10  # between two signs of life
GONE_S = 120  # without one a driver is gone, by the clock of who watches


class OtherDrivers:
    """The drivers of a study's storage, by machine and folder; each counts up an attribute of the study.

    A folder has one driver at a time, so that trials of its earlier ones are its own.
    """

    def __init__(self, opened: optuna.Study, root: Path) -> None:
        self.own_name = f"{socket.gethostname()}:{root.resolve()}"
        self._opened = opened
        self._beaten_at = -float(BEAT_S)
        self._beats: dict[str, int] = {}
        self._changed_at: dict[str, float] = {}

    def exchange_beats(self) -> bool:
        """Give a sign of life and look for those of the others, every BEAT_S seconds; return whether it was time."""
        now = time.monotonic()
        if now - self._beaten_at < BEAT_S and self._beats:
            return False
        self._beaten_at = now
        attributes = self._opened.user_attrs
        own_key = f"{DRIVER} {self.own_name}"
        self._opened.set_user_attr(own_key, attributes.get(own_key, 0) + 1)
        for key, beat in attributes.items():
            name = key.removeprefix(f"{DRIVER} ")
            if name != key and self._beats.get(name) != beat:
                self._beats[name] = beat
                self._changed_at[name] = now
        return True

    def find_driver(self, trial: FrozenTrial) -> str:
        """Return the other driver that works on a running trial; "" where that one is gone, or was of this folder.

        A trial that bears no name yet may be anybody's.
        """
        name = trial.user_attrs.get(DRIVER)
        names = [name] if name else sorted(self._changed_at)
        return next((driver for driver in names if driver != self.own_name and self._is_alive(driver)), "")

    def _is_alive(self, name: str) -> bool:
        changed_at = self._changed_at.setdefault(name, time.monotonic())
        return time.monotonic() - changed_at < GONE_S
