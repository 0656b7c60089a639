"""Training whole cells: killed and resumed, the bits are those of the undisturbed run; views depend on nothing else."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from compclip.base import plugins
from compclip.base.errors import UserError
from compclip.base.files import fingerprint
from compclip.config import grid, read
from compclip.evaluate import __main__ as evaluate_command
from compclip.model.backbone import WEIGHTS
from compclip.runs.progress import CLOCK
from compclip.train import __main__ as train_command
from compclip.train import loop, views
from tests import tiny_project
from tests.conftest import ROOT

PARAMS = """
grid: {methods: [pretrained, finetune, negclip, clic, fsc_clip, c2lip, hard_positives], backbones: [tiny], data: [scenes], seeds: [0]}
train: {epochs: 2, batch_size: 8, lr: 1.0e-3, warmup_steps: 2, threads: 1, log_every_steps: 1, checkpoint_every_steps: 2}
methods: {pretrained: {}, finetune: {}, negclip: {}, clic: {train: {trainable: text}}, fsc_clip: {}, c2lip: {}, hard_positives: {}}
backbones: {tiny: {model: tiny.json}}
data: {scenes: {source: karpathy, path: world/train.json, images: world/train, captioner: scenes}}
benchmarks: {sugarcrepe: {path: world/sugarcrepe, images: world/test}}
evaluate: {benchmarks: [sugarcrepe]}
scenes: {train: 40, retrieval: 2, records: 2, per_class: 1, processes: 1}
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """All that train needs, for a grid of every method."""
    return tiny_project.make(tmp_path_factory.mktemp("every") / "project", params=PARAMS)


def weights(root: Path, cell: str) -> str:
    """Fingerprint of a cell's published weights."""
    return fingerprint(trained(root, cell) / "checkpoint" / WEIGHTS)


def log(root: Path, cell: str) -> list[dict]:
    """The logged steps without what the clock says."""
    rows = map(json.loads, (trained(root, cell) / "metrics.jsonl").read_text().splitlines())
    return [{k: v for k, v in row.items() if k not in CLOCK} for row in rows]


def outcomes(root: Path, cell: str, monkeypatch) -> dict[str, dict]:
    """The per-item outcomes of a trained cell on SugarCrepe, by metric."""
    monkeypatch.chdir(root)
    assert evaluate_command.main(["--cell", cell]) == 0
    return json.loads((results(root, cell) / "sugarcrepe.json").read_text())["items"]


@pytest.mark.parametrize("method", ["finetune", "negclip", "clic", "fsc_clip", "c2lip", "hard_positives"])
def test_every_method_trains_and_logs_its_terms(here, method):
    """Weights change, all steps are logged once, and the total is the sum of the named terms."""
    cell = f"{method}-tiny-scenes-0"
    assert train_command.main(["--cell", cell]) == 0
    rows = log(here, cell)
    assert [r["step"] for r in rows] == list(range(1, 11))
    standard = {"step", "epoch", "samples", "loss", "lr", "logit_scale", "grad_norm"}
    for row in rows:
        assert row["loss"] == pytest.approx(sum(v for k, v in row.items() if k not in standard), rel=1e-6)
    assert fingerprint(here / "models" / "tiny" / WEIGHTS) != weights(here, cell)
    assert (trained(here, cell) / "config.yaml").is_file()


def test_pretrained_is_published_untouched(here):
    """The grid's first row has the backbone's own bits."""
    assert train_command.main(["--cell", "pretrained-tiny-scenes-0"]) == 0
    assert weights(here, "pretrained-tiny-scenes-0") == fingerprint(here / "models" / "tiny" / WEIGHTS)


KILL = """
import os, signal, sys
from compclip import checkpoint, files, optimiser, train
from tests.tiny_project import at, trained, results
count = 0
def deadly(original):
    def call(*args):
        global count
        count += 1
        if count == {at}:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*args)
    return call
{target} = deadly({target})
train.main(["--cell", "fsc_clip-tiny-scenes-0"])
"""


