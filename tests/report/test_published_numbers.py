"""How printed numbers are read, and shown beside ours."""

import pytest

from compclip.base.errors import UserError
from compclip.report import published_numbers
from compclip.report.tables import Column, MethodRow, ResultTable, Statistic


@pytest.mark.parametrize(
    ("column", "line", "named"),
    [
        ("", "x,percent", "value='x'"),
        ("", "1.0,%", "unit='%'"),
        (published_numbers.DEVIATION, "1.0,percent,0.1.2", "deviation='0.1.2'"),
        (published_numbers.ACTIVATION, "1.0,percent,GELU", "activation='GELU'"),
    ],
)
def test_a_bad_line_is_named(tmp_path, column, line, named):
    head = ",".join((*published_numbers.FIELDS, column)).rstrip(",")
    (tmp_path / "bad.csv").write_text(f"{head}\np,t,r,m,b,d,x,y,{line}\n")
    with pytest.raises(UserError, match=f"bad.csv: line 2: {named}"):
        published_numbers.read_numbers(tmp_path)


def number(row, method, backbone, data, value, **fields):
    return published_numbers.PublishedNumber(
        "p", "t", row, method, backbone, data, "sugarcrepe", "swap", value, **fields
    )


BASE = number("r", "pretrained", "b", "", "60.5")


@pytest.mark.parametrize(
    ("ours", "base", "cell"),
    [
        (number("r", "m", "b", "", "63.9", deviation="0.09"), BASE, "63.9 ± 0.09 (+3.4)"),
        (number("r", "clic", "b", "", "49.85"), BASE, "49.85 (−10.65)"),
        (BASE, None, "60.5"),
        (None, BASE, "–"),
    ],
)
def test_a_printed_number_has_its_deviation_and_its_change_with_its_digits(ours, base, cell):
    assert published_numbers._format_printed_cell(ours, base) == cell


def test_a_row_scored_with_a_wrong_activation_says_so():
    scored = number("r", "m", "b", "", "53.4", activation="gelu")
    (row,) = published_numbers._make_printed_rows("m", [scored], ["sugarcrepe/swap"])
    assert row.source == "r: b, scored with GELU ⚠"


def test_differences_of_a_method_that_the_paper_did_not_train_are_its_checkpoint_s():
    """Its own training goes before."""
    query = ("p", "t", "clic", "negclip", "sugarcrepe/swap")
    scored = [number("a", "clic", "B/32", "COCO", "80.0"), number("b", "released.negclip", "B/32", "COCO", "75.0")]
    assert published_numbers.list_printed_differences(scored, *query) == [5.0]
    scored.append(number("c", "negclip", "B/32", "COCO", "70.0"))
    assert published_numbers.list_printed_differences(scored, *query) == [10.0]


def test_differences_pair_rows_of_one_backbone_and_data_set():
    numbers = [
        number("CLIP", "pretrained", "B/32", "", "60.0"), number("CLIP", "pretrained", "B/16", "", "62.0"),
        number("a", "clic", "B/32", "COCO", "70.0"), number("b", "clic", "B/32", "LAION", "71.5"),
        number("c", "negclip", "B/32", "COCO", "75.0"), number("d", "", "B/32", "COCO", "99.0"),
    ]  # fmt: skip
    for right, column, differences in (
        ("pretrained", "swap", [10.0, 11.5]), ("negclip", "swap", [-5.0]), ("pretrained", "add", [])
    ):  # fmt: skip
        query = ("p", "t", "clic", right, f"sugarcrepe/{column}")
        assert published_numbers.list_printed_differences(numbers, *query) == differences


def compared(rows, numbers):
    """The lines of a comparison on ViT-B/32, of rows with one number each."""
    column = Column("sugarcrepe", "swap")
    method_rows = tuple(MethodRow(m, (), {column: Statistic(value / 100, None, 1)}) for m, value in rows.items())
    comparisons = published_numbers.compare_tables(numbers, ResultTable("vit_b_32", "scenes", (column,), method_rows))
    return [(line.label, line.ours, line.cells[0]) for comparison in comparisons for line in comparison.lines]


def printed(method, value, data="", row="theirs"):
    return number(row, method, "ViT-B/32", data, value)


def test_a_checkpoint_that_disagrees_with_what_is_printed_is_marked():
    """By more than half a point, also the pretrained model; a method that is trained here may differ."""
    numbers = [printed("pretrained", "60.0"), printed("released.negclip", "75.0"), printed("clic", "70.0", "COCO")]
    rows = {"pretrained": 60.5, "released.negclip": 74.4, "clic": 50.0}
    assert [cell for _, ours, cell in compared(rows, numbers) if ours] == ["60.5", "74.4 ≠", "50.0"]
    rows = {"pretrained": 60.6, "released.negclip": 75.5, "clic": 50.0}
    assert [cell for _, ours, cell in compared(rows, numbers) if ours] == ["60.6 ≠", "75.5", "50.0"]


def test_a_checkpoint_stands_beside_its_authors_own_row_by_its_name():
    """On the data that its name says; where a table has a row for the checkpoint itself, beside that alone."""
    numbers = [printed("pretrained", "60.0"), printed("clic", "70.0", "LAION", "on LAION"),
               printed("fsc_clip.lora", "65.0", "MS-COCO 100K", "lora")]  # fmt: skip
    rows = {"pretrained": 60.0, "released.clic_laion": 70.2, "released.clic_redcaps": 70.0,
            "released.fsc_clip_lora": 62.0, "released.fsc_clip_lora_ms_coco_100k": 65.0}  # fmt: skip
    assert [(label, cell) for label, ours, cell in compared(rows, numbers) if ours] == [
        ("pretrained", "60.0"), ("released.clic_laion", "70.2"), ("released.fsc_clip_lora", "62.0 ≠"),
        ("released.fsc_clip_lora_ms_coco_100k", "65.0"),
    ]  # fmt: skip
    both = [printed("negclip", "80.0"), printed("released.negclip", "75.0")]
    assert [cell for _, ours, cell in compared({"released.negclip": 75.0}, both) if ours] == ["75.0"]
