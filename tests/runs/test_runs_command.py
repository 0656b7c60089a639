"""`compclip runs`: what the store holds, who uses it, and what is never removed."""

import json
import os
import shutil
from pathlib import Path

import pytest

from compclip.base.errors import UserError
from compclip.base.files import write_atomic, write_json
from compclip.runs import __main__ as command
from compclip.runs import jobs, lock, run_store, run_table
from compclip.runs.run_store import StoredRun
from tests import fake_store


@pytest.fixture
def grid(made_project) -> list[StoredRun]:
    """The two finished runs of a grid, the first one published."""
    first, second = fake_store.runs(Path("."))
    return [fake_store.finish(first, 36, publish=True), fake_store.finish(second, 72)]


@pytest.fixture
def spare(grid) -> StoredRun:
    """A finished run that no grid names."""
    return fake_store.finish(fake_store.runs(Path("."), "params.yaml", "train.lr=0.5")[0], days=3)


GC = ("gc", "--keep-grids", "params.yaml")


def run_command(capsys, *argv: str) -> str:
    assert command.main(list(argv)) == 0
    return capsys.readouterr().out


def everything() -> dict[str, bytes]:
    """All files of the store."""
    return {str(p): p.read_bytes() for p in sorted(Path("store").rglob("*")) if p.is_file()}


def refused(*argv: str) -> str:
    """The line of a refusal, which touches nothing."""
    original_files = everything()
    with pytest.raises(UserError) as error:
        command.main(list(argv))
    assert everything() == original_files
    return str(error.value)


def test_the_list(grid, spare, capsys):
    """A line a run: who uses it, what it took; the sum."""
    write_json("studies/gamma/trials.json", {"trials": [{"number": 3, "run_key": grid[1].key}], "reference": None})
    *rows, _, total = run_command(capsys).splitlines()
    lines = {row.split()[0]: row for row in rows[1:]}
    assert list(lines) == sorted(stored_run.key for stored_run in (*grid, spare))
    assert lines[grid[0].key].endswith("done   fsc_clip.v0-tiny-scenes-0")
    assert lines[grid[1].key].endswith("done   fsc_clip.v0-tiny-scenes-1, gamma#3")
    assert lines[grid[1].key].split()[3:6] == ["0.02", "CPU", "0m"]
    assert lines[spare.key].endswith("3d   done   (made for fsc_clip.v0-tiny-scenes-0)")
    assert total.startswith("3 runs, ") and total.endswith("KiB, 0.04 process-hours; 1 used by nobody")


def test_the_list_as_json(grid, spare, capsys):
    """The same rows for programs, in bytes and seconds."""
    write_json(spare.folder.final.environment, {"run_key": spare.key, "peak_device_memory_mib": 5})
    answer = json.loads(run_command(capsys, "--json"))
    rows = {row["run_key"]: row for row in answer["runs"]}
    assert {key: row["on_gpu"] for key, row in rows.items()} == {r.key: r is spare for r in (*grid, spare)}
    assert rows[grid[0].key]["used_by"] == ["fsc_clip.v0-tiny-scenes-0"] and rows[spare.key]["used_by"] == []
    assert (rows[grid[0].key]["device_seconds"], rows[grid[0].key]["state"]) == (36.0, "done")
    assert rows[spare.key]["cell"] == "fsc_clip.v0-tiny-scenes-0" and answer["bytes"] > 3 * 50_000


def test_sizes_count_a_file_once(grid):
    """Hard links within a run and between runs."""
    first, second = (run_table.inspect_run(stored_run.folder) for stored_run in grid)
    own_bytes = sum(p.stat().st_blocks * 512 for p in grid[1].folder.path.rglob("*") if p.is_file())
    assert second.size == own_bytes
    os.link(grid[1].folder.final.weights, grid[1].folder.path / "again")
    assert run_table.inspect_run(grid[1].folder).size == own_bytes
    weights = grid[0].folder.final.weights
    assert weights.stat().st_nlink == 2, "published by a link"
    os.link(weights, grid[1].folder.path / "other")
    both = [run_table.inspect_run(stored_run.folder) for stored_run in grid]
    assert run_table.count_bytes(both) == first.size + own_bytes


