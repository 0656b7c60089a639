"""Claims: what may be written, the papers' own numbers against it, the verdicts and how they are shown."""

import csv
import re
from types import SimpleNamespace

import pytest

from compclip.base.errors import UserError
from compclip.report import __main__ as report_command
from compclip.report import claims, published_numbers, tables
from compclip.report.claims import ABSENT, HOLDS, REFUTED, UNDECIDED
from compclip.report.statistics import Interval
from compclip.report.tables import Column
from tests import fake_runs
from tests.conftest import ROOT
from tests.report import made_page
from tests.report.made_page import make_run_of_right as run

FILE = ROOT / "experiments" / "claims.yaml"
STATED = claims.read_claims(FILE)
NUMBERS = published_numbers.read_numbers(ROOT / "experiments" / "published")
SWAP = Column("b", "swap")
STATED_INEQUALITIES = [(claim, inequality) for claim in STATED for inequality in claim.inequalities]


def by_method(**right):
    """method -> training -> run from the number of right items of each seed."""
    return {m: tables.index_runs(run(m, seed, n) for seed, n in enumerate(counts)) for m, counts in right.items()}


def weigh(text, column=SWAP, **right):
    return claims.judge_inequality(claims.parse_inequality(text, "here"), by_method(**right), column)


def claim(*inequalities):
    return claims.Claim(
        "one", "CLIC", "Table 1", "A finding.", tuple(claims.parse_inequality(p, "here") for p in inequalities)
    )


# what stands in experiments/claims.yaml


def test_at_least_fourteen_findings_of_all_four_papers():
    assert len(STATED) >= 14
    assert {c.paper for c in STATED} == {"CLIC", "FSC-CLIP", "C2LIP", "Hard Positives"} <= {n.paper for n in NUMBERS}


def test_every_name_is_one_that_the_published_tables_have():
    claims.check_claim_names(STATED, {n.method for n in NUMBERS}, {n.column for n in NUMBERS}, str(FILE))


@pytest.mark.parametrize(
    ("stated", "inequality"), STATED_INEQUALITIES, ids=[f"{c.name}: {p.text}" for c, p in STATED_INEQUALITIES]
)
def test_the_paper_s_own_numbers_satisfy_the_inequality(stated, inequality):
    assert any((n.paper, n.table) == (stated.paper, stated.table) for n in NUMBERS)
    differences = published_numbers.list_printed_differences(
        NUMBERS, stated.paper, stated.table, inequality.left, inequality.right, inequality.column
    )
    assert differences
    assert all((value - inequality.margin) * inequality.sign > 0 for value in differences), differences


# what may be written


@pytest.mark.parametrize(
    ("text", "sign", "margin"),
    [("a > b on c/d", 1, 0.0), ("a > b - 1.5 on c/d", 1, -1.5), ("a < b + 2 on c/d", -1, 2.0)],
)
def test_an_inequality_is_parsed(text, sign, margin):
    assert claims.parse_inequality(text, "here") == claims.Inequality(text, "a", sign, "b", margin, "c/d")


@pytest.mark.parametrize(
    ("text", "message"),
    [("clik > pretrained on b/swap", "unknown method 'clik'; did you mean 'clic'"),
     ("clic > pretraind on b/swap", "unknown method 'pretraind'; did you mean 'pretrained'"),
     ("clic > pretrained on b/swop", "unknown column 'b/swop'; did you mean 'b/swap'")],
)  # fmt: skip
def test_a_name_that_nobody_has_is_an_error(text, message):
    with pytest.raises(UserError, match=re.escape(message)) as error:
        claims.check_claim_names([claim(text)], {"clic", "pretrained"}, {"b/swap"}, "claims.yaml")
    assert str(error.value).startswith("claims.yaml: one: ")


# the rule


