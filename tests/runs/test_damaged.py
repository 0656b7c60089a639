"""Files of runs that a disk, an editor or a stranger damaged: a line that names the file, and the others go on."""

from pathlib import Path

import pytest

from compclip.base.errors import UserError
from compclip.report import __main__ as report_command
from compclip.track import sync
from tests import fake_runs

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


@pytest.mark.parametrize("name", NOTHING)
def test_the_others_go_on(runs, capsys, name):
    """Cut, binary, empty or of another type: a line that names it, then the page without the run."""
    trained = fake_runs.trained(runs, NAME)
    path = trained.path / name if (trained.path / name).exists() else fake_runs.result(runs, NAME, Path(name).stem)
    path.write_bytes(NOTHING[name])
    with pytest.raises(UserError, match=name):
        sync.load_project("params.yaml", "sqlite:///mlflow/mlflow.db", runs)
    with pytest.raises(UserError, match=f"1 missing: [^\n]*{name}: [^\n]*or give --partial$"):
        report_command.main([])
    assert not Path("reports").exists()
    assert report_command.main(["--partial"]) == 0
    assert "4 cells: 2 complete, 1 in part, 1 absent" in capsys.readouterr().out
    assert f"{name}: " in Path("reports/report.md").read_text()
