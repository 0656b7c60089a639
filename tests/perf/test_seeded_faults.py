"""The faults that `perf/faults/seeded_faults.py` inserts still have their lines."""

from pathlib import Path

from omegaconf import OmegaConf

from perf.faults.seeded_faults import FAULTS

ROOT = Path(__file__).resolve().parent.parent.parent


def test_each_fault_has_one_place_in_its_module_and_tests_that_exist():
    for module, entry in OmegaConf.to_container(OmegaConf.load(FAULTS)).items():
        code = (ROOT / module).read_text(encoding="utf-8")
        lines = [fault["find"] for fault in entry["faults"]]
        assert [line for line in lines if code.count(line) != 1] == [], f"{module}: renew these in {FAULTS.name}"
        assert all((ROOT / test.partition("::")[0]).exists() for test in entry["tests"]), module
