"""`compclip doctor --gpu --device cpu`: every check passes here, and notices the fault that it is for."""

import getpass
import json
from pathlib import Path

import pytest
import torch

from compclip.base.errors import UserError
from compclip.doctor import __main__ as doctor
from compclip.doctor import device_checks, drawn_samples, full_step, gradient_accuracy
from compclip.doctor.check_rows import FAILED, OK, SKIPPED, CheckRow, TimeBudget, catch_errors
from compclip.interface.method import load_method
from compclip.train import checkpoint

TINY = {
    "embed_dim": 16,
    "vision_cfg": {"image_size": 32, "patch_size": 16, "width": 32, "layers": 1, "head_width": 16},
    "text_cfg": {"context_length": 32, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 1},
}
LARGER = {
    "embed_dim": 64,
    "vision_cfg": {"image_size": 64, "patch_size": 16, "width": 128, "layers": 2, "head_width": 64},
    "text_cfg": {"context_length": 77, "vocab_size": 4096, "width": 128, "heads": 2, "layers": 2},
}
HOUR = 3600.0


@pytest.mark.long
def test_every_check_of_a_cpu(tmp_path, monkeypatch, capsys):
    """One line each, exit code 0, and the same in the file, with versions and without who ran it."""
    user = "ada"
    monkeypatch.setattr(getpass, "getuser", lambda: user)
    home = tmp_path / user
    home.mkdir()
    monkeypatch.chdir(home)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(drawn_samples, "SMALL", TINY)
    monkeypatch.setattr(full_step, "TOLERANCE", 1.0)  # of a model as small as this one libraries take their share
    monkeypatch.setattr(full_step, "LONGEST_S", 0.1)
    Path("larger.json").write_text(json.dumps(LARGER))
    argv = ["--gpu", "--device", "cpu", "--minutes", "60", "--methods", "clic"]
    code = doctor.main([*argv, "--model", str(home / "larger.json")])
    lines = capsys.readouterr().out.splitlines()
    assert code == 0, lines
    names = [line.split("  ")[0] for line in lines]
    assert names[1:5] == ["reading", "decoding", "scaling", "copying to the device"]
    for precision in ("float32", "bf16"):
        assert {f"gradients clic {precision}", f"2 processes clic {precision}"} <= set(names)
    assert {"resumed finetune deterministic", "resumed degla"} <= set(names)
    (path,) = home.glob("compclip-doctor-*.json")
    report = json.loads(path.read_text())
    assert [row["result"].partition(":")[0] for row in report["checks"]].count(OK) == len(names) - 3
    assert report["environment"]["packages"]["torch"] and report["environment"]["cards"] == []
    assert user not in path.read_text() and str(tmp_path) not in path.read_text()


def test_without_a_gpu_one_line_says_what_has_to_fit(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UserError, match="sees no GPU: driver .*built .*CUDA_VISIBLE_DEVICES.*--device cpu"):
        doctor.main(["--gpu"])


def states(rows) -> dict[str, str]:
    return {row.name: row.state for row in rows}


def test_a_step_that_errs_in_float32_fails(monkeypatch):
    """An error of the size of a product in TF32, which only float32 has: bf16 may err so far."""
    plain = load_method("finetune").loss

    def loss(f, cfg, step):
        error = 1e-3 if f.image_BD.dtype == torch.float32 else 0.0
        return {name: (1 + error) * term for name, term in plain(f, cfg, step).items()}

    monkeypatch.setattr("compclip.methods.finetune.loss", loss)
    rows = list(gradient_accuracy.check_gradients(("finetune",), "cpu", TINY, TimeBudget(HOUR), 1.0))
    assert states(rows) == {"gradients finetune float32": FAILED, "gradients finetune bf16": OK}


def test_a_loss_that_raises_leaves_the_others_alone(monkeypatch):
    def loss(f, cfg, step):
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr("compclip.methods.negclip.loss", loss)
    rows = list(gradient_accuracy.check_gradients(("negclip", "finetune"), "cpu", TINY, TimeBudget(HOUR), 1.0))
    assert [row.state for row in rows] == [FAILED, OK, OK]
    assert "illegal memory access" in rows[0].reason


