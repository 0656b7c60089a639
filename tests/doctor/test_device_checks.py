"""`compclip doctor --gpu --device cpu`: every check passes here, and notices the fault that it is for."""

import getpass
import json
from pathlib import Path

import pytest
import torch

from compclip.base.errors import UserError
from compclip.doctor import __main__ as doctor
from compclip.doctor import device_checks, gradient_accuracy
from compclip.doctor.check_rows import FAILED, OK, CheckRow, catch_errors
from compclip.interface.method import load_method

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


@pytest.mark.long
def test_every_check_of_a_cpu(tmp_path, monkeypatch, capsys):
    """One line each, exit code 0, and the same in the file, with versions and without who ran it."""
    user = "ada"
    monkeypatch.setattr(getpass, "getuser", lambda: user)
    home = tmp_path / user
    home.mkdir()
    monkeypatch.chdir(home)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(gradient_accuracy, "SMALL", TINY)
    monkeypatch.setattr(device_checks, "TIMED_S", 0.1)
    Path("larger.json").write_text(json.dumps(LARGER))
    monkeypatch.setattr(device_checks, "MODEL", str(home / "larger.json"))
    code = doctor.main(["--gpu", "--device", "cpu"])
    lines = capsys.readouterr().out.splitlines()
    assert code == 0, lines
    names = [line.split("  ")[0] for line in lines]
    for precision in ("float32", "bf16"):
        assert {f"gradients fsc_clip {precision}", f"2 processes fsc_clip {precision}"} <= set(names)
    (path,) = home.glob("compclip-doctor-*.json")
    report = json.loads(path.read_text())
    results = [row["result"].partition(":")[0] for row in report["checks"]]
    assert results == [OK] * (len(names) - 2)  # without the heads and the last line
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
    rows = list(gradient_accuracy.check_gradients(("finetune",), "cpu", TINY))
    assert states(rows) == {"gradients finetune float32": FAILED, "gradients finetune bf16": OK}


def test_a_loss_that_raises_leaves_the_others_alone(monkeypatch):
    def loss(f, cfg, step):
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr("compclip.methods.negclip.loss", loss)
    rows = list(gradient_accuracy.check_gradients(("negclip", "finetune"), "cpu", TINY))
    assert [row.state for row in rows] == [FAILED, OK, OK]
    assert "illegal memory access" in rows[0].reason


@pytest.mark.parametrize(
    ("method", "count", "seconds", "reason"),
    [("finetune", 2, 0.01, "no answer"), ("fine", 1, 300, "unknown method 'fine'")],
)
def test_processes_that_fail_or_do_not_answer(method, count, seconds, reason):
    job = {"methods": [method], "device": "cpu", "model_cfg": TINY}
    (row,) = gradient_accuracy.run_processes(job, count, seconds=seconds)
    assert row.state == FAILED and reason in row.reason


def test_an_error_is_a_row():
    def check():
        yield CheckRow("first")
        raise OSError("no space")

    assert [row.state for row in catch_errors("both", check())] == [OK, FAILED]


def test_checks_end_in_time_and_go_to_the_named_file(tmp_path, monkeypatch):
    """As a job of ten minutes on a borrowed GPU calls it."""
    monkeypatch.setattr(device_checks, "run_checks", lambda device, methods: map(CheckRow, methods))
    output = tmp_path / "found.json"
    doctor.main(["--gpu", "--device", "cpu", "--methods", "clic", "c2lip", "--minutes", "0", "--output", str(output)])
    assert [row["check"] for row in json.loads(output.read_text())["checks"]] == ["clic", "further checks"]
