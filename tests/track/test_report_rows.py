"""The report in MLflow: its files are a run's, and each row of its tables a run above those of the row's seeds."""

import pytest

from compclip.report import report_page
from compclip.report.run_details import collect_runs
from compclip.track import report_rows, sync
from compclip.track.entries import EntryOptions, describe_grid
from tests import fake_runs
from tests.report import made_page
from tests.track import live
from tests.track.project import HOME, source, tracked, update

METHODS = ("pretrained", "negclip", "clic")


@pytest.fixture
def reported(tmp_path):
    """Three methods, two seeds, and their report."""
    fake_runs.make(tmp_path)
    write_report(tmp_path)
    return tmp_path


def write_report(root, reference=""):
    head = "backbone,data,method,benchmark,metric,better,seeds,mean,std,rank,difference,low,high,over,items,verdict\n"
    (root / "reports").mkdir(exist_ok=True)
    (root / "reports" / "report.csv").write_text(
        head + "vit,scenes,pretrained,sugarcrepe,swap,higher,1,0.450000,,,,,,,,\n"
        "vit,scenes,clic,sugarcrepe,swap,higher,2,0.750000,0.010000,1,0.300000,0.100000,0.500000,,15,better\n"
        "vit,scenes,clic,retrieval,i2t_recall@1,higher,2,0.900000,,1,0.100000,-0.100000,0.300000,,5,\n"
    )
    if reference:
        (root / "reports" / "reference.csv").write_text(
            "backbone,data,method,reference,benchmark,metric,better,seeds,difference,low,high,over,items,verdict\n"
            f"vit,scenes,clic,{reference},sugarcrepe,swap,higher,2,-0.200000,-0.300000,-0.100000,,15,worse\n"
        )
    (root / "reports" / "index.html").write_text("<h1>Report</h1>")


def test_a_row_has_the_report_s_numbers(reported, uri):
    update(reported, uri, methods=METHODS)
    row = tracked(uri)[1]["clic-vit-scenes"]
    assert row.data.metrics == {
        "mean/sugarcrepe/swap": 0.75, "std/sugarcrepe/swap": 0.01, "difference/sugarcrepe/swap": 0.3,
        "low/sugarcrepe/swap": 0.1, "high/sugarcrepe/swap": 0.5, "verdict/sugarcrepe/swap": 1.0,
        "mean/retrieval/i2t_recall_at_1": 0.9, "difference/retrieval/i2t_recall_at_1": 0.1,
        "low/retrieval/i2t_recall_at_1": -0.1, "high/retrieval/i2t_recall_at_1": 0.3,
        "verdict/retrieval/i2t_recall_at_1": 0.0,
    }  # fmt: skip
    assert row.data.tags["verdict/sugarcrepe/swap"] == "better" and row.data.tags["reference"] == "pretrained"
    assert "verdict/retrieval/i2t_recall_at_1" not in row.data.tags
    note = row.data.tags["mlflow.note.content"]
    assert "| sugarcrepe/swap | 75.00 | 1.00 | 30.00 | [10.00, 50.00] | better |" in note
    assert "| 90.00 |  | 10.00 | [-10.00, 30.00] | undecided |" in note


def test_a_row_is_compared_with_the_report_s_reference(reported, uri):
    write_report(reported, reference="negclip")
    update(reported, uri, methods=METHODS)
    row = tracked(uri)[1]["clic-vit-scenes"]
    assert row.data.metrics["difference/sugarcrepe/swap"] == -0.2
    assert (row.data.tags["reference"], row.data.tags["verdict/sugarcrepe/swap"]) == ("negclip", "worse")
    assert row.data.metrics["mean/sugarcrepe/swap"] == 0.75


def test_seeds_stand_below_their_row(reported, uri):
    """Also where the row is logged anew, and where the runs were logged before there was a report."""
    (reported / "reports").rename(reported / "later")
    update(reported, uri, methods=METHODS)
    (reported / "later").rename(reported / "reports")
    counts = update(reported, uri, methods=METHODS)
    assert (counts["added"], counts["unchanged"]) == (3, 6)
    write_report(reported, reference="negclip")
    counts = update(reported, uri, methods=METHODS)
    assert (counts["replaced"], counts["unchanged"]) == (2, 7)
    runs = tracked(uri)[1]
    for seed in (0, 1):
        assert runs[f"clic-vit-scenes-{seed}"].data.tags["mlflow.parentRunId"] == runs["clic-vit-scenes"].info.run_id
    assert "mlflow.parentRunId" not in runs["negclip-vit-scenes-0"].data.tags  # has no row


