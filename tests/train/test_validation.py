"""Validation along training: it changes no bit, costs what was planned, and measures what the evaluation measures."""

import itertools
import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from compclip.base.files import fingerprint, write_json
from compclip.config.sections import Lora, Train
from compclip.evaluate import metrics
from compclip.evaluate.benchmark import number_picture
from compclip.model.clip_model import WEIGHTS
from compclip.model.run_weights import write_checksums
from compclip.report import __main__ as report_command
from compclip.runs import progress
from compclip.runs.picture_splits import is_validation
from compclip.runs.run_folder import VALIDATION
from compclip.train import __main__ as train_command
from compclip.train import job, validation
from tests import small_training, tiny_project, validated_runs
from tests.tiny_project import at, cell
from tests.train.test_distributed import communicate, two
from tests.train.test_frozen_parts import FAMILIES
from tests.validated_runs import METHODS, STEPS

CELL = cell("finetune")


@pytest.fixture(scope="module")
def project(project, tmp_path_factory):
    return validated_runs.make(project, tmp_path_factory.mktemp("validated") / "p")


@pytest.fixture
def measured(here, monkeypatch) -> Path:
    """A copy of it, in the current folder, whose runs of few steps are validated."""
    validated_runs.measure_all(monkeypatch)
    return here


RUNS = [(method, ()) for method in METHODS]
RUNS += [("finetune", (f"train.precision={name}",)) for name in ("bf16_weights", "fp16_weights")]
UNCHANGED = {"different": [], "changes": [False] * STEPS}


@pytest.mark.parametrize(("method", "overrides"), RUNS)
def test_the_bits_are_those_of_a_run_without(measured, tmp_path, method, overrides):
    """Weights, generators and modes; weights of fewer bits too."""
    assert validated_runs.compare(measured, method, tmp_path, *overrides) == UNCHANGED


def test_the_bits_of_two_processes_are_those_without(here, tmp_path):
    """Of every method; the first process alone measures."""
    processes = two("-m", "tests.validated_runs", str(here), str(tmp_path), cwd=here)
    outputs = communicate(processes, 600)
    assert [process.returncode for process in processes] == [0, 0], outputs
    for rank, (output, _) in enumerate(outputs):
        rows = list(map(json.loads, filter(lambda line: line.startswith("{"), output.splitlines())))
        changes = [] if rank else [False] * STEPS
        assert rows == [{"method": method, "different": [], "changes": changes} for method in METHODS]


def test_batch_norms_keep_their_statistics(measured, tmp_path):
    """Those of a ResNet that is trained, which training mode would move."""
    from compclip.model import backbone

    write_json(measured / "resnet.json", FAMILIES["resnet"])
    backbone.create(str(measured / "resnet.json"), seed=3).save(measured / "models" / "tiny")
    write_checksums(measured / "models" / "tiny")
    assert validated_runs.compare(measured, "finetune", tmp_path) == UNCHANGED


# --- by its commands


def weights(run) -> str:
    """Fingerprint of a run's weights in the store."""
    return fingerprint(run.folder.final.checkpoint / WEIGHTS)


def validated(path: Path) -> dict[int, dict[str, float]]:
    """What a log says of held-out pictures, by step."""
    rows = tiny_project.steps(path)
    numbers = {row["step"]: {k: v for k, v in row.items() if k.startswith(VALIDATION)} for row in rows}
    return {step: named for step, named in numbers.items() if named}


def test_it_is_no_part_of_the_key_and_switched_off_by_one_option(measured, capfd, monkeypatch):
    """The same folder of the store, the same weights; the log, the trainer's lines and environment.json have it."""
    assert train_command.main(["--cell", CELL]) == 0
    run = at(CELL)
    assert list(validated(run.folder.final.metrics)) == [1, 2, 3]
    assert run.folder.final.facts()["validation"]["benchmark"] == "retrieval"
    last = progress.read_progress(run.folder.progress, run.resolved["train"])
    assert last.validation and f"validation {last.validation}" in capfd.readouterr().out
    with_validation = weights(run)
    plain = at(CELL, "train.validate=false")
    assert plain.key == run.key
    shutil.rmtree(run.folder.path)
    shutil.rmtree(measured / "runs")
    assert train_command.main(["--cell", CELL, "train.validate=false"]) == 0
    assert validated(plain.folder.final.metrics) == {}
    assert weights(plain) == with_validation


def test_a_resumed_run_is_validated_at_the_same_steps(measured):
    """Killed before its last step: rows and numbers are those of one that was not."""
    run = at(CELL)
    with pytest.raises(small_training.Killed):
        job.complete_run(run, small_training.kill_at(2))
    assert list(validated(run.folder.metrics)) == [1, 2]
    job.complete_run(run)
    resumed = validated(run.folder.final.metrics)
    shutil.rmtree(run.folder.path)
    job.complete_run(run)
    assert resumed == validated(run.folder.final.metrics) and list(resumed) == [1, 2, 3]


