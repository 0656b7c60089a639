"""Shards as jobs: what goes out, in which tasks, what collects them; the cluster is made up, the work is real."""

from __future__ import annotations

import contextlib
import fcntl
import json
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from PIL import Image

from compclip.base.errors import UserError
from compclip.base.files import fingerprint, read_json, write_json
from compclip.config import asked, read
from compclip.config.sections import Data
from compclip.data import prepare, shards, work
from compclip.launch import __main__ as launch_command
from compclip.launch import grid, profiles, slurm
from compclip.launch import prepare as stage_command
from compclip.launch import shards as sending
from compclip.launch import task as task_command
from compclip.runs import cluster, jobs, stages, status, tasks
from compclip.runs.tasks import Task
from tests.conftest import ROOT

PICTURES = 10
DATA = {"source": "karpathy", "path": "d.json", "images": ".", "captioner": "none"}
PARAMS = {
    "grid": {"methods": ["finetune"], "backbones": ["b"], "data": ["d"], "seeds": [0]},
    "methods": {"finetune": {}},
    "backbones": {"b": {"model": "ViT-B-32"}},
    "data": {"d": DATA},
}
ENDPOINT = {"source": "karpathy", "path": "p", "images": "i", "captioner": "endpoint"}
LOCAL = str(ROOT / "slurm" / "local.yaml")


class Cluster:
    """Takes arrays of two jobs; they live until a test says otherwise."""

    def __init__(self) -> None:
        self.keys: dict[str, str] = {}
        self.live: set[str] = set()
        self.asked: list[dict] = []

    def executor(self, **_: object) -> SimpleNamespace:
        """What submitit has."""
        array = len(self.asked) + 7

        def submit(remote: slurm.Remote) -> SimpleNamespace:
            sent = f"{array}_{sum(key.startswith(f'{array}_') for key in self.keys)}"
            self.keys[sent] = remote.key
            self.live.add(sent)
            assert remote.module == jobs.SHARDS
            return SimpleNamespace(job_id=sent)

        return SimpleNamespace(
            update_parameters=lambda **given: self.asked.append(given), batch=contextlib.nullcontext, submit=submit
        )

    def state(self, job: str, _sent: float) -> tuple[str, str] | None:
        """As the queue tells it."""
        return ("RUNNING", "") if job in self.live else None

    def work(self, job: str) -> None:
        """A job makes its shards, and is over."""
        assert task_command.main([self.keys[job]]) == 0
        self.live.remove(job)


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    """Five shards to be: two pictures each."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(shards, "ROWS", 2)
    records = []
    for index in range(PICTURES):
        Image.new("RGB", (8, 8), (index, 0, 0)).save(tmp_path / f"{index}.png")
        said = {"raw": f"A dog sees {index} red cats."}
        records.append({"filename": f"{index}.png", "split": "train", "sentences": [said]})
    write_json(tmp_path / "d.json", {"images": records})
    write_json(tmp_path / "params.yaml", PARAMS)
    (tmp_path / "slurm.yaml").write_text("{partition: main, gpus: 2, cpus: 4, memory_gb: 8, array_limit: 2}")
    return tmp_path


@pytest.fixture
def there(monkeypatch) -> Cluster:
    """A cluster."""
    made = Cluster()
    monkeypatch.setattr(slurm.submitit, "SlurmExecutor", made.executor)
    monkeypatch.setattr(slurm, "max_array_size", lambda: 2)
    monkeypatch.setattr(cluster, "queue", lambda: made)
    monkeypatch.setattr(cluster, "why", lambda job, log="": "its node failed (on n7)")
    monkeypatch.setattr(cluster, "run", lambda *c: made.live.discard(c[1]) or subprocess.CompletedProcess(c, 0, "", ""))
    return made


def launch(*words: str) -> int:
    """The command with the cluster's profile."""
    return launch_command.main(["slurm.yaml", *words])


def sent() -> list[Task]:
    """The tasks of the data set's first stage."""
    return tasks.of(["recaption"], ["d"])


