"""Sweeps as processes: killed drivers lose and repeat nothing, one driver at a time, a database of several machines."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from compclip.base.errors import UserError
from compclip.config import read
from compclip.sweep import __main__ as sweep_command
from compclip.sweep import study_driver, study_results
from compclip.sweep.study_driver import open_study
from tests import postgres_server
from tests.driven_sweep import drawn, driver, forget, kill_when, project, study, trials  # noqa: F401
from tests.tiny_project import environment

pytestmark = pytest.mark.usefixtures("forked_commands")
DEADLINE_S = 120


def start(*args: str, cwd: Path) -> subprocess.Popen:
    """The command with fake jobs, as a process."""
    return subprocess.Popen([sys.executable, "-m", "tests.fake_sweep", "--study", "s", *args], cwd=cwd, text=True,
                            env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip


def finished(cwd: Path) -> int:
    """Results that are there, the pretrained model's too."""
    return len(list(cwd.glob("store/*/scored.json")))


@pytest.mark.long
def test_a_driver_killed_three_times(folder):
    """24 trials on two workers: 24 finished, none repeated, none lost; each run started once."""
    for enough in (4, 10, 18):
        process = start("-j", "2", cwd=folder)
        kill_when(process, lambda: finished(folder) >= enough)  # noqa: B023
    out, err = start("-j", "2", cwd=folder).communicate(timeout=DEADLINE_S)
    assert "24 complete" in out, err
    assert [t["number"] for t in trials()] == list(range(24))
    assert {t["state"] for t in trials()} == {"complete"}
    assert len({json.dumps(t["params"]) for t in trials()}) == 24
    starts = Counter((folder / "starts.txt").read_text().split())
    assert len(starts) == 25 and set(starts.values()) == {1}
    read.use_grid("studies/s/best.yaml", force=True)


def test_a_second_driver_is_told(folder):
    """One line, exit code 2, nothing touched."""
    with study_results.lock_study("s", folder):
        process = start(cwd=folder)
        _, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 2
    assert err.strip() == (f"error: study s: process {os.getpid()} drives it already; wait for it, or stop it and "
                           "start again")  # fmt: skip
    assert not (folder / ".work/studies/s.db").exists()


@pytest.fixture(scope="module")
def postgres():
    with postgres_server.run_server("sweeps") as home:
        yield f"postgresql+psycopg://postgres:secret@/sweeps?host={home}"


@pytest.mark.long
def test_postgresql(folder, postgres):
    """A killed driver goes on there as well, with the trials that SQLite has; the password is shown nowhere."""
    driver().drive(8)
    once = trials()
    forget()
    process = start("--trials", "8", "--storage", postgres, cwd=folder)
    kill_when(process, lambda: finished(folder) >= 4)
    out, err = start("--trials", "8", "--storage", postgres, cwd=folder).communicate(timeout=DEADLINE_S)
    assert "8 complete" in out, err
    assert drawn(trials()) == drawn(once)
    _, err = start("--storage", postgres.replace("/sweeps", "/nowhere"), cwd=folder).communicate(timeout=DEADLINE_S)
    assert "\nerror: study s: storage: " in f"\n{err}" and "nowhere" in err and "secret" not in err
    assert [line.partition(":")[0] for line in err.splitlines()] == ["warning", "error"]  # of the password, and why
    assert not list(folder.glob(".work/studies/*.db"))


def test_a_locked_postgresql_is_waited_for_so_long(folder, postgres, monkeypatch):
    """Its own bound is none: a table that another program has locked would be waited for without end."""
    import psycopg

    open_study(study(), postgres, "base")
    monkeypatch.setattr(study_driver, "LOCKED_S", 0.01)
    monkeypatch.setattr(sweep_command, "run_study", lambda s, args: open_study(s, args.storage, "base"))
    with psycopg.connect(postgres.replace("+psycopg", "")) as connection:
        connection.execute("LOCK TABLE studies")
        with pytest.raises(UserError, match="storage: another program has locked it; end that one"):
            sweep_command.main(["--study", "s", "--storage", postgres])
        connection.rollback()
