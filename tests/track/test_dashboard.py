"""What the dashboard says and starts before it becomes the MLflow server."""

import contextlib
import socket
import sqlite3

import pytest

from compclip.base.errors import UserError
from compclip.base.files import write_json
from compclip.track import dashboard, tracking_store


@pytest.mark.parametrize(
    ("host", "port", "message"),
    [
        *[(host, 5000, "--host .*: would open it to every machine; give 127.0.0.1") for host in ("", " ")],
        *[("127.0.0.1", port, "--port .*: must be from 1 to 65535") for port in (-1, 0, 65536, 10**30)],
        ("a" * 80 + ".example", 5000, "cannot listen"),
        ("127.0.0.1", None, "choose another --port"),
    ],
)
def test_it_refuses_what_cannot_be_meant(host, port, message):
    with socket.create_server(("127.0.0.1", 0)) as busy_socket, pytest.raises(UserError, match=message):
        port = busy_socket.getsockname()[1] if port is None else port
        dashboard.check_arguments("postgresql://somewhere/db", host, port)


@pytest.mark.parametrize(("host", "local"), [("127.0.0.1", True), ("::1", True), ("127.x.com", False), ("::", False)])
def test_hosts_that_this_machine_alone_reaches(host, local):
    assert bool(dashboard.LOOPBACK.fullmatch(host)) == local


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def test_a_password_is_in_no_command_line_and_no_message(tmp_path, monkeypatch, capsys):
    """The server gets the address where others cannot read it."""
    uri, execve_calls = "postgresql://me:hunter2@127.0.0.1/db", []
    monkeypatch.setattr(dashboard.os, "execve", lambda *args: execve_calls.append(args) or 0)
    monkeypatch.setattr(dashboard, "announce", lambda place, address: print(address))
    monkeypatch.setattr(tracking_store, "check_schema", lambda uri: None)  # no server is there
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    assert dashboard.main(["--port", str(free_port())]) == 0
    [(_, words, environment)] = execve_calls
    assert words[words.index("--host") + 1] == "127.0.0.1"
    assert environment["MLFLOW_BACKEND_STORE_URI"] == uri
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://me:hunter2@tracker:5000")
    assert dashboard.main([]) == 0
    output = capsys.readouterr()
    assert "hunter2" not in " ".join(words) + output.out + output.err
    assert "http://me:***@tracker:5000/#/experiments" in output.out


def test_a_store_of_another_release_is_one_line(uri, monkeypatch):
    """With the command that upgrades it; the server itself would end with a traceback."""
    monkeypatch.setattr(dashboard.os, "execve", lambda *args: pytest.fail("the server was started"))
    with contextlib.closing(sqlite3.connect(tracking_store.sqlite_file(uri))) as database, database:
        database.execute("UPDATE alembic_version SET version_num = '75868b020152'")
    with pytest.raises(UserError, match=f"another release of MLflow; .*`mlflow db upgrade {uri}`"):
        dashboard.main(["--uri", uri, "--port", str(free_port())])


def test_it_opens_the_list_of_methods(tmp_path):
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    assert dashboard.page_address(uri).startswith("#/experiments?workflowType")
    write_json(tmp_path / "view.json", {"experiment": "7"})
    view = "viewStateShareKey=methods&workflowType=machine_learning"
    assert dashboard.page_address(uri).startswith(f"#/experiments/7/runs?{view}")
