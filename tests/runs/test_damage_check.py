"""Bytes that a disk changed are noticed wherever weights are read, named by `runs check`, and made again."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from compclip.base import files, links
from compclip.base.errors import UserError
from compclip.base.safe_names import SafeName
from compclip.config import read
from compclip.evaluate import __main__ as evaluate_command
from compclip.evaluate import result_store
from compclip.model import backbone
from compclip.report import __main__ as report_command
from compclip.runs import __main__ as runs_command
from compclip.runs import jobs, run_folder, run_store
from compclip.train import __main__ as train_command
from compclip.train import checkpoint
from tests import checkpoint_files, tiny_project


def damage(path, at=-64):
    """Change bytes of a file as a bad disk does: its size and its times stay."""
    status = path.stat()
    path.chmod(0o644)
    content = bytearray(path.read_bytes())
    content[at] ^= 0xFF
    with open(path, "r+b") as file:  # in place: every link shows it
        file.write(content)
    path.chmod(status.st_mode)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    files._hash_stamped.cache_clear()  # who reads it next is another process


@pytest.fixture
def weights(here_finished):
    """The weights of a finished run, of which one byte is another now."""
    path = tiny_project.at(tiny_project.cell("finetune")).folder.final.weights
    damage(path)
    return path


def test_damaged_weights_are_not_scored(weights):
    """Nor opened for anything else: averaged, published, registered."""
    with pytest.raises(UserError, match="damaged since its training"):
        backbone.load(weights.parent)
    with pytest.raises(UserError, match="damaged since its training"):
        evaluate_command.main(["--checkpoint", str(weights.parent), "--benchmarks", "sugarcrepe"])


def test_damaged_weights_are_named_dropped_and_made_again(weights, capsys):
    """The run goes with its published folder, so that nobody takes it for finished."""
    root, key = weights.parents[4], weights.parents[2].name
    shared = weights.with_name("open_clip_config.json")  # runs link the files that they share with their backbone
    other = tiny_project.at(tiny_project.cell("fsc_clip")).folder.final.checkpoint / shared.name
    other.unlink()
    os.link(shared, other)
    assert runs_command.main(["check"]) == 1
    assert f"{weights.parent}: its weights are not those that were trained" in capsys.readouterr().out
    assert weights.is_file()
    assert runs_command.main(["check", "--drop"]) == 1
    assert not (root / "store" / key).exists()
    assert not (root / "runs" / "finetune" / "tiny-scenes-0").exists()
    assert len(list((root / "runs" / "fsc_clip" / "tiny-scenes-0" / "checkpoint").iterdir())) > 1
    capsys.readouterr()
    assert runs_command.main(["check"]) == 0
    assert "nothing is damaged" in capsys.readouterr().out


@pytest.mark.parametrize(("pattern", "where"), [
    ("store/*/scores/*/sugarcrepe.json", "scores"),
    ("data/scenes/shards/00000.arrow", "not the file that manifest.json lists"),
    ("data/scenes/nouns.arrow", "not the file that manifest.json lists"),
    ("models/tiny/open_clip_model.safetensors", "not the file that .checksums.json lists"),
])  # fmt: skip
def test_other_files_are_named(here_finished, pattern, where, capsys):
    path = next(iter(sorted(here_finished.glob(pattern))))
    damage(path, at=len(path.read_bytes()) // 2)
    assert runs_command.main(["check"]) == 1
    assert where in capsys.readouterr().out
    assert runs_command.main(["check", "--drop"]) == 1
    assert not path.exists()


def change_digit(path):
    """Change a digit of a file so that it stays JSON, each line of it too."""
    text = path.read_text()
    at = text.index(": 0.") + len(": 0.")
    damage(path, at=at)
    path.chmod(0o644)
    with open(path, "r+") as file:
        file.write(text[:at] + ("1" if text[at] != "1" else "2") + text[at + 1 :])
    assert path.read_text() != text and len(path.read_text()) == len(text)


@pytest.mark.parametrize("name", ["sugarcrepe.json", "summary.json"])
def test_a_changed_digit_of_a_result_is_named_and_made_again(here_finished, name, capsys):
    """Whoever compares or chooses reads no other number than the one that was measured."""
    tiny_project.plan()
    path = here_finished / "results/finetune/tiny-scenes-0" / name
    change_digit(path)
    assert runs_command.main(["check"]) == 1
    assert f"{name}: missing, or not the file that .checksums.json lists" in capsys.readouterr().out
    if name == "sugarcrepe.json":
        with pytest.raises(UserError, match=f"finetune/tiny-scenes-0/{name}: damaged: not what was written"):
            report_command.main([])
    run = tiny_project.at(tiny_project.cell("finetune"))
    links.link_or_copy(path, next(run.folder.path.glob(f"scores/*/{name}")))
    if name == "sugarcrepe.json":
        with pytest.raises(UserError, match=f"{name}: damaged: not what was written"):
            evaluate_command.main(["--cell", run.cell.name])
    else:
        task = result_store.task_from_params(read.load_params("params.yaml"))
        with pytest.raises(UserError, match=f"{name}: damaged: not what was written"):
            result_store.find_metrics(task, run.cell)
    assert runs_command.main(["check", "--drop"]) == 1
    assert not path.exists()
    tiny_project.collect(tiny_project.cell("finetune"))
    assert path.is_file()
    assert runs_command.main(["check"]) == 0
    assert report_command.main([]) == 0


def test_a_changed_digit_of_a_curve_is_named_and_brought_back(here_finished, capsys):
    """The line has the command that copies what the training wrote; without a copy the run is trained again."""
    published = here_finished / "runs/finetune/tiny-scenes-0/metrics.jsonl"
    path = tiny_project.at(tiny_project.cell("finetune")).folder.final.metrics
    published.unlink()
    os.link(path, published)
    before = path.read_bytes()
    change_digit(path)
    with pytest.raises(UserError, match="tiny-scenes-0/metrics.jsonl: damaged: not what the training wrote"):
        report_command.main([])
    assert runs_command.main(["check", "--drop"]) == 1
    command = re.search(r"`(cp \S+ \S+)` brings it back", capsys.readouterr().out)[1]
    subprocess.run(command.split(), check=True)
    assert path.read_bytes() == before
    assert runs_command.main(["check"]) == 0
    change_digit(path)
    tiny_project.at(tiny_project.cell("finetune")).folder.metrics.unlink()
    assert runs_command.main(["check", "--drop"]) == 1
    assert not path.exists()


INPUTS = ("data/scenes/shards/00000.arrow", "data/scenes/nouns.arrow", "models/tiny/open_clip_model.safetensors")


@pytest.mark.parametrize("name", INPUTS)
def test_nothing_is_trained_on_damaged_inputs(here, name):
    """Nor kept under the key of whole ones; the line names the file, and what brings it back."""
    tiny_project.plan()
    damage(here / name, at=len((here / name).read_bytes()) // 2)
    with pytest.raises(UserError, match=f"{name}: damaged: .*makes it again"):
        train_command.main(["--cell", tiny_project.cell("finetune")])
    assert not list(here.glob("store/*/final/environment.json"))
    assert not (here / "runs").exists()


def test_a_job_of_a_damaged_backbone_says_which_file(here):
    """A job that was sent before works out its key anew, and so finds it."""
    run = tiny_project.at(tiny_project.cell("finetune"))
    jobs.write_inputs(run, "params.yaml")
    damage(here / INPUTS[2])
    with pytest.raises(UserError, match=f"{INPUTS[2]}: damaged"):
        run_store.load_sent_run(run.key)


def test_captions_of_a_damaged_shard_are_not_read(here):
    """For blind rows, an audit of texts, and neighbours."""
    from compclip.audit import rule_audit
    from compclip.evaluate import blind_rows
    from compclip.train import neighbours

    damage(here / INPUTS[0])
    readers = (
        lambda: blind_rows.read_prepared_captions(Path("data/scenes")),
        lambda: rule_audit.audit_data(read.load_params("params.yaml"), "scenes", ["finetune"], Path("."), 4),
        lambda: neighbours.write_missing([(SafeName("scenes", "data"), SafeName("tiny", "backbone"))], "code"),
    )
    for reader in readers:
        with pytest.raises(UserError, match=f"{INPUTS[0]}: damaged"):
            reader()


def test_a_damaged_backbone_is_not_scored(here):
    """Whoever loads its folder compares it, as a run's."""
    damage(here / INPUTS[2])
    with pytest.raises(UserError, match=f"{INPUTS[2]}: damaged"):
        evaluate_command.main(["--checkpoint", "models/tiny", "--benchmarks", "sugarcrepe"])


def test_checksums_are_no_part_of_a_key(here):
    """A backbone of before there were checksums has the same key."""
    key = tiny_project.at(tiny_project.cell("finetune")).key
    (here / "models/tiny" / files.CHECKSUMS).unlink()
    assert tiny_project.at(tiny_project.cell("finetune")).key == key


def test_a_checkpoint_with_other_bytes_gives_way_to_the_one_before(tmp_path, capsys):
    """Whichever byte it is: a training goes on from the last whole one."""
    import torch

    model = torch.nn.Linear(4, 4)
    adamw = torch.optim.AdamW(model.parameters())
    for step in (1, 2):
        path = checkpoint_files.write(tmp_path, step, model, adamw, {"seed": 0})
        run_folder.check_file(path)
    assert checkpoint.read(tmp_path, model, adamw)["step"] == 2
    damage(path)
    with pytest.raises(ValueError, match="not those that were written"):
        run_folder.check_file(path)
    assert checkpoint.read(tmp_path, model, adamw)["step"] == 1
    assert "step_00000002" in capsys.readouterr().err
