"""A run whose gradients are 0 up to its end is named where it is shown: it learned nothing behind that step."""

import json
from pathlib import Path

import pytest

from compclip.report import report_page
from compclip.runs import progress
from tests import fake_runs
from tests.report import made_page


def logged(*norms: float | None) -> list[dict]:
    """Logged steps 10, 20, … with these gradients; None for a step of before they were logged."""
    rows = [{"step": 10 * number} | {"grad_norm": norm} for number, norm in enumerate(norms, 1)]
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


@pytest.mark.parametrize(
    ("norms", "expected"),
    [((1.0, 0.5), None), ((1.0, 0.0, 0.0), 20), ((0.0, 1.0), None), ((0.0, 1.0, 0.0), 30), ((0.0,), 10),
     ((1.0, float("inf")), None), ((1.0, None), None), ((), None)],
)  # fmt: skip
def test_the_first_of_the_last_steps_without_a_gradient(norms, expected):
    assert progress.find_stall(logged(*norms)) == expected


def test_its_row_is_marked_in_every_table(tmp_path):
    """negclip's second seed from its second logged step on; no other row."""
    root = fake_runs.make(tmp_path)
    path = Path(fake_runs.trained(root, "negclip-vit-scenes-1").metrics)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(row | ({"grad_norm": 0.0} if i else {})) + "\n" for i, row in enumerate(rows)))
    report_page.write_report(made_page.build_grid_page(made_page.collect(root)), tmp_path / "reports")
    says = f"negclip: learned nothing with seed 1 from step {rows[1]['step']} on: the gradients were 0"
    for name, mark in (("index.html", "⊘"), ("report.md", "⊘"), ("report.tex", r"$\oslash$")):
        text = (tmp_path / "reports" / name).read_text()
        assert f"negclip {mark}" in text and f"{mark} {says}" in text, name
        assert f"clic {mark}" not in text.replace("negclip", ""), name
