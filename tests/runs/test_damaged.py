"""Files of runs that a disk, an editor or a stranger damaged: a line that names the file, and the others go on."""

import os
from pathlib import Path

import pytest

from compclip.base.errors import UserError
from compclip.base.files import write_json
from compclip.report import __main__ as report_command
from compclip.report.run_details import collect_runs
from compclip.runs import jobs, run_store
from compclip.track import sync
from tests import fake_runs, fake_slurm, fake_store

NAME = fake_runs.cell("clic").name
NOTHING = {  # what stands in each file of a run
    "config.yaml": b"\xff\xfe\x00\x01", "environment.json": b'{"cell": ', "metrics.jsonl": b"3", "sugarcrepe.json": b"",
}  # fmt: skip


@pytest.fixture
def runs(tmp_path, monkeypatch) -> Path:
    """Runs of two methods, with the params.yaml of their grid, in the current folder."""
    monkeypatch.chdir(tmp_path)
    Path("params.yaml").write_text(
        "grid: {methods: [pretrained, clic], backbones: [vit], data: [scenes], seeds: [0, 1]}\ntrain: {}\n"
        "methods: {pretrained: {}, clic: {}}\nbackbones: {vit: {model: ViT-B-32}}\n"
        "data: {scenes: {source: karpathy, path: a, images: b, captioner: none}}\n"
        "benchmarks: {sugarcrepe: {path: a, images: b}}\nevaluate: {benchmarks: [sugarcrepe]}\n"
    )
    return fake_runs.make(tmp_path, fake_runs.cells(("pretrained", "clic")))


def file(runs: Path, name: str) -> Path:
    """A file of the run NAME."""
    trained = fake_runs.trained(runs, NAME)
    return trained.path / name if (trained.path / name).exists() else fake_runs.result(runs, NAME, Path(name).stem)


def check(runs: Path, name: str) -> None:
    """Named by everyone who reads it; left out by `--partial`, which shows the others."""
    cells = fake_runs.cells(("pretrained", "clic"))
    with pytest.raises(UserError, match=name) as error:
        collect_runs(cells, ["sugarcrepe"], runs)
    assert "\n" not in str(error.value)
    collected, missing_results = collect_runs(cells, ["sugarcrepe"], runs, partial=True)
    assert [run.cell.name for run in collected if run.cell.name != NAME] == [c.name for c in cells if c.name != NAME]
    assert [m.cell for m in missing_results] == [NAME] and name in missing_results[0].reason
    with pytest.raises(UserError, match=name):
        sync.load_project("params.yaml", runs)


@pytest.mark.parametrize("name", NOTHING)
def test_what_holds_nothing(runs, name):
    """Cut, binary, empty or of another type."""
    file(runs, name).write_bytes(NOTHING[name])
    check(runs, name)


def test_a_report_goes_on(runs, capsys):
    """As its user sees it: the line, then the page without the run."""
    file(runs, "config.yaml").write_bytes(b"\xff")
    with pytest.raises(UserError, match="1 missing: .*config.yaml: not UTF-8.*or give --partial"):
        report_command.main([])
    assert not Path("reports").exists()
    assert report_command.main(["--partial"]) == 0
    assert "4 cells: 2 complete, 1 in part, 1 absent" in capsys.readouterr().out
    assert "config.yaml: not UTF-8" in Path("reports/report.md").read_text()


@pytest.fixture
def grid(tmp_path, monkeypatch) -> list[run_store.StoredRun]:
    """Two finished runs of a grid in the current folder, the first one published."""
    monkeypatch.chdir(fake_store.project(tmp_path / "p"))
    return [fake_store.finish(stored_run, publish=i == 0) for i, stored_run in enumerate(fake_store.runs(Path(".")))]


@pytest.mark.parametrize(
    "change",
    [{"pid": -1}, {"pid": 1}, {"pid": "7"}, {"pid": True}, {"kind": []}, {"kind": "slurm", "id": "7", "log": ""},
     fake_slurm.record("--user=x"), fake_slurm.record("7", user="--me"), fake_slurm.record("7", user="you,me"),
     fake_slurm.record("7", name="another-job"), fake_slurm.record("7", cluster="all,here")],
)  # fmt: skip
def test_a_job_that_is_none_is_never_stopped(grid, change):
    """A process -1 would be every process of the user's."""
    record = {"kind": "local", "host": os.uname().nodename, "pid": 7, "started": "", "module": jobs.SCORES}
    write_json(grid[0].folder.job, record)
    assert jobs.find_job(grid[0].folder).state() == jobs.DONE
    write_json(grid[0].folder.job, record | change)
    with pytest.raises(UserError, match="job.json: not what was noted of a job; remove it when no such job runs"):
        jobs.find_job(grid[0].folder)