def killed(target: str, at: int) -> int:
    """Train in a process that kills itself at call number `at` of `target`; gives its exit status."""
    code = KILL.format(target=target, at=at)
    env = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(Path.home())}
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True).returncode


def test_killed_three_times_ends_with_the_same_bits(here, project, tmp_path, monkeypatch):
    """SIGKILL between steps, inside a checkpoint write (before its rename), and again between steps."""
    cell = "fsc_clip-tiny-scenes-0"
    whole = tmp_path / "whole"
    shutil.copytree(project, whole)
    monkeypatch.chdir(whole)
    train_command.main(["--cell", cell])
    monkeypatch.chdir(here)
    for target, at in (("optimiser.learning_rate", 4), ("os.fsync", 4), ("optimiser.clamp_scale", 3)):
        assert killed(target, at) == -signal.SIGKILL
        assert not (here / "runs").exists()
    assert list(here.glob("store/*/step_*.safetensors")), "nothing was saved: the kills came too early to test a resume"
    train_command.main(["--cell", cell])
    assert weights(here, cell) == weights(whole, cell)
    assert log(here, cell) == log(whole, cell)
    mine, undisturbed = outcomes(here, cell, monkeypatch), outcomes(whole, cell, monkeypatch)
    assert mine == undisturbed
    assert any(items["outcomes"] for items in mine.values())


def test_a_signal_saves_and_stops(here):
    """SIGTERM is answered between two steps: a checkpoint is written, the process says so, and resuming finishes."""
    code = KILL.replace("SIGKILL", "SIGTERM").format(target="optimiser.learning_rate", at=3)
    env = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(Path.home())}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert "stopped by a signal after step 3 of 10" in done.stderr
    assert [p.name for p in here.glob("store/*/step_*3.safetensors")] == ["step_00000003.safetensors"]
    assert train_command.main(["--cell", "fsc_clip-tiny-scenes-0"]) == 0
    assert len(log(here, "fsc_clip-tiny-scenes-0")) == 10


def test_a_finished_run_key_is_not_trained_again(here, monkeypatch):
    """The second time the files are published without a step."""
    cell = "finetune-tiny-scenes-0"
    train_command.main(["--cell", cell])
    first = weights(here, cell)
    shutil.rmtree(here / "runs")
    monkeypatch.setattr(loop, "train", None)
    train_command.main(["--cell", cell])
    assert weights(here, cell) == first


def test_full_disk_while_training(here, monkeypatch, capsys):
    """A checkpoint that cannot be written is one line; nothing is published; with space again the run finishes."""

    def full(_fd):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(UserError, match="No space left on device"):
            train_command.main(["--cell", "finetune-tiny-scenes-0"])
    assert not (here / "runs").exists()
    assert not list(here.rglob("*.tmp"))
    assert train_command.main(["--cell", "finetune-tiny-scenes-0"]) == 0


def test_unreadable_pictures_are_counted_and_replaced(here):
    """A truncated picture gives way to the next sample, and environment.json says how often."""
    (here / "world" / "train" / "000003.png").write_bytes(b"\x89PNG broken")
    train_command.main(["--cell", "finetune-tiny-scenes-0"])
    environment = json.loads((trained(here, "finetune-tiny-scenes-0") / "environment.json").read_text())
    assert environment["dropped"] == {"unreadable": 2}


def test_unknown_cell_and_missing_inputs(here):
    """A misspelt cell lists the nearest; a cell without data names the stage to run."""
    with pytest.raises(UserError, match="did you mean 'finetune-tiny-scenes-0'"):
        train_command.main(["--cell", "finetun-tiny-scenes-0"])
    shutil.rmtree(here / "models")
    with pytest.raises(UserError, match="dvc repro backbone"):
        train_command.main(["--cell", "finetune-tiny-scenes-0"])


