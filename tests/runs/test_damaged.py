"""Files of runs that a disk, an editor or a stranger damaged: a line that names the file, and the others go on."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compclip.base.errors import UserError
from compclip.base.files import write_json
from compclip.report import __main__ as report_command
from compclip.report import report_page, table_formats
from compclip.report.run_collection import collect_runs
from compclip.runs import __main__ as runs_command
from compclip.runs import device_time, jobs, run_store, status
from compclip.runs.run_folder import Trained
from compclip.track import sync
from tests import fake_runs, fake_store

NAME = fake_runs.cell("clic").name
NOTHING = {
    "empty": b"", "cut": b'{"cell": ', "binary": b"\xff\xfe\x00\x01", "list": b"[1]", "number": b"3", "text": b'"x"',
    "null": b"null", "deep": b"[" * 100_000, "long number": b'{"seconds": ' + b"1" * 5000 + b"}",
}  # fmt: skip
WRONG = {
    "config.yaml": ["cell: 3\n", "train: [1]\n", "method: x\n", "train: {lr: 1e999999}\n", "a: ${b}\n"],
    "environment.json": ['{"seconds": "x"}', '{"packages": [1]}', '{"dropped": 3}', '{"device_seconds": [1]}',
                         '{"peak_memory_mib": {}}', '{"parameters": true}', '{"seconds": 1e999}', '{"view_shares": 3}',
                         '{"view_shares": {"a": "x"}}'],
    "metrics.jsonl": ['{"step": "1"}\n', '{"step": 1, "loss": "x"}\n', '{"step": 1, "time": [1]}\n', "3\n",
                      '{"step": 1, "time": 1e999}\n', '{"step": 1, "time": NaN}\n', '{"step": 1, "time": 1e300}\n'],
    "sugarcrepe.json": ['{"metrics": {"a": "x"}}', '{"metrics": {"a": 1e999}}', '{"counts": {"a": []}}',
                        '{"means": {"nope": ["swap"]}}', '{"means": {"swap": [[]]}}', '{"lower": 3}', '{"seconds": "x"}',
                        '{"items": {"swap_att": {"ids": ["a"], "outcomes": [[1]]}}}', '{"items": 3}', '{"kind": []}',
                        '{"items": {"swap_att": {"ids": ["a"], "outcomes": [%s]}}}' % ("1" * 400)],
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


def damage(path: Path, text: str) -> None:
    """Write something else; of a results file only the fields that are given."""
    if path.stem == "sugarcrepe":
        path.write_text(json.dumps(json.loads(path.read_text()) | json.loads(text)))
    else:
        path.write_text(text)


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


@pytest.mark.parametrize("how", NOTHING)
@pytest.mark.parametrize("name", ["config.yaml", "environment.json", "metrics.jsonl", "sugarcrepe.json"])
def test_what_holds_nothing(runs, name, how):
    """Cut, binary, or of another type. An empty log is that of a run that trained nothing."""
    file(runs, name).write_bytes(NOTHING[how])
    if (name, how) == ("metrics.jsonl", "empty"):
        assert not collect_runs(fake_runs.cells(("clic",)), ["sugarcrepe"], runs)[1]
    else:
        check(runs, name)


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in WRONG.items() for text in texts])
def test_what_holds_something_else(runs, name, text):
    """Fields that others compute with."""
    damage(file(runs, name), text)
    check(runs, name)


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.just(10**400)
values = st.recursive(scalars, lambda v: st.lists(v, max_size=2) | st.dictionaries(st.text(max_size=3), v, max_size=2))
PLACES = [
    ("environment.json", key)
    for key in (
        "run_key",
        "python",
        "packages",
        "device",
        "threads",
        "git_commit",
        "peak_memory_mib",
        "dropped",
        "seconds",
        "device_seconds",
        "processes",
        "parameters",
        "trained_parameters",
    )
]
PLACES += [("sugarcrepe.json", key) for key in ("benchmark", "module", "kind", "metrics", "lower", "scores", "headline", "counts",
           "items", "means", "fingerprint", "seconds", "checkpoint")]  # fmt: skip


@pytest.fixture(scope="module")
def damaged_root(tmp_path_factory) -> Path:
    """Runs that each example damages anew."""
    return fake_runs.make(tmp_path_factory.mktemp("runs"), fake_runs.cells(("pretrained", "clic")))


@settings(max_examples=60)
@given(file_and_key=st.sampled_from(PLACES), value=values)
def test_any_value(damaged_root, file_and_key, value):
    """The report is built, with the run or without it; on another benchmark's fingerprint it says so."""
    path = file(damaged_root, file_and_key[0])
    original_text = path.read_text()
    try:
        path.write_text(json.dumps(json.loads(original_text) | {file_and_key[1]: value}))
        collected, missing_results = collect_runs(
            fake_runs.cells(("pretrained", "clic")), ["sugarcrepe"], damaged_root, partial=True
        )
        report = report_page.build_page(collected, ["sugarcrepe"], [], missing_results, (), lambda run: {})
        assert report_page.render_page(report) and table_formats.format_latex(report.main)
    except UserError as error:
        assert file_and_key[1] == "fingerprint" and "were evaluated on different benchmark files" in str(error)
    finally:
        path.write_text(original_text)


