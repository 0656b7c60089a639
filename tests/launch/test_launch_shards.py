"""Shards as jobs: what goes out, in which tasks, what collects them; the cluster is made up, the work is real."""

import contextlib
import fcntl
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from PIL import Image

from compclip.base.errors import UserError
from compclip.base.files import fingerprint, write_json
from compclip.config import read
from compclip.config.sections import Data
from compclip.data import shard_files
from compclip.launch import __main__ as launch_command
from compclip.launch import profiles, slurm
from compclip.launch import shard_jobs as stage_command
from compclip.launch import task as task_command
from compclip.prepare import shard_stages, shard_work, shard_writer
from compclip.runs import cluster, jobs, shard_tasks, status
from compclip.runs.shard_tasks import Task
from tests import fake_slurm
from tests.conftest import ROOT
from tests.fake_slurm import queued, record

PICTURES = 10
DATA = {"source": "karpathy", "path": "d.json", "images": ".", "captioner": "none"}
PARAMS = {
    "grid": {"methods": ["finetune"], "backbones": ["b"], "data": ["d"], "seeds": [0]}, "methods": {"finetune": {}},
    "backbones": {"b": {"model": "ViT-B-32"}}, "data": {"d": DATA},
}  # fmt: skip
ENDPOINT = {"source": "karpathy", "path": "p", "images": "i", "captioner": "endpoint"}
LOCAL = str(ROOT / "slurm" / "local.yaml")


class Cluster:
    """Takes arrays of two jobs; they live until a test says otherwise."""

    def __init__(self) -> None:
        self.keys: dict[str, str] = {}
        self.live: set[str] = set()
        self.parameters: list[dict] = []

    def executor(self, **_: object) -> SimpleNamespace:
        """What submitit has."""
        array = len(self.parameters) + 7

        def submit(remote: slurm.JobCommand) -> SimpleNamespace:
            job_id = f"{array}_{sum(key.startswith(f'{array}_') for key in self.keys)}"
            self.keys[job_id] = remote.key
            self.live.add(job_id)
            assert remote.module == jobs.SHARDS
            return SimpleNamespace(job_id=job_id)

        update = lambda **settings: self.parameters.append(settings)  # noqa: E731
        return SimpleNamespace(update_parameters=update, batch=contextlib.nullcontext, submit=submit)

    def find(self, job: cluster.JobIdentity, _known_since: float) -> cluster.QueuedJob | None:
        return queued("RUNNING") if job.id in self.live else None

    def work(self, job: str) -> None:
        """A job makes its shards, and is over."""
        assert task_command.main([self.keys[job]]) == 0
        self.live.remove(job)


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    """Five shards to be: two pictures each. They are made in this process: another one imports for seconds."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(shard_work.ShardWork, "can_share_machine", lambda _work: False)
    monkeypatch.setattr(shard_writer, "ROWS", 2)
    records = []
    for index in range(PICTURES):
        Image.new("RGB", (8, 8), (index, 0, 0)).save(tmp_path / f"{index}.png")
        caption = {"raw": f"A dog sees {index} red cats."}
        records.append({"filename": f"{index}.png", "split": "train", "sentences": [caption]})
    write_json(tmp_path / "d.json", {"images": records})
    write_json(tmp_path / "params.yaml", PARAMS)
    (tmp_path / "slurm.yaml").write_text("{partition: main, gpus: 2, cpus: 4, memory_gb: 8, array_limit: 2}")
    return tmp_path


@pytest.fixture
def fake_cluster(monkeypatch) -> Cluster:
    new_cluster = Cluster()
    monkeypatch.setattr(slurm.submitit, "SlurmExecutor", new_cluster.executor)
    monkeypatch.setattr(slurm, "read_max_array_size", lambda: 2)
    fake_slurm.install(monkeypatch, lambda *_: (0, "\n".join(new_cluster.live), ""))
    cluster.read_config()
    monkeypatch.setattr(cluster, "queue", lambda *_: new_cluster)
    monkeypatch.setattr(cluster, "explain_end", lambda job, log="": "its node failed (on n7)")
    monkeypatch.setattr(cluster, "cancel", lambda job: new_cluster.live.discard(job.id) or "")
    return new_cluster


def launch(*words: str) -> int:
    return launch_command.main(["slurm.yaml", *words])


def read_tasks() -> list[Task]:
    """The tasks of the data set's first stage."""
    return shard_tasks.find_tasks(["recaption"], ["d"])


