"""What somebody who shares a store may leave in it: links to others' files, pipes, trees without end.

Nothing of it is opened, written or made read-only; it is named in a line, counted, and the other runs go on.
"""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from compclip.base.errors import UserError
from compclip.base.files import write_json
from compclip.config import read
from compclip.evaluate import result_store
from compclip.runs import __main__ as command
from compclip.runs import inventory, jobs, lock, progress, result_files, run_store, run_table, status
from compclip.runs.run_folder import RunFolder, Trained
from compclip.runs.run_store import StoredRun
from compclip.train import __main__ as train_command
from tests import fake_store
from tests.tiny_project import at, cell, environment

pytestmark = pytest.mark.usefixtures("forked_commands")
GC = ("gc", "--keep-grids", "params.yaml")
FILES = ("lock", "job.log", "metrics.jsonl", "job.json", "lease.1.json", "kept", "lives/a.json")
FOLDERS = ("final", "final/checkpoint", "lives", "scores", "users", ".")
DEEP = 1500
SECONDS = 60  # of a command that would wait for a pipe forever


@pytest.fixture
def grid(made_project, tmp_path, monkeypatch) -> list[StoredRun]:
    """Two finished runs that no grid names, in a store of several projects: the first one is attacked."""
    monkeypatch.setenv(run_store.VARIABLE, str(tmp_path / "team"))
    stored_runs = list(map(fake_store.finish, fake_store.runs(Path("."), "params.yaml", "train.lr=0.5")))
    for stored_run in stored_runs:
        life = {"started": 1.7e9, "devices": 1, "host": "a", "pid": 1, "seconds": 1, "project": str(Path.cwd())}
        write_json(stored_run.folder.lives / "a.json", life)
    return stored_runs


@pytest.fixture
def victim(tmp_path) -> Path:
    """A folder of somebody who works with the store, with a file in each of the places that a link may name."""
    for name in ("notes.txt", "a.json", "checkpoint/weights", "final/config.yaml"):
        path = tmp_path / "victim" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("precious")
    return tmp_path / "victim"


def state(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Modes and contents of all that is in a folder."""
    paths = [folder, *sorted(folder.rglob("*"))]
    return {str(p): (stat.S_IMODE(p.stat().st_mode), p.read_bytes() if p.is_file() else b"") for p in paths}


def link(run: RunFolder, name: str, target: Path) -> None:
    """Put a link in the place of an entry of a run, or of the whole run."""
    path = run.path / name if name != "." else run.path
    if path.is_dir() and not path.is_symlink():
        path.rename(path.parent.parent / f"away-{path.name}" if name == "." else path.parent.parent.parent / "away")
    path.unlink(missing_ok=True)
    path.symlink_to(target)


def refuse(call) -> str:
    """The line with which something is refused."""
    with pytest.raises(UserError) as error:
        call()
    assert "\n" not in str(error.value)
    return str(error.value)


def work(run: RunFolder) -> None:
    """Hold a run, as training and scoring do."""
    with lock.hold(run):
        pass


def attack(run: RunFolder, name: str, victim: Path) -> str:
    """A link to the victim's file or folder; the words that must name it."""
    link(run, name, victim / "notes.txt" if name in FILES else victim)
    return f"{run.path / name if name != '.' else run.path}: is a link"


@pytest.mark.parametrize("name", [*FILES, *FOLDERS])
def test_a_link_in_a_run_is_named_and_never_followed(grid, victim, capsys, name):
    """The lists show a row of it, who would write refuses it, gc counts it; the run beside it is as ever, and goes."""
    run, original_state = grid[0].folder, state(victim)
    words = attack(run, name, victim)
    assert command.main([]) == 0
    *rows, _, total = capsys.readouterr().out.splitlines()
    lines = {row.split()[0]: row for row in rows}
    assert "refused" in lines[run.key] and words in lines[run.key] and "done" in lines[grid[1].key]
    assert total.endswith("; 1 refused")
    page = status.format_page(*run_table.list_runs("params.yaml"), 10_000)
    assert (words in page and "1 damaged" in page) or not os.path.lexists(run.lock)
    task = result_store.task_from_params(read.load_params("params.yaml"))
    for call in (
        lambda: work(run),
        lambda: jobs.Local().submit(grid[0], "params.yaml"),
        lambda: result_store.find_results(task, run),
        lambda: result_store.store_results(task, run, {}),
        grid[0].publish,
        lambda: command.main(["keep", run.key]),
        lambda: command.main(["remove", "--force", run.key]),
        lambda: inventory.remove(run),
    ):
        assert words in refuse(call)
    capsys.readouterr()
    assert command.main([*GC]) == 0
    out, err = capsys.readouterr()
    assert err.count(words) == 1 and "1 entry of the store refused" in err
    assert f"removed {grid[1].key}" in out and run.key not in out
    assert state(victim) == original_state


def test_a_training_refuses_it(here, tmp_path, monkeypatch):
    """The cell is named, before and after training: `final` may come while it trains."""
    monkeypatch.setenv(run_store.VARIABLE, str(tmp_path / "team"))
    run, victim = at(cell("finetune")).folder, tmp_path / "victim"
    victim.mkdir(mode=0o755)
    run.path.mkdir(parents=True)
    run.final.path.symlink_to(victim)
    assert "final: is a link" in refuse(lambda: train_command.main(["--cell", cell("finetune")]))
    run.final.path.unlink()
    monkeypatch.setattr(progress, "begin_life", _begin_and_link(run, victim))
    assert "final: is a link" in refuse(lambda: train_command.main(["--cell", cell("finetune")]))
    assert not list(victim.iterdir()) and stat.S_IMODE(victim.stat().st_mode) == 0o755


def _begin_and_link(run: RunFolder, victim: Path):
    begin = progress.begin_life

    def begun(folder: RunFolder, devices: int) -> Path:
        run.final.path.symlink_to(victim)
        return begin(folder, devices)

    return begun


def test_scoring_refuses_it(here_finished, tmp_path):
    """One cell is named, the others are scored."""
    names = [cell("finetune"), cell("fsc_clip")]
    params = read.load_params("params.yaml")
    first = at(names[0])
    (first.folder.path / "scores").rename(tmp_path / "away")
    victim = tmp_path / "victim"
    victim.mkdir()
    (first.folder.path / "scores").symlink_to(victim)
    published = result_store.publish_results([at(name).cell for name in names], result_store.task_from_params(params))
    assert "scores: is a link" in published.failed[names[0]] and list(published.results) == [names[1]]
    assert not list(victim.iterdir())


@pytest.mark.parametrize(("names", "words"), [(["lock"], ["status"]), (["job.json", "lease.1.json"], ["runs", *GC])])
def test_a_pipe_blocks_nobody(grid, words, names):
    """Each command comes to its end and names it."""
    paths = [run.folder.path / name for run, name in zip(grid, names, strict=False)]
    for path in paths:
        path.unlink(missing_ok=True)
        os.mkfifo(path)
    command = [sys.executable, "-m", "compclip", *words]
    process = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=SECONDS)
    assert process.returncode == 0, process.stderr
    assert all(f"{path}: is a pipe" in process.stdout + process.stderr for path in paths)


