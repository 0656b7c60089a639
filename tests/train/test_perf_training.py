"""The script that measures training runs as it is documented."""

from __future__ import annotations

import argparse

import pytest

from compclip.base.errors import UserError
from compclip.config import read
from perf import throughput
from tests import tiny_project


@pytest.mark.long
def test_throughput_of_methods_that_read_lists(tmp_path):
    """`perf/throughput.py` has what each of all methods asks of its data; one that reads every list trains."""
    tiny_project.write_json(tmp_path / "tiny.json", tiny_project.TINY)
    args = argparse.Namespace(
        model="tiny.json", methods=throughput.METHODS, batch=4, workers=0, threads=1, steps=6, pool=2
    )
    assert throughput.make(tmp_path, args) > 0
    measured = throughput.measure(tmp_path, "clove", args.batch)
    assert measured["speed"] > 0 and 0 <= measured["wait"] <= 1 and measured["loss"] > 0


def test_the_projects_of_the_scripts_have_what_every_method_asks(tmp_path):
    """Lists of negatives, pictures and regions: reading the parameters refuses a method whose data lack one."""
    args = argparse.Namespace(
        model="tiny.json", methods=throughput.METHODS, batch=4, workers=0, threads=1, steps=6, pool=2
    )
    throughput.write_params(tmp_path, args)
    assert list(read.load_params(tmp_path / "params.yaml").grid.methods) == throughput.METHODS


def test_a_method_that_fails_leaves_the_others_alone(monkeypatch, capsys):
    measured = {"speed": 10.0, "share": 0.1, "wait": 0.2, "loss": 3.0, "peak_mib": 0}

    def measure(root, method, batch):
        if method == "clove":
            raise UserError("methods.clove: no such words")
        return measured

    monkeypatch.setattr(throughput, "make", lambda root, args: 100.0)
    monkeypatch.setattr(throughput, "measure", measure)
    assert throughput.main(["--methods", "clove", "finetune"]) == 1
    *_, failed, done = capsys.readouterr().out.splitlines()
    assert "no such words" in failed and done.split()[:2] == ["finetune", "10.0"]
