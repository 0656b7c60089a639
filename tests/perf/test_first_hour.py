"""The first hour of docs/install.md, played with a tiny model and drawings; a page that says something else is noticed."""

from dataclasses import replace

import pytest

from compclip.config import read
from perf import checkout
from perf.faults import first_hour
from perf.faults.first_hour import PlayedCommand
from perf.faults.first_hour_page import Page, read_page

PAGE = read_page(checkout.ROOT / "docs" / "install.md")


def edited(old: str, new: str) -> Page:
    """The page with another text, which it must hold."""
    assert old in PAGE.text
    return replace(PAGE, text=PAGE.text.replace(old, new))


@pytest.fixture(scope="module")
def hour(tmp_path_factory):
    """The project, the commands that were played in it, and the faults."""
    folder = tmp_path_factory.mktemp("hour")
    return folder / "project", *first_hour.rehearse(folder / "project", folder, tiny=True)


def test_the_hour_goes_as_the_page_says(hour):
    """All commands of the page, in its order; those of a second terminal end with the command above them."""
    _, played, faults = hour
    assert faults == []
    assert [command.line for command in played] == [command.line for command in PAGE.commands]
    assert all(command.wall_s > 0 for command in played)


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("`12 cells, 3 benchmarks: OK`", "`13 cells: OK`", "config check: does not print '13 cells: OK'"),
        ("sugarcrepe_pp vit", "winoground vit", "winoground was not fetched"),
        ("`reports/index.html`", "`reports/page.html`", "reports/page.html: the page names it, and it does not exist"),
        ("fold `Differences to finetune`", "fold `All drawings`", "has no All drawings"),
        ("every ten steps", "every five steps", "3 lines with loss and samples per second, expected 6"),
        ("Try thirty steps", "Try forty steps", "the heading says 40, the command 30"),
    ],
)
def test_another_word_on_the_page_is_a_fault(hour, old, new, fault):
    root, played, _ = hour
    page = edited(old, new)
    lines = [command.line for command in page.commands]
    played = [replace(command, line=line) for command, line in zip(played, lines, strict=True)]
    [text] = first_hour.compare_project(page, played, root)
    assert fault in text


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("three ways", "four ways", "methods: the page says 4, "),
        ("20,000\npictures", "25,000\npictures", "pictures: the page says 25000, "),
        ("three seeds each", "two seeds each", "seeds: the page says 2, "),
        ("20 GiB", "2 GiB", "GiB to fetch: the page says 2, the catalogue's sizes give 19."),
        ("a batch of 256", "a batch of 128", "batch: the page says 128, "),
        ("The nine cells", "The ten cells", "trained cells: the page says 10, "),
        ("100,000 pictures", "10,000 pictures", "pictures a cell: the page says 10000, "),
        ("390 steps", "391 steps", "steps a cell: the page says 391, "),
    ],
)
def test_another_count_on_the_page_is_a_fault(old, new, fault):
    """Counts of the shipped grid and of the catalogue, whose sizes nobody has here."""
    params = read.load_params(str(checkout.ROOT / first_hour.GRID))
    [text] = first_hour.compare_counts(edited(old, new), params)
    assert text.startswith(fault)


@pytest.mark.parametrize(
    ("line", "code", "output", "faults"),
    [
        ("compclip doctor", 0, "all well\n", 0),
        ("compclip doctor", 1, "error: no dvc\n", 1),
        ("compclip doctor --gpu", 2, "error: torch sees no GPU\n", 0),
        ("compclip doctor --gpu", 2, "Traceback\nerror: torch sees no GPU\n", 1),
        ("compclip doctor --gpu", 0, "all well\n", 1),
    ],
)
def test_results_of_a_machine_without_a_gpu(monkeypatch, line, code, output, faults):
    monkeypatch.setattr(first_hour.gpus, "list_gpus", list)
    assert len(list(first_hour.compare_results([PlayedCommand(line, code, output, 1.0, 1.0)]))) == faults


def test_a_sentence_that_is_gone_is_named():
    with pytest.raises(ValueError, match="no trained cells"):
        _ = edited("The nine cells train", "All train").counts
