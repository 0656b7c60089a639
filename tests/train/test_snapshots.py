"""Weights at shares of a training: the training's bits stay, a killed run ends with the same saved_model, one is chosen."""

import copy
import subprocess
import sys
from pathlib import Path

import pytest

from compclip.base.errors import UserError
from compclip.base.files import fingerprint, read_json, write_json
from compclip.config import check, read
from compclip.evaluate import __main__ as evaluate_command
from compclip.evaluate import result_store
from compclip.launch import run_jobs
from compclip.runs import jobs, run_store, run_table, status
from compclip.runs.picture_splits import is_validation
from compclip.runs.run_folder import END, Published
from compclip.train import __main__ as train_command
from compclip.train import job, saved_model
from tests import tiny_project
from tests.small_training import Killed, kill_at

SNAPSHOTS = "train: {snapshots: [0.4, 0.7]"
PARAMS = (
    tiny_project.PARAMS.replace("finetune, fsc_clip", "finetune, finetune.best")
    .replace("finetune: {}", f"finetune: {{variants: {{best: {{{SNAPSHOTS}, choose: sugarcrepe/swap_att}}}}}}}}")
    .replace("threads: 1}\nscenes", "threads: 1, validation_share: 0.9}\nscenes")
)
LORA = "{lora: {rank: 2}, average_alpha: 0.5, snapshots: [0.4, 0.7]}"


@pytest.fixture
def here(project, tmp_path, monkeypatch) -> Path:
    """A fresh copy of the project, which is the current folder."""
    root = tiny_project.other(project, tmp_path / "project", params=PARAMS)
    monkeypatch.chdir(root)
    return root


def weights(folder) -> str:
    """The fingerprint of a run's finished checkpoint."""
    return fingerprint(folder.final.weights)


def snapshots(run, *more: float) -> dict[float, str]:
    """The fingerprints of a run's snapshots, by share."""
    return {share: weights(run.folder.snapshot(share)) for share in (*run.shares, *more)}


def test_a_snapshot_is_what_the_end_would_save_and_changes_no_bit(here, tmp_path):
    """Of an adapted, averaged model after four of ten steps; the run with snapshots ends as the one without."""
    overrides = [f"methods.finetune.train={LORA}"]
    run = tiny_project.at(tiny_project.cell("finetune"), *overrides)
    plain = tiny_project.at(tiny_project.cell("finetune"), overrides[0].replace(", snapshots: [0.4, 0.7]", ""))
    assert run.key == plain.key

    def look(step, steps, model):
        if step == 4:
            with saved_model.torch.random.fork_rng():
                saved_model.save_model(run.run, run.root, copy.deepcopy(model), tmp_path / "checkpoint")

    job.complete_run(run, look)
    snapshot = run.folder.snapshot(0.4)
    assert run.adopt_if_complete() and snapshot.final.facts()["step"] == 4
    assert fingerprint(tmp_path / "checkpoint") == fingerprint(snapshot.final.checkpoint)
    with_snapshots = weights(run.folder)
    run_store.links.remove(run.folder.path)
    job.complete_run(plain)
    assert weights(plain.folder) == with_snapshots and not plain.folder.snapshot(0.4).finished


def test_a_killed_run_has_the_same_snapshots_and_a_finished_one_gets_them(here):
    """Cut at step 6 and resumed; then removed, and made again beside the finished files, which stay as they are."""
    steps = [saved_model.count_steps(share, 10) for share in (0.01, 0.44, 0.46, 0.99)]
    assert steps == [1, 4, 5, 9]  # whole ones, and never the end
    run = tiny_project.at(tiny_project.cell("finetune.best"))
    job.complete_run(run)
    expected = snapshots(run)
    run_store.links.remove(run.folder.path)
    with pytest.raises(Killed):
        job.complete_run(run, kill_at(6))
    assert not run.folder.snapshot(0.7).finished
    job.complete_run(run)
    assert snapshots(run) == expected
    environment = run.folder.final.environment.read_bytes()
    run_store.links.remove(run.folder.path / "snapshots")
    assert run.adopt_if_finished() and not run.adopt_if_complete()
    lacking = "2 snapshots missing of finetune.best-tiny-scenes-0: `compclip repro` makes them"
    assert lacking in status.format_page(*run_table.list_runs("params.yaml"), 200)
    job.complete_run(run)
    assert "snapshots missing" not in status.format_page(*run_table.list_runs("params.yaml"), 200)
    assert snapshots(run) == expected
    assert run.folder.final.environment.read_bytes() == environment and not run.folder.again.exists()