def test_from_nothing_to_collected(project, there, capsys):
    """Each shard in one task, no array larger than the cluster's; nothing goes twice; bytes are those made here."""
    undisturbed = project.parent / f"{project.name}-alone"
    shutil.copytree(project, undisturbed)
    assert launch("--stage", "recaption", "--dry-run") == 0
    said = capsys.readouterr().out
    assert "recaption@d: 5 shards: 0 made, 0 on their way, 5 to send\ntasks: 5\npartition: main\n" in said
    assert not sent() and not there.keys
    assert launch("--stage", "recaption") == 0
    assert "5 tasks sent: job 7_0 to job 9_0\n" in capsys.readouterr().out
    assert [task.name for task in sent()] == [f"recaption@d {n:05d}" for n in range(5)]
    there.work("7_1")
    assert launch("--stage", "recaption") == 0
    assert "recaption@d: 5 shards: 1 made, 4 on their way, 0 to send" in capsys.readouterr().out
    for job in sorted(there.live):
        there.work(job)
    assert stage_command.main(["--data", "recaption@d"]) == 0
    assert sent() == []
    assert stage_command.main(["--data", "rewrite@d", "--rewrite"]) == 0
    assert launch("--stage", "annotate", "--shards-per-task", "4") == 0
    assert "2 tasks sent: job 10_0 to job 10_1" in capsys.readouterr().out
    there.work("10_0")
    there.live.clear()
    tasks.read(tasks.folder(there.keys["10_1"])).forget()
    assert stage_command.main(["--data", "annotate@d", "--annotate"]) == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(undisturbed)
        for stage in ((), ("--rewrite",), ("--annotate",)):
            assert prepare.main(["--data", "d", *stage]) == 0
    assert fingerprint(project / "data" / "d") == fingerprint(undisturbed / "data" / "d")


def test_the_stage_waits_and_makes_the_rest(project, there, monkeypatch, capsys):
    """It says so once; a shard that no job was sent for is made here."""
    assert launch("--stage", "recaption") == 0
    tasks.read(tasks.folder(there.keys.pop("9_0"))).forget()
    capsys.readouterr()
    alone = work.Work.complete
    monkeypatch.setattr(
        work.Work, "complete", lambda self, n: print([i.name for i in self.missing()]) or alone(self, 1)
    )
    monkeypatch.setattr(jobs.time, "sleep", lambda _: there.work(min(there.live & there.keys.keys())))
    assert stage_command.main(["--data", "d"]) == 0
    said = [line for line in capsys.readouterr().out.splitlines() if not line.startswith("{")]
    assert said == ["recaption@d: job 7_0 and 3 more at work on its shards; waiting", "['00004']"]
    assert shards.read_manifest(Path("data/d/samples/manifest.json"), "recaption").samples == PICTURES


def test_ctrl_c_leaves_the_jobs(project, there, monkeypatch, capsys):
    """They go on; the same command waits again."""
    assert launch("--stage", "recaption") == 0

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(jobs.time, "sleep", interrupt)
    with pytest.raises(SystemExit) as left:
        stage_command.main(["--data", "d"])
    assert left.value.code == 130 and len(there.live) == 5
    assert "the jobs go on, and the same command waits again" in capsys.readouterr().err


def test_a_job_that_failed_is_named(project, there):
    """Nothing is made in its place, until it is launched again, or given up."""
    assert launch("--stage", "recaption") == 0
    tasks.read(tasks.folder(there.keys["8_0"])).folder.log.write_text("error: d.json: gone\n")
    for job in sorted(there.live - {"8_0", "8_1"}):
        there.work(job)
    there.live.clear()
    told = r"recaption@d: job 8_0 failed \(and 1 more\): its node failed \(on n7\): .* cancel --stage recaption"
    with pytest.raises(UserError, match=told):
        stage_command.main(["--data", "d"])
    assert not Path("data").exists()
    assert launch("--stage", "recaption") == 0
    assert {there.keys["10_0"], there.keys["10_1"]} == {there.keys["8_0"], there.keys["8_1"]}
    there.work("10_1")
    assert launch("cancel", "--stage", "recaption", "--data", "d") == 0
    assert sent() == [] and not there.live
    assert stage_command.main(["--data", "d"]) == 0


def test_cancel_without_a_stage_takes_shards_along(project, there, capsys):
    """Though the runs have no keys as long as their data are being made."""
    assert launch("--stage", "recaption", "--shards-per-task", "5") == 0
    assert launch("cancel") == 0
    out, err = capsys.readouterr()
    assert "1 jobs stopped" in out and err.startswith("of shards alone: data/d/manifest.json: not there")
    assert not there.live and sent() == []
    with pytest.raises(UserError, match="data/d/manifest.json: not there"):
        launch("cancel")


def test_here_in_processes(project, there):
    """The local profile makes what no job makes, and leaves collecting to the stage."""
    assert launch("--stage", "recaption", "--shards-per-task", "3") == 0
    there.live.remove("7_0")
    assert launch_command.main([LOCAL, "--stage", "recaption"]) == 0
    assert [task.name for task in sent() if not tasks.made(task.folder)] == ["recaption@d 00003 and 1 more"]
    assert not Path("data").exists()


