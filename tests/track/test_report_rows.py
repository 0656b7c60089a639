"""The report in MLflow: its files are a run's, and each row of its tables a run above those of the row's seeds."""

import json

import pytest

from compclip.report import report_page
from compclip.track import report_rows, sync, tracking_store, writer
from compclip.track.entries import EntryOptions, describe_grid
from tests import fake_runs
from tests.report import made_page
from tests.track import live
from tests.track.project import HOME, leave_header, source, tracked, update

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
        "vit,scenes,clic,retrieval,i2t_recall@5,higher,2,0.900000,,1,0.100000,-0.100000,0.300000,,5,\n"
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
    assert row.data.metrics == {"sugarcrepe/swap": 75.0, "std/sugarcrepe/swap": 1.0}
    assert row.data.tags["sugarcrepe/swap vs reference"] == "better +30.0 [+10.0, +50.0]"
    assert row.data.tags["reference"] == "pretrained"
    table = tables(row)["tables/report.json"]
    assert table["columns"][:4] == ["metric", "mean", "difference", "better"]
    assert [line[0] for line in table["data"]] == ["sugarcrepe/swap", "retrieval/i2t_recall_at_5"]


def tables(run):
    folder = tracking_store.path_of_uri(run.info.artifact_uri)
    return {f"tables/{path.name}": json.loads(path.read_text()) for path in (folder / "tables").iterdir()}


def test_a_row_has_what_its_runs_share(reported, uri, monkeypatch):
    """Their parameters, data and models; that of the best number is the latest: MLflow lists it first."""
    monkeypatch.setattr(writer, "fill_model", leave_header)
    for path in reported.glob("runs/*/*/checkpoint"):
        (path / "open_clip_model.safetensors").write_bytes(b"")
    update(reported, uri, methods=METHODS)
    runs = tracked(uri)[1]
    row, seed = runs["clic-vit-scenes"], runs["clic-vit-scenes-0"]
    assert {k: v for k, v in seed.data.params.items() if k != "seed"} == dict(row.data.params)
    assert len(row.inputs.dataset_inputs) == len(seed.inputs.dataset_inputs) > 0
    models = {run.outputs.model_outputs[0].model_id for run in (seed, runs["clic-vit-scenes-1"])}
    assert {output.model_id for output in row.outputs.model_outputs} == models
    assert row.data.tags["mlflow.runColor"] != runs["pretrained-vit-scenes"].data.tags["mlflow.runColor"]
    assert row.info.start_time > runs["pretrained-vit-scenes"].info.start_time > 0


def test_a_row_is_compared_with_the_report_s_reference(reported, uri):
    write_report(reported, reference="negclip")
    update(reported, uri, methods=METHODS)
    row = tracked(uri)[1]["clic-vit-scenes"]
    assert row.data.tags["sugarcrepe/swap vs reference"] == "worse -20.0 [-30.0, -10.0]"
    assert row.data.tags["reference"] == "negclip"
    assert row.data.metrics["sugarcrepe/swap"] == 75.0


def test_what_a_verdict_rests_on_is_a_tag(reported):
    write_report(reported, reference="negclip")
    file = reported / "reports" / "reference.csv"
    head, line = file.read_text().splitlines()
    file.write_text(f"{head},rests_on\n{line},aro winoground\n")
    entries = report_rows.make_report_entries(reported, (), EntryOptions("e", frozenset(), "p", ()))
    (row,) = [entry for entry in entries if entry.tags.get("method") == "clic"]
    assert row.tags["rests_on/sugarcrepe/swap"] == "aro winoground"


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
    """A new page is a new run; a rebuild has the same."""
    figure = reported / "reports" / "plots" / "forest-vit-scenes.svg"
    figure.parent.mkdir()
    figure.write_text("<svg/>")
    update(reported, uri, methods=METHODS)
    assert live.contents(uri)[HOME, "report"][6] == ["index.html", "plots", "report.csv"]
    (reported / "reports" / "index.html").write_text("<h1>Another</h1>")
    assert update(reported, uri, methods=METHODS)["replaced"] == 1
    contents = live.contents(uri)
    sync.update_store(source(reported, methods=METHODS), uri, anew=True)
    assert live.contents(uri) == contents


def test_the_files_of_a_real_report_are_read(tmp_path, uri):
    """A row for each method, the same means in both, and verdicts against the report's reference."""
    page = made_page.build_grid_page(made_page.make_grid(tmp_path), reference="negclip")
    report_page.write_report(page, tmp_path / "reports")
    assert update(tmp_path, uri, methods=METHODS)["added"] == 6 + 3 + 1
    client, rows = tracked(uri)
    assert rows["negclip-vit-scenes"].data.metrics["sugarcrepe/swap"] == pytest.approx(80)
    assert "Comp" in rows["clic-vit-scenes"].data.metrics
    assert all(len(rows[f"{method}-vit-scenes"].data.metrics) <= 40 for method in METHODS)
    view = json.loads(client.get_experiment_by_name(HOME).tags["mlflow.sharedViewState.methods"])
    assert view["selectedColumns"][:2] == ["metrics.`Comp`", "tags.`Comp vs reference`"]
    assert len(view["selectedColumns"]) <= 6 and view["searchFilter"] == "tags.grid = 'true'"
    assert {run.data.tags["kind"] for run in rows.values() if run.data.tags.get("grid") == "true"} == {"row", "cell"}
    assert rows["clic-vit-scenes"].data.tags["reference"] == "negclip"
    assert rows["negclip-vit-scenes"].data.tags["Comp vs reference"] == "the reference"


def test_the_notice_comes_before_any_number(tmp_path):
    """In the notes of the experiment, of the report and of its rows; without one nothing is there."""
    notes = {}
    for notice in ("They do not rank methods.", ""):
        write_report(tmp_path)
        options = EntryOptions("e", frozenset(), "p", (), notice=notice)
        entries = report_rows.make_report_entries(tmp_path, (), options)
        notes[notice] = [describe_grid(["clic"], (), "", notice), *(entry.note for entry in entries)]
    with_notice, without = notes.values()
    assert len(with_notice) == 4 and all(note.startswith("**They do not rank methods.**") for note in with_notice)
    assert not any("rank" in note for note in without)
