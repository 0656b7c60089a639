"""Scores along a training in MLflow: a metric of its own with a point at each snapshot's step."""

from compclip.base.files import write_json
from compclip.report.run_details import collect_runs
from compclip.runs.run_folder import Published
from compclip.track import entries
from tests import fake_runs


def test_each_metric_has_a_point_at_each_snapshots_step(tmp_path):
    """Five of ten steps and the end; groups of items are left to the files, and a run without snapshots has none."""
    root, cell = fake_runs.make(tmp_path), fake_runs.cell("negclip")
    published = Published(root, cell).snapshots
    write_json(published.at(0.5) / "summary.json", {"sugarcrepe/swap": 0.4, "sugarcrepe/swap/unseen": 0.1})
    write_json(published.at(1.0) / "summary.json", {"sugarcrepe/swap": 0.6})
    write_json(published.record, {"steps": {"1.0": 10, "0.5": 5}, "column": "", "shown": 1.0, "values": {}})
    runs, _ = collect_runs([cell, fake_runs.cell("clic")], fake_runs.BENCHMARKS, root)
    points = [list(entries._snapshot_points(run)) for run in runs]
    assert [(p.name, p.value, p.step) for p in points[0]] == [
        ("snapshot/sugarcrepe/swap", 0.4, 5),
        ("snapshot/sugarcrepe/swap", 0.6, 10),
    ]
    assert points[1] == []
