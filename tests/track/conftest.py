"""Runs and an empty store for what is logged of them."""

import pytest

from compclip.track import sync, tracking_store
from tests import fake_runs


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory):
    """A migrated database: making one takes seconds, copying it none."""
    folder = tmp_path_factory.mktemp("empty")
    with tracking_store.open_client(f"sqlite:///{folder / 'mlflow.db'}"):
        pass
    return (folder / "mlflow.db").read_bytes()


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