def test_states(grid, spare):
    """scoring by a lock, stopped with a checkpoint, stale without anything."""
    with lock.hold(spare.folder):
        assert run_table.inspect_run(spare.folder).state == run_table.SCORING
    shutil.rmtree(spare.folder.final.path)
    spare.folder.scored.unlink()
    assert run_table.inspect_run(spare.folder).state == run_table.STALE
    write_atomic(spare.folder.path / "step_00000002.safetensors", b"")
    assert run_table.inspect_run(spare.folder).state == run_table.STOPPED


def test_what_is_not_used_goes(grid, spare, capsys):
    """gc lists it first and touches nothing; then the same goes, and nothing else."""
    original_files = everything()
    dry_output = run_command(capsys, *GC, "--dry-run")
    assert everything() == original_files
    assert f"would remove {spare.key}" in dry_output and dry_output.count("would remove") == 1
    removal_output = run_command(capsys, *GC)
    assert removal_output == dry_output.replace("would remove", "removed")
    assert sorted(p.name for p in Path("store").iterdir()) == sorted(stored_run.key for stored_run in grid)
    assert "0 runs" in run_command(capsys, *GC)


def test_a_grid_that_is_named_keeps_its_runs(grid, spare, capsys):
    """By the keys that it has now; params.yaml's own stay without being named."""
    write_atomic("other.yaml", Path("params.yaml").read_text().replace("batch_size: 8", "batch_size: 8, lr: 0.5"))
    assert "0 runs" in run_command(capsys, "gc", "--keep-grids", "other.yaml")
    Path("params.yaml").write_text(Path("params.yaml").read_text().replace("seeds: [0, 1]", "seeds: [1]"))
    out = run_command(capsys, "gc", "--keep-grids", "other.yaml")
    assert f"removed {grid[0].key}" in out and spare.folder.finished and grid[1].folder.finished


@pytest.mark.parametrize("kind", ["trial", "reference"])
def test_a_study_keeps_its_runs(grid, spare, capsys, kind):
    """Its trials, and the pretrained model it compares with."""
    user = {"number": 0, "run_key": spare.key}
    document = {"trials": [user], "reference": None} if kind == "trial" else {"trials": [], "reference": user}
    write_json("studies/gamma/trials.json", document)
    assert "0 runs" in run_command(capsys, *GC)
    assert "used by gamma" in refused("remove", spare.key)


def test_mlflow_keeps_its_runs(grid, spare, capsys):
    """By the run that is published under the cell's name."""
    write_json("mlflow/synced.json", {grid[0].cell.name: "a hash", "fsc_clip.v0-tiny-scenes-7": "another"})
    Path("params.yaml").write_text(Path("params.yaml").read_text().replace("seeds: [0, 1]", "seeds: [1]"))
    assert f"removed {spare.key}" in run_command(capsys, *GC)
    assert grid[0].folder.finished
    assert f"MLflow: {grid[0].cell.name}" in refused("remove", grid[0].key)
    shutil.rmtree("runs")
    assert f"removed {grid[0].key}" in run_command(capsys, *GC)


def test_a_kept_run_stays(grid, spare, capsys):
    """Until the mark is taken away."""
    run_command(capsys, "keep", spare.key)
    assert "0 runs" in run_command(capsys, *GC)
    assert "marked by `runs keep`" in refused("remove", spare.key)
    assert "done   kept" in run_command(capsys)
    run_command(capsys, "keep", "--undo", spare.key)
    assert f"removed {spare.key}" in run_command(capsys, *GC)


def test_remove_refuses_what_is_used(grid, spare, capsys):
    """A grid of experiments/grids too; --force takes it all the same, and the published files stay."""
    write_atomic(
        "experiments/grids/lr.yaml", Path("params.yaml").read_text().replace("batch_size: 8", "batch_size: 8, lr: 0.5")
    )
    assert "used by lr: fsc_clip.v0-tiny-scenes-0; give --force" in refused("remove", spare.key)
    assert "used by fsc_clip.v0-tiny-scenes-1" in refused("remove", grid[1].key, spare.key)
    weights = grid[0].published.trained.weights.read_bytes()
    assert "would remove" in run_command(capsys, "remove", "--force", "--dry-run", grid[0].key)
    assert grid[0].folder.finished
    run_command(capsys, "remove", "--force", grid[0].key)
    assert not grid[0].folder.path.exists()
    assert grid[0].published.trained.weights.read_bytes() == weights
    assert grid[0].adopt_if_finished(), "taken back from the published files"