def test_from_nothing_to_collected(project, fake_cluster, capsys):
    """Each shard in one task, no array larger than the cluster's; nothing goes twice; bytes are those made here."""
    undisturbed = project.parent / f"{project.name}-alone"
    shutil.copytree(project, undisturbed)
    assert launch("--stage", "recaption", "--dry-run") == 0
    output = capsys.readouterr().out
    assert "recaption@d: 5 shards: 0 made, 0 on their way, 5 to send\ntasks: 5\npartition: main\n" in output
    assert not read_tasks() and not fake_cluster.keys
    assert launch("--stage", "recaption") == 0
    output = capsys.readouterr().out
    assert "2 tasks sent: job 7_0 to job 7_1\n" in output and "1 task sent: job 9_0\n" in output
    assert [task.name for task in read_tasks()] == [f"recaption@d {n:05d}" for n in range(5)]
    fake_cluster.work("7_1")
    assert launch("--stage", "recaption") == 0
    assert "recaption@d: 5 shards: 1 made, 4 on their way, 0 to send" in capsys.readouterr().out
    for job in sorted(fake_cluster.live):
        fake_cluster.work(job)
    assert stage_command.main(["--data", "recaption@d"]) == 0
    assert read_tasks() == []
    assert stage_command.main(["--data", "rewrite@d", "--rewrite"]) == 0
    assert launch("--stage", "annotate", "--shards-per-task", "4") == 0
    assert "2 tasks sent: job 10_0 to job 10_1" in capsys.readouterr().out
    fake_cluster.work("10_0")
    fake_cluster.live.clear()
    shard_tasks.read_task(shard_tasks.folder(fake_cluster.keys["10_1"])).forget()
    assert stage_command.main(["--data", "annotate@d", "--annotate"]) == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(undisturbed)
        for stage in ((), ("--rewrite",), ("--annotate",)):
            assert shard_stages.main(["--data", "d", *stage]) == 0
    assert fingerprint(project / "data" / "d") == fingerprint(undisturbed / "data" / "d")


