"""The report and the field's page: nothing overlaps or overflows, nothing is fetched, nothing errs."""

import pytest

from compclip.field import field_page
from compclip.report import report_page
from tests.browser import seen
from tests.conftest import ROOT
from tests.report import made_page


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """The address of a report of three methods and two seeds."""
    folder = tmp_path_factory.mktemp("report")
    report_page.write_report(made_page.build_grid_page(made_page.make_grid(folder)), folder / "reports")
    return (folder / "reports" / "index.html").as_uri()


@pytest.fixture(scope="module")
def field(tmp_path_factory):
    """The address of the field's page, of the shipped CSV files."""
    folder = tmp_path_factory.mktemp("field")
    experiments = ROOT / "experiments"
    field_page.write_field(field_page.load_field(experiments / "published", experiments / "claims.yaml"), folder)
    return (folder / "index.html").as_uri()


@pytest.mark.parametrize(("size", "colours"), [("desk", "dark"), ("phone", "light")])
@pytest.mark.parametrize("name", ["report", "field"])
def test_nothing_overlaps_overflows_or_is_fetched(request, browser, name, size, colours):
    address = request.getfixturevalue(name)
    with seen.page_at(browser, size, address, color_scheme=colours) as (page, errors, requests):
        assert seen.list_faults(page, errors) == {}
        assert requests == [address]


def test_the_first_screen_has_the_verdicts_and_both_figures(browser, report):
    with seen.page_at(browser, "desk", report) as (page, _, _):
        height = seen.SIZES["desk"][1]
        for selector in (".first svg >> nth=0", ".first svg >> nth=1", "text=negclip >> nth=0"):
            box = page.locator(selector).bounding_box()
            assert box and box["y"] + box["height"] <= height, f"{selector} is not on the first screen: {box}"


def test_without_scripts_every_section_is_there(browser, report):
    with seen.page_at(browser, "desk", report) as (page, _, _):
        with_scripts = page.locator("summary, h2").all_inner_texts()
    with seen.page_at(browser, "desk", report, java_script_enabled=False) as (page, _, _):
        assert page.locator("summary, h2").all_inner_texts() == with_scripts


def test_sections_open_by_the_keyboard(browser, report):
    with seen.page_at(browser, "desk", report) as (page, errors, _):
        section = page.locator("details >> nth=0")
        section.locator("summary").first.focus()
        is_open = section.get_attribute("open") is not None
        page.keyboard.press("Enter")
        assert (section.get_attribute("open") is not None) != is_open
        page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        assert seen.list_faults(page, errors) == {}


def test_what_is_wrong_with_a_page_is_found(browser, tmp_path):
    (tmp_path / "index.html").write_text(
        "<p style='margin: 0'>one line</p><p style='margin: -1em 0 0'>over it</p>"
        "<div style='width: 2000px'>wide</div><script>console.error('no')</script>"
    )
    with seen.page_at(browser, "phone", (tmp_path / "index.html").as_uri()) as (page, errors, _):
        faults = seen.list_faults(page, errors)
    assert faults["console"] == ["no"] and faults["overlaps"] == ["one line | over it"]
    assert faults["overflow"][0].startswith("DIV")
