"""The documentation site builds without a warning, shows every page, and asks no other server for anything."""

import functools
import http.server
import re
import subprocess
import sys
import threading

import pytest
import yaml

from tests.browser import seen
from tests.conftest import ROOT
from tests.pipeline.test_docs import PAGES

LOADED = re.compile(
    r"<(?:script|img|iframe|link rel=\"?(?:stylesheet|icon|preconnect)\"?)[^>]*(?:src|href)=\"?(https?:[^\s\">]+)"
)


def build(*options: str) -> subprocess.CompletedProcess[str]:
    """Run mkdocs; `--quiet` would hide the warnings, and build in spite of them."""
    return subprocess.run([sys.executable, "-m", "mkdocs", "build", *options], cwd=ROOT, capture_output=True, text=True)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site; a broken link or heading fails the build."""
    folder = tmp_path_factory.mktemp("site")
    ran = build("--strict", "--site-dir", str(folder))
    assert ran.returncode == 0, ran.stderr
    return folder


def test_every_page_is_in_the_navigation():
    pages = re.findall(r"([\w/]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.M)
    assert {path.name for path in PAGES} <= set(pages)


def test_a_broken_link_fails_a_build(tmp_path):
    """Of a file and of a heading, by the settings of the site."""
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    kept_settings = {key: settings[key] for key in ("site_name", "strict", "validation")}
    (tmp_path / "mkdocs.yml").write_text(yaml.safe_dump(kept_settings))
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# A\n\n[b](b.md), [c](#c)\n")
    ran = build("--config-file", str(tmp_path / "mkdocs.yml"))
    assert ran.returncode != 0 and "'b.md'" in ran.stderr and "'#c'" in ran.stderr


def test_pages_load_nothing_from_elsewhere(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > len(PAGES)
    assert [LOADED.findall(page.read_text(encoding="utf-8")) for page in pages if LOADED.search(page.read_text())] == []
    assert "Score a model on benchmarks" in (site / "python.html").read_text(encoding="utf-8")  # a public docstring


@pytest.fixture(scope="module")
def address(site):
    """The site on a server: search needs one."""
    handler_class = type("Quiet", (http.server.SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    handler = functools.partial(handler_class, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.mark.parametrize("size", seen.SIZES)
@pytest.mark.parametrize("name", ["index", "data", "lists", "python"])
def test_pages_fit_a_desk_and_a_phone(browser, address, name, size):
    with seen.page_at(browser, size, f"{address}{name}.html") as (page, errors, requests):
        page.wait_for_load_state("networkidle")
        assert errors == [] and page.evaluate(seen.OVERFLOW) == []
        assert all(url.startswith((address, "blob:", "data:")) for url in requests)


def test_search_finds_an_option(browser, address):
    with seen.page_at(browser, "desk", f"{address}?q=micro_batch") as (page, errors, _):
        page.locator(".md-search-result__item").first.wait_for(timeout=30_000)
        assert errors == []