def test_what_stages_need_first(project, there):
    """An earlier stage that was not run is named; DVC is asked for it, and for the benchmarks that are left out."""
    with pytest.raises(UserError, match="data/d/samples/manifest.json: not there; run `dvc repro recaption` first"):
        launch("--stage", "annotate")
    params = read.load("params.yaml")
    assert sending.before("recaption", ["d"], params) == ["look"]
    assert sending.before("rewrite", ["d", "d"], params) == ["recaption@d"]
    params.data["d"] = Data(**DATA, exclude=["valse"])
    assert sending.before("annotate", ["d"], params) == ["rewrite@d", "benchmark@valse"]


def test_dvc_is_asked_first(project, there, monkeypatch):
    """But for a dry run."""
    asked_for = []
    monkeypatch.setattr(grid, "repro", lambda targets, root: asked_for.append(targets))
    for words in (["--dry-run"], []):
        launch("--stage", "recaption", *words)
    assert asked_for == [["look"]]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--stage", "recaption", "--data", "e"], "--data: unknown data 'e'"),
        (["--stage", "rewrite", "--data", "d"], "--data d: has no rewriter, rewrites or masked"),
        (["--stage", "recaption", "--shards-per-task", "0"], "--shards-per-task 0: must be >= 1"),
        (["--data", "d"], "are of shards; give --stage too"),
        (["cancel", "--data", "../d"], "are of shards; give --stage too"),
        (["cancel", "--stage", "recaption", "--data", "../d"], "data '../d': must be letters"),
    ],
)
def test_words_that_mean_nothing(project, there, words, message):
    """One line, and nothing is sent."""
    with pytest.raises(UserError, match=message):
        launch(*words)
    assert not there.keys


@pytest.mark.parametrize(
    ("section", "stage", "costly"),
    [
        (DATA, "recaption", False),
        (DATA, "annotate", False),
        (ENDPOINT | {"options": {"url": "http://h/v1", "model": "m"}}, "recaption", False),
        (ENDPOINT | {"options": {"server": "vllm serve m --port {port}", "model": "m"}}, "recaption", True),
        (DATA | {"captioner": "hf", "options": {"model": "m"}}, "recaption", True),
    ],
)
def test_what_is_opened_once_a_task(project, section, stage, costly):
    """A model or a server, for as many shards as give each place of the array one task, and with the node's GPUs."""
    write_json("params.yaml", PARAMS | {"data": {"d": section}})
    cfg = read.load("params.yaml").data["d"]
    items = tuple(work.Item(f"{n:05d}", f"{n:032x}", {}) for n in range(7))
    one = sending.Left("d", work.Work(stage, cfg, Path("w"), items, {}), items, frozenset([items[3].key]))
    assert sending.costly(one.work) is costly
    profile = profiles.load("slurm.yaml")
    made = sending.Sender(profile).cut(one, costly)
    assert [len(task.shards) for task in made] == ([3, 3] if costly else [1] * 6)
    assert [n for task in made for n in task.shards] == [i.name for i in items if i.name != "00003"]
    given = slurm.parameters(profile.of_shards(costly), made, Path("code"), Path("."))
    wanted = (1, 2, 8, "8192M") if costly else (1, None, 1, "4096M")
    assert tuple(map(given.get, ("ntasks_per_node", "gpus_per_node", "cpus_per_task", "mem"))) == wanted


def test_jobs_of_a_command_that_was_killed_are_found(project, there, monkeypatch):
    """The note has the tasks' keys as it has those of runs."""
    assert launch("--stage", "recaption", "--shards-per-task", "3") == 0
    keys = [there.keys["7_0"], there.keys["7_1"]]
    for key in keys:
        tasks.folder(key).job.unlink()
    write_json(Path(".work/slurm/compclip-1a2b3c4d.json"), keys)
    monkeypatch.setattr(cluster, "run", lambda *c: subprocess.CompletedProcess(c, 0, "7_0\n7_1\n", ""))
    assert slurm.Slurm(profiles.Profile()).recover() == 2
    assert [jobs.attach(tasks.folder(key)).label() for key in keys] == ["job 7_0", "job 7_1"]


def test_a_task_whose_shards_became_others_refuses(project, there):
    """Its code is that of its submission, and the keys say what the stage makes now."""
    assert launch("--stage", "recaption") == 0
    write_json("params.yaml", PARAMS | {"data": {"d": DATA | {"limit": 9}}})
    assert launch("--stage", "recaption", "--dry-run") == 0
    with pytest.raises(UserError, match="recaption@d 00000: code, parameters or data changed since it was submitted"):
        task_command.main([there.keys["7_0"]])


@pytest.mark.parametrize(
    "key", ["recaption/../x", "../../etc/x", "keys/d/x", "recaption/d", "recaption/d/../x", "recaption/d/.x", "/d/x"]
)
def test_keys_that_are_none(key):
    """None leads out of the folder of shards."""
    with pytest.raises(UserError, match="unknown task of shards|must be letters"):
        tasks.folder(key)


