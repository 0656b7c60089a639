"""A fresh PostgreSQL server on this machine, for tests of stores that several machines share."""

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

PROGRAMS = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))


@contextlib.contextmanager
def run_server(database: str) -> Iterator[Path]:
    """Serve an empty database on a socket of its own: the socket's folder, or a skip that says what lacks."""
    if not PROGRAMS or shutil.which("runuser") is None:
        pytest.skip("no PostgreSQL server; apt-get install postgresql to run this test")
    pytest.importorskip("psycopg", reason="no psycopg; pip install 'psycopg[binary]' to run this test")
    if os.geteuid() != 0:
        pytest.skip("PostgreSQL is started as the user postgres, which needs root")
    home = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))  # a socket's path must be short
    shutil.chown(home, "postgres", "postgres")

    def as_postgres(program: str, *words: str | Path) -> None:
        command = ["runuser", "-u", "postgres", "--", PROGRAMS[-1].with_name(program), *words]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=home)

    control = ("pg_ctl", "-D", home / "data", "-w")
    as_postgres("initdb", "-D", home / "data", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C.UTF-8")
    as_postgres(*control, "-o", f"-k {home} -c listen_addresses='' -c fsync=off", "-l", home / "log", "start")
    try:
        as_postgres("createdb", "-h", home, database)
        yield home
    finally:
        as_postgres(*control, "-m", "immediate", "stop")
        shutil.rmtree(home)