def test_the_page_is_an_artifact(reported, uri):
    update(reported, uri, methods=METHODS)
    assert live.contents(uri)[HOME, "report"][6] == ["index.html", "report.csv"]
    (reported / "reports" / "index.html").write_text("<h1>Another</h1>")
    assert update(reported, uri, methods=METHODS)["replaced"] == 1


def test_a_rebuild_has_the_same(reported, uri):
    update(reported, uri, methods=METHODS)
    first = live.contents(uri)
    sync.update_store(source(reported, methods=METHODS), uri, anew=True)
    assert live.contents(uri) == first


def test_the_files_of_a_real_report_are_read(tmp_path, uri):
    """A row for each method, the same means in both, and verdicts against the report's reference."""
    runs, _ = collect_runs(fake_runs.cells(), fake_runs.BENCHMARKS, fake_runs.make(tmp_path))
    page = made_page.build_page(runs, fake_runs.BENCHMARKS, None, (), (), lambda run: {}, reference="negclip")
    report_page.write_report(page, tmp_path / "reports")
    assert update(tmp_path, uri, methods=METHODS)["added"] == 6 + 3 + 1
    rows = tracked(uri)[1]
    assert rows["negclip-vit-scenes"].data.metrics["mean/sugarcrepe/swap"] == pytest.approx(0.8)
    assert rows["clic-vit-scenes"].data.tags["reference"] == "negclip"
    assert rows["clic-vit-scenes"].data.metrics["difference/sugarcrepe/swap"] == pytest.approx(-0.05)


def test_blind_rows_are_runs_and_numbers_of_the_rows(reported, uri):
    head = "backbone,data,method,benchmark,metric,mean,above,above_low,above_high,sighted,sighted_low,sighted_high\n"
    (reported / "reports" / "blind.csv").write_text(
        head + "vit,scenes,blind.length,sugarcrepe,swap,0.600000,,,,,,\n"
        "vit,scenes,clic,sugarcrepe,swap,0.750000,0.150000,0.050000,0.250000,0.500000,0.300000,0.700000\n"
    )
    update(reported, uri, methods=METHODS)
    runs = tracked(uri)[1]
    assert runs["blind.length-vit-scenes"].data.metrics == {"mean/sugarcrepe/swap": 0.6}
    assert runs["blind.length-vit-scenes"].data.tags["kind"] == "blind"
    numbers = runs["clic-vit-scenes"].data.metrics
    assert (numbers["above/sugarcrepe/swap"], numbers["above_low/sugarcrepe/swap"]) == (0.15, 0.05)
    assert (numbers["sighted/sugarcrepe/swap"], numbers["sighted_high/sugarcrepe/swap"]) == (0.5, 0.7)
    assert "above the best row without the picture" in runs["clic-vit-scenes"].data.tags["mlflow.note.content"]
    assert "without the picture" not in runs["pretrained-vit-scenes"].data.tags["mlflow.note.content"]


def test_slices_stand_in_the_rows_descriptions(reported, uri):
    """Those that the page shows; all of them are a file of the report's run."""
    head = "backbone,data,method,reference,benchmark,slice,items,pictures,difference,elsewhere,z,p,shown\n"
    (reported / "reports" / "slices.csv").write_text(
        head + "vit,scenes,clic,pretrained,sugarcrepe,word: above,40,20,-0.250000,0.125000,-9.1,0.002,1\n"
        "vit,scenes,clic,pretrained,sugarcrepe,word: cup,40,20,-0.250000,0.125000,-8.1,0.002,0\n"
    )
    update(reported, uri, methods=METHODS)
    client, runs = tracked(uri)
    note = runs["clic-vit-scenes"].data.tags["mlflow.note.content"]
    assert "| word: above | sugarcrepe | pretrained | -25.0 | +12.5 |" in note and "word: cup" not in note
    assert "| slice |" not in runs["pretrained-vit-scenes"].data.tags["mlflow.note.content"]
    assert "slices.csv" in {file.path for file in client.list_artifacts(runs["report"].info.run_id)}


def test_the_notice_comes_before_any_number(tmp_path):
    """In the notes of the experiment, of the report and of its rows; without one nothing is there."""
    notes = {}
    for notice in ("They do not rank methods.", ""):
        write_report(tmp_path)
        options = EntryOptions("e", frozenset(), "p", (), notice=notice)
        entries = report_rows.make_report_entries(tmp_path, (), options)
        notes[notice] = [describe_grid(["clic"], (), {}, "m", notice), *(entry.note for entry in entries)]
    with_notice, without = notes.values()
    assert len(with_notice) == 4 and all(note.startswith("**They do not rank methods.**") for note in with_notice)
    assert not any("rank" in note for note in without)
