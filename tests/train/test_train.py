"""Training whole cells: killed and resumed, the bits are those of the undisturbed run; views depend on nothing else."""

import itertools
import os
import signal
import threading
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from compclip.base import files
from compclip.base.files import fingerprint, read_json
from compclip.config import read
from compclip.config.cell import Cell
from compclip.data import images
from compclip.data.prepared_dataset import PreparedDataset
from compclip.evaluate import __main__ as evaluate_command
from compclip.interface.method import load_method
from compclip.model.clip_model import CONFIG, WEIGHTS
from compclip.runs.run_folder import REPLACED, Inputs
from compclip.train import __main__ as train_command
from compclip.train import accumulate, fine_tuning, job, loader, optimiser, recorder, view_maker
from tests import held_job, small_training, tiny_project
from tests.prepared_set import all_annotations, prepared
from tests.tiny_project import at, results, trained

METHODS = ("finetune", "negclip", "clic", "fsc_clip", "c2lip", "hard_positives")
TABLES = "negclip: {}, clic: {train: {trainable: text}}, c2lip: {}, hard_positives: {}"


@pytest.fixture
def every(here) -> Path:
    """The project with a grid of every method, and the current folder in it."""
    params = tiny_project.PARAMS.replace("finetune, fsc_clip]", f"{', '.join(METHODS)}]")
    params = params.replace("fsc_clip: {}", f"fsc_clip: {{}}, {TABLES}").replace("max_steps: STEPS", "epochs: 2")
    (here / "params.yaml").write_text(params)
    return here


def weights(root: Path, cell: str) -> str:
    return fingerprint(trained(root, cell) / "checkpoint" / WEIGHTS)


def log(root: Path, cell: str) -> list[dict]:
    """The logged steps without what the clock says."""
    return tiny_project.steps(trained(root, cell) / "metrics.jsonl")


def environment(root: Path, cell: str) -> dict:
    """What a published run says of itself."""
    return read_json(trained(root, cell) / "environment.json")


@pytest.mark.parametrize("method", METHODS)
def test_every_method_trains_and_logs_its_terms(every, method):
    """Weights change, all steps are logged once, and the total is the sum of the named terms."""
    cell = f"{method}-tiny-scenes-0"
    assert train_command.main(["--cell", cell]) == 0
    rows = log(every, cell)
    assert [r["step"] for r in rows] == list(range(1, 11))
    standard = {"step", "epoch", "samples", "loss", "lr", "logit_scale", "grad_norm"}
    for row in rows:
        terms = [value for name, value in row.items() if name not in standard and not name.startswith("share/")]
        assert row["loss"] == pytest.approx(sum(terms), rel=1e-6)
    assert fingerprint(every / "models" / "tiny" / WEIGHTS) != weights(every, cell)
    assert (trained(every, cell) / "config.yaml").is_file()


def test_pretrained_is_published_untouched(finished):
    """The grid's first row has the backbone's own bits."""
    assert weights(finished, "pretrained-tiny-scenes-0") == fingerprint(finished / "models" / "tiny" / WEIGHTS)


def test_a_trial_with_other_values_stays_in_the_store(here, capsys):
    """What was published is what it was, and the trial can be found by its key; equal values are the cell's run."""
    cell = "finetune-tiny-scenes-0"
    assert train_command.main(["--cell", cell, "train.max_steps=10"]) == 0  # as the file has it
    published = environment(here, cell)
    assert train_command.main(["--cell", cell, "train.max_steps=1"]) == 0
    trial = at(cell, "train.max_steps=1")
    assert trial.folder.finished and trial.key in capsys.readouterr().out
    assert environment(here, cell) == published and published["run_key"] == at(cell).key != trial.key


FSC_CLIP = tiny_project.cell("fsc_clip")
# A function, what its first argument must hold, and which such call kills: between steps, before a checkpoint's rename,
# between steps again, and when of the finished files the last one, which marks them complete, is lacking.
KILLS = ((optimiser, "learning_rate", "", 4), (files, "share_with_group", ".step_", 1), (optimiser, "clamp_scale", "", 3),
         (job, "write_sealed", "environment", 1))  # fmt: skip


