"""What is seen first: which method is best, how sure that is, and what it costs; from differences by hand."""

from dataclasses import replace

import pytest

from compclip.report import __main__ as report_command
from compclip.report import claims, composition_rule, first_screen, report_figures, report_page
from compclip.report.statistics import BOTH, ITEMS_ALONE, Interval
from compclip.report.tables import SUMMARY, Column, MethodRow, ResultTable, Statistic
from compclip.runs.item_outcomes import COMPOSITION
from compclip.runs.result_files import Result
from tests.report import made_answers, made_page

SWAP = Column("sugarcrepe", "swap")
PARTS = tuple(Column(name, "mean", (Column(name, "a"),)) for name in "abc")
COMP = Column(SUMMARY, "Comp", members=PARTS)
ABILITY = Column(SUMMARY, "General", members=(SWAP,))


def statistic(points: float, verdict: int = 0, equal_to: str = "", basis: str = BOTH) -> Statistic:
    """A difference in points, and whether its interval excludes 0."""
    change = points / 100
    interval = Interval(change, change - 0.02, change + 0.02, 100)
    return Statistic(0.5, 0.01, 3, 0, interval, change, verdict, basis, equal_to)


def compare(methods, columns=(COMP, ABILITY), contrasts=None, results=None):
    """The pretrained model and some methods, each with its cells."""
    rows = [MethodRow("pretrained", (), dict.fromkeys(columns, Statistic(0.5, None, 1)))]
    for method, cells in methods.items():
        run = made_page.make_finished(method, results=results, curve=[{"step": 1}])
        rows.append(MethodRow(method, (run,), {c: cell for c, cell in zip(columns, cells, strict=True) if cell}))
    return first_screen.compare_rows(ResultTable("vit", "scenes", columns, tuple(rows)), contrasts, "finetune")


def test_the_best_comes_first_and_what_equals_it_is_named():
    methods = {
        "open": (statistic(1), statistic(-1.8, -1)),
        "best": (statistic(2.2, 1), statistic(-0.1)),
        "near": (statistic(2.1, 1, equal_to="best"), statistic(0.5, 1)),
        "unscored": (None, statistic(0.5)),
    }
    compared = compare(methods)
    assert first_screen.describe_best(compared) == (
        "Best at composition: best, +2.2 over pretrained [+0.2, +4.2]; near cannot be told from it"
    )
    assert compared.sentences == [
        ("best", "better at composition: +2.2 [+0.2, +4.2]; general ability between −2.1 and +1.9: a loss is possible"),
        ("near", "better at composition: +2.1 [+0.1, +4.1]; better at general ability: +0.5 [−1.5, +2.5]"),
        ("open", "composition undecided: +1.0 [−1.0, +3.0]; costs general ability −1.8 [−3.8, +0.2]"),
        ("unscored", "composition not measured; general ability between −1.5 and +2.5: a loss is possible"),
    ]


def test_an_ability_that_no_item_changes_is_the_same():
    unchanged = Statistic(0.5, 0.0, 3, 0, Interval(0.0, 0.0, 0.0, 100), 0.0, 0, BOTH, "")
    [(_, sentence)] = compare({"new": (statistic(1), unchanged)}).sentences
    assert sentence.endswith("; general ability the same on every item")


def test_what_is_not_decided_is_not_called_best():
    methods = {"up": (statistic(1), statistic(0)), "down": (statistic(-1, -1), statistic(0))}
    text = first_screen.describe_best(compare(methods))
    assert text == "No method is better at composition than pretrained for certain; highest: up, +1.0 [−1.0, +3.0]"
    assert "no fine-tuned method" in first_screen.describe_best(compare({}))


def test_rows_are_compared_with_the_reference_where_a_table_has_it():
    """Means stay, differences are those to the reference, which itself is no row of the picture."""
    contrast = MethodRow("new", (), {COMP: statistic(-3, -1)})
    contrasts = ResultTable("vit", "scenes", (COMP, ABILITY), (contrast,))
    methods = {"finetune": (statistic(4, 1), statistic(0)), "new": (statistic(1, 1), statistic(0))}
    compared = compare(methods, contrasts=contrasts)
    assert compared.reference == "finetune" and [row.method for row in compared.rows] == ["new", "pretrained"]
    assert compared.sentences[0] == ("new", "worse at composition: −3.0 [−5.0, −1.0]; general ability not measured")
    assert [s.mean for s in compared.table.rows[2].statistics.values()] == [0.5, 0.5]
    assert compare(methods, contrasts=replace(contrasts, rows=())).reference == "pretrained"


def test_without_summaries_the_first_column_is_the_axis():
    compared = compare({"new": (statistic(1, 1),)}, columns=(SWAP,))
    assert compared.sentences == [("new", "better at SugarCrepe swap: +1.0 [−1.0, +3.0]")]
    assert first_screen.draw_tradeoffs(compared) == []
    assert compare({}, columns=()) is None


