"""What is only installed for tests and some models."""

import pytest


@pytest.fixture(scope="session")
def transformers():
    """The package, or a skip."""
    return pytest.importorskip("transformers", reason="optional: pip install compclip[captioners]")
