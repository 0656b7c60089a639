"""Several processes a run equal one process with the whole batch; gradient caching equals the plain batch."""

import json
import math
import os
import shutil
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from compclip.base.errors import UserError
from compclip.interface.method import load_method
from compclip.train import __main__ as train_command
from compclip.train import distributed, process_group
from tests import distributed_check, tiny_project
from tests.conftest import ROOT
from tests.distributed_check import BFLOAT16_CASES, CASES, FROZEN_CASES, IN_EVERY_KIND, NAMES, run, run_whole_batch
from tests.forked_commands import ForkedPopen
from tests.tiny_project import cell, environment, steps, trained, wait_for


def two(*command: str, cwd: Path) -> list[subprocess.Popen]:
    """The same command as two processes of one run."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    common = {**environment(), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    return [ForkedPopen([sys.executable, *command], cwd=cwd, text=True, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, stdin=subprocess.PIPE, env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)})
            for rank in range(2)]  # fmt: skip


def communicate(both: list[subprocess.Popen], timeout_s: float) -> list[tuple[str, str]]:
    """What both say, read at the same time: one whose pipe is full would wait, and the other for it."""
    with ThreadPoolExecutor(len(both)) as readers:
        return list(readers.map(lambda process: process.communicate(timeout=timeout_s), both))


def lines_of_two(module: str) -> list[list]:
    """What each of two processes prints as JSON, line by line."""
    both = two("-m", module, cwd=ROOT)
    outputs = communicate(both, 240)
    assert [process.returncode for process in both] == [0, 0], outputs
    return [[json.loads(line) for line in output.splitlines()] for output, _ in outputs]


@pytest.fixture(scope="module")
def compared():
    """What each of two processes found, by case."""
    distributed_check.run_whole_bfloat16()
    for case in FROZEN_CASES:
        run_whole_batch(*case)
    return lines_of_two("tests.distributed_check")


@pytest.mark.parametrize("case", range(len(CASES)), ids=NAMES)
def test_two_processes_equal_one(compared, case):
    """Every term and gradient to 1e-10 in float64, on both processes, plain, and cached with frozen towers."""
    for process_rows in compared:
        mine = [f for f in process_rows if f["case"] == case]
        assert len(mine) == (5 if CASES[case][0] in IN_EVERY_KIND else 2)
        for f in mine:
            assert f["terms"] < 1e-10 and f["gradients"] < 1e-10 and f["one_sided"] == []
            assert f["compared"] > 10 or f["frozen"]


@pytest.mark.parametrize("case", range(len(CASES)), ids=NAMES)
def test_patches_and_tokens_stay_with_their_process(compared, case):
    """What is gathered of a sample has no patches (4 of 16 numbers) and no tokens (12): texts of 16 numbers at most.

    But for methods that ask for all samples' patches: they do without `own_tokens`.
    """
    name, changes, number = CASES[case]
    method = load_method(name)
    views = method.views(method.Config(**changes), number)
    texts = max(views.negative_texts, views.positive_texts + 1, views.negative_images)
    if views.regions:
        texts = max(texts, views.regions.count * views.regions.texts)
    if views.tokens and not views.own_tokens:
        assert name in ("codebook_clip", "flair", "il_clip", "llip", "superclip")
        return
    for process_rows in compared:
        assert max(f["largest_row"] for f in process_rows if f["case"] == case) <= 16 * texts


@pytest.mark.parametrize(
    ("case", "frozen"), FROZEN_CASES, ids=[f"{NAMES[case]}-{'-'.join(frozen)}" for case, frozen in FROZEN_CASES]
)
def test_gradient_caching_equals_the_plain_batch(case, frozen):
    """Four images at a time, of six, one where nothing is frozen: the same terms and gradients to 1e-10 in float64."""
    for micro in (1, 4) if CASES[case][0] in IN_EVERY_KIND else (4,) if frozen else (1,):
        distributed_check.assert_equal(run_whole_batch(case, frozen), run(CASES[case], None, frozen, micro))


@pytest.mark.parametrize("case", BFLOAT16_CASES, ids=[NAMES[case] for case in BFLOAT16_CASES])
def test_two_processes_equal_one_in_bfloat16(compared, case):
    """Terms to 2^-8, bfloat16's precision; each gradient to 2^-5 of its norm, at most 0.013 when this was written.

    A process rounds the slopes of its rows to bfloat16, one process those of all rows.
    """
    (differences,) = (row for row in compared[0] if row["case"] == f"bfloat16 {case}")
    assert differences["one_sided"] == []
    assert differences["relative_terms"] < 2**-8
    assert 0 < differences["relative_gradients"] < 2**-5


def test_a_gradient_that_overflows_on_one_process_is_left_out_on_both(compared):
    """The first process, whose own slopes are finite, skips the step and halves the factor; the next one is taken."""
    first, second = compared[0][-1]["steps"]
    assert math.isinf(first.pop("norm")) and 0 < second.pop("norm") < 100
    assert first == {"moved": 0, "factor": 32768.0, "steps_in_turn": 0, "skipped_steps": 1}
    assert second.pop("moved") > 20 and second == {"factor": 32768.0, "steps_in_turn": 1, "skipped_steps": 1}


def test_sums_that_start_in_the_backward_pass_have_the_bits_of_later_ones(compared):
    """Plain and cached, trained whole and by adapters: gradients equal those of one message each after the pass."""
    for process_rows in compared:
        sums = [f for f in process_rows if f["case"] == "sums"]
        assert len(sums) == 2 * 2 * 2
        assert all(f["equal"] and f["started_in_backward"] >= 2 for f in sums)


def test_the_comparison_can_fail():
    """Another batch has other gradients: the differences above are not zero by construction."""
    a, b = (run(CASES[0], rows, frozenset()) for rows in ((0, 3), (3, 6)))
    differences = distributed_check.difference(a, b)
    assert differences["gradients"] > 1e-3 and differences["relative_gradients"] > 0.1


@pytest.fixture(scope="module")
def project(project, tmp_path_factory):
    """All that a run of 24 steps needs."""
    return tiny_project.other(project, tmp_path_factory.mktemp("distributed") / "project", 24)


def test_a_cell_on_two_processes(here, tmp_path, monkeypatch):
    """The command itself, stopped by a signal to the second process, and started again: one log, as of one process.

    Both differ in rounding alone.
    """
    name, alone = cell("fsc_clip"), shutil.copytree(here, tmp_path / "alone")
    both = two("-m", "compclip.train", "--cell", name, cwd=here)
    wait_for(lambda: any(len(steps(p)) >= 4 for p in here.glob("store/*/metrics.jsonl")) or both[0].poll() is not None)
    both[1].send_signal(signal.SIGTERM)
    errors = [error for _, error in communicate(both, 120)]
    assert all("stopped by a signal after step" in text for text in errors), errors
    assert not (here / "runs").exists()
    again = two("-m", "compclip.train", "--cell", name, cwd=here)
    assert [p.wait(timeout=120) for p in again] == [0, 0]
    [work] = here.glob("store/*/final")
    facts = json.loads((work / "environment.json").read_text())
    assert facts["processes"] == 2
    assert facts["device_seconds"] > 2 * facts["seconds"]  # both devices, and the life before the signal
    monkeypatch.chdir(alone)
    assert train_command.main(["--cell", name]) == 0
    logs = [steps(trained(root, name) / "metrics.jsonl") for root in (here, alone)]
    for row, other in zip(*logs, strict=True):
        assert row == pytest.approx(other, rel=2e-3, abs=1e-5)


def test_a_batch_that_cannot_be_shared(here, monkeypatch):
    """The line names the batch size and the processes."""
    monkeypatch.setattr(distributed, "current_process", lambda: distributed.Process(0, 3))
    with pytest.raises(UserError, match="batch_size=8: not a multiple of the 3 processes"):
        train_command.main(["--cell", cell("finetune")])


def test_worker_processes_change_no_bit(here, tmp_path, monkeypatch):
    """Batches made ahead by two processes: the same weights, and pictures that cannot be read are counted as before."""

    def counted(root: Path) -> dict:
        return json.loads((trained(root, name) / "environment.json").read_text())["dropped"]

    name = cell("fsc_clip")
    (here / "world" / "train" / "000003.png").write_bytes(b"\x89PNG broken")
    shutil.copytree(here, tmp_path / "serial")
    assert train_command.main(["--cell", name, "train.workers=2"]) == 0
    monkeypatch.chdir(tmp_path / "serial")
    assert train_command.main(["--cell", name]) == 0
    weights = [trained(root, name) / "checkpoint" / "open_clip_model.safetensors" for root in (here, Path("."))]
    assert weights[0].read_bytes() == weights[1].read_bytes()
    assert counted(here) == counted(Path(".")) != {}


@pytest.mark.parametrize(("variables", "expected"), [
    ({}, (0, 1, 0)),
    ({"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1"}, (3, 8, 1)),
    ({"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "2", "SLURM_LOCALID": "0"}, (2, 4, 0)),
    ({"SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0", "SLURM_LOCALID": "0"}, (0, 1, 0)),
    ({"SLURM_NTASKS": "4", "SLURM_PROCID": "0"}, (0, 1, 0)),
])  # fmt: skip
def test_process(monkeypatch, variables, expected):
    """torchrun's variables before SLURM's; an allocation without srun is one process."""
    for name in list(os.environ):
        if name.startswith("SLURM_") or name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
            monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    here = process_group.read_process()
    assert (here.rank, here.world, here.local_rank) == expected


@pytest.mark.parametrize(("nodes", "first"), [("gpu03", "gpu03"), ("a1,a2", "a1"), ("gpu[03-05,9],cpu1", "gpu03"),
                                              ("n[7],m", "n7")])  # fmt: skip
def test_first_host(nodes, first, monkeypatch):
    """Without SLURM's own command at hand."""
    monkeypatch.setenv("PATH", "")
    assert process_group._first_host(nodes) == first


def test_gradients_of_two_types_are_summed(tmp_path):
    """Weights in bfloat16 beside norms in float32: each gradient keeps the type of its parameter."""
    module = torch.nn.ModuleDict({"narrow": torch.nn.Linear(2, 2).bfloat16(), "wide": torch.nn.LayerNorm(2)})
    before = {}
    for name, parameter in module.named_parameters():
        parameter.grad = torch.full_like(parameter, 0.3)
        before[name] = parameter.grad.clone()
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1)
    try:
        distributed.GradientSums(module).finish()
    finally:
        dist.destroy_process_group()
    for name, parameter in module.named_parameters():
        assert parameter.grad.dtype == parameter.dtype and torch.equal(parameter.grad, before[name])


def test_what_the_host_decides_by_travels_by_the_host():
    """Beside a default group that delivers nothing, as NCCL's without its GPUs: no such message goes by it.

    No thread of the host's group is left for the end of Python, where one that holds a tensor aborts the process.
    """
    expected = {"flags": [True, False, True], "first": "of 0", "objects": [{"rank": 0}, {"rank": 1}],
                "numbers": [[0, 1], [7, 7]]}  # fmt: skip
    assert lines_of_two("tests.host_group_check") == [[expected, []]] * 2
