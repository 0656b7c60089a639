"""What most tests of the report start from."""

import pytest

from tests.report import made_page


@pytest.fixture
def runs(tmp_path):
    """The runs of the fake grid: three methods, two seeds."""
    return made_page.make_grid(tmp_path)
