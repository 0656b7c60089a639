"""Tables of items in MLflow: the texts that were scored, the same items in every run, and what was left out said."""

from __future__ import annotations

import json

import pytest

from compclip.base.files import write_json
from compclip.config.sections import BenchmarkSection
from compclip.evaluate import benchmark_module
from compclip.prepare import benchmark_records
from compclip.runs import run_folder
from compclip.track import sync
from compclip.track.item_tables import COUNTS_TAG, TABLES_TAG, ItemTables
from tests import fake_runs
from tests.track.project import source, tracked, update

WRITTEN = {"swap_att": 10, "swap_obj": 5}  # records of the fake runs' sugarcrepe


@pytest.fixture
def section(tmp_path):
    """SugarCrepe's files as its authors write them, with the fake runs' number of records."""
    folder = tmp_path / "official"
    for subset, count in WRITTEN.items():
        rows = {
            f"{subset}:{i}": {"filename": "a.png", "caption": f"{subset} {i}", "negative_caption": f"not {i}"}
            for i in range(count)
        }
        write_json(folder / f"{subset}.json", rows)
    return BenchmarkSection(path=str(folder), images=str(folder), split=",".join(WRITTEN))


@pytest.fixture
def results(tmp_path, section):
    """The results of a run that was scored on those files, and their records."""
    fake_runs.make(tmp_path, [fake_runs.cell("clic")])
    folder = tmp_path / "results" / "clic" / "vit-scenes-0"
    file = run_folder.result_path(folder, "sugarcrepe")
    fingerprint = benchmark_module.write_census("sugarcrepe", section, tmp_path)["fingerprint"]
    write_json(file, json.loads(file.read_text()) | {"fingerprint": fingerprint})
    return folder


def make(results, rows=100):
    return ItemTables(results.parents[2], rows).make(results)


def test_each_outcome_stands_beside_its_texts(results):
    (table,) = make(results)
    content = json.loads(table.text)
    assert (table.path, table.coverage) == ("items/sugarcrepe.json", "sugarcrepe: 15 of 15 outcomes")
    assert content["columns"] == ["item", "outcome", "metric", "text 1", "text 2"]
    assert content["data"][9] == ["swap_att/swap_att:9", 0.0, "swap_att", "swap_att 9", "not 9"]
    assert [row[1] for row in content["data"]] == [*map(float, "111111111011100")]


def test_won_and_lost_items_are_marked(tmp_path, results):
    """Beside the pretrained model, which gets 5 of 10 and 2 of 5; of a result on other files there are no marks."""
    fake_runs.make(tmp_path, [fake_runs.cell("pretrained")])
    pretrained = tmp_path / "results" / "pretrained" / "vit-scenes-0"
    file, ours = (run_folder.result_path(folder, "sugarcrepe") for folder in (pretrained, results))
    fingerprint = json.loads(ours.read_text())["fingerprint"]
    tables = ItemTables(tmp_path, 100)
    assert "to pretrained" not in json.loads(tables.make(results, pretrained)[0].text)["columns"]
    write_json(file, json.loads(file.read_text()) | {"fingerprint": fingerprint})
    content = json.loads(tables.make(results, pretrained)[0].text)
    assert content["columns"] == ["item", "outcome", "metric", "to pretrained", "text 1", "text 2"]
    same = ["same"]
    assert [row[3] for row in content["data"]] == [*same * 5, *["won"] * 4, *same * 3, "won", *same * 2]
    lost = json.loads(tables.make(pretrained, results)[0].text)["data"]
    assert [row[3] for row in lost].count("lost") == 5 and lost[8][4:] == ["swap_att 8", "not 8"]


def test_rows_are_bounded_and_drawn_from_every_metric(results):
    (table,) = make(results, rows=5)
    rows = json.loads(table.text)["data"]
    assert table.coverage == "sugarcrepe: 5 of 15 outcomes"
    names = [row[0].partition("/")[2] for row in rows]
    assert names == ["swap_att:0", "swap_att:3", "swap_att:6", "swap_att:9", "swap_obj:2"]


def test_texts_that_were_not_scored_make_no_table(section, results):
    """Other files, or none at all, as on a machine that has no benchmarks."""
    file = results.parents[2] / "official" / "swap_obj.json"
    file.write_text(file.read_text().replace("not 4", "no longer 4"))
    benchmark_module.write_census("sugarcrepe", section, results.parents[2])
    assert make(results) == []
    benchmark_records.records_file(results.parents[2], "sugarcrepe").unlink()
    assert make(results) == []


def test_the_run_has_them_where_the_ui_looks(tmp_path, results, uri):
    """As artifacts and in the tag of `log_table`."""
    project = source(tmp_path)
    assert sync.update_store(project, uri)["added"] == 1
    client, by_name = tracked(uri)
    run = by_name["clic-vit-scenes-0"]
    assert json.loads(run.data.tags[TABLES_TAG]) == [{"path": "items/sugarcrepe.json", "type": "table"}]
    assert run.data.tags[COUNTS_TAG] == "sugarcrepe: 15 of 15 outcomes"
    assert [file.path for file in client.list_artifacts(run.info.run_id, "items")] == ["items/sugarcrepe.json"]
    assert update(tmp_path, uri)["unchanged"] == 1
