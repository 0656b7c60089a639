"""MLflow's page, opened where `compclip dashboard` says: the list of methods, without a click."""

import os
import re
import subprocess
import sys

import pytest

from compclip.track import writer
from tests import fake_runs
from tests.browser import seen
from tests.track.project import leave_header, update
from tests.track.test_dashboard import free_port
from tests.track.test_report_rows import write_report


@pytest.fixture
def dashboard(tmp_path, uri, monkeypatch):
    """The address that the command prints, with its server behind it."""
    monkeypatch.setattr(writer, "fill_model", leave_header)
    fake_runs.make(tmp_path)
    write_report(tmp_path)
    update(tmp_path, uri, methods=fake_runs.METHODS, columns=["sugarcrepe/swap"])
    command = [sys.executable, "-m", "compclip.track.dashboard", "--uri", uri, "--port", str(free_port())]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as server:
        try:
            output = ""
            while not re.search(r"http://\S+#/experiments\S+\n", output):
                line = server.stdout.readline()
                assert line, output
                output += line
            yield re.search(r"http://\S+#/experiments\S+", output)[0]
        finally:
            server.terminate()


def test_it_opens_on_the_methods_with_their_headline_columns(browser, dashboard):
    with seen.page_at(browser, "desk", dashboard) as (page, _, _):
        failures = []
        page.on("pageerror", lambda error: failures.append(str(error)))
        page.get_by_text("clic-vit-scenes", exact=True).first.wait_for(timeout=60_000)
        rows = page.locator("[role=row]").all_inner_texts()
        assert not any("clic-vit-scenes-0" in row for row in rows), "seeds are folded below their method"
        assert page.get_by_text("sugarcrepe/swap", exact=True).first.is_visible()
        assert page.get_by_text("75", exact=True).first.is_visible()
        assert page.evaluate(seen.OVERFLOW) == [] and failures == []
