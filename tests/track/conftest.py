"""Runs and an empty store for what is logged of them."""

import pytest

from compclip.track import sync, tracking_store
from tests import fake_runs
from tests.conftest import make_once


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory):
    """A migrated database: making one takes seconds, copying it none."""
    return (make_once(tmp_path_factory, "empty", make_database) / "mlflow.db").read_bytes()


def make_database(folder):
    folder.mkdir()
    with tracking_store.open_client(f"sqlite:///{folder / 'mlflow.db'}"):
        pass


@pytest.fixture
def runs(tmp_path):
    return fake_runs.make(tmp_path, fake_runs.cells(("pretrained", "clic")))


@pytest.fixture
def uri(tmp_path, empty_database):
    (tmp_path / "mlflow").mkdir()
    (tmp_path / "mlflow" / "mlflow.db").write_bytes(empty_database)
    return f"sqlite:///{tmp_path / 'mlflow' / 'mlflow.db'}"


@pytest.fixture(autouse=True)
def project_name():
    """One name, wherever the folder of a test lies, also after the test undid its own patches."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(sync.PROJECT, "compclip")
        yield


@pytest.fixture(autouse=True, scope="session")
def databases_of_mlflow(unsynced_sqlite) -> None:
    pass