def killed(monkeypatch, module: ModuleType, name: str, word: str, at: int) -> int:
    """Train in a process that kills itself at call number `at` of a function; the signal that it died of."""
    original, calls = getattr(module, name), itertools.count(1)

    def deadly(*args):
        if word in str(args[0]) and next(calls) == at:
            if threading.current_thread() is threading.main_thread():
                held_job.join_writers()
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*args)

    with monkeypatch.context() as patch:
        patch.setattr(module, name, deadly)
        return tiny_project.forked(lambda: train_command.main(["--cell", FSC_CLIP]))


def test_killed_again_and_again_ends_with_the_same_bits(here, finished, monkeypatch):
    """SIGKILL wherever it hurts: weights, log and outcomes are the undisturbed run's; all its lives are counted."""
    for number, kill in enumerate(KILLS, 1):
        assert killed(monkeypatch, *kill) == -signal.SIGKILL
        assert not (here / "runs").exists()
        assert len(list(here.glob("store/*/lives/*.json"))) == number
    assert list(here.glob("store/*/step_*.safetensors")), "nothing was saved: the kills came too early to test a resume"
    train_command.main(["--cell", FSC_CLIP])
    evaluate_command.main(["--cell", FSC_CLIP])
    assert tiny_project.outcome(here, FSC_CLIP) == tiny_project.outcome(finished, FSC_CLIP)
    facts = environment(here, FSC_CLIP)
    assert facts["device_seconds"] > facts["seconds"]
    items = read_json(results(here, FSC_CLIP) / "sugarcrepe.json")["items"]
    assert any(i["outcomes"] for i in items.values())


def test_a_signal_saves_and_stops(here, finished, monkeypatch):
    """Each is answered between two steps: a checkpoint is written, the process says so, and the next one goes on."""
    original = optimiser.learning_rate
    for step, number in enumerate(recorder.STOP_SIGNALS, 2):

        def rate(at: int, *args, step=step, number=number) -> float:
            if at + 1 == step:
                os.kill(os.getpid(), number)
            return original(at, *args)

        with monkeypatch.context() as patch, pytest.raises(SystemExit, match=f"signal after step {step} of 10"):
            patch.setattr(optimiser, "learning_rate", rate)
            train_command.main(["--cell", FSC_CLIP])
        assert len(list(here.glob(f"store/*/step_*{step}.safetensors"))) == 1
    train_command.main(["--cell", FSC_CLIP])
    assert log(here, FSC_CLIP) == log(finished, FSC_CLIP)
    assert weights(here, FSC_CLIP) == weights(finished, FSC_CLIP)


@pytest.mark.parametrize(("cut", "share"), [(0, None), (1, 0.025), (20, 0.5)])
def test_truncated_pictures_are_counted_replaced_and_said(here, capsys, cut, share):
    """Their heads are in order. The share is of samples, however many pictures are tried for one; a file is named."""
    paths = sorted((here / "world" / "train").glob("*.png"))[:cut]
    for path in paths:
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        assert min(images.read_size(path)) > 0
    train_command.main(["--cell", "finetune-tiny-scenes-0"])
    facts, lines = environment(here, "finetune-tiny-scenes-0"), capsys.readouterr().err.splitlines()
    assert facts["view_shares"].get(REPLACED) == share
    assert facts["dropped"].get("unreadable", 0) >= 2 * cut  # each once an epoch, and more where neighbours are cut too
    warnings = [line for line in lines if line.startswith("warning: ")]
    assert len(warnings) == 2 * bool(cut)
    assert all(any(path.name in line for path in paths) for line in warnings[:1])
    assert all(f"{100 * share:.1f} %" in line for line in warnings[1:])


