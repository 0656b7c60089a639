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


def test_a_printed_deviation_stands_beside_its_value():
    number = published_numbers.PublishedNumber("p", "t", "r", "m", "b", "", "x", "y", "53.4", "percent", "0.09")
    base = published_numbers.PublishedNumber("p", "t", "r", "pretrained", "b", "", "x", "y", "50.0")
    assert published_numbers._format_printed_cell(number, base) == "53.4 ± 0.09 (+3.4)"


def test_a_row_scored_with_a_wrong_activation_says_so():
    number = published_numbers.PublishedNumber("p", "t", "r", "m", "b", "", "x", "y", "53.4", activation="gelu")
    (row,) = published_numbers._make_printed_rows("m", [number], ["x/y"])
    assert row.source == "r: b, scored with GELU ⚠"


def test_the_change_beside_a_number_keeps_its_digits():
    numbers = [
        published_numbers.PublishedNumber("p", "t", "a", m, "b", "", "x", "y", v)
        for m, v in (("pretrained", "60.5"), ("clic", "49.85"))
    ]
    base, ours = numbers
    assert published_numbers._format_printed_cell(ours, base) == "49.85 (−10.65)"
    assert published_numbers._format_printed_cell(base, None) == "60.5"
    assert published_numbers._format_printed_cell(None, base) == "–"


def test_differences_of_a_method_that_the_paper_did_not_train_are_its_checkpoint_s():
    def row(method, value, table="t"):
        return published_numbers.PublishedNumber(
            "p", table, method, method, "B/32", "COCO", "sugarcrepe", "swap", value
        )

    query = ("p", "t", "clic", "negclip", "sugarcrepe/swap")
    scored = [row("clic", "80.0"), row("released.negclip", "75.0")]
    assert published_numbers.list_printed_differences(scored, *query) == [5.0]
    assert published_numbers.list_printed_differences([*scored, row("negclip", "70.0")], *query) == [10.0], (
        "its own training goes before"
    )


def test_differences_pair_rows_of_one_backbone_and_data_set():
    def number(row, method, backbone, data, value):
        return published_numbers.PublishedNumber("p", "t", row, method, backbone, data, "sugarcrepe", "swap", value)

    numbers = [
        number("CLIP", "pretrained", "B/32", "", "60.0"), number("CLIP", "pretrained", "B/16", "", "62.0"),
        number("a", "clic", "B/32", "COCO", "70.0"), number("b", "clic", "B/32", "LAION", "71.5"),
        number("c", "negclip", "B/32", "COCO", "75.0"), number("d", "", "B/32", "COCO", "99.0"),
    ]  # fmt: skip
    assert published_numbers.list_printed_differences(numbers, "p", "t", "clic", "pretrained", "sugarcrepe/swap") == [
        10.0,
        11.5,
    ]
    assert published_numbers.list_printed_differences(numbers, "p", "t", "clic", "negclip", "sugarcrepe/swap") == [-5.0]
    assert published_numbers.list_printed_differences(numbers, "p", "t", "clic", "pretrained", "sugarcrepe/add") == []


def compared(rows, numbers):
    """The lines of a comparison on ViT-B/32, of rows with one number each."""
    column = Column("sugarcrepe", "swap")
    method_rows = tuple(MethodRow(m, (), {column: Statistic(value / 100, None, 1)}) for m, value in rows.items())
    comparisons = published_numbers.compare_tables(numbers, ResultTable("vit_b_32", "scenes", (column,), method_rows))
    return [(line.label, line.ours, line.cells[0]) for comparison in comparisons for line in comparison.lines]


def printed(method, value, data="", row="theirs"):
    return published_numbers.PublishedNumber("p", "t", row, method, "ViT-B/32", data, "sugarcrepe", "swap", value)


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
