"""The MLflow store against the run directories and studies it is made from."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from compclip.base import links
from compclip.base.errors import UserError
from compclip.base.files import write_json
from compclip.runs.folder import Folder, Published
from compclip.track import __main__ as track_command
from compclip.track import log, store, studies, sync
from compclip.track.models import Template
from compclip.track.reading import Memory
from compclip.track.writer import Writer
from tests import fake_runs

HOME = "compclip: vit on scenes"


@pytest.fixture(scope="module")
def empty_database(tmp_path_factory):
    """A migrated database: making one takes seconds, copying it none."""
    folder = tmp_path_factory.mktemp("empty")
    with store.client(f"sqlite:///{folder / 'mlflow.db'}"):
        pass
    return (folder / "mlflow.db").read_bytes()


@pytest.fixture
def runs(tmp_path):
    return fake_runs.make(tmp_path, fake_runs.cells(("pretrained", "clic")))


@pytest.fixture
def uri(tmp_path, empty_database):
    (tmp_path / "mlflow").mkdir()
    (tmp_path / "mlflow" / "mlflow.db").write_bytes(empty_database)
    return f"sqlite:///{tmp_path / 'mlflow' / 'mlflow.db'}"


def params(tmp_path, methods=("pretrained", "clic"), seeds=(0, 1), columns=()):
    """A params.yaml whose grid is that of the fake runs."""
    text = f"""
