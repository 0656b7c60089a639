"""Loss of training and of held-out pictures on the page, and the runs that overfit."""

import pytest

from compclip.report import report_page, validation_curves
from compclip.runs.run_folder import VALIDATION
from tests.report import made_page


def rows(training_losses, losses, error=0.02):
    """The log of a run of two lines between validations."""
    lines = []
    for point, (training_loss, loss) in enumerate(zip(training_losses, losses, strict=True), 1):
        numbers = {"loss": loss, "loss_error": error, "i2t_recall_at_1": 0.5, "t2i_recall_at_1": 0.25}
        validated = {f"{VALIDATION}{name}": value for name, value in numbers.items()}
        lines += [
            {"step": 2 * point - 1, "loss": training_loss + 0.1},
            {"step": 2 * point, "loss": training_loss - 0.1} | validated,
        ]
    return lines


FALLING = [3.0, 2.0, 1.0]
CASES = {
    "overfits": (FALLING, [2.0, 1.5, 1.8], 2),
    "within noise": (FALLING, [2.0, 1.5, 1.54], None),
    "learns": (FALLING, [2.0, 1.5, 1.2], None),
    "diverges": ([3.0, 2.0, 4.0], [2.0, 1.5, 1.8], None),
    "no validation": ([], [], None),
}


def run_of(method, seed, case):
    run = made_page.make_run(method, seed, [1, 0, 1, 1], validation={"benchmark": "photos", "pictures": 200})
    run.curve[:] = rows(*CASES[case][:2])
    return run


@pytest.mark.parametrize("case", CASES)
def test_a_run_overfits_where_held_out_loss_rises_beyond_noise_while_its_own_falls(case):
    points = validation_curves.list_points(run_of("finetune", 0, case))
    best = validation_curves.find_overfitting(points)
    expected = CASES[case][2]
    assert (best and best.step // 2) == expected
    assert [point.training_loss for point in points] == pytest.approx(CASES[case][0])


@pytest.fixture
def runs():
    """Two methods of two seeds, of which one run overfits, and the pretrained model."""
    pretrained = made_page.make_run("pretrained", 0, [1, 1, 0, 1])
    cases = {"finetune": ("overfits", "learns"), "negclip": ("within noise", "learns")}
    return [pretrained, *(run_of(method, seed, case) for method, two in cases.items() for seed, case in enumerate(two))]


def test_the_page_says_which_run_overfits(runs):
    """In the fold's head, in the fold, and below the table, which needs no click; and of which pictures."""
    html = report_page.render_page(made_page.build_page(runs, ["b"]))
    fold = html.partition('<details id="validation">')[2]
    assert "1 of 4 runs overfit" in fold.partition("</summary>")[0]
    assert "200 pictures of photos" in fold
    assert html.count("finetune overfits with seed 0 from step 4 on: held-out loss 1.50 to 1.80") == 2
    assert "negclip overfits" not in html
    assert fold.partition("</details>")[0].count("<svg") == 3


def test_a_page_without_validation_has_no_fold(runs):
    for run in runs:
        run.curve.clear()
    assert 'id="validation"' not in report_page.render_page(made_page.build_page(runs, ["b"]))