def test_a_resume_without_the_optimisers_state_fails(monkeypatch):
    restore = checkpoint._restore

    def forget_moments(tensors, *arguments):
        restore({name: value for name, value in tensors.items() if not name.startswith("exp_avg.")}, *arguments)

    monkeypatch.setattr(checkpoint, "_restore", forget_moments)
    rows = list(device_checks.check_resumed(("finetune",), "cpu", TINY, TimeBudget(HOUR), 1.0))
    assert {row.state for row in rows} == {FAILED}


@pytest.mark.long
def test_a_checkpoint_that_cannot_be_read_fails(monkeypatch):
    """The run that begins anew ends with the same bits, and was not resumed."""

    def refuse(*arguments):
        raise RuntimeError("Expected all tensors to be on the same device")

    monkeypatch.setattr(checkpoint, "_read_file", refuse)
    rows = list(device_checks.check_resumed(("finetune",), "cpu", TINY, TimeBudget(HOUR), 1.0))
    assert {(row.state, row.value) for row in rows} == {(FAILED, "began at step 0")}


def test_what_kernels_do_in_another_order_is_expected():
    """Weights that are a thousandth of their way apart: not where bits must be equal."""
    start, through, resumed = ({"w": torch.tensor([x])} for x in (0.0, 1.0, 1.001))
    row = device_checks.judge_difference("resumed", through, resumed, start, exact=False)
    assert row.state == OK and "expected without train.deterministic" in row.value
    assert device_checks.judge_difference("resumed", through, resumed, start, exact=True).state == FAILED
    far = {"w": torch.tensor([1.5])}
    assert device_checks.judge_difference("resumed", through, far, start, exact=False).state == FAILED


def test_processes_that_do_not_answer_are_ended():
    job = {"methods": ["finetune"], "device": "cpu", "model_cfg": TINY, "until": [1e9, 1e9]}
    (row,) = gradient_accuracy.run_processes(job, 2, seconds=0.01)
    assert row.state == FAILED and "no answer" in row.reason


TALKATIVE = """#!/bin/sh
if [ $RANK = 0 ]; then
    until [ -e told ]; do sleep 0.02; done
    echo "n1:7:7 [0] NCCL INFO Bootstrap"
    echo '{"method": "clic", "precision": "float32", "errors": [0.0, 0.0]}'
else
    seq 100000
    touch told
fi
"""


def test_processes_that_say_much(tmp_path, monkeypatch):
    """As with NCCL_DEBUG=INFO: the second one tells more than a pipe holds, and the first waits for it."""
    monkeypatch.chdir(tmp_path)
    Path("python").write_text(TALKATIVE)
    Path("python").chmod(0o755)
    monkeypatch.setattr(gradient_accuracy.sys, "executable", str(tmp_path / "python"))
    (row,) = gradient_accuracy.run_processes({"device": "cpu"}, 2, seconds=30)
    assert (row.state, row.name) == (OK, "2 processes clic float32"), row.reason


def test_a_process_that_fails_says_why():
    job = {"methods": ["fine"], "device": "cpu", "model_cfg": TINY, "until": [1e9, 1e9]}
    (row,) = gradient_accuracy.run_processes(job, 1, HOUR)
    assert row.state == FAILED and "unknown method 'fine'" in row.reason


def test_what_is_not_reached_is_skipped():
    now = [0.0]
    budget = TimeBudget(100, clock=lambda: now[0])
    assert budget.seconds_left(0.5) == 50
    now[0] = 60.0
    checks = [
        *gradient_accuracy.check_gradients(("finetune",), "cpu", TINY, budget, 0.5),
        *device_checks.check_resumed(("finetune",), "cpu", TINY, budget, 0.5),
        *gradient_accuracy.check_processes(("finetune",), "cpu", TINY, budget, 0.5),
        *full_step.check_step(full_step.StepJob("finetune", "ViT-B-32", 8), "cpu", budget, 0.5),
    ]
    assert {row.state for row in checks} == {SKIPPED} and len(checks) == 5


def test_a_prediction_that_takes_too_long_is_skipped():
    job = full_step.StepJob("finetune", "ViT-B-32", 8)
    (row,) = full_step.check_step(job, "cpu", TimeBudget(0.05), 1.0)
    assert row.state == SKIPPED and "--minutes" in row.reason


def test_an_error_is_a_row():
    def check():
        yield CheckRow("first")
        raise OSError("no space")

    assert [row.state for row in catch_errors("both", check)] == [OK, FAILED]
