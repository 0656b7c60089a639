"""One study's ask, submit, tell. Jobs never open the study; they are those of `launch`, sent one by one."""

from __future__ import annotations

import contextlib
import functools
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import optuna
import sqlalchemy
from optuna.trial import FrozenTrial, TrialState

from compclip.base import json_text, urls
from compclip.base.errors import UserError, one_line
from compclip.base.files import read_text, write_json
from compclip.config import read
from compclip.config.sections import Params
from compclip.evaluate import kept
from compclip.report.tables import Column
from compclip.runs import jobs, store
from compclip.runs.jobs import DONE, FAILED, PENDING, RUNNING, Job
from compclip.runs.store import StoredRun
from compclip.sweep import declared as studies
from compclip.sweep import objectives, pruning, results
from compclip.sweep.declared import Study
from compclip.sweep.pruning import NOTED
from compclip.sweep.sampler import pruner, sampler

STATES = {
    TrialState.COMPLETE: "complete",
    TrialState.PRUNED: "pruned",
    TrialState.FAIL: "failed",
    TrialState.RUNNING: "running",
    TrialState.WAITING: "waiting",
}
AT_START = 3  # failures before any trial came through, and the driver stops: the cause is not the trials' values
IN_A_ROW = 10  # the same later on, when a disk filled up
LOCKED_S = 15  # how long a statement waits for another program that has the storage locked
LATER = "remove the cause, then start again with --retry-failed"


class Sender(Protocol):
    """Where runs are sent to: jobs.Local or a cluster."""

    def submit(self, stored: StoredRun, params: str | Path) -> Job:
        """Send a run."""

    def attach(self, stored: StoredRun) -> Job | None:
        """The live job of a run."""


def open_study(study: Study, url: str, base_key: str) -> optuna.Study:
    """The study in its storage, made where it is not there. Raises UserError where it was begun as another one."""
    try:
        _check_storage(url)
        storage = optuna.storages.RDBStorage(url, engine_kwargs=_engine_options(url))
    except ImportError as error:
        raise UserError(f"storage {urls.shown(url)}: its driver is not installed; PostgreSQL's is psycopg") from error
    opened = optuna.create_study(
        storage=storage, study_name=study.name, load_if_exists=True, sampler=sampler(study), pruner=pruner(study),
        directions=[o.direction for o in study.objectives],
    )  # fmt: skip
    wanted = {"declared": study.identity(), "base_key": base_key}
    for name, value in wanted.items():
        known = opened.user_attrs.get(name)
        if known is None:
            opened.set_user_attr(name, value)
        elif known != value:
            raise UserError(
                f"study {study.name}: {_changed(known, value)} since it was begun in {urls.shown(url)}; "
                "its trials would not compare: undo that, or give the study another name"
            )
    return opened


def _engine_options(url: str) -> dict[str, Any]:
    """How SQLAlchemy connects: no statement waits for a lock without end, as PostgreSQL's would."""
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
        raise UserError(f"storage {urls.shown(url)}: is another program's database; give one that is the study's own")


def _changed(known: Any, value: Any) -> str:
    if isinstance(value, str):
        return "the code, the data or the fixed parameters have changed"
    return f"{', '.join(k for k in value if known.get(k) != value[k])} changed"


def draw(trial: optuna.Trial, study: Study) -> dict[str, Any]:
    """The trial's values in the order of the space; those already drawn stay."""
    values: dict[str, Any] = {}
    for d in study.space:
        if not d.active(values):
            continue
        if d.kind == "categorical":
            values[d.name] = trial.suggest_categorical(d.name, list(d.choices))
        elif d.kind == "int":
            values[d.name] = trial.suggest_int(d.name, d.low, d.high, log=d.log)
        else:
            values[d.name] = trial.suggest_float(d.name, d.low, d.high, log=d.log)
    return values


@dataclass
class Flight:
    """A trial on its way; no job where its run had finished before."""

    trial: optuna.Trial
    key: str
    job: Job | None
    rungs: int = 0  # reported ones