# --- which pictures


def test_held_out_pictures_are_validation_items(here):
    """Of the share that `evaluate` has, each with a caption of its own."""
    held_out = validation.find_held_out(at(CELL))
    names = {row["filename"] for row in json.loads((here / "world/retrieval/dataset.json").read_text())["images"]}
    validation_items = {name for name in names if is_validation(number_picture(name), 0.5)}
    assert held_out.benchmark == "retrieval"
    assert 5 < len(held_out.pictures) == len(set(held_out.captions))
    assert {Path(picture.path).name for picture in held_out.pictures} <= validation_items < names


def test_pictures_that_the_data_share_are_not_held_out(here):
    """Where an overlap is recorded, or nothing is known of one."""
    overlap = here / "data" / "overlaps" / "scenes.json"
    write_json(overlap, {"retrieval": {"pictures": 1, "bytes": 1}})
    assert validation.find_held_out(at(CELL)) is None
    overlap.unlink()
    assert validation.find_held_out(at(CELL)) is None


def test_a_validation_set_of_the_authors_is_taken_whole(here):
    """Also a benchmark that is not scored; the one that the data set excludes comes first."""
    params = here / "params.yaml"
    section = "own: {benchmark: retrieval, path: world/retrieval/dataset.json, images: world/test, split: test}}"
    text = params.read_text().replace("split: test}}", f"split: test, validation: own}}, {section}")
    params.write_text(text.replace("[retrieval], threads", "[retrieval, own], threads"))
    shutil.copy(here / "data/records/retrieval.arrow", here / "data/records/own.arrow")
    write_json(here / "data/overlaps/scenes.json", {"retrieval": {}, "own": {}})
    held_out = validation.find_held_out(at(CELL))
    assert held_out.benchmark == "own"
    names = {row["filename"] for row in json.loads((here / "world/retrieval/dataset.json").read_text())["images"]}
    assert len(held_out.pictures) > len(names) / 2


def test_a_picture_that_cannot_be_read_is_left_out(measured):
    held_out = validation.find_held_out(at(CELL))
    Path(held_out.pictures[0].path).write_bytes(b"\x89PNG broken")
    job.complete_run(at(CELL))
    assert at(CELL).folder.final.facts()["validation"]["pictures"] == len(held_out.pictures) - 1


def test_what_cannot_be_read_ends_no_training(measured, capfd):
    """None of the pictures; then a damaged file of the project."""
    for picture in validation.find_held_out(at(CELL)).pictures:
        Path(picture.path).unlink()
    job.complete_run(at(CELL))
    assert validated(at(CELL).folder.final.metrics) == {}
    assert "validation: retrieval: its pictures cannot be read" in capfd.readouterr().err
    shutil.rmtree(at(CELL).folder.path)
    (measured / "data/overlaps/scenes.json").write_text("{")
    job.complete_run(at(CELL))
    assert at(CELL).folder.finished
    assert "is not validated along its training" in capfd.readouterr().err


# --- what it costs


@pytest.mark.parametrize("processes", [1, 8])
@pytest.mark.parametrize("trainable", ["all", "text", "none"])
@pytest.mark.parametrize(("steps", "every"), [(70, 3), (1000, 10), (20000, 50), (9, 10)])
def test_points_cost_two_percent_of_the_forward_passes(steps, every, trainable, processes):
    """At logged steps, evenly to the end; a run of few samples has fewer points or none."""
    cfg = Train(batch_size=128, trainable=trainable, log_every_steps=every)
    pictures, due = validation.plan_points(cfg, steps, processes, available=5000)
    passes = {"all": 3, "text": 1.5, "none": 1}[trainable] * steps * 128 / processes
    assert pictures * len(due) <= 0.02 * passes
    assert all(step % every == 0 or step == steps for step in due)
    assert not due or due[-1] == steps
    assert len(due) == (10 if pictures > validation.LEAST else len(due)) and pictures <= validation.MOST
    if (trainable, processes, steps) == ("all", 1, 1000):  # an adapter's step costs half
        adapted = validation.plan_points(replace(cfg, lora=Lora()), steps, processes, available=5000)[0]
        assert adapted == pytest.approx(pictures / 2, abs=1)


@pytest.mark.parametrize(("allowed", "expected"), [(9, [2, 4, 6, 8, 10]), (5, [2, 4, 6, 8, 10]), (3, [2, 6, 10]),
                                                   (2, [4, 10]), (1, [10]), (0, []), (-4, [])])  # fmt: skip
