"""One Chromium for all tests of the room; without one, or without its driver, they skip and say so."""

from __future__ import annotations

import shutil

import pytest

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def browser():
    """A headless Chromium, driven by playwright."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright; `make setup` installs it")
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.skip("no Chromium; as root: apt-get install chromium")
    with sync_api.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()
