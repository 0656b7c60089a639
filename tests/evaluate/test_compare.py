"""Our numbers beside somebody's: the forms of their file, units, differences in points and items, what has no partner."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compclip.base.errors import UserError
from compclip.base.files import write_json
from compclip.evaluate import compare
from compclip.evaluate.compare import OurNumber

OURS = {
    "sugarcrepe/add_att": OurNumber(0.75, 8, False),
    "sugarcrepe/average": OurNumber(0.5, None, False),
    "hard_positives/replace_mean_score": OurNumber(0.25, 4, True),
}


def write_file(folder, name, content):
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [("flat.json", {"sugarcrepe/add_att": 62.5, "sugarcrepe/average": 50}),
     ("nested.json", {"sugarcrepe": {"add_att": 62.5, "average": 50}}),
     ("more.csv", "model,value,metric\nx,62.5,sugarcrepe/add_att\nx,50,sugarcrepe/average\n"),
     ("ours.json", {"benchmark": "sugarcrepe", "metrics": {"add_att": 62.5, "average": 50}})],
)  # fmt: skip
def test_forms_of_a_file(tmp_path, name, content):
    theirs = compare.read_numbers(write_file(tmp_path, name, content))
    assert theirs == {"sugarcrepe/add_att": 62.5, "sugarcrepe/average": 50.0}


def test_clip_benchmarks_names_become_ours(tmp_path):
    recall = {"image_retrieval_recall@5": 0.4, "text_retrieval_recall@1": 0.3}
    file = [
        {"dataset": "sugar_crepe/swap_obj", "model": "m", "metrics": {"acc": 0.6}},
        {"dataset": "wds/mscoco_captions", "metrics": recall},
        {"dataset": "imagenet1k", "metrics": {"acc1": 0.63, "acc5": 0.88, "mean_per_class_recall": 0.62}},
        {"dataset": "wds/vtab/cifar100", "metrics": {"acc1": 0.6, "acc5": None}},
    ]
    assert compare.read_numbers(write_file(tmp_path, "theirs.json", file)) == {
        "sugarcrepe/swap_obj": 0.6,
        "retrieval_coco/t2i_recall_at_5": 0.4,
        "retrieval_coco/i2t_recall_at_1": 0.3,
        "zeroshot_imagenet/top_1": 0.63,
        "zeroshot_imagenet/top_5": 0.88,
        "zeroshot_imagenet/mean_per_class": 0.62,
        "zeroshot_vtab_cifar100/top_1": 0.6,
    }


def test_differences_in_points_and_items():
    """75 % of eight items against 62.5 %: 12.5 points, one item. A mean and a cosine have no items."""
    theirs = {"sugarcrepe/add_att": 62.5, "sugarcrepe/average": 50, "hard_positives/replace_mean_score": 0.24, "x/y": 3}
    comparison = compare.compare_numbers(OURS, theirs)
    assert comparison.percent
    assert [line.difference for line in comparison.lines] == pytest.approx([12.5, 0, 1])
    assert [line.items for line in comparison.lines] == [pytest.approx(1), None, None]
    assert comparison.only_theirs == ("x/y",)
    assert [line.metric for line in comparison.beyond(1)] == ["sugarcrepe/add_att"]


def test_shares_stay_shares():
    comparison = compare.compare_numbers(OURS, {"sugarcrepe/add_att": 1, "sugarcrepe/average": 0.5})
    assert not comparison.percent
    assert [line.difference for line in comparison.lines] == pytest.approx([-25, 0])
    assert comparison.only_ours == ("hard_positives/replace_mean_score",)


@given(st.floats(0.02, 1), st.floats(0, 1))
def test_percent_and_shares_tell_the_same(some, other):
    """Where at least one number is above 1 percent; a file of smaller ones reads as shares."""
    theirs = dict(zip(["sugarcrepe/add_att", "sugarcrepe/average"], [some, other], strict=True))
    percents = compare.compare_numbers(OURS, {name: 100 * value for name, value in theirs.items()})
    shares = compare.compare_numbers(OURS, theirs)
    assert percents.percent > shares.percent
    assert [x.difference for x in percents.lines] == pytest.approx([x.difference for x in shares.lines])


@pytest.mark.parametrize(
    ("name", "content", "names"),
    [("a.json", {"a/b": "much"}, "a/b: 'much'"), ("a.json", '{"a/b": NaN}', "a/b: 'nan'"), ("a.json", "{}", "a.json"),
     ("a.json", [3], "int"), ("a.json", {"metrics": {"acc": 1}}, "'benchmark' nor 'dataset'"),
     ("a.csv", "name,value\na,1\n", "'metric'"), ("a.json", "{", "line 1")],
)  # fmt: skip
def test_other_files_are_refused_in_one_line(tmp_path, name, content, names):
    with pytest.raises(UserError, match=names):
        compare.read_numbers(write_file(tmp_path, name, content))


DOCUMENT = {"benchmark": "sugarcrepe", "kind": "composition", "lower": [], "scores": [], "headline": [], "means": {}}


@pytest.fixture
def results(tmp_path):
    items = {"add_att": {"ids": ["a", "b", "c", "d"], "outcomes": [1, 1, 1, 0]}}
    write_json(tmp_path / "results" / "sugarcrepe.json", DOCUMENT | {"items": items, "metrics": {"add_att": 0.75}})
    write_json(tmp_path / "results" / "summary.json", {"sugarcrepe/add_att": 0.75})
    return tmp_path / "results"


def test_the_command_prints_a_table_and_fails_beyond_the_bound(results, tmp_path, capsys):
    theirs = write_file(tmp_path, "theirs.json", {"sugarcrepe/add_att": 50.0, "winoground/text": 30.0})
    arguments = [str(results), str(theirs)]
    assert compare.main(arguments) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[1].split()[:5] == ["sugarcrepe/add_att", "75.00", "50.00", "+25.00", "+1.0"]
    assert out[-1] == "1 only theirs: winoground/text"
    assert compare.main([*arguments, "--within", "24.9"]) == 1
    assert "sugarcrepe/add_att: +25.00 points, more than 24.9" in capsys.readouterr().err
    assert compare.main([*arguments, "--within", "25"]) == 0