def test_fewer_points_are_even_and_have_the_end(allowed, expected):
    assert validation.thin_points([2, 4, 6, 8, 10], allowed) == expected


def test_points_that_take_longer_than_planned_are_left_out(monkeypatch, capsys):
    """A step takes 1 s by the clock, a measurement 0.5: of 100 s 2 are for four of them."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(validation.time, "monotonic", lambda: clock.now)

    def measure(*_: object) -> dict[str, float]:
        clock.now += 0.5
        return {"loss": 1.0}

    monkeypatch.setattr(validation, "measure_model", measure)
    monkeypatch.setattr(validation.Validator, "_read_inputs", lambda self: ((), [0] * 60))
    held_out = validation.HeldOutPictures("photos", [None] * 60, [""] * 60)
    validator = validation.Validator(Train(batch_size=100, log_every_steps=1), held_out, 1)
    validator.start(SimpleNamespace(head=None), 0, 100)
    assert validator.due == list(range(10, 101, 10))
    steps = []
    for step in range(1, 101):
        clock.now += 1.0
        steps += [step] if validator.measure(step) else []
    assert steps == [10, 40, 70, 100]
    assert validator.describe()["left_out"] == 6 and validator.seconds == 2.0
    assert "left out: each takes 0.5 s, and all at most 2% of the time" in capsys.readouterr().err


# --- what it measures


def test_recalls_and_loss_are_those_of_the_evaluation(rng):
    """Ties are wrong, each picture has one text; the loss by loops in float64."""
    image_ND, text_ND = rng.integers(-1, 2, (2, 12, 3)).astype(np.float32)
    ranks = metrics.rank_both_ways(metrics.product_blocks(image_ND, text_ND), 12, np.arange(12))
    expected = metrics.recall_at_ranks(ranks.i2t_I3, ranks.t2i_T3, validation.KS)
    numbers = validation.describe_scores(torch.from_numpy(image_ND @ text_ND.T).double(), 10.0)
    for way, k in itertools.product(("i2t", "t2i"), validation.KS):
        assert numbers[f"{way}_recall_at_{k}"] == expected[f"{way}_r{k}"].mean()
    scores_NN, losses = rng.normal(size=(6, 6)), []
    for n in range(6):
        rows = [np.log(np.exp(7 * line).sum()) - 7 * line[n] for line in (scores_NN[n], scores_NN[:, n])]
        losses.append(np.mean(rows))
    numbers = validation.describe_scores(torch.from_numpy(scores_NN), 7.0)
    assert numbers["loss"] == pytest.approx(np.mean(losses), rel=1e-9)
    assert numbers["loss_error"] == pytest.approx(np.std(losses, ddof=1) / 6**0.5, rel=1e-9)


def test_a_trained_model_is_measured_as_it_is_scored(measured, tmp_path):
    """By a head that keeps pairs, and by towers alone: the loss of the vectors that the evaluation gives."""
    from compclip.evaluate import pair_scorers

    for method in ("finetune", "labclip", "flair", "llip"):
        model, watched = validated_runs.train(measured, method, tmp_path / method, True)
        refs = [picture.path for picture in watched.held_out.pictures]
        captions = list(watched.held_out.captions)
        embeddings = pair_scorers.encode(model, refs, captions)
        scores_NN = torch.from_numpy(np.asarray(embeddings.table(refs, captions), dtype=np.float64))
        expected = validation.describe_scores(scores_NN, model.clip.logit_scale.exp().item())
        numbers = validation.measure_model(model, *watched._inputs, watched.cfg)
        assert numbers == pytest.approx(expected, abs=1e-4)


def test_the_page_says_of_a_planted_run_that_it_overfits(here, monkeypatch, tmp_path):
    """Twelve pictures learnt by heart, by the commands of the stages."""
    cells = [cell("pretrained"), CELL]
    train = "max_steps: 150, batch_size: 8, lr: 3.0e-3"
    text = (here / "params.yaml").read_text().replace(f"max_steps: {STEPS}, batch_size: 8, lr: 1.0e-3", train)
    methods = text.partition("grid: {methods: [")[2].partition("]")[0]
    text = text.replace(f"[{methods}]", "[pretrained, finetune]").replace("methods: {", "methods: {pretrained: {}, ")
    (here / "params.yaml").write_text(text)
    monkeypatch.setattr(validation, "TIME_SHARE", 1.0)
    for name in cells:
        tiny_project.collect(name)
    assert report_command.main([]) == 0
    html = (here / "reports" / "index.html").read_text()
    fold = html.partition('<details id="validation">')[2].partition("</details>")[0]
    assert "1 of 1 run overfits" in fold and "finetune overfits with seed 0 from step" in fold
    assert len(validated(at(CELL).folder.final.metrics)) == validation.POINTS
