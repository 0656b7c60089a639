"""The script that measures training runs as it is documented."""

import argparse

import pytest

from compclip.config import read
from perf.speed import throughput
from tests import tiny_project

ARGS = argparse.Namespace(model="tiny.json", methods=throughput.METHODS, batch=4, workers=0, threads=1, steps=6, pool=2)


@pytest.mark.long
def test_throughput_of_methods_that_read_lists(tmp_path):
    """`perf/speed/throughput.py` has what each of all methods asks of its data; one that reads every list trains."""
    tiny_project.write_json(tmp_path / "tiny.json", tiny_project.TINY)
    assert throughput.make(tmp_path, ARGS) > 0
    measured = throughput.measure(tmp_path, "clove", ARGS.batch)
    assert measured["speed"] > 0 and 0 <= measured["wait"] <= 1 and measured["loss"] > 0


def test_the_projects_of_the_scripts_have_what_every_method_asks(tmp_path):
    """Lists of negatives, pictures and regions: reading the parameters refuses a method whose data lack one."""
    throughput.write_params(tmp_path, ARGS)
    assert list(read.load_params(tmp_path / "params.yaml").grid.methods) == throughput.METHODS