@pytest.mark.parametrize(
    ("sign", "margin", "ends", "verdict"),
    [(1, 0.0, (0.05, 0.3), HOLDS), (1, 0.0, (-0.05, 0.3), UNDECIDED), (1, 0.0, (-0.3, -0.1), REFUTED),
     (-1, 0.0, (-0.3, -0.1), HOLDS), (-1, 0.0, (0.05, 0.3), REFUTED), (1, 0.15, (0.1, 0.2), UNDECIDED),
     (1, -0.15, (-0.1, 0.2), HOLDS), (1, 0.25, (0.1, 0.2), REFUTED), (1, 0.0, (0.0, 0.0), UNDECIDED),
     (1, 0.0, (), UNDECIDED)],
)  # fmt: skip
def test_the_whole_interval_must_lie_on_one_side(sign, margin, ends, verdict):
    assert claims.decide_verdict(sign, margin, Interval(sum(ends) / 2, *ends, 3) if ends else None) == verdict


@pytest.mark.parametrize(
    ("verdicts", "verdict"),
    [([HOLDS, HOLDS], HOLDS), ([HOLDS, UNDECIDED], UNDECIDED), ([HOLDS, ABSENT], ABSENT), ([UNDECIDED, ABSENT], ABSENT),
     ([REFUTED, ABSENT], REFUTED), ([HOLDS, REFUTED, UNDECIDED], REFUTED)],
)  # fmt: skip
def test_a_claim_from_its_inequalities(verdicts, verdict):
    assert claims.combine_verdicts(verdicts) == claims.combine_verdicts(verdicts[::-1]) == verdict


def test_a_clear_difference_holds_and_its_opposite_is_refuted():
    runs = {"clic": (300, 304, 302), "pretrained": (200, 200, 200)}
    evidence = weigh("clic > pretrained on b/swap", **runs)
    assert (evidence.verdict, evidence.seeds, evidence.why) == (HOLDS, 3, "")
    assert evidence.difference == pytest.approx(0.255)
    assert 0.2 < evidence.interval.low < evidence.interval.high < 0.31
    assert (evidence.interval.items, evidence.basis) == (400, "seeds and items")
    assert evidence.std == pytest.approx(0.005)
    assert weigh("clic < pretrained on b/swap", **runs).verdict == REFUTED
    assert weigh("clic > pretrained + 20 on b/swap", **runs).verdict == HOLDS
    assert weigh("clic > pretrained + 25.5 on b/swap", **runs).verdict == UNDECIDED
    assert weigh("clic > pretrained + 35 on b/swap", **runs).verdict == REFUTED


def test_few_items_leave_it_undecided_though_the_seeds_agree():
    runs = {m: tables.index_runs(run(m, s, n, total=10) for s in range(3)) for m, n in (("clic", 6), ("pretrained", 5))}
    evidence = claims.judge_inequality(claims.parse_inequality("clic > pretrained on b/swap", "here"), runs, SWAP)
    assert evidence.interval.low < 0 == evidence.std
    assert evidence.verdict == UNDECIDED


def test_seeds_are_paired():
    """Both scatter together: the difference is the same for every seed, and its items are all that varies."""
    evidence = weigh("clic > negclip on b/swap", clic=(300, 200, 250), negclip=(260, 160, 210))
    assert evidence.std == pytest.approx(0)
    single_seed = weigh("clic > negclip on b/swap", clic=(300,), negclip=(260,))
    assert evidence.interval.high < single_seed.interval.high
    assert evidence.verdict == HOLDS


def test_one_seed_decides_nothing_and_its_interval_is_over_the_items_alone():
    evidence = weigh("clic > pretrained on b/swap", clic=(300,), pretrained=(200,))
    assert (evidence.verdict, evidence.why, evidence.basis) == (UNDECIDED, "1 of 3 seeds", "items alone")
    assert evidence.std is None and evidence.interval.low > 0


def test_the_pretrained_model_is_the_same_under_every_seed():
    """Scored once, it is compared with all three."""
    runs = [run("clic", s, n) for s, n in enumerate((300, 304, 302))] + [run("pretrained", 0, 200)]
    groups = tables.build_tables(runs, [SWAP])
    (finding,) = claims.judge_claims([claim("clic > pretrained on b/swap")], groups, {"b/swap": SWAP})
    (evidence,) = finding.evidence
    assert (finding.verdict, evidence.seeds) == (HOLDS, 3)
    assert evidence.difference == pytest.approx(0.255)


