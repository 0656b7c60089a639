"""The scripts that measure training run as they are documented."""

from __future__ import annotations

import argparse
import re

from perf import throughput, train
from tests import tiny_project


def test_speed_of_each_method(here, capsys):
    """`perf/train.py` in a project with data and backbone: a row a method that trains, as a ratio to fine-tuning."""
    assert train.main(["--steps", "2"]) == 0
    rows = re.findall(r"^(\S+) +(\d+) samples/s  x([\d.]+) of finetune  data (\d+)%$", capsys.readouterr().out, re.M)
    assert [row[0] for row in rows] == ["finetune", "fsc_clip"]
    assert rows[0][2] == "1.00" and all(int(speed) > 0 and int(data) < 100 for _, speed, _, data in rows)
    assert not list(here.glob("store")) and not list(here.glob("runs"))


def test_throughput_of_methods_that_read_lists(tmp_path):
    """`perf/throughput.py` has what each of all methods asks of its data; one that reads every list trains."""
    tiny_project.write_json(tmp_path / "tiny.json", tiny_project.TINY)
    args = argparse.Namespace(
        model="tiny.json", methods=throughput.METHODS, batch=4, workers=0, threads=1, steps=6, pool=2
    )
    assert throughput.make(tmp_path, args) > 0
    for method in ("triplet_clip", "clove"):
        measured = throughput.measure(tmp_path, method, args.batch)
        assert measured["speed"] > 0 and 0 <= measured["wait"] <= 1 and measured["loss"] > 0