grid: {{methods: [{", ".join(methods)}], backbones: [vit], data: [scenes], seeds: [{", ".join(map(str, seeds))}]}}
train: {{}}
methods: {{pretrained: {{}}, clic: {{}}, negclip: {{}}}}
backbones: {{vit: {{model: ViT-B-32}}}}
data: {{scenes: {{source: karpathy, path: a, images: b, captioner: none}}}}
benchmarks: {{}}
report: {{columns: [{", ".join(columns)}]}}
"""
    path = tmp_path / "params.yaml"
    path.write_text(text)
    return path


def source(tmp_path, **how):
    grid = {k: how.pop(k) for k in ("methods", "seeds", "columns") if k in how}
    return sync.source(params(tmp_path, **grid), tmp_path, tmp_path / "studies", **how)


def update(tmp_path, uri, **how):
    return sync.update(source(tmp_path, **how), uri)


def tracked(uri):
    """The client and every run of ours by name; fails where a name stands twice."""
    with store.client(uri) as client:
        found = [run for of_key in Writer(client, "compclip", None, None).known.values() for run in of_key]
        assert len({run.info.run_name for run in found}) == len(found)
        return client, {run.info.run_name: run for run in found}


def steps(client, run):
    return [m.step for m in client.get_metric_history(run.info.run_id, "train/clip")]


def test_every_value_of_a_run_is_in_the_store(tmp_path, runs, uri):
    assert update(tmp_path, uri) == {"added": 4, "skipped": 0}
    client, found = tracked(uri)
    assert sorted(found) == sorted(cell.name for cell in fake_runs.cells(("pretrained", "clic")))
    run = found["clic-vit-scenes-1"]
    assert run.data.metrics["sugarcrepe/swap"] == 0.75
    assert run.data.metrics["sugarcrepe/swap_att/unseen_pairs"] == 1.0
    assert run.data.params["train.lr"] == "2e-06"
    assert {k: run.data.tags[k] for k in ("method", "seed", "run_key", "device")} == {
        "method": "clic", "seed": "1", "run_key": "key-clic-vit-scenes-1", "device": "cpu",
    }  # fmt: skip
    assert client.get_experiment(run.info.experiment_id).name == HOME
    assert run.info.end_time == 1_700_000_030_000
    assert run.info.start_time == 1_700_000_030_000 - 62_000


def test_machine_facts_are_system_metrics(tmp_path, runs, uri):
    update(tmp_path, uri)
    client, found = tracked(uri)
    run = found["clic-vit-scenes-0"]
    shown = {k: v for k, v in run.data.metrics.items() if k.startswith("system/")}
    assert shown == {"system/peak_memory_mib": 900, "system/threads": 1, "system/train_seconds": 62.0,
                     "system/evaluate_seconds": 1.5, "system/samples_per_second": 100.0}  # fmt: skip


def test_device_hours_count_every_life_and_every_run_once(tmp_path, runs, uri):
    """Those of the experiment are of different runs: two cells may share one."""
    for name, seconds, key in (("clic-vit-scenes-0", 5400, "a"), ("clic-vit-scenes-1", 1800, "b"),
                               ("pretrained-vit-scenes-0", 1800, "b")):  # fmt: skip
        path = fake_runs.trained(runs, name).environment
        write_json(path, json.loads(path.read_text()) | {"device_seconds": seconds, "run_key": key})
    update(tmp_path, uri)
    client, found = tracked(uri)
    assert found["clic-vit-scenes-0"].data.metrics["system/device_hours"] == 1.5
    assert "system/device_hours" not in found["pretrained-vit-scenes-1"].data.metrics
    note = client.get_experiment_by_name(HOME).tags["mlflow.note.content"]
    assert "Training took 2.00 device-hours that 2 of 3 runs know of" in note


def test_scores_are_the_report_s_whole_benchmark_numbers(tmp_path, runs, uri):
    update(tmp_path, uri, columns=["sugarcrepe/swap_att"])
    run = tracked(uri)[1]["clic-vit-scenes-0"]
    # composition: the mean of the columns shown; retrieval: Recall@1 of both ways
    assert run.data.metrics["score/sugarcrepe"] == run.data.metrics["score/comp"] == 0.9
    assert run.data.metrics["score/retrieval"] == pytest.approx(0.9)
    assert (run.data.metrics["score/i2t"], run.data.metrics["score/t2i"]) == (0.8, 1.0)


def test_means_that_only_the_report_makes_are_metrics(tmp_path, runs, uri):
    """A column of params.yaml that no result file has is logged under its own name, and no other one is."""
    update(tmp_path, uri, columns=["retrieval/mean_recall_at_1", "sugarcrepe/swap", "other/average"])
    run = tracked(uri)[1]["clic-vit-scenes-0"]
    assert run.data.metrics["retrieval/mean_recall_at_1"] == pytest.approx(0.9)
    assert "other/average" not in run.data.metrics


def test_data_sets_are_logged_with_their_fingerprints(tmp_path, runs, uri):
    update(tmp_path, uri)
    inputs = tracked(uri)[1]["clic-vit-scenes-0"].inputs.dataset_inputs
    shown = {(i.dataset.name, i.dataset.digest, i.tags[0].value) for i in inputs}
    assert ("retrieval", "retrieval" * 2, "evaluation") in shown


def test_the_description_compares_with_the_pretrained_model(tmp_path, runs, uri):
    update(tmp_path, uri, columns=["sugarcrepe/swap_att", "retrieval/t2i_recall_at_1"])
    note = tracked(uri)[1]["clic-vit-scenes-0"].data.tags["mlflow.note.content"]
    assert "| sugarcrepe/swap_att ↑ | 90.0 | 50.0 | +40.0 |" in note
    assert "seed 0" in note


def test_loss_curves_keep_the_steps_and_times_of_the_file(tmp_path, runs, uri):
    update(tmp_path, uri)
    client, found = tracked(uri)
    history = client.get_metric_history(found["clic-vit-scenes-0"].info.run_id, "train/clip")
    assert [(m.step, m.value, m.timestamp) for m in history] == [
        (10, 2.5, 1_700_000_010_000), (20, 2.0, 1_700_000_020_000), (30, 1.5, 1_700_000_030_000),
    ]  # fmt: skip


def test_artifacts_are_the_run_s_files(tmp_path, runs, uri):
    update(tmp_path, uri)
    client, found = tracked(uri)
    run = found["clic-vit-scenes-0"].info.run_id
    names = sorted(a.path for a in client.list_artifacts(run))
    assert names == ["config.yaml", "environment.json", "metrics.jsonl", "results"]
    copy = client.download_artifacts(run, "results/retrieval.json", str(tmp_path))
    with open(copy, encoding="utf-8") as file:
        assert file.read() == fake_runs.result(runs, "clic-vit-scenes-0", "retrieval").read_text()


def inodes(folder):
    """The inodes of the files below a folder by name."""
    return {path.name: path.stat().st_ino for path in folder.rglob("*") if path.is_file()}


def test_artifacts_are_links_that_go_without_the_run_s_files(tmp_path, runs, uri):
    update(tmp_path, uri)
    client, found = tracked(uri)
    run, place = found["clic-vit-scenes-0"], Published(runs, fake_runs.cell("clic"))
    before = inodes(place.trained.path) | inodes(place.results)
    linked = inodes(store.local(run.info.artifact_uri))
    assert linked == {name: inode for name, inode in before.items() if name in linked}
    assert {"config.yaml", "metrics.jsonl", "retrieval.json"} <= set(linked)
    with store.client(uri):
        log.remove(client, run, tmp_path / "mlflow" / "artifacts")
    assert not store.local(run.info.artifact_uri).exists()
    assert inodes(place.trained.path) | inodes(place.results) == before


def test_the_artifacts_of_a_grid_of_several_backbones_are_found_again(tmp_path, runs, uri):
    """The `+` between their names is quoted in MLflow's addresses."""
    path = params(tmp_path)
    path.write_text(path.read_text().replace("[vit]", "[vit, big]").replace("32}", "32}, big: {model: ViT-L-14}"))
    sync.update(sync.source(path, runs, tmp_path / "studies"), uri)
    client, found = tracked(uri)
    old = store.local(found["clic-vit-scenes-0"].info.artifact_uri)
    assert (old / "config.yaml").is_file()
    assert "vit+big-on-scenes" in str(old)
    with store.client(uri):
        log.remove(client, found["clic-vit-scenes-0"], tmp_path / "mlflow" / "artifacts")
    assert not old.exists()