@pytest.mark.parametrize(
    "held", ["[]", "{}", '{"shards": {}}', '{"shards": {"00000": "../x"}}', '{"shards": {"a/b": "aaaaaaaa"}}', '{"shar']
)
def test_a_damaged_task_is_one_line(project, there, held):
    """Of whoever reads it; the table has it in its row."""
    assert launch("--stage", "recaption", "--shards-per-task", "5") == 0
    [task] = sent()
    (task.folder.path / tasks.FILE).write_text(held)
    for look in (sent, lambda: task_command.main([task.key]), lambda: stage_command.main(["--data", "d"])):
        with pytest.raises(UserError, match=r"task\.json"):
            look()
    there.live.clear()
    [row] = stages.rows()
    assert row.state == "damaged" and "task.json" in row.error


# --- status ---------------------------------------------------------------------------------------------------


@pytest.fixture
def half(tmp_path, monkeypatch) -> Path:
    """A stage of five shards, two of them made: 40 captions in 10 seconds."""
    monkeypatch.chdir(tmp_path)
    folder = asked.FOLDER / "annotate" / "d"
    items = [{"name": f"{n:05d}", "key": f"{n:08x}", "given": {}} for n in range(5)]
    write_json(folder / asked.LIST, {"stage": "annotate", "section": {}, "items": items, "counts": {}})
    for name, captions in (("00000000", 10), ("00000001", 30)):
        write_json(folder / f"{name}.json", {"shard": {"captions": captions}, "seconds": 5.0, "begun": 1.0})
    return folder


def test_a_stage_under_way(half, there):
    """By hand: two at work at 4 captions a second each, and three shards of 20 captions to make."""
    assert [row.state for row in stages.rows()] == ["stopped"]
    with contextlib.ExitStack() as held:
        for n in (2, 3):
            fcntl.flock(held.enter_context(open(half / f"{n:08x}.lock", "w")), fcntl.LOCK_EX)
        [row] = stages.rows()
    assert row == stages.Row("annotate@d", "running", 2, 5, 8.0, 7.5, "2 processes")
    text = stages.table([row], 100)
    assert text.splitlines()[1].split() == ["annotate@d", "running", "2/5", "8", "8s", "2", "processes"]


def test_jobs_of_a_stage_are_shown(half, there):
    """Waiting, running, failed with its reason; a finished stage has no row, and none of its shards is read."""
    task = Task("annotate", "d", {"00002": f"{2:08x}", "00003": f"{3:08x}"})
    task.save()
    write_json(task.folder.job, {"kind": "slurm", "module": jobs.SHARDS, "id": "7_0", "log": "", "sent": 1.0})
    there.live.add("7_0")
    [row] = stages.rows()
    assert (row.state, row.captions_per_second, row.job) == ("running", 4.0, "job 7_0")
    there.live.clear()
    [row] = stages.rows()
    assert (row.state, row.left_s, row.job) == ("failed", 0.0, "job 7_0")
    assert row.error.startswith("its node failed (on n7): nothing logged")
    for n in range(5):
        (half / f"{n:08x}.json").write_text("never read")
    assert list(stages.rows()) == []


def test_a_list_that_is_damaged(half):
    """Is a row, and the others are there."""
    (half / asked.LIST).write_text(json.dumps({"items": [{"name": "../x", "key": "aaaaaaaa"}]}))
    [row] = stages.rows()
    assert row.state == "damaged" and "work.json: damaged; run the stage with `dvc repro` again" in row.error


def test_the_page_has_both_tables(project, there):
    """Stages above runs."""
    assert launch("--stage", "recaption", "--shards-per-task", "5") == 0
    text = status.page("params.yaml", 200)
    assert text.startswith("stage        state    shards  job\nrecaption@d  running  0/5     job 7_0\n\nrun ")
    assert text.endswith("1 runs: 1 stale; 0.00 GPU-hours (of CPU runs, process-hours)")


def test_a_task_that_failed_is_posted_by_its_name(project, there, monkeypatch):
    """Where the profile says so."""
    posted = []
    monkeypatch.setattr(jobs.notify, "job_failed", lambda *told: posted.append(told[1:4]))
    text = Path("slurm.yaml").read_text().replace("}", ", notify: HOOK}")
    Path("slurm.yaml").write_text(text)
    assert launch("--stage", "recaption", "--shards-per-task", "5") == 0
    there.live.clear()
    with pytest.raises(UserError, match="job 7_0 failed: its node failed"):
        stage_command.main(["--data", "d"])
    assert posted == [("HOOK", "job 7_0", "recaption@d 00000 and 4 more")]
    assert read_json(sent()[0].folder.job)["module"] == jobs.SHARDS