@dataclass
class Driver:
    """One study's ask, submit, tell. `scored`: whether a run is finished with results that the study may take."""

    study: Study
    opened: optuna.Study
    sender: Sender
    params: Path
    root: Path = Path(".")
    workers: int = 1
    poll_s: float = 0.5
    scored: Callable[[Params, StoredRun], bool] = kept.scored
    columns: tuple[Column, ...] = ()  # the objectives, known when the pretrained model is scored
    failures: list[str] = field(default_factory=list)  # since the last trial that came through

    def drive(self, target: int) -> None:
        """Bring the study to `target` trials. Raises UserError where nothing but failures comes back."""
        self._enqueue()
        self._reference()
        flights = [self._begin(optuna.Trial(self.opened, t._trial_id)) for t in self._in_state(TrialState.RUNNING)]
        while True:
            while len(flights) < self.workers and self._begun() < target and not self._hopeless():
                flights.append(self._begin(self.opened.ask()))
            flights = [f for f in flights if f is not None]
            if not flights and (self._begun() >= target or self._hopeless()):
                break
            still = [f for f in flights if not self._land(f)]
            if len(still) == len(flights):
                time.sleep(self.poll_s)
            flights = still
        self.write()
        if self._hopeless():
            raise UserError(
                f"study {self.study.name}: {len(self.failures)} trials failed in a row, the last: "
                f"{self.failures[-1]}; {LATER}"
            )

    def _hopeless(self) -> bool:
        """Whether going on would only use up the budget."""
        if len(self.failures) < AT_START:
            return False
        return len(self.failures) >= IN_A_ROW or not self._in_state(TrialState.COMPLETE, TrialState.PRUNED)

    def _in_state(self, *states: TrialState) -> list[FrozenTrial]:
        return self.opened.get_trials(deepcopy=False, states=states)

    def _begun(self) -> int:
        """Trials that count towards the budget: all that were started, without failed ones that were tried again."""
        begun = [t for t in self.opened.get_trials(deepcopy=False) if t.state != TrialState.WAITING]
        return len(begun) - len({t.user_attrs["retry_of"] for t in begun if "retry_of" in t.user_attrs})

    def _enqueue(self) -> None:
        for values in self.study.paper:
            self.opened.enqueue_trial(dict(values), skip_if_exists=True)

    def retry_failed(self) -> int:
        """Enqueue failed trials that were not tried again yet; how many."""
        trials = self.opened.get_trials(deepcopy=False)
        done = {t.user_attrs.get("retry_of") for t in trials}
        lost = [t for t in trials if t.state == TrialState.FAIL and t.number not in done]
        for t in lost:
            self.opened.enqueue_trial(t.params, user_attrs={"retry_of": t.number})
        return len(lost)

    def _reference(self) -> None:
        """Score the pretrained model once; a wrong column is found here, before any training."""
        loaded = read.load(self.params)
        stored = store.of(studies.run(self.study, loaded, studies.PRETRAINED), self.root)
        if not self.scored(loaded, stored):
            sent = self.sender.attach(stored) or self._send(stored)
            if jobs.wait(sent, lambda: None, self.poll_s) == FAILED:
                raise UserError(f"study {self.study.name}: the pretrained model was not scored: {sent.reason()}")
        self.columns = objectives.columns(self.study, stored, self._results(stored.key), loaded)
        if "reference" in self.opened.user_attrs:
            return
        values, key = objectives.scores(self.columns, self._results(stored.key)), stored.key
        self.opened.set_user_attr(
            "reference", {"run_key": key, "folder": results.shown_folder(key, self.root), "values": values}
        )
        print(f"pretrained: {self._listed(values)}", flush=True)

    def _results(self, key: str) -> Path:
        found = store.folder(key, self.root).results
        if found is None:
            raise UserError(f"{store.folder(key, self.root).path}: no results; start again with --retry-failed")
        return found

    def _send(self, stored: StoredRun) -> Job:
        return self.sender.submit(stored, self.params)

    def _begin(self, trial: optuna.Trial) -> Flight | None:
        """Draw what is not drawn yet, note the run key, then submit. A trial with impossible values fails here."""
        values = draw(trial, self.study)
        try:
            loaded = read.load(self.params, studies.overrides(self.study, values, self._methods))
            stored = store.of(studies.run(self.study, loaded), self.root)
        except UserError as error:
            self._fail(trial, str(error))
            return None
        trial.set_user_attr("run_key", stored.key)
        if self.scored(loaded, stored):
            return Flight(trial, stored.key, None)
        live = self.sender.attach(stored)
        if live is None:
            self._ask_rungs(stored)
            trial.set_user_attr("sent", True)
        return Flight(trial, stored.key, live or self._send(stored))

    @functools.cached_property
    def _methods(self) -> dict[str, Any]:
        """The methods' sections; the file does not change while a driver lives."""
        return read.load(self.params).methods

    def _ask_rungs(self, stored: StoredRun) -> None:
        if self.study.pruner != "none":
            asked = {"shares": self.study.rungs, "benchmarks": objectives.benchmarks(self.columns)}
            write_json(stored.folder.rungs, asked)

    def _land(self, flight: Flight) -> bool:
        """Tell the study what became of a trial; whether it is over."""
        state = DONE if flight.job is None else flight.job.state()
        if self._pruned(flight):
            if state in (PENDING, RUNNING):
                self._cancel(flight)
            self.opened.tell(flight.trial, state=TrialState.PRUNED)
        elif state == FAILED:
            self._fail(flight.trial, flight.job.reason())
            return True
        elif state == DONE:
            try:
                self.opened.tell(flight.trial, objectives.scores(self.columns, self._results(flight.key)))
            except UserError as error:
                self._fail(flight.trial, str(error))
                return True
        else:
            return False
        self.failures.clear()
        self._say(flight.trial.number)
        self.write()
        return True

    def _cancel(self, flight: Flight) -> None:
        """Stop a pruned trial's job, unless another command sent it: a grid may want the run to its end.

        The run counts as never sent then: should a grid have the same cell, that goes on from the checkpoint.
        """
        if not flight.trial.user_attrs.get("sent"):
            return
        try:
            flight.job.cancel()
        except UserError as error:
            print(f"warning: trial {flight.trial.number}: {error}; it runs on", file=sys.stderr, flush=True)
            return
        jobs.forget(store.folder(flight.key, self.root))

    def _pruned(self, flight: Flight) -> bool:
        """Report new intermediate scores, rung by rung, so that the verdict does not depend on when we look."""
        path = store.folder(flight.key, self.root).intermediate
        if self.study.pruner == "none" or not path.is_file():
            return False
        lines = [line for line in read_text(path).split("\n")[:-1] if line]  # the last one may be half-written
        for line in lines[flight.rungs :]:
            step, values = _rung(line, path, self.columns)
            flight.rungs += 1
            if self._stops(flight.trial, step, values):
                return True
        return False

    def _stops(self, trial: optuna.Trial, step: int, values: list[float]) -> bool:
        """Note a trial's scores at a rung, and the pruner's verdict; Optuna's own know a single objective."""
        if self.study.pruner == "median":
            trial.report(values[0], step)
            return trial.should_prune()
        trial.set_user_attr(NOTED, {**trial.user_attrs.get(NOTED, {}), str(step): values})
        ended = [t for t in self._in_state(TrialState.COMPLETE, TrialState.PRUNED) if t.number != trial.number]
        there = [found[str(step)] for t in ended if str(step) in (found := t.user_attrs.get(NOTED, {}))]
        return pruning.stops(self.study, values, there)

    def _fail(self, trial: optuna.Trial, reason: str) -> None:
        reason = one_line(reason)
        trial.set_user_attr("reason", reason)
        self.opened.tell(trial, state=TrialState.FAIL)
        self.failures.append(reason)
        self._say(trial.number)
        self.write()

    def _say(self, number: int) -> None:
        t = self.opened.get_trials(deepcopy=False)[number]
        drawn = " ".join(f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}" for k, v in t.params.items())
        got = self._listed(t.values) if t.state == TrialState.COMPLETE else t.user_attrs.get("reason", "")
        print(f"trial {number} {STATES[t.state]}: {drawn}{': ' * bool(got)}{got}", flush=True)

    def _listed(self, values: list[float]) -> str:
        return ", ".join(f"{o.column} {v:.4f}" for o, v in zip(self.study.objectives, values, strict=True))

    def document(self) -> dict:
        """What trials.json holds: the study, its reference and every trial."""
        trials = [
            results.plain(t, STATES[t.state], self.study, self.root) for t in self.opened.get_trials(deepcopy=False)
        ]
        reference = self.opened.user_attrs.get("reference")
        return results.document(self.study, trials, reference, importance(self.study, self.opened))

    def write(self) -> None:
        """The files of studies/<name>/."""
        results.write(self.document(), self.study, self.params, self.root / "studies" / self.study.name)


def _rung(line: str, path: Path, columns: Sequence[Column]) -> tuple[int, list[float]]:
    """The step of a rung and the objectives' values there."""
    fix = "remove the run, then start again with --retry-failed"
    scored = json_text.value(line, str(path), fix)
    try:
        return int(scored["step"]), objectives.values(columns, scored["metrics"])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise UserError(f"{path}: not a rung's scores ({error!r}); {fix}") from error


def importance(study: Study, opened: optuna.Study) -> dict[str, dict[str, float]]:
    """fANOVA's share of each parameter in each objective's variance; none with one parameter or too few trials."""
    finished = opened.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    found: dict[str, dict[str, float]] = {}
    if len(study.space) < 2 or len(finished) < 4:
        return found
    evaluator = optuna.importance.FanovaImportanceEvaluator(seed=study.seed)
    for i, objective in enumerate(study.objectives):
        if len({t.values[i] for t in finished}) > 1:
            shares = optuna.importance.get_param_importances(
                opened, evaluator=evaluator, target=lambda t, i=i: t.values[i]
            )
            found[objective.column] = {name: round(float(share), 6) for name, share in shares.items()}
    return found