def test_the_stage_waits_and_makes_the_rest(project, fake_cluster, monkeypatch, capsys):
    """It says so once; a shard that no job was sent for is made here."""
    assert launch("--stage", "recaption") == 0
    shard_tasks.read_task(shard_tasks.folder(fake_cluster.keys.pop("9_0"))).forget()
    capsys.readouterr()
    alone = shard_work.ShardWork.complete

    def complete(self, _count: int) -> None:
        print([item.name for item in self.missing()])
        alone(self, 1)

    monkeypatch.setattr(shard_work.ShardWork, "complete", complete)
    work_next = lambda _: fake_cluster.work(min(fake_cluster.live & fake_cluster.keys.keys()))  # noqa: E731
    monkeypatch.setattr(jobs.time, "sleep", work_next)
    assert stage_command.main(["--data", "d"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if not line.startswith("{")]
    assert lines == ["recaption@d: job 7_0 and 3 more at work on its shards; waiting", "['00004']"]
    assert shard_files.read_manifest(Path("data/d/samples/manifest.json"), "recaption").samples == PICTURES


def test_a_job_that_failed_is_named(project, fake_cluster):
    """Nothing is made in its place, until it is launched again, or given up."""
    assert launch("--stage", "recaption") == 0
    shard_tasks.read_task(shard_tasks.folder(fake_cluster.keys["8_0"])).folder.log.write_text("error: d.json: gone\n")
    for job in sorted(fake_cluster.live - {"8_0", "8_1"}):
        fake_cluster.work(job)
    fake_cluster.live.clear()
    message = r"recaption@d: job 8_0 failed \(and 1 more\): its node failed \(on n7\): .* cancel --stage recaption"
    with pytest.raises(UserError, match=message):
        stage_command.main(["--data", "d"])
    assert not Path("data").exists()
    assert launch("--stage", "recaption") == 0
    keys = fake_cluster.keys
    assert {keys["10_0"], keys["10_1"]} == {keys["8_0"], keys["8_1"]}
    fake_cluster.work("10_1")
    assert launch("cancel", "--stage", "recaption", "--data", "d") == 0
    assert read_tasks() == [] and not fake_cluster.live
    assert stage_command.main(["--data", "d"]) == 0


def test_cancel_without_a_stage_takes_shards_along(project, fake_cluster, capsys):
    """Though the runs have no keys as long as their data are being made."""
    assert launch("--stage", "recaption", "--shards-per-task", "5") == 0
    assert launch("cancel") == 0
    out, err = capsys.readouterr()
    assert "1 job stopped" in out
    assert err.startswith("warning: jobs of shards are cancelled, those of runs are not: data/d/manifest.json: not ")
    assert not fake_cluster.live and read_tasks() == []
    with pytest.raises(UserError, match="data/d/manifest.json: not there"):
        launch("cancel")


def test_here_in_processes(project, fake_cluster):
    """The local profile makes what no job makes, and leaves collecting to the stage."""
    assert launch("--stage", "recaption", "--shards-per-task", "3") == 0
    fake_cluster.live.remove("7_0")
    assert launch_command.main([LOCAL, "--stage", "recaption"]) == 0
    unfinished = [task.name for task in read_tasks() if not shard_tasks.is_finished(task.folder)]
    assert unfinished == ["recaption@d 00003 and 1 more"]
    assert not Path("data").exists()


def test_what_stages_need_first(project, fake_cluster):
    """An earlier stage that was not run is named; DVC is asked for it, and for the benchmarks that are left out."""
    with pytest.raises(UserError, match="data/d/samples/manifest.json: not there; run `dvc repro recaption` first"):
        launch("--stage", "annotate")
    params = read.load_params("params.yaml")
    assert stage_command.list_prerequisites("recaption", ["d"], params) == ["look"]
    assert stage_command.list_prerequisites("rewrite", ["d", "d"], params) == ["recaption@d"]
    params.data["d"] = Data(**DATA, exclude=["valse"])
    assert stage_command.list_prerequisites("annotate", ["d"], params) == ["rewrite@d", "benchmark@valse"]


@pytest.mark.parametrize(("section", "stage", "costly"), [
    (DATA, "recaption", False), (DATA, "annotate", False),
    (ENDPOINT | {"options": {"url": "http://h/v1", "model": "m"}}, "recaption", False),
    (ENDPOINT | {"options": {"server": "vllm serve m --port {port}", "model": "m"}}, "recaption", True),
    (DATA | {"captioner": "hf", "options": {"model": "m"}}, "recaption", True),
])  # fmt: skip
def test_what_is_opened_once_a_task(project, section, stage, costly):
    """A model or a server, for as many shards as give each place of the array one task, and with the node's GPUs."""
    write_json("params.yaml", PARAMS | {"data": {"d": section}})
    cfg = read.load_params("params.yaml").data["d"]
    items = tuple(shard_work.ShardTask(f"{n:05d}", f"{n:032x}", {}) for n in range(7))
    work = shard_work.ShardWork(stage, cfg, Path("w"), items, {})
    missing_shards = stage_command.MissingShards("d", work, items, frozenset([items[3].key]))
    assert stage_command.is_costly(missing_shards.work) is costly
    profile = profiles.load_profile("slurm.yaml")
    tasks = missing_shards.cut(profile)
    assert [len(task.shards) for task in tasks] == ([3, 3] if costly else [1] * 6)
    assert [n for task in tasks for n in task.shards] == [i.name for i in items if i.name != "00003"]
    options = slurm.submitit_options(profile.of_shards(costly), tasks, Path("code"), Path("."))
    expected = (1, 2, 8, "8192M") if costly else (1, None, 1, "4096M")
    assert tuple(map(options.get, ("ntasks_per_node", "gpus_per_node", "cpus_per_task", "mem"))) == expected


def test_tasks_that_the_queue_has_no_room_for(project, fake_cluster, monkeypatch, capsys):
    """They are sent by the same command when earlier ones are over."""

    def work_off(self) -> None:
        assert "2 not sent yet" in capsys.readouterr().out
        for job in sorted(fake_cluster.live):
            fake_cluster.work(job)

    monkeypatch.setattr(slurm.Slurm, "_wait", work_off)
    (project / "slurm.yaml").write_text("{partition: main, array_limit: 2, queue_limit: 3}")
    assert launch("--stage", "recaption") == 0
    assert len(fake_cluster.keys) == 5 and len(fake_cluster.live) == 2


def test_a_task_whose_shards_became_others_refuses(project, fake_cluster):
    """Its code is that of its submission, and the keys say what the stage makes now."""
    assert launch("--stage", "recaption") == 0
    write_json("params.yaml", PARAMS | {"data": {"d": DATA | {"limit": 9}}})
    assert launch("--stage", "recaption", "--dry-run") == 0
    with pytest.raises(UserError, match="recaption@d 00000: code, parameters or data changed since it was submitted"):
        task_command.main([fake_cluster.keys["7_0"]])


@pytest.mark.parametrize(
    "key", ["../../etc/x", "keys/d/x", "recaption/d", "recaption/d/../x", "recaption/d/.x", "/d/x"]
)
def test_keys_that_are_none(key):
    """None leads out of the folder of shards."""
    with pytest.raises(UserError, match="unknown task of shards|must be letters"):
        shard_tasks.folder(key)


# --- status ---------------------------------------------------------------------------------------------------


@pytest.fixture
def half(tmp_path, monkeypatch) -> Path:
    """A stage of five shards, two of them made: 40 captions in 10 seconds."""
    monkeypatch.chdir(tmp_path)
    folder = shard_tasks.FOLDER / "annotate" / "d"
    items = [{"name": f"{n:05d}", "key": f"{n:08x}", "given": {}} for n in range(5)]
    write_json(folder / shard_tasks.LIST, {"stage": "annotate", "section": {}, "items": items, "counts": {}})
    for name, captions in (("00000000", 10), ("00000001", 30)):
        write_json(folder / f"{name}.json", {"shard": {"captions": captions}, "seconds": 5.0, "begun": 1.0})
    return folder


def test_a_stage_under_way(half, fake_cluster):
    """By hand: two at work at 4 captions a second each, and three shards of 20 captions to make."""
    assert [row.state for row in status.list_stages()] == ["stopped"]
    with contextlib.ExitStack() as locks:
        for n in (2, 3):
            fcntl.flock(locks.enter_context(open(half / f"{n:08x}.lock", "w")), fcntl.LOCK_EX)
        [row] = status.list_stages()
    assert row == status.StageRow("annotate@d", "running", 2, 5, 8.0, 7.5, "2 processes")
    text = status.align_columns(status.STAGE_HEADER, [status.list_stage_cells(row)], 100)
    assert text.splitlines()[1].split() == ["annotate@d", "running", "2/5", "8", "8s", "2", "processes"]


def test_jobs_of_a_stage_are_shown(half, fake_cluster):
    """Waiting, running, failed with its reason; a finished stage has no row, and none of its shards is read."""
    task = Task("annotate", "d", {"00002": f"{2:08x}", "00003": f"{3:08x}"})
    task.save()
    write_json(task.folder.job, record("7_0", module=jobs.SHARDS))
    fake_cluster.live.add("7_0")
    [row] = status.list_stages()
    assert (row.state, row.captions_per_second, row.job) == ("running", 4.0, "job 7_0")
    fake_cluster.live.clear()
    [row] = status.list_stages()
    assert (row.state, row.left_s, row.job) == ("failed", 0.0, "job 7_0")
    assert row.error.startswith("its node failed (on n7): nothing logged")
    for n in range(5):
        (half / f"{n:08x}.json").write_text("never read")
    assert list(status.list_stages()) == []
