"""A driver whose runs are finished as soon as they are sent, its folder and study, for the tests of sweeps.

Runs are a formula (tests/fake_sweep.py).
"""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import optuna
import pytest
from omegaconf import OmegaConf

from compclip.sweep import __main__ as sweep_command
from compclip.sweep import study_declaration, study_page
from compclip.sweep.study_driver import StudyDriver, open_study
from tests import fake_sweep
from tests.tiny_project import wait_for


class Here:
    """Runs whose results are there at once; the first `failures` trials fail with a reason, or all go on for ever."""

    def __init__(self, failures: int = 0, endless: bool = False) -> None:
        self.failures, self.endless, self.sent, self.jobs = failures, endless, [], []

    def submit(self, stored, params):
        self.sent.append(stored.key)
        job = fake_sweep.Job(stored.folder, os.getpid() if self.endless else 0)
        job.reason = lambda: "no space left"
        trained = stored.run.method_name != "pretrained"
        broken = trained and self.failures > 0
        self.failures -= broken
        if not broken and not (self.endless and trained):
            fake_sweep.leave(
                stored.folder, {n: {"metrics": values} for n, values in fake_sweep.metrics(stored.run).items()}
            )
        self.jobs.append(job)
        return job

    def attach(self, stored):
        """None lives on."""
        return next((j for j in self.jobs if j.folder == stored.folder and self.endless), None)


@pytest.fixture(name="folder")
def project(tmp_path, monkeypatch):
    """A folder with parameters, inputs and the study `s`."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(study_page, "write_page", lambda *_: None)  # costs more than all else
    return fake_sweep.make(tmp_path)


def study(**changes) -> study_declaration.Study:
    """The tests' study with some keys replaced."""
    return study_declaration.parse_study("s", OmegaConf.to_container(OmegaConf.create(fake_sweep.STUDY)) | changes)


def driver(jobs=None, url: str = "", workers: int = 1, **changes) -> StudyDriver:
    study_config = study(**changes)
    opened = open_study(study_config, sweep_command.storage_url(url, "s", Path(".")), "base")
    return StudyDriver(
        study_config, opened, jobs or Here(), Path("params.yaml"), Path("."), workers, 0.01, fake_sweep.scored
    )


def trials() -> list[dict]:
    return json.loads(Path("studies/s/trials.json").read_text())["trials"]


def forget() -> None:
    for name in (".work", "store"):
        shutil.rmtree(name)


def drawn(trial_rows: list[dict]) -> list[tuple]:
    """Numbers and values, in order."""
    return [(t["number"], sorted(t["params"].items()), t["values"]) for t in trial_rows]


def states() -> list[str]:
    """Of all trials, in order."""
    return [t["state"] for t in trials()]


def kill_when(process: subprocess.Popen, enough: Callable[[], object]) -> None:
    """SIGKILL to a driver's process at a moment, which must come before its end."""
    wait_for(lambda: enough() or process.poll() is not None)
    assert process.poll() is None, process.communicate()
    process.kill()
    process.communicate()