def test_a_report_goes_on(runs, capsys):
    """As its user sees it: the line, then the page without the run."""
    file(runs, "config.yaml").write_bytes(b"\xff")
    with pytest.raises(UserError, match="1 missing: .*config.yaml: not UTF-8.*or give --partial"):
        report_command.main([])
    assert not Path("reports").exists()
    assert report_command.main(["--partial"]) == 0
    assert "3 runs, 2 missing" in capsys.readouterr().out
    assert "config.yaml: not UTF-8" in Path("reports/report.md").read_text()


def test_a_pipe_is_not_waited_for(runs):
    """Whoever would write into it may never come."""
    for name in ("environment.json", "config.yaml"):
        path = file(runs, name)
        path.unlink()
        os.mkfifo(path)
        assert collect_runs(fake_runs.cells(("clic",)), ["sugarcrepe"], runs, partial=True)[1]


@pytest.fixture
def grid(tmp_path, monkeypatch) -> list[run_store.StoredRun]:
    """Two finished runs of a grid in the current folder, the first one published."""
    monkeypatch.chdir(fake_store.project(tmp_path / "p"))
    return [fake_store.finish(stored_run, publish=i == 0) for i, stored_run in enumerate(fake_store.runs(Path(".")))]


def states() -> dict[str, status.StatusRow]:
    """What `status` shows, by name."""
    return {row.name: row for row in map(status.make_row, status.list_runs("params.yaml")[0])}


@pytest.mark.parametrize("how", [name for name in NOTHING if name != "long number"])
def test_status_goes_on(grid, how):
    """A damaged file is its row's; a study is a row of its own."""
    first, second = grid
    (Path("studies") / "gamma").mkdir(parents=True)
    (Path("studies") / "gamma" / "trials.json").write_bytes(NOTHING[how])
    facts = first.published.trained.environment
    facts.unlink()
    facts.write_bytes(NOTHING[how])
    second.folder.job.write_bytes(NOTHING[how])
    row_of = states()
    assert (row_of[first.cell.name].state, row_of[second.cell.name].state) == ("damaged", "damaged")
    assert str(facts) in row_of[first.cell.name].error and "job.json" in row_of[second.cell.name].error
    assert "trials.json" in row_of["gamma"].error
    assert "damaged" in status.format_page("params.yaml", 500)


@pytest.mark.parametrize("text", ["[]\n", "{\n", '{"step": 1}\n', '{"step": "x", "epoch": 0}\n', "\xff\n"])
def test_status_of_a_damaged_log(grid, text):
    """The last line is what it reads."""
    log = grid[1].folder.metrics
    log.write_text(text, encoding="latin-1")
    assert states()[grid[1].cell.name].state == "damaged"
    assert str(log) in states()[grid[1].cell.name].error


@pytest.mark.parametrize(("study", "message"), [
    ({"trials": 3}, "not a study's trials"), ({"trials": [{}]}, "not a study's trials"),
    ({"trials": [{"run_key": "../../x", "number": 1, "reason": ""}]}, "run key '../../x': must be letters"),
])  # fmt: skip
def test_status_of_a_damaged_study(grid, study, message):
    """Its row says so."""
    write_json("studies/gamma/trials.json", study)
    assert message in states()["gamma"].error


@pytest.mark.parametrize("how", [name for name in NOTHING if name not in ("empty", "long number")])
def test_the_list_of_runs_goes_on(grid, how, capsys):
    """The file is named in the run's line, and the others have theirs."""
    grid[0].folder.job.write_bytes(NOTHING[how])
    final = grid[1].folder.final
    final.config.write_bytes(NOTHING[how] + b"\ncell:\n  method: [\n")
    (grid[1].folder.lives / "b.json").write_bytes(NOTHING[how])
    assert runs_command.main([]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line}
    assert "damaged" in lines[grid[0].key] and "job.json" in lines[grid[0].key]
    assert grid[1].key in lines
    assert device_time.sum_device_seconds(grid[1].folder) == 36.0
    with pytest.raises(UserError, match="job.json"):
        jobs.find_job(grid[0].folder)
    assert runs_command.main(["gc", "--keep-grids"]) in (0, 2)
    assert grid[0].folder.path.is_dir() and final.weights.is_file()


@pytest.mark.parametrize("study", [{"trials": 3}, {"trials": [{}]}, {"reference": 3, "trials": []}])
def test_what_cannot_be_judged_stays(grid, study):
    """Nothing is removed while a study cannot be read."""
    write_json("studies/gamma/trials.json", study)
    with pytest.raises(UserError, match="trials.json: not a study's trials"):
        runs_command.main(["gc", "--keep-grids"])
    assert all(stored_run.folder.finished for stored_run in grid)


@pytest.mark.parametrize("change", [{"pid": -1}, {"pid": 1}, {"pid": "7"}, {"pid": True}, {"host": None}, {"kind": []},
                                    {"started": 3}, {"kind": "slurm", "id": "--user=x", "log": ""}])  # fmt: skip
def test_a_job_that_is_none_is_never_stopped(grid, change):
    """A process -1 would be every process of the user's."""
    record = {"kind": "local", "host": os.uname().nodename, "pid": 7, "started": "", "module": jobs.SCORES}
    write_json(grid[0].folder.job, record)
    assert jobs.find_job(grid[0].folder).state() == jobs.DONE
    write_json(grid[0].folder.job, record | change)
    with pytest.raises(UserError, match="job.json: not what was noted of a job; remove it when no such job runs"):
        jobs.find_job(grid[0].folder)


def test_keys_are_of_files(grid):
    """A published run without a key is none of the store's."""
    facts = grid[0].published.trained
    assert facts.run_key == grid[0].key
    assert Trained(Path("nowhere")).run_key == ""