@pytest.mark.long
def test_two_processes_make_the_snapshots_of_one_training(here, tmp_path):
    """With gloo, on the way and beside the finished files; the end is that of two processes without snapshots."""
    run = tiny_project.at(tiny_project.cell("finetune.best"))
    jobs.write_inputs(run, "params.yaml")
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
    train = [*command, "-m", "compclip.train.job", run.key]
    subprocess.run(train, check=True)
    expected = snapshots(run, END)
    assert run.adopt_if_complete() and run.folder.final.facts()["processes"] == 2 and len(set(expected.values())) == 3
    run_store.links.remove(run.folder.path / "snapshots")
    subprocess.run(train, check=True)
    assert run.adopt_if_complete() and snapshots(run, END) == expected
    run_store.links.remove(run.folder.path)
    plain = tiny_project.at(tiny_project.cell("finetune"))
    jobs.write_inputs(plain, "params.yaml")
    subprocess.run(train, check=True)
    assert plain.key == run.key and weights(plain.folder) == expected[END]
    assert not (plain.folder.path / "snapshots").exists()


def test_variants_that_differ_in_what_is_shown_are_one_training(here, monkeypatch):
    """Method and variant: the first stage makes the snapshots for both; the best by validation items is published."""
    tiny_project.plan()
    trained = []

    def train_here(todo, method, params, publish):
        for run in todo:
            trained.append((run.cell.method, run.shares))
            job.complete_run(run)
            publish(run)
        return {}

    monkeypatch.setattr(train_command, "train_runs", train_here)
    for method in ("finetune", "finetune.best"):
        assert train_command.main(["--method", method]) == 0
    assert trained == [("finetune", (0.4, 0.7))]
    assert (here / "runs/finetune/tiny-scenes-0/checkpoint").is_dir()
    assert not (here / "runs/finetune.best/tiny-scenes-0/checkpoint").exists()
    for method in ("finetune", "finetune.best"):
        assert evaluate_command.main(["--method", method]) == 0
    run = tiny_project.at(tiny_project.cell("finetune.best"))
    published = Published(here, run.cell)
    record = read_json(published.snapshots.record)
    values = {float(share): value for share, value in record["values"].items()}
    assert record["steps"] == {"0.4": 4, "0.7": 7, "1.0": 10} and values.keys() == {0.4, 0.7, END}
    assert record["shown"] == min(share for share, value in values.items() if value == max(values.values()))
    best_snapshot = run.folder.snapshot(record["shown"])
    assert result_store.find_checkpoint(run.cell, here) == published.snapshots.checkpoint
    assert fingerprint(published.snapshots.checkpoint) == fingerprint(best_snapshot.final.checkpoint)
    document = read_json(published.results / "sugarcrepe.json")
    assert document["checkpoint"]["fingerprint"] == best_snapshot.final.facts()["weights_fingerprint"]
    assert not (here / "results/finetune/_snapshots").exists()
    assert_follows_an_edit(here, published)
    params = read.load_params("params.yaml")
    assert run_jobs.list_stale(run_jobs.locate_runs(params, here)[1:], params, here) == []


