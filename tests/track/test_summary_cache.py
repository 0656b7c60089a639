"""What is remembered of finished runs, and when their files are read again."""

import os
from dataclasses import asdict

import pytest

from compclip.runs import result_files
from compclip.track import entries
from compclip.track.entries import SummaryCache
from tests import fake_runs

NAME = "clic-vit-scenes-0"


@pytest.fixture
def root(tmp_path):
    return fake_runs.make(tmp_path, fake_runs.cells(("clic",)))


def briefs(root):
    """All runs, as a call of the command reads them."""
    memory = SummaryCache(root / "read.jsonl")
    summaries = [memory.summary(*paths) for paths in entries.list_published(root)]
    memory.save()
    return summaries


@pytest.fixture
def parsed(monkeypatch):
    """The runs whose files were parsed."""
    real, names = result_files.read_finished_run, []

    def counted(trained, scores):
        names.append(entries.cell_name(trained))
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


def test_a_changed_file_is_read_again(root, parsed):
    """Also where another file of equal size and time takes its place; and what is gone is gone."""
    first_summary = briefs(root)[0]
    path = fake_runs.result(root, NAME, "hard_positives")
    time = path.stat().st_mtime_ns
    new_path = path.with_suffix(".new")
    new_path.write_text(path.read_text().replace('"mean_score": 0.25', '"mean_score": 0.75'))
    os.utime(new_path, ns=(time, time))
    os.replace(new_path, path)
    fake_runs.result(root, NAME, "retrieval").unlink()
    second_summary = briefs(root)[0]
    assert parsed.count(NAME) == 2
    assert second_summary.run.results["hard_positives"].metrics["mean_score"] == 0.75
    assert "retrieval" not in second_summary.run.results
    assert second_summary.content != first_summary.content
