"""Tars to the report through a real SLURM (`slurm/local-cluster.sh up`): captioned, annotated and trained as arrays."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from compclip.base.errors import UserError
from compclip.base.files import fingerprint, read_json
from compclip.config import read
from compclip.data import shard_files
from compclip.data.prepared_dataset import PreparedDataset
from compclip.evaluate import __main__ as evaluate_command
from compclip.launch import __main__ as launch_command
from compclip.launch import profiles, run_jobs
from compclip.launch import shard_jobs as stage_command
from compclip.llm import local_server
from compclip.prepare import shard_stages, shard_work
from compclip.report import __main__ as report_command
from compclip.runs import cluster, jobs, shard_tasks
from compclip.train import __main__ as train_command
from tests import tiny_project
from tests.data import tar_files
from tests.tiny_project import wait_for

CELL = "finetune-tiny-tars-0"
TARS, PICTURES = 3, 4  # and pictures of each
KEYS = [f"{tar:05d}{n:04d}" for tar in range(TARS) for n in range(PICTURES)]
STAND_IN = Path(__file__).resolve().parents[1] / "llm/endpoint/stand_in.py"
SERVER = f"'{sys.executable}' -S -I {STAND_IN} {{port}}"
OPTIONS = {"server": SERVER, "model": "m", "cache": "cache/answers.sqlite"}
REGIONS = {"file": "regions.jsonl", "on": "key", "column": "regions"}
DATA = {
    "source": "webdataset", "path": "tars", "images": "tars", "captioner": "endpoint", "options": OPTIONS,
    "regions": REGIONS,
}  # fmt: skip
PROFILE = "{partition: main, memory_gb: 2, time_min: 30, signal_s: 30, array_limit: 2}"


@pytest.fixture
def here(slurm_there, here, monkeypatch):
    """The project with three tars for its data; its jobs are cancelled at the end."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv(local_server.ALLOW, "1")
    # another process imports for seconds
    monkeypatch.setattr(shard_work.ShardWork, "can_share_machine", lambda _work: False)
    cluster.queue.cache_clear()
    for tar in range(TARS):
        members = []
        for n in range(PICTURES):
            picture = tar_files.picture(64, 64, colour=80 * tar + 20 * n)
            members += tar_files.sample(f"{tar:05d}{n:04d}", "old", picture)
        tar_files.write(here / "tars" / f"{tar:05d}.tar", members)
    rows = [{"key": key, "regions": [{"box": [0, 0, 0.5, 1], "caption": f"half of {key}"}]} for key in KEYS]
    (here / REGIONS["file"]).write_text("".join(json.dumps(row) + "\n" for row in rows))
    text = (here / "params.yaml").read_text().replace("[pretrained, finetune, fsc_clip]", "[finetune]")
    text = text.replace("data: [scenes]", "data: [tars]").replace("data: {", f"data: {{tars: {json.dumps(DATA)}, ")
    (here / "params.yaml").write_text(text)
    (here / "profile.yaml").write_text(PROFILE)
    yield here
    for path in (*here.glob("store/*/job.json"), *here.glob(".work/shards/*/*/jobs/*/job.json")):
        cluster.run_command("scancel", json.loads(path.read_text())["id"])


def launch(*words: str) -> None:
    assert launch_command.main(["profile.yaml", *words]) == 0


def questions(root: Path) -> int:
    return sum(log.read_text().count("asked") for log in (root / "cache").rglob("server-*.log"))


def test_tars_to_the_report(here, tmp_path, capsys):
    """One task is killed on the way; shards and questions are those of an undisturbed run."""
    alone = shutil.copytree(here, tmp_path / "alone")
    launch("--stage", "recaption")
    tasks = shard_tasks.find_tasks(["recaption"], ["tars"])
    assert [len(task.shards) for task in tasks] == [2, 1]  # two servers for three shards
    assert stage_command.main(["--data", "tars"]) == 0
    assert "at work on its shards; waiting" in capsys.readouterr().out
    assert stage_command.main(["--data", "tars", "--rewrite"]) == 0
    launch("--stage", "annotate")
    killed = shard_tasks.find_tasks(["annotate"], ["tars"])[0]
    job = jobs.find_job(killed.folder)
    wait_for(killed.folder.log.exists)
    assert cluster.run_command("scancel", "--signal=KILL", job.id).returncode == 0
    with pytest.raises(UserError, match=f"annotate@tars: job {job.id} failed: .*; launch the stage again"):
        stage_command.main(["--data", "tars", "--annotate"])
    capsys.readouterr()
    launch("--stage", "annotate")
    assert f"annotate@tars: {TARS} shards: {TARS - 1} made, 0 on their way, 1 to send" in capsys.readouterr().out
    assert stage_command.main(["--data", "tars", "--annotate"]) == 0
    run_jobs.send(profiles.load_profile("profile.yaml"), read.load_params("params.yaml"), 1)
    tiny_project.plan()
    assert train_command.main(["--method", "finetune"]) == evaluate_command.main(["--cell", CELL]) == 0
    assert report_command.main([]) == 0
    assert "reports/index.html: 1 cell: 1 complete" in capsys.readouterr().out
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(alone)
        for stage in ((), ("--rewrite",), ("--annotate",)):
            assert shard_stages.main(["--data", "tars", *stage]) == 0
    assert shard_files.read_manifest(here / "data/tars/manifest.json", "annotate").samples == TARS * PICTURES
    assert read_json(here / "data/tars/counts.json")["regions_samples"] == TARS * PICTURES
    regions = PreparedDataset(here / "data" / "tars").regions(TARS * PICTURES - 1)
    assert [region.captions for region in regions] == [(f"half of {KEYS[-1]}",)]
    assert fingerprint(here / "data" / "tars") == fingerprint(alone / "data" / "tars")
    assert questions(here) == questions(alone) == TARS * PICTURES
