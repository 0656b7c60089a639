"""Every program of `perf/` at its smallest size, or why not."""

import runpy
import sys
from pathlib import Path

import pytest

from perf.__main__ import list_programs, read_program
from tests.conftest import ROOT

CAPTIONS = (
    "a black dog runs on the beach",
    "two men sit at a red table",
    "a girl and a boy hold a green kite",
    "a cat sleeps on a wooden chair",
)
SMALLEST = {  # run here: its words
    "perf.speed.table_sources": "--rows 50 --pictures 3",
    "perf.speed.text_rules": "CAPTIONS --rounds 1",
    "perf.truth.rule_rates": "",
    "perf.truth.text_defects": "CAPTIONS",
    "perf.truth.text_shares": "CAPTIONS --draws 1",
}
ELSEWHERE = {  # run by another test
    "perf.completion_table": "tests/pipeline/test_commands.py compares what it would write",
    "perf.faults.delimited_files": "tests/pipeline/test_fuzz_programs.py: 60 files",
    "perf.faults.first_hour": "tests/perf/test_first_hour.py plays a page of its own",
    "perf.faults.hostile_files": "tests/pipeline/test_fuzz_programs.py: two of each kind",
    "perf.faults.interrupted": "tests/pipeline/test_kills.py: four kills",
    "perf.faults.kills": "tests/pipeline/test_kills.py: five kills, long",
    "perf.faults.long_captions": "tests/pipeline/test_fuzz_programs.py: to 1,000 words",
    "perf.faults.made_inputs": "tests/pipeline/test_fuzz.py: 200 inputs",
    "perf.faults.own_files": "tests/pipeline/test_fuzz.py: four edits",
    "perf.faults.seeded_faults": "tests/perf/test_seeded_faults.py: each fault has its line",
    "perf.speed.architectures": "tests/pipeline/test_architectures.py, long",
    "perf.speed.throughput": "tests/train/test_perf_training.py, long",
    "perf.truth.as_released": "tests/config/test_as_released.py",
    "perf.truth.coverage": "tests/report/test_coverage_of_pictures.py",
    "perf.truth.published_coverage": "tests/perf/test_published_coverage.py",
    "perf.truth.released_losses": "tests/methods/test_released_losses.py, of open_clip's losses",
    "perf.truth.released_steps": "tests/perf/test_released_steps.py, but for the programs",
    "perf.truth.towers": "tests/train/test_towers.py: a few cells",
}
NOT_RUN = {  # and why
    "perf.faults.own_starts": "two minutes a form; tests/begin has each form without a training",
    "perf.faults.same_runs": "needs two folders of trained runs",
    "perf.numbers": "two minutes: every method trains twice; a release runs it",
    "perf.speed.annotation": "its verdict is a ratio of times, which busy cores decide",
    "perf.speed.balanced_negatives": "needs a prepared data set; tests/prepare has the balance",
    "perf.speed.cells": "half a minute of `dvc repro` at any size; tests/pipeline has the commands",
    "perf.speed.checkpoint_stall": "needs a full-size model and gigabytes; tests/train has the saving thread",
    "perf.speed.data_scale": "analyses a whole shard before it makes the others of it: minutes",
    "perf.speed.evaluate": "needs others' programs and their files",
    "perf.speed.growth": "its verdict is a ratio of times, which busy cores decide",
    "perf.speed.loader": "needs photographs; tests/train has the loader",
    "perf.speed.predicted_memory": "takes gigabytes; tests/fake_device has the prediction",
    "perf.speed.text_groups": "needs photographs; tests/train has the groups",
    "perf.truth.published_formats": "needs a full-size model; tests/publish compares a tiny one",
}


def test_each_program_is_run_or_says_why_not():
    names = [*SMALLEST, *ELSEWHERE, *NOT_RUN]
    assert sorted(names) == sorted(program.name for program in list_programs())
    for where in ELSEWHERE.values():
        path = ROOT / where.partition(":")[0].partition(",")[0].split()[0]
        assert path.is_file()


@pytest.mark.parametrize("name", SMALLEST)
def test_the_smallest_size_ends_well(tmp_path, monkeypatch, capsys, name):
    captions = tmp_path / "captions.txt"
    captions.write_text("\n".join(CAPTIONS))
    words = SMALLEST[name].replace("CAPTIONS", str(captions)).split()
    monkeypatch.setattr(sys, "argv", [name, *words])
    monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.raises(SystemExit) as ended:
        runpy.run_module(name, run_name="__main__")
    assert not ended.value.code
    assert capsys.readouterr().out.strip()


def test_the_page_has_every_program():
    """One row each, in the room's table; those beside the rooms have sentences."""
    text = (ROOT / "perf" / "README.md").read_text(encoding="utf-8")
    rows = {line.split("`")[1] for line in text.splitlines() if line.startswith("| `")}
    assert rows | {"numbers", "completion_table"} == {program.name.rpartition(".")[2] for program in list_programs()}


def test_a_program_without_its_costs_is_named(tmp_path):
    path = tmp_path / "new.py"
    path.write_text('"""Something new."""\n\nif __name__ == "__main__":\n    pass\n')
    with pytest.raises(ValueError, match=r"new\.py: its docstring does not end with"):
        read_program(Path(path))