def test_a_live_run_is_never_removed(grid, spare, capsys):
    """By its lock or by its job, with --force as well."""

    def is_refused() -> bool:
        return f"process {os.getpid()} is scoring" in refused("remove", "--force", spare.key)

    with lock.hold(spare.folder):
        assert is_refused() and "0 runs" in run_command(capsys, *GC)
    record = {"kind": "local", "module": jobs.TRAINS, "host": os.uname().nodename, "pid": os.getpid()}
    write_json(spare.folder.job, {**record, "started": jobs.read_start_time(os.getpid())})
    assert is_refused() and "0 runs" in run_command(capsys, *GC)


def test_a_run_that_is_taken_up_meanwhile_stays(grid, spare, capsys):
    """Between the list and the removal: it is named, the exit code says so."""
    entries = [run_table.inspect_run(spare.folder)]
    with lock.hold(spare.folder):
        assert command._remove_entries(entries, dry=False) == 2
    assert f"error: {spare.key}: process {os.getpid()} is running" in capsys.readouterr().err
    assert spare.folder.finished


@pytest.mark.parametrize("gone", ["data/scenes/manifest.json", "models/tiny"])
def test_a_grid_whose_data_are_not_here_keeps_what_may_be_its(grid, spare, capsys, gone):
    """The grid is named; a run that asks for the same training stays, one that asks for another goes."""
    shutil.move(gone, "aside")
    known_free = fake_store.finish(grid[0])
    assert command.main([*GC]) == 0
    out, err = capsys.readouterr()
    assert "params.yaml: 2 cells not judged (" in err and "what may be theirs stays" in err
    assert f"removed {spare.key}" in out and out.count("removed") == 1
    assert known_free.folder.finished and grid[1].folder.finished
    assert "perhaps fsc_clip.v0-tiny-scenes-0" in refused("remove", grid[0].key)


@pytest.fixture
def team(grid, spare, tmp_path, monkeypatch) -> StoredRun:
    """A finished run of this project alone, in a store that COMPCLIP_STORE names."""
    monkeypatch.setenv(run_store.VARIABLE, str(tmp_path / "team"))
    own_run = fake_store.finish(fake_store.runs(Path("."), "params.yaml", "train.lr=0.5")[0])
    _lived_in(own_run, Path.cwd())
    return own_run


def _lived_in(stored_run: StoredRun, project: Path) -> None:
    path = stored_run.folder.lives / "a.json"
    write_json(path, {**json.loads(path.read_text()), "project": str(project)})


def test_gc_of_a_shared_store_takes_its_own_alone(team, tmp_path, capsys):
    """A run that another project worked on, or published, which leaves a note there, stays, unless --shared."""
    assert "would remove" in run_command(capsys, *GC, "--dry-run")
    _lived_in(team, Path("/elsewhere"))
    assert command.main([*GC]) == 0
    out, err = capsys.readouterr()
    assert "0 runs" in out and "1 run," in err and "--shared removes them" in err
    _lived_in(team, Path.cwd())
    foreign_run = fake_store.runs(fake_store.project(tmp_path / "other"), "params.yaml", "train.lr=0.5")[0]
    assert foreign_run.folder.path == team.folder.path
    foreign_run.publish()
    assert "0 runs" in run_command(capsys, *GC)
    assert f"removed {team.key}" in run_command(capsys, *GC, "--shared")


def test_a_removal_that_was_killed_is_finished(grid, spare, capsys):
    """The run is out of the store at once; its files go with the next gc."""
    aside = Path("store") / f".removed-{spare.key}.1"
    os.rename(spare.folder.path, aside)
    assert spare.key not in run_command(capsys)
    run_command(capsys, *GC, "--dry-run")
    assert aside.exists()
    run_command(capsys, *GC)
    assert not aside.exists()