MANY_PARTS = tuple(Column(f"b{number}", "mean", (SWAP,)) for number in range(9))


@pytest.mark.parametrize(
    ("parts", "chosen", "names"),
    [
        (PARTS, (), ["Comp", "General", "ZS", "a", "b", "c"]),
        (PARTS, (SWAP,), ["Comp", "General", "ZS", "sugarcrepe/swap"]),  # report.columns stands in their place
        (PARTS, tuple(Column("s", str(n)) for n in range(6)), ["Comp", "General", "ZS", "a", "b", "c"]),  # no room
        (MANY_PARTS, (), ["Comp", "ZS", "b8", "b0", "b1", "b2", "b3", "b4"]),  # a row rests on b8
    ],
)
def test_the_headline_has_the_summaries_and_what_comp_is_made_of(parts, chosen, names):
    comp, zs = Column(SUMMARY, "Comp", parts), Column(SUMMARY, "ZS", (SWAP,))
    resting = replace(statistic(2), rests_on=("b8",)) if parts is MANY_PARTS else statistic(2)
    columns = (comp, ABILITY, zs, *chosen, *parts)
    compared = compare({"new": (resting, *[statistic(0)] * (len(columns) - 1))}, columns=columns)
    headline = first_screen.select_headline(replace(compared, is_chosen=bool(chosen)))
    shown = [c.metric if c.benchmark == SUMMARY else c.benchmark if c in parts else c.name for c in headline.columns]
    assert shown == names
    notes = first_screen.list_notes(compared)
    assert any("mean over 9 benchmarks, 6 of which" in note for note in notes) is (parts is MANY_PARTS)


@pytest.mark.parametrize("crowd", [12, 1])
def test_the_forest_has_each_interval_with_the_colour_of_its_verdict(monkeypatch, crowd):
    """Blue, orange and grey; where rows are many they bear the numbers of the trade-off."""
    monkeypatch.setattr(report_figures, "CROWD", crowd)
    methods = {"a": (statistic(2, 1), statistic(-1, -1)), "b": (statistic(0.5), None)}
    svg = first_screen.draw_forest(compare(methods))
    assert "<title>a: +2.0 [0.0, +4.0]</title>" in svg or "<title>a (1): +2.0 [0.0, +4.0]</title>" in svg
    assert [svg.count(f"fill:var(--{name})") >= n for name, n in (("good", 1), ("bad", 1), ("soft", 1))] == [True] * 3
    assert svg.count("<title>") == 3 and (">b (2)</text>" in svg) == (crowd == 1)
    file = first_screen.draw_forest(compare(methods), standalone=True)
    assert "var(--" not in file and 'xmlns="http://www.w3.org/2000/svg"' in file


# the rule: Comp, and Comp without each of its benchmarks


def parts_of(**points):
    """Differences without each benchmark, in points; those above 1 or below -1 are decided."""
    return {name: statistic(value, (value > 1) - (value < -1)) for name, value in points.items()}


@pytest.mark.parametrize(
    ("comp", "without", "verdict", "rests_on"),
    [
        ((3, 1), {"a": 2, "b": 2, "c": 4}, 1, ()),
        ((3, 1), {"a": 0.5, "b": 4, "c": 4}, 0, ("a",)),  # a alone carries it
        ((3, 1), {"a": -2, "b": 6, "c": 6}, 0, ("a",)),  # and hides a fall of the others
        ((-3, -1), {"a": -2, "b": -2, "c": -4}, -1, ()),
        ((-3, -1), {"a": -0.5, "b": -4, "c": -4}, 0, ("a",)),
        ((0.5, 0), {"a": 2, "b": 0, "c": 0}, 0, ()),  # what Comp does not decide is not decided
        ((3, 1), {}, 1, ()),  # of one benchmark nothing can be left out
    ],
)
def test_the_rule(comp, without, verdict, rests_on):
    decided = composition_rule.decide(statistic(*comp), parts_of(**without))
    assert (decided.verdict, decided.rests_on) == (verdict, rests_on)


def test_comp_is_left_without_each_of_its_benchmarks():
    left_out = composition_rule.leave_out_each(COMP)
    assert {name: column.members for name, column in left_out.items()} == {
        "a": PARTS[1:], "b": (PARTS[0], PARTS[2]), "c": PARTS[:2],
    }  # fmt: skip
    assert composition_rule.leave_out_each(Column(SUMMARY, "Comp", PARTS[:1])) == {}
    assert composition_rule.leave_out_each(ABILITY) == composition_rule.leave_out_each(None) == {}