def calls(monkeypatch):
    """The names of the client's calls from now on."""
    from mlflow import MlflowClient

    made = []

    def counted(name, real):
        def call(*args, **kwargs):
            made.append(name)
            return real(*args, **kwargs)

        return call

    for name, real in list(vars(MlflowClient).items()):
        if callable(real) and not name.startswith("_"):
            monkeypatch.setattr(MlflowClient, name, counted(name, real))
    return made


def test_runs_that_are_there_cost_no_calls(tmp_path, runs, uri, monkeypatch):
    """Beside four runs or eight, a call with nothing to do makes the same calls, and so does one with a new run."""
    grid, spent = {"methods": ("pretrained", "clic", "negclip")}, []
    for more, new in ((("clic",), 2), (("negclip",), 3)):
        fake_runs.make(tmp_path, fake_runs.cells(more))
        update(tmp_path, uri, **grid)
        with monkeypatch.context() as patch:
            made = calls(patch)
            assert list(update(tmp_path, uri, **grid)) == ["unchanged"]
            nothing = len(made)
            place = Published(tmp_path, fake_runs.cell("clic", seed=new))
            for path in (place.trained.path, place.results):
                shutil.copytree(path.with_name("vit-scenes-0"), path)
            assert update(tmp_path, uri, **grid)["added"] == 1
            spent.append((nothing, len(made) - nothing))
    assert spent[0] == spent[1]


def test_a_second_sync_adds_nothing(tmp_path, runs, uri):
    update(tmp_path, uri)
    before = {name: run.info.run_id for name, run in tracked(uri)[1].items()}
    assert update(tmp_path, uri) == {"unchanged": 4}
    assert {name: run.info.run_id for name, run in tracked(uri)[1].items()} == before


def test_the_content_of_an_entry_does_not_depend_on_the_process(tmp_path, runs):
    """Another process orders its sets in another way."""
    code = ("import sys; from pathlib import Path; from compclip.track import sync;"
            "root = Path(sys.argv[1]); made = sync.source(root / 'params.yaml', root, root / 'studies');"
            "print([e.content for e in made.entries])")  # fmt: skip
    mine = str([e.content for e in source(tmp_path).entries])
    theirs = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True,
                            env={"PYTHONHASHSEED": "7", "PATH": "/usr/bin:/bin"})  # fmt: skip
    assert theirs.stdout.strip() == mine