@pytest.fixture
def deep(grid):
    """A tree without end in the first run, and one that is on its way out."""
    for top in (grid[0].folder.path, run_store.store_folder(Path(".")) / f"{inventory.REMOVED}{'0' * 16}.1"):
        top.mkdir(exist_ok=True)
        at_top = os.open(".", os.O_RDONLY)
        os.chdir(top)
        for _ in range(DEEP):
            os.mkdir("a")
            os.chdir("a")
        os.fchdir(at_top)
        os.close(at_top)
    yield grid
    subprocess.run(["rm", "-r", run_store.store_folder(Path("."))], check=True)  # pytest's own way has an end


def test_a_deep_tree_ends_no_command(deep, capsys):
    """Named by all, removed by none; the other run goes."""
    assert command.main([]) == 0
    assert "more than 32 deep" in capsys.readouterr().out
    assert command.main([*GC]) == 0
    out, err = capsys.readouterr()
    assert err.count("more than 32 deep") == 2 and f"removed {deep[1].key}" in out
    assert "more than 32 deep" in status.format_page(*run_table.list_runs("params.yaml"), 10_000)
    assert "more than 32 deep" in refuse(lambda: work(deep[0].folder))


def test_a_lock_with_a_second_name_is_not_written(grid, victim):
    """A hard link to a file that is the reader's: nothing is cut."""
    grid[0].folder.lock.unlink()
    os.link(victim / "notes.txt", grid[0].folder.lock)
    assert "lock: is no file of this folder alone" in refuse(lambda: work(grid[0].folder))
    assert (victim / "notes.txt").read_text() == "precious"


def test_links_that_dvc_made_are_taken_in_as_files(grid, tmp_path):
    """A checkout whose files are links into DVC's cache: the store gets the files."""
    grid[1].publish()
    trained, cache = grid[1].published.trained, tmp_path / "cache"
    cache.mkdir()
    for path in [p for p in trained.path.rglob("*") if p.is_file()]:
        path.rename(cache / path.name)
        path.symlink_to(cache / path.name)
    into = RunFolder(run_store.store_folder(Path(".")) / ("f" * 16))
    run_store.adopt_published(trained, into)
    into.check()
    assert into.final.weights.samefile(cache / into.final.weights.name) and not into.final.weights.is_symlink()


def test_the_end_of_a_life_follows_no_link(tmp_path, victim):
    """Its file's name is known to everybody who shares the store while it runs."""
    run = RunFolder(tmp_path / "key")
    path = progress.begin_life(run, 1)
    path.with_suffix(".new").symlink_to(victim / "notes.txt")
    progress.end_life(path)
    assert (victim / "notes.txt").read_text() == "precious"


def test_a_config_that_grows_as_it_is_resolved_is_refused(tmp_path):
    """A stored configuration is a resolved one: what refers to other values is nobody's run, and is not resolved."""
    lines = [f"  k{i}: ${{train.k{i + 1}}}${{train.k{i + 1}}}" for i in range(60)]
    (tmp_path / "config.yaml").write_text("\n".join(["cell:", "  method: ${train.k0}", "train:", *lines, "  k60: x"]))
    with pytest.raises(UserError, match=r"config.yaml: not a configuration: .*refers to another value"):
        result_files.read_config(Trained(tmp_path))
    with pytest.raises(UserError, match="refers to another value"):
        run_table.read_cell(tmp_path / "config.yaml")