def same(a, b) -> bool:
    """Whether two views have the same pixels and texts."""
    return np.array_equal(np.asarray(a.image), np.asarray(b.image)) and (
        a.caption,
        a.negatives,
        a.positives,
        a.concepts,
    ) == (b.caption, b.negatives, b.positives, b.concepts)


def two_captions(data: views.TrainSet) -> views.TrainSet:
    """The same pictures, each with the next one's caption as a second: something to draw for every method."""
    following = (*data.annotations[1:], data.annotations[0])
    return replace(data, annotations=tuple(a + b for a, b in zip(data.annotations, following, strict=True)))


@pytest.mark.parametrize("method", ["finetune", "negclip", "clic", "fsc_clip", "c2lip", "hard_positives"])
def test_a_view_depends_on_seed_epoch_and_sample_alone(here, method):
    """The same view in another batch, in another order of calls, from a fresh process state; another in another epoch."""
    publisher = at(f"{method}-tiny-scenes-0")
    module = plugins.find("compclip.methods", method)
    wanted = module.views(publisher.run.method, 0)
    data = two_captions(finish.train_set(Inputs(publisher.root, publisher.cell)))
    first, second = (views.Maker(data, 0, 64) for _ in range(2))
    forward = [first.view(i, 1, wanted) for i in range(12)]
    backward = [second.view(i, 1, wanted) for i in reversed(range(12))][::-1]
    assert all(map(same, forward, backward))
    other = [first.view(i, 2, wanted) for i in range(12)]
    assert not all(map(same, forward, other))
    for size in (4, 6):
        rows = views.Rows(first, size)
        seen = [v for step in range(rows.per_epoch) for v in rows.batch(step, wanted)[0]]
        order = views.order(len(data), 0, 0)
        assert all(same(v, first.view(int(i), 0, wanted)) for v, i in zip(seen, order, strict=False))


def test_a_composite_never_pairs_a_sample_with_itself(here):
    """Over many draws every other sample is met, the sample itself never."""
    maker = views.Maker(at("clic-tiny-scenes-0").train_set(), 0, 64)
    met = {maker._partner(3, np.random.default_rng(i)) for i in range(1000)}
    assert met == set(range(40)) - {3}


def test_the_caption_is_the_same_for_all_methods(here):
    """What a sample says in an epoch does not depend on the negatives that a method asks for."""
    publisher = at("finetune-tiny-scenes-0")
    maker = views.Maker(two_captions(finish.train_set(Inputs(publisher.root, publisher.cell))), 0, 64)
    asked = [
        plugins.find("compclip.methods", m).views(
            grid.resolve(read.load("params.yaml"), f"{m}-tiny-scenes-0").method, 0
        )
        for m in ("finetune", "negclip", "fsc_clip")
    ]
    for index in range(10):
        assert len({maker.view(index, 0, v).caption for v in asked}) == 1


def test_run_key_follows_what_matters(here):
    """Another number, seed or data gives another key; where it runs and how often it saves do not."""

    def key(*overrides, cell="fsc_clip-tiny-scenes-0"):
        return at(cell, *overrides).key

    base = key()
    assert key("train.checkpoint_every_steps=5") == base
    assert key("methods.negclip={}") == base
    changed = {
        key("train.lr=2e-3"),
        key("methods.fsc_clip.gamma=1"),
        key("train.threads=2"),
        key("grid.seeds=[1]", cell="fsc_clip-tiny-scenes-1"),
    }
    assert len(changed) == 4
    assert base not in changed


def test_loss_that_is_not_finite_stops(here):
    """A loss that explodes is named with its step and the learning rate."""
    with pytest.raises(UserError, match="the loss is nan at step .*lower train.lr"):
        train_command.main(
            ["--cell", "finetune-tiny-scenes-0", "train.lr=1e30", "train.grad_clip_norm=0", "train.warmup_steps=0"]
        )