def test_a_run_evaluated_again_replaces_its_old_self(tmp_path, runs, uri):
    update(tmp_path, uri)
    old = tracked(uri)[1]["clic-vit-scenes-0"].info.artifact_uri.removeprefix("file://")
    path = fake_runs.result(runs, "clic-vit-scenes-0", "hard_positives")
    raw = json.loads(path.read_text())
    path.write_text(json.dumps(raw | {"metrics": raw["metrics"] | {"mean_score": 0.5}}))
    done = update(tmp_path, uri)
    assert (done["replaced"], done["unchanged"], done["added"]) == (1, 3, 0)
    client, found = tracked(uri)
    assert len(found) == 4
    assert found["clic-vit-scenes-0"].data.metrics["hard_positives/mean_score"] == 0.5
    assert steps(client, found["clic-vit-scenes-0"]) == [10, 20, 30]
    assert not Path(old).exists()


@pytest.mark.parametrize("hurt", ["set_terminated", "place", "set_tag"])
def test_a_run_whose_logging_was_killed_is_logged_again(tmp_path, runs, uri, monkeypatch, hurt):
    """Whatever call is the last one that arrives, the next sync leaves one run a cell with every step once."""
    from mlflow import MlflowClient

    where = links if hurt == "place" else MlflowClient
    real, calls = getattr(where, hurt), []

    def killed(*args, **kwargs):
        calls.append(args)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*args, **kwargs)

    monkeypatch.setattr(where, hurt, killed)
    with pytest.raises(KeyboardInterrupt):
        update(tmp_path, uri)
    monkeypatch.undo()
    assert not sync.stamp(uri).exists()
    update(tmp_path, uri)
    client, found = tracked(uri)
    assert len(found) == 4
    assert all(steps(client, run) == [10, 20, 30] for name, run in found.items() if name.startswith("clic"))


def test_doubles_of_writers_that_shared_no_lock_are_removed(tmp_path, runs, uri):
    update(tmp_path, uri)
    made = source(tmp_path)
    with store.client(uri) as client:
        home = client.get_experiment_by_name(HOME).experiment_id
        log.write(client, made.entries[0], home, "", Template(tmp_path / "template"), link=True)
    update(tmp_path, uri)
    assert len(tracked(uri)[1]) == 4


def test_values_that_are_no_numbers_are_counted(tmp_path, runs, uri):
    path = fake_runs.trained(runs, "clic-vit-scenes-0").metrics
    path.write_text(path.read_text().replace('"grad_norm": 1.0', '"grad_norm": NaN', 2))
    assert update(tmp_path, uri)["skipped"] == 2


def test_a_grid_that_grows_takes_its_runs_along(tmp_path, runs, uri):
    """The experiment is named after the grid; a run outside of it stays where it is."""
    update(tmp_path, uri)
    path = tmp_path / "params.yaml"
    text = params(tmp_path, ("clic",)).read_text().replace("[vit]", "[vit, big]")
    path.write_text(text.replace("ViT-B-32}", "ViT-B-32}, big: {model: ViT-L-14}"))
    done = sync.update(sync.source(path, runs, tmp_path / "studies"), uri)
    assert (done["replaced"], done["unchanged"]) == (2, 2)
    client, found = tracked(uri)
    where = {name: client.get_experiment(run.info.experiment_id).name for name, run in found.items()}
    assert where["clic-vit-scenes-0"] == "compclip: vit, big on scenes"
    assert where["pretrained-vit-scenes-0"] == HOME


def test_an_experiment_whose_runs_all_moved_is_hidden_and_comes_back(tmp_path, runs, uri):
    update(tmp_path, uri)
    path = tmp_path / "params.yaml"
    path.write_text(path.read_text().replace("[vit]", "[vit, big]").replace("32}", "32}, big: {model: ViT-L-14}"))
    sync.update(sync.source(path, runs, tmp_path / "studies"), uri)
    with store.client(uri) as client:
        assert client.get_experiment_by_name(HOME).lifecycle_stage == "deleted"
    assert update(tmp_path, uri)["replaced"] == 4
    with store.client(uri) as client:
        assert client.get_experiment_by_name(HOME).lifecycle_stage == "active"