def test_a_score_s_margin_is_in_scores():
    score = Column("b", "mean_score", score=True)
    right = {"clic": 30, "negclip": 10}
    seeds = {m: [run(m, s, n, total=100, metric="mean_score") for s in range(3)] for m, n in right.items()}
    runs = {m: tables.index_runs(of_method) for m, of_method in seeds.items()}
    for margin, verdict in (("0.05", HOLDS), ("0.5", REFUTED)):
        inequality = claims.parse_inequality(f"clic > negclip + {margin} on b/mean_score", "here")
        assert claims.judge_inequality(inequality, runs, score).verdict == verdict


# through the report


MADE = [
    claim("clic > pretrained on sugarcrepe/swap", "clic > negclip + 99 on summary/T2I"),
    claim("clic > pretrained on sugarcrepe/swap_att"),
    claim("fsc_clip > pretrained on sugarcrepe/swap", "clic > pretrained on sugarcrepe/swap"),
    claim("clic > pretrained on sugarcrepe/swap_obj"),
]


@pytest.fixture
def report(tmp_path):
    cells = fake_runs.cells(seeds=(0, 1, 2))
    return made_page.build_grid_page(made_page.make_grid(tmp_path / "runs", cells), numbers=NUMBERS, claims=MADE)


def test_all_formats_show_the_same_verdicts(report, tmp_path):
    """swap_att: 0.9 against 0.5 under every seed; swap_obj: one item of five; T2I differs by less than 99 points."""
    texts = made_page.write(report, tmp_path / "out")
    html = texts["index.html"]
    summary = (
        "4 claims; holds: 1, does not hold: 1, undecided: 1, not in this grid: 1; "
        "of 6 inequalities; holds: 3, does not hold: 1, undecided: 1, not in this grid: 1"
    )
    assert f"vit / scenes ({summary})" in html
    assert html.count('class="verdict worse">does not hold') == 2  # the claim, and its inequality
    assert "1 holds, 1 does not hold, 1 undecided, 1 not in this grid" in html
    assert "Not in this grid (1)" in html and "no fsc_clip" in html
    rows = list(csv.DictReader(texts["claims.csv"].splitlines()))
    assert [row["claim_verdict"] for row in rows] == [REFUTED] * 2 + [HOLDS] + [ABSENT] * 2 + [UNDECIDED]
    assert (rows[1]["margin"], rows[1]["seeds"], rows[1]["verdict"]) == ("0.990000", "3", REFUTED)
    # Table 1's swap column: CLIC on COCO, LAION, CC12M and RedCaps against CLIP's 62.7
    assert (rows[0]["difference"], rows[0]["paper_low"], rows[0]["paper_high"]) == ("0.300000", "0.066000", "0.116000")
    assert rows[0]["over"] == "seeds and items" and float(rows[0]["low"]) < 0.3 < float(rows[0]["high"])
    assert html.count(">seeds and items<") == 4
    assert rows[3]["why"] == "no fsc_clip" and rows[3]["difference"] == ""


def test_a_claim_may_name_a_variant_of_params_yaml():
    params = SimpleNamespace(methods={"clic": {"variants": {"c3": {}, "c4": None}}, "pretrained": None})
    assert report_command.list_claim_methods(params, (), ()) == {"clic", "clic.c3", "clic.c4", "pretrained"}


def test_a_claim_may_name_what_only_a_published_table_has():
    printed = [
        published_numbers.PublishedNumber("p", "t", "r", m, "b", "", "winoground", "text", "1.0")
        for m in ("clic.b4", "")
    ]
    assert report_command.list_claim_methods(SimpleNamespace(methods={}), (), printed) == {"clic.b4"}
    assert report_command.list_claim_columns((), printed) == {
        "winoground/text",
        *(f"summary/{s}" for s in ("Comp", "ZS", "I2T", "T2I", "General")),
    }