def test_what_a_row_rests_on_and_what_is_made_like_its_negatives_is_said():
    resting = composition_rule.decide(statistic(3.5, 1), parts_of(a=0.4, b=4, c=4))
    better = composition_rule.decide(statistic(3, 1), parts_of(a=2, b=3, c=4))
    compared = replace(
        compare({"resting": (resting, statistic(0)), "better": (better, statistic(0))}),
        kindred={"resting": {"a"}, "better": {"b"}},
    )
    sentences = {method: text.partition("; ")[0] for method, text in compared.sentences}
    assert sentences == {
        "resting": "composition undecided: +3.5 [+1.5, +5.5], but +0.4 without the benchmark a, whose "
        "negatives are made like its own",
        "better": "better at composition: +3.0 [+1.0, +5.0], still +2.0 without the benchmark a and still "
        "+3.0 without the benchmark b, whose negatives are made like its own",
    }
    heading = first_screen.describe_best(compared)
    assert heading.startswith("Best at composition: better, +3.0")
    assert heading.endswith("; resting, +3.5, rests on the benchmark a")
    alone = first_screen.describe_best(compare({"resting": (resting, statistic(0))}))
    assert alone.startswith("No method is better") and alone.endswith("+5.5], which rests on the benchmark a")


def test_the_heading_says_drawings_one_run_and_a_small_single_benchmark():
    comp = Column(SUMMARY, "Comp", PARTS[:1])
    results = {"a": Result("a", "a", COMPOSITION, {}, counts={"records": 60, "scored": 60})}
    cells = (statistic(9, 1, basis=ITEMS_ALONE), statistic(0))
    compared = compare({"new": cells}, columns=(comp, ABILITY), results=results)
    assert first_screen.describe_best(replace(compared, is_drawn=True)) == (
        "On drawings, best at composition (the benchmark a alone, 60 records), of one run each: new, +9.0 over "
        "pretrained [+7.0, +11.0]"
    )
    notes = first_screen.list_notes(compared)
    assert "a is a small test of 60 items: one more or less is 1.7 points" in notes and "one run" in notes[-1]


def find_verdict(gains):
    """The heading of a page of made answers: the pretrained model, plain fine-tuning, and one method with these gains."""
    page = made_answers.build_page({"finetune": {}, "planted": gains}, items=600)
    return first_screen.describe_best(made_answers.compare(page))


def test_a_planted_win_by_one_benchmark_is_not_best_and_one_by_four_of_five_is():
    assert find_verdict({"aro": 20.0}).startswith("No method is better at composition than finetune for certain")
    four = dict.fromkeys(made_answers.FIVE[:4], 5.0)
    assert find_verdict(four).startswith("Best at composition: planted, +4.")


@pytest.mark.parametrize(
    ("gains", "judged"),
    [
        ({"aro": 20.0}, (claims.UNDECIDED, "not decided without aro")),
        (dict.fromkeys(made_answers.FIVE[:4], 5.0), (claims.HOLDS, "")),
    ],
)
def test_claims_and_studies_judge_comp_by_the_rule(gains, judged):
    """An interval above 0 alone does not hold."""
    (group,) = made_answers.build_page({"finetune": {}, "planted": gains}, items=600).tables.headline
    inequality = claims.parse_inequality("planted > finetune on summary/Comp", "here")
    evidence = claims.judge_inequality(inequality, group.runs_by_seed, group.summaries["Comp"])
    assert (evidence.verdict, evidence.why) == judged and evidence.interval.low > 0


def test_a_benchmark_of_the_method_s_paper_or_family_is_its_kindred():
    """By the names of their modules, and by what ARO's says; other kinds of benchmarks are not asked."""
    runs = made_answers.make_runs({"hard_positives": {}, "negclip.swapped": {}, "clic": {}}, seeds=1, items=20)
    assert report_command.find_kindred_benchmarks(runs) == {
        "hard_positives": {"hard_positives"}, "negclip.swapped": {"aro"},
    }  # fmt: skip


def test_pairs_that_rules_made_say_so_and_who_trained_on_the_like():
    """A note of the first table names the rows whose rules are theirs; plain fine-tuning has none."""
    rows = {"finetune": {}, "negclip": {"aro": 9.0}, "fsc_clip": {"aro": 9.0}}
    runs = []
    for run in made_answers.make_runs(rows, items=60):
        results = {name: replace(r, module="made_pairs") if name == "aro" else r for name, r in run.results.items()}
        runs.append(replace(run, results=results))
    kindred = report_command.find_kindred_benchmarks(runs)
    assert {method: names for method, names in kindred.items() if "aro" in names}.keys() == {"negclip", "fsc_clip"}
    page = made_answers.build_page(rows, items=60)
    results = replace(page.results, kindred=kindred, remarks=report_command.find_remarks(runs))
    (compared,) = report_page.compare_tables(replace(page, results=results))
    (note,) = [note for note in first_screen.list_notes(compared) if note.startswith("aro: ")]
    assert "rules made" in note and "negclip" in note and "fsc_clip" in note and "finetune" not in note
