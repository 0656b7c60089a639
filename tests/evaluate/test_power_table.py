"""`compclip config power`: the assumed variance by loops, and the table of a small benchmark."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from compclip.base.errors import UserError
from compclip.config.cell import Cell
from compclip.config.sections import BenchmarkSection
from compclip.evaluate import power_table
from compclip.evaluate.power_table import Assumptions
from compclip.report import decisions
from compclip.report.statistics import ItemDifferences, Spread, Variance


def make_difference(units, weight=1.0, benchmark="b"):
    ids = tuple(map(str, range(len(units))))
    return ItemDifferences(benchmark, weight, ids, np.zeros((1, len(units))), units)


def test_the_assumed_variance_by_loops():
    """Two metrics of one source: items of a picture correlate, across metrics too; those of others do not."""
    differences = [make_difference((1, 1, 2), 0.5), make_difference((2, 3), 0.5)]
    weighted = [(0.5 / 3, 1), (0.5 / 3, 1), (0.5 / 3, 2), (0.25, 2), (0.25, 3)]
    expected = 0.0
    for i, (left, left_unit) in enumerate(weighted):
        for j, (right, right_unit) in enumerate(weighted):
            correlation = 1.0 if i == j else 0.3 if left_unit == right_unit else 0.0
            expected += 0.2 * correlation * left * right
    spread = power_table.assume_spread(differences, 4, Assumptions(0.2, 0.3, 0.01))
    assert [v.value for v in spread.by_unit] == pytest.approx([expected]) and spread.by_unit[0].freedom == 2
    assert (spread.seed.value, spread.seed.freedom) == pytest.approx((2 * 0.01**2 / 4, 3))


def test_benchmarks_of_other_pictures_add_up_and_one_seed_has_no_spread():
    differences = [make_difference((1, 2)), make_difference((3, 4), benchmark="c")]
    spread = power_table.assume_spread(differences, 1, Assumptions())
    assert len(spread.by_unit) == 2 and spread.seed is None


@pytest.fixture
def params(tmp_path, monkeypatch):
    """A grid of two methods on swap_att of SugarCrepe: eight records on four pictures, and swap_obj on others."""
    for name, pictures in (("swap_att", 4), ("swap_obj", 8)):
        record = {"caption": "x", "negative_caption": "y"}
        records = {str(i): record | {"filename": f"{name}{i % pictures}.png"} for i in range(8)}
        (tmp_path / f"{name}.json").write_text(json.dumps(records))
    section = BenchmarkSection(path=str(tmp_path), images=str(tmp_path), split="swap_att,swap_obj")
    report = SimpleNamespace(columns=["sugarcrepe/swap_att", "sugarcrepe/swap"], reference="", correction="none")
    grid_params = SimpleNamespace(
        benchmarks={"sugarcrepe": section}, report=report, evaluate=SimpleNamespace(benchmarks=["sugarcrepe"], ties="wrong"),
        grid=SimpleNamespace(methods=["pretrained", "negclip"], seeds=[0, 1, 2]),
    )  # fmt: skip
    monkeypatch.setattr(power_table.grid, "list_cells", lambda params: [Cell("negclip", "vit", "scenes", 0)])
    monkeypatch.setattr(power_table.read, "load_params", lambda *args, **options: grid_params)
    return grid_params


def test_a_line_for_each_column(params, capsys):
    assert power_table.main(["--seeds", "1", "3"]) == 0
    out, err = capsys.readouterr()
    lines = [line.split() for line in out.splitlines()]
    rows = ("summary/Comp 24 12", "sugarcrepe/swap_att 8 4", "sugarcrepe/swap 16 12")
    assert [" ".join(line[:3]) for line in lines[1:4]] == list(rows)
    assert lines[-1][:3] == ["Assumed,", "not", "measured:"] and "two models" in err
    expected = 100 * decisions.least_difference(Spread(1, None, (Variance(0.2 * (0.9 / 8 + 0.1 / 4), 3),)))
    assert lines[2][3] == f"{expected:.1f}"


def test_a_correction_asks_for_more(params):
    plain = power_table.compute_power(params, [3], Assumptions())
    params.report.correction = "holm"
    corrected = power_table.compute_power(params, [3], Assumptions())
    assert all(a.least[3] < b.least[3] for a, b in zip(plain, corrected, strict=True))


def test_assumptions_are_named_with_their_values():
    assert power_table.parse_assumptions(["seed_std=2", "correlation=0.3"]) == Assumptions(0.2, 0.3, 0.02)
    for text, error in (("seeds=2", "unknown assumption 'seeds'"), ("seed_std=-1", "from 0"), ("seed_std=x", "from 0")):
        with pytest.raises(UserError, match=error):
            power_table.parse_assumptions([text])


def test_more_trained_methods_need_less_of_a_difference():
    """Of six that vary alike the prior has 0.45 times the freedom of four; of two there is none."""
    differences = [make_difference((1, 2, 3))]
    spreads = [power_table.assume_spread(differences, 3, Assumptions(), rows) for rows in (2, 6)]
    assert [spread.prior_freedom for spread in spreads] == pytest.approx([0, 0.45 * 2 * 4])
    assert decisions.least_difference(spreads[1]) < decisions.least_difference(spreads[0])