def same(a, b) -> bool:
    """Whether two views have the same pixels and texts."""
    texts, others = ((view.caption, view.negatives, view.positives, view.concepts) for view in (a, b))
    return np.array_equal(np.asarray(a.image), np.asarray(b.image)) and texts == others


def two_captions(data: PreparedDataset, folder: Path) -> PreparedDataset:
    """The same pictures, each with the next one's caption as a second: something to draw for every method."""
    captions = all_annotations(data)
    both = [a + b for a, b in zip(captions, (*captions[1:], captions[0]), strict=True)]
    return prepared(folder, [data.sample(i) for i in range(len(data))], both, 16)


def train_set(cell: Cell) -> PreparedDataset:
    """The data of a cell of the project in the current folder."""
    return PreparedDataset(Inputs(Path("."), cell).data)


@pytest.mark.parametrize("method", METHODS)
def test_a_view_depends_on_seed_epoch_and_sample_alone(every, method, tmp_path):
    """The same view in another batch, in another order of calls, from a fresh process state; another in another epoch."""
    run = at(f"{method}-tiny-scenes-0").run
    views = load_method(method).views(run.method, 0)
    data = two_captions(train_set(run.cell), tmp_path)
    first, second = (view_maker.ViewMaker(data, 0, 64) for _ in range(2))
    forward = [first.view(i, 1, views) for i in range(12)]
    backward = [second.view(i, 1, views) for i in reversed(range(12))][::-1]
    assert all(map(same, forward, backward))
    other = [first.view(i, 2, views) for i in range(12)]
    assert not all(map(same, forward, other))
    for size in (4, 6):
        rows = loader.EpochSampler(first, size)
        seen = [v for step in range(rows.per_epoch) for v in rows.batch(step, views)[0]]
        order = loader.full_order(len(data), 0, 0)
        assert all(same(v, first.view(int(i), 0, views)) for v, i in zip(seen, order, strict=False))


def test_the_caption_is_the_same_for_all_methods(every, tmp_path):
    """What a sample says in an epoch does not depend on the negatives that a method asks for."""
    maker = view_maker.ViewMaker(two_captions(train_set(at("finetune-tiny-scenes-0").cell), tmp_path), 0, 64)
    methods = map(load_method, ("finetune", "negclip", "fsc_clip"))
    method_views = [method.views(method.Config(), 0) for method in methods]
    for index in range(10):
        assert len({maker.view(index, 0, v).caption for v in method_views}) == 1


@pytest.fixture
def with_dropout(here) -> None:
    """The backbone drops half of the patches."""
    path = here / "models" / "tiny" / CONFIG
    path.with_name(files.CHECKSUMS).unlink()
    config = read_json(path)
    config["model_cfg"]["vision_cfg"]["patch_dropout"] = 0.5
    files.write_json(path, config)


@pytest.mark.usefixtures("with_dropout")
def test_a_resumed_run_draws_the_same_dropout(here, tmp_path):
    """Patches are dropped as a function of seed and step, also behind a checkpoint; another seed drops others."""
    small_training.check_killed_run(here, "finetune", tmp_path)
    masks = [fine_tuning.seed_dropout(seed, 3, 0) or torch.rand(8) for seed in (0, 1)]
    assert not torch.equal(*masks)


@pytest.mark.usefixtures("with_dropout")
def test_gradient_caching_drops_the_same_patches_twice(here, tmp_path, monkeypatch):
    """A part is encoded twice, and the slope of the first embeddings is pulled into the second: they must be equal."""
    encode, seen = accumulate.encode.encode_features, []

    def recorded(*args):
        features = encode(*args)
        seen.append(features.image_BD.detach().clone())
        return features

    monkeypatch.setattr(accumulate.encode, "encode_features", recorded)
    small_training.train(here, "finetune", tmp_path, recorder.do_nothing, "train.micro_batch=4", "train.max_steps=1")
    micro_batches = -(-read.load_params(here / "params.yaml").train.batch_size // 4)
    first, second = seen[:micro_batches], seen[micro_batches : 2 * micro_batches]
    assert micro_batches > 1 and all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