def test_projects_share_a_store_and_leave_each_other_alone(tmp_path, runs, uri):
    update(tmp_path, uri)
    assert update(tmp_path, uri, project="other")["added"] == 4
    assert update(tmp_path, uri)["unchanged"] == 4


def test_rebuild_holds_the_files_and_nothing_else(tmp_path, runs, uri):
    update(tmp_path, uri)
    old = tracked(uri)[1]["clic-vit-scenes-0"].info
    shutil.rmtree(fake_runs.trained(runs, "clic-vit-scenes-1").path)
    assert sync.rebuild(source(tmp_path), uri)["added"] == 3
    # a new process reads the new file; in this one MLflow still holds the old one open
    copy = tmp_path / "copy.db"
    copy.write_bytes((tmp_path / "mlflow" / "mlflow.db").read_bytes())
    found = tracked(f"sqlite:///{copy}")[1]
    assert sorted(found) == ["clic-vit-scenes-0", "pretrained-vit-scenes-0", "pretrained-vit-scenes-1"]
    assert not Path(old.artifact_uri.removeprefix("file://")).exists()
    assert Path(found["clic-vit-scenes-0"].info.artifact_uri.removeprefix("file://")).is_dir()
    files = sorted(p.name for p in (tmp_path / "mlflow").iterdir())
    assert files == ["artifacts", "mlflow.db", "mlflow.lock", "synced.json", "view.json"]


def test_the_view_shows_every_score_the_best_first(tmp_path, runs, uri):
    update(tmp_path, uri)
    with store.client(uri) as client:
        tags = client.get_experiment_by_name(HOME).tags
    state = json.loads(tags["mlflow.sharedViewState.comparison"])
    assert state["orderByKey"] == "metrics.`score/comp`"
    assert state["orderByAsc"] is False
    assert state["searchFilter"] == "tags.kind = 'cell'"
    assert "metrics.`score/retrieval`" in state["selectedColumns"]


def test_no_runs_is_an_error(tmp_path):
    with pytest.raises(UserError, match="holds no run"):
        source(tmp_path)


def test_a_store_that_cannot_be_written_is_one_line(tmp_path, runs):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"mlflow\.lock: cannot write: .*give --uri"):
        update(tmp_path, f"sqlite:///{tmp_path / 'file' / 'mlflow.db'}")


def test_a_full_disk_is_one_line_and_the_next_call_goes_on(tmp_path, runs, uri, monkeypatch):
    import errno

    real = shutil.copyfile

    def full(source, target):
        if "mlflow" in str(target):
            raise OSError(errno.ENOSPC, "No space left on device", str(target))
        return real(source, target)

    def refused(source, target):
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(links.os, "link", refused)
    monkeypatch.setattr(shutil, "copyfile", full)
    with pytest.raises(UserError, match=r"mlflow/artifacts/.*: cannot write: No space left on device; free space"):
        update(tmp_path, uri)
    monkeypatch.undo()
    assert update(tmp_path, uri)["added"] == 3
    assert len(tracked(uri)[1]) == 4


STUDY = {
    "study": "gamma", "method": "clic", "objectives": ["retrieval/t2i_recall_at_1"],
    "trials": [
        {"number": 0, "state": "COMPLETE", "params": {"method.gamma": 2.0}, "values": [0.5], "run_key": "a"},
        {"number": 1, "state": "COMPLETE", "params": {"method.gamma": 1.0}, "values": [0.7], "run_key": "b"},
        {"number": 2, "state": "PRUNED", "params": {"method.gamma": 9.0}, "values": None, "folder": "store/c",
         "intermediate": {"10": 0.25}, "started": "2026-11-21T06:00:00+00:00", "ended": "2026-11-21T06:01:00+00:00"},
        {"number": 3, "state": "RUNNING", "params": {"method.gamma": 3.0}, "values": None},
    ],
}  # fmt: skip


