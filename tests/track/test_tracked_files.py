"""What is remembered of finished runs, and when their files are read again."""

from __future__ import annotations

import os
from dataclasses import asdict

import pytest

from compclip.base.errors import UserError
from compclip.runs import result_files
from compclip.track import tracked_files
from compclip.track.tracked_files import SummaryCache
from tests import fake_runs

NAME = "clic-vit-scenes-0"
HOUR_NS = 3_600_000_000_000


@pytest.fixture
def root(tmp_path):
    """Two runs whose files are old enough to be remembered."""
    fake_runs.make(tmp_path, fake_runs.cells(("clic",)))
    for path in [*tmp_path.rglob("*.json"), *tmp_path.rglob("*.yaml"), *tmp_path.rglob("*.jsonl")]:
        aged(path)
    return tmp_path


def aged(path):
    """Changed an hour earlier than it was."""
    stat = path.stat()
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns - HOUR_NS))


def briefs(root):
    """All runs, as a call of the command reads them."""
    memory = SummaryCache(root / "read.jsonl")
    summaries = [memory.summary(*paths) for paths in tracked_files.list_published(root)]
    memory.save()
    return summaries


@pytest.fixture
def parsed(monkeypatch):
    """The runs whose files were parsed."""
    real, names = result_files.read_finished_run, []

    def counted(trained, scores):
        names.append(tracked_files.cell_name(trained))
        return real(trained, scores)

    monkeypatch.setattr(result_files, "read_finished_run", counted)
    return names


def test_a_run_is_parsed_once_and_remembered_as_it_was(root, parsed):
    first = briefs(root)
    assert parsed == [NAME, "clic-vit-scenes-1"]
    assert list(map(asdict, briefs(root))) == list(map(asdict, first))
    assert len(parsed) == 2
    run = first[0].run
    assert [line["step"] for line in run.curve] == [30]
    assert (
        run.results["sugarcrepe"].metrics
        == result_files.read_finished_run(run.trained, run.results_folder).results["sugarcrepe"].metrics
    )
    assert not any(result.items for result in run.results.values())


@pytest.mark.parametrize("keep_time", [False, True])
def test_a_changed_file_is_read_again(root, parsed, keep_time):
    """Also where a program puts another file of equal size and time in its place: its inode is another one."""
    first_summary = briefs(root)[0]
    path = fake_runs.result(root, NAME, "hard_positives")
    time, new_path = path.stat().st_mtime_ns, path.with_suffix(".new")
    new_path.write_text(path.read_text().replace('"mean_score": 0.25', '"mean_score": 0.75'))
    if keep_time:
        os.utime(new_path, ns=(time, time))
    os.replace(new_path, path)
    second_summary = briefs(root)[0]
    assert parsed.count(NAME) == 2
    assert second_summary.run.results["hard_positives"].metrics["mean_score"] == 0.75
    assert second_summary.content != first_summary.content


def test_a_file_that_changed_a_moment_ago_is_not_trusted(root, parsed):
    path = fake_runs.trained(root, NAME).metrics
    os.utime(path)
    briefs(root)
    briefs(root)
    assert parsed.count(NAME) == 2
    assert parsed.count("clic-vit-scenes-1") == 1


def test_a_new_result_and_a_lost_one_are_noticed(root):
    briefs(root)
    path = fake_runs.result(root, NAME, "retrieval")
    text = path.read_text()
    path.unlink()
    assert "retrieval" not in briefs(root)[0].run.results
    path.write_text(text)
    assert "retrieval" in briefs(root)[0].run.results


@pytest.mark.parametrize("damage", ["", "{}\n", "not JSON\n", '{"code": "other code"}\n'])
def test_a_damaged_memory_is_made_again(root, parsed, damage):
    first = briefs(root)
    (root / "read.jsonl").write_text(damage)
    assert list(map(asdict, briefs(root))) == list(map(asdict, first))
    assert len(parsed) == 4


def test_runs_that_are_gone_are_forgotten_with_the_next_new_one(root):
    briefs(root)
    fake_runs.trained(root, "clic-vit-scenes-1").config.unlink()
    aged(fake_runs.trained(root, NAME).config)
    assert len(briefs(root)) == 1
    assert len((root / "read.jsonl").read_text().splitlines()) == 2  # the code's hash and one run


def test_a_broken_run_is_named(root):
    fake_runs.result(root, NAME, "retrieval").write_text("{")
    with pytest.raises(UserError, match="retrieval.json: not JSON at line 1"):
        briefs(root)
