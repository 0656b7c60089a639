"""The documentation site builds without a warning, shows every page, and asks no other server for anything."""

import re
import subprocess
import sys

import pytest
import yaml

from tests.conftest import ROOT
from tests.pipeline.test_docs import PAGES

LOADED = re.compile(
    r"<(?:script|img|iframe|link rel=\"?(?:stylesheet|icon|preconnect)\"?)[^>]*(?:src|href)=\"?(https?:[^\s\">]+)"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site; a broken link or heading fails the build."""
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    ran = subprocess.run(build, cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return folder


def test_every_page_is_in_the_navigation():
    pages = re.findall(r"([\w/]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.M)
    assert {path.name for path in PAGES} <= set(pages)


def test_a_broken_link_is_a_warning():
    """And the strict build above fails on warnings."""
    links = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["validation"]["links"]
    assert set(links.values()) == {"warn"} and links.keys() >= {"not_found", "anchors"}


def test_pages_load_nothing_from_elsewhere(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > len(PAGES)
    assert [LOADED.findall(page.read_text(encoding="utf-8")) for page in pages if LOADED.search(page.read_text())] == []


def test_public_functions_have_their_docstrings(site):
    assert "Score a model on benchmarks" in (site / "python.html").read_text(encoding="utf-8")