def assert_follows_an_edit(root, published) -> None:
    """Another column is another choice, without a training; without one the end is published as ever."""
    keys = read_json(root / "keys/finetune.best.json")
    text = (root / "params.yaml").read_text()
    for choose, shows_end in (("choose: sugarcrepe/swap_obj", False), ("trainable: all", True)):
        (root / "params.yaml").write_text(text.replace("choose: sugarcrepe/swap_att", choose))
        tiny_project.plan()
        assert train_command.main(["--method", "finetune.best"]) == 0
        assert evaluate_command.main(["--method", "finetune.best"]) == 0
        record = read_json(published.snapshots.record)
        assert record["column"] == ("" if shows_end else "sugarcrepe/swap_obj")
        assert published.trained.checkpoint.is_dir() is shows_end
        assert published.snapshots.checkpoint.is_dir() is not shows_end
    assert record["shown"] == END
    new_keys = read_json(root / "keys/finetune.best.json")
    assert {k: v["key"] for k, v in new_keys.items()} == {k: v["key"] for k, v in keys.items()} and new_keys != keys
    (root / "params.yaml").write_text(text)


PICTURES = [1000 * number << 32 for number in range(65)]  # the lowest fifth is validation


def write_results(folder: Path, validation: float, test: float) -> Path:
    """Results of which so many validation and test items are right."""
    shares = [validation if is_validation(picture, 0.2) else test for picture in PICTURES]
    outcomes = [float(index % 10 < 10 * share) for index, share in enumerate(shares)]
    names = ("swap", "gap", "cosine")
    document = {
        "benchmark": "sugarcrepe", "kind": "composition", "lower": ["gap"], "scores": ["cosine"], "headline": [],
        "metrics": dict.fromkeys(names, sum(outcomes) / len(outcomes)), "pictures": PICTURES,
        "units": dict.fromkeys(names, list(range(len(PICTURES)))),
        "items": dict.fromkeys(names, {"ids": list(map(str, PICTURES)), "outcomes": outcomes}),
    }  # fmt: skip
    write_json(folder / "sugarcrepe.json", document)
    return folder


def test_test_items_have_no_say_in_a_choice(tmp_path):
    """The second is best on validation items, the third on test items and on the whole; of a gap the least is best."""
    terms = result_store.ChoiceTerms(0.2)
    shares = {0.2: (0.4, 0.2), 0.6: (0.8, 0.1), END: (0.5, 1.0)}
    results = {share: write_results(tmp_path / str(share), *sides) for share, sides in shares.items()}
    assert result_store.find_best(result_store.choose_values(results, "sugarcrepe/swap", terms)) == 0.6
    assert result_store.find_best(result_store.choose_values(results, "summary/Comp", terms)) == 0.6
    assert result_store.find_best(result_store.choose_values(results, "sugarcrepe/gap", terms)) == 0.2
    for name in ("sugarcrepe/cosine", "summary/General", "sugarcrepe/add"):
        with pytest.raises(UserError, match=f"train.choose={name}"):
            result_store.choose_values(results, name, terms)


@pytest.mark.parametrize(("train", "message"), [
    ("{snapshots: [0.6, 0.4]}", "must rise"),
    ("{snapshots: [1.0]}", "snapshots"),
    ("{choose: sugarcrepe/swap}", "has nothing to choose from"),
    ("{snapshots: [0.5], choose: sugarcrepe/no_such}", "no_such"),
    ("{snapshots: [0.5], choose: summary/Best}", "summary/Best"),
    ("{snapshots: [0.5], choose: held_out/swap}", "is the validation set of sugarcrepe"),
])  # fmt: skip
def test_what_cannot_be_chosen_is_refused(here, train, message):
    """Shares that do not rise, the end as a snapshot, columns that are not measured, a validation set as a column."""
    held_out = "benchmarks.held_out={benchmark: sugarcrepe, path: a, images: b}"
    sets = [held_out, "benchmarks.sugarcrepe.validation=held_out", "evaluate.benchmarks=[sugarcrepe, held_out]"]
    overrides = [*sets, f"methods.finetune.train={train}"]
    with pytest.raises(UserError, match=message):
        check.check_consistency(read.load_params("params.yaml", overrides))