@pytest.fixture
def sweep(tmp_path, runs):
    """A study whose second trial has a finished run."""
    folder = tmp_path / "studies" / "gamma"
    stored, place = Folder(tmp_path / "store" / "b"), Published(tmp_path, fake_runs.cell("clic"))
    shutil.copytree(place.trained.path, stored.final.path)
    shutil.copytree(place.results, stored.scores("new"))
    write_json(stored.scores("old") / "sugarcrepe.json", {"of": "another evaluation"})
    write_json(stored.scored, {"identity": "new"})
    raw = json.loads(json.dumps(STUDY))
    raw["trials"][1]["folder"] = "store/b"  # from the project's root
    write_json(folder / "trials.json", raw)
    return folder


def test_a_study_is_a_run_with_its_trials_below_it(tmp_path, sweep, uri):
    assert sync.study(sweep, uri, params(tmp_path))["added"] == 5
    client, found = tracked(uri)
    parent = found["study gamma"]
    assert parent.data.metrics == {"best/retrieval/t2i_recall_at_1": 0.7, "study/complete_trials": 2,
                                   "study/pruned_trials": 1, "study/running_trials": 1}  # fmt: skip
    children = [run for name, run in found.items() if name != "study gamma"]
    assert {run.data.tags["mlflow.parentRunId"] for run in children} == {parent.info.run_id}
    assert {name: run.info.status for name, run in found.items()} == {
        "study gamma": "RUNNING", "gamma 000": "FINISHED", "gamma 001": "FINISHED", "gamma 002": "KILLED",
        "gamma 003": "RUNNING",
    }  # fmt: skip
    second = found["gamma 001"]
    assert second.data.params["method.gamma"] == "1.0"
    assert second.data.metrics["retrieval/t2i_recall_at_1"] == 1.0
    assert second.data.metrics["objective/retrieval/t2i_recall_at_1"] == 0.7
    assert steps(client, second) == [10, 20, 30]
    assert client.get_experiment(second.info.experiment_id).name == HOME
    pruned = found["gamma 002"]
    assert pruned.data.metrics == {"intermediate/retrieval/t2i_recall_at_1": 0.25}
    assert pruned.info.end_time - pruned.info.start_time == 60_000


def test_a_study_that_goes_on_keeps_its_finished_trials(tmp_path, sweep, uri):
    sync.study(sweep, uri, params(tmp_path))
    before = tracked(uri)[1]
    raw = json.loads((sweep / "trials.json").read_text())
    raw["trials"][3] |= {"state": "COMPLETE", "values": [0.9]}
    write_json(sweep / "trials.json", raw)
    done = sync.study(sweep, uri, params(tmp_path))
    assert (done["replaced"], done["unchanged"], done["added"]) == (2, 3, 0)
    after = tracked(uri)[1]
    assert len(after) == 5
    assert after["gamma 001"].info.run_id == before["gamma 001"].info.run_id
    assert after["gamma 001"].data.tags["mlflow.parentRunId"] == after["study gamma"].info.run_id
    assert after["study gamma"].info.status == "FINISHED"
    assert after["study gamma"].data.metrics["best/retrieval/t2i_recall_at_1"] == 0.9


def test_the_grid_and_its_studies_go_together(tmp_path, sweep, uri):
    assert update(tmp_path, uri)["added"] == 9
    assert update(tmp_path, uri)["unchanged"] == 9
    assert sync.study(sweep, uri, params(tmp_path))["unchanged"] == 5


def test_a_trial_that_stands_twice_is_refused(sweep):
    raw = json.loads((sweep / "trials.json").read_text())
    write_json(sweep / "trials.json", raw | {"trials": raw["trials"][:1] * 2})
    with pytest.raises(UserError, match="trial 0 stands twice"):
        studies.read(sweep, Memory())


def test_the_lowest_value_is_the_best_where_asked(sweep):
    raw = json.loads((sweep / "trials.json").read_text())
    write_json(sweep / "trials.json", raw | {"objectives": [{"metric": "loss", "direction": "minimize"}]})
    assert {name: t.number for name, t in studies.best(studies.read(sweep, Memory())).items()} == {"loss": 0}


def test_the_command_counts_what_it_did(tmp_path, runs, uri, capsys):
    where = ["--params", str(params(tmp_path)), "--root", str(runs), "--uri", uri]
    assert track_command.main(where) == 0
    assert capsys.readouterr().out == f"{uri}: 4 added, 0 replaced, 0 unchanged\n"
