"""Databases of studies that a test throws away."""

import pytest


@pytest.fixture(autouse=True, scope="session")
def databases_of_studies(unsynced_sqlite) -> None:
    pass
