"""A cell that is trained with other values than its file has, as to try some steps."""

from compclip.base.files import read_json
from compclip.train import __main__ as train_command
from tests import tiny_project


def test_a_trial_with_other_values_stays_in_the_store(here, capsys):
    """What was published is what it was, and the trial can be found by its key; equal values are the cell's run."""
    cell = "finetune-tiny-scenes-0"
    assert train_command.main(["--cell", cell, "train.max_steps=10"]) == 0  # as the file has it
    environment = tiny_project.trained(here, cell) / "environment.json"
    published = read_json(environment)
    assert train_command.main(["--cell", cell, "train.max_steps=1"]) == 0
    trial = tiny_project.at(cell, "train.max_steps=1")
    assert trial.folder.finished and trial.key in capsys.readouterr().out
    assert read_json(environment) == published and published["run_key"] == tiny_project.at(cell).key != trial.key
