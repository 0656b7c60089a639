"""A method's stage scores finished runs of other methods in its pass; their stages find the results."""

import json

import pytest

from compclip.base import links
from compclip.evaluate import __main__ as evaluate_command
from compclip.evaluate import score
from compclip.model import weight_files
from tests import tiny_project

OTHERS = ("pretrained", "fsc_clip")


@pytest.fixture
def unscored(here_finished):
    """The finished project without results, planned, and the numbers that it had."""
    tiny_project.plan()
    numbers = {method: read_numbers(here_finished, method) for method in (*OTHERS, "finetune")}
    for folder in [*here_finished.glob("store/*/scores"), here_finished / "results"]:
        links.remove(folder)
    return here_finished, numbers


def read_numbers(root, method):
    path = tiny_project.results(root, tiny_project.cell(method)) / "sugarcrepe.json"
    result = json.loads(path.read_text())
    return result["metrics"], result["items"]


def test_one_pass_scores_all_and_the_others_find_it(unscored, monkeypatch, capsys):
    """The numbers are those of each by itself; only the stage's own method is published."""
    root, numbers = unscored
    passes, together = [], score._score_together

    def score_together(group, *how):
        passes.append(len(group))
        return together(group, *how)

    monkeypatch.setattr(score, "_score_together", score_together)
    assert evaluate_command.main(["--method", "finetune"]) == 0
    assert "finetune: 1 cell, 1 run scored; 2 of other methods in the same pass" in capsys.readouterr().out
    assert [path.name for path in (root / "results").iterdir()] == ["finetune"]
    for method in OTHERS:
        assert evaluate_command.main(["--method", method]) == 0
        assert f"{method}: 1 cell, 0 runs scored\n" in capsys.readouterr().out
    assert passes == [3]
    assert {method: read_numbers(root, method) for method in numbers} == numbers


def test_another_s_damaged_checkpoint_fails_its_own_stage_alone(unscored, capsys):
    """The stage ends well; the other one names its cell."""
    root, numbers = unscored
    checkpoint = tiny_project.at(tiny_project.cell("fsc_clip")).folder.final.checkpoint
    weights = weight_files.find_weights(checkpoint)
    weights.chmod(0o644)
    weights.write_bytes(b"no weights")
    assert evaluate_command.main(["--method", "finetune"]) == 0
    assert "1 of other methods in the same pass" in capsys.readouterr().out
    assert read_numbers(root, "finetune") == numbers["finetune"]
    assert evaluate_command.main(["--method", "fsc_clip"]) == 1
    assert "error: fsc_clip-tiny-scenes-0:" in capsys.readouterr().err


def test_a_pass_holds_so_many(monkeypatch, tmp_path):
    """Checkpoints that are fed alike are cut into passes by their number."""
    weights = tmp_path / "weights.safetensors"
    weights.write_bytes(b"x")
    monkeypatch.setattr(score, "_input_key", lambda ref: "alike")
    monkeypatch.setattr(score.weight_files, "find_weights", lambda folder: weights)
    groups = score.group_by_inputs([str(number) for number in range(35)], str)
    assert [len(group) for group in groups] == [16, 16, 3]
