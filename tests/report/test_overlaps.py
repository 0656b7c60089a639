"""Pictures that training and benchmarks share, said beside the numbers."""

from compclip.base.files import write_json
from compclip.report import report_page, table_formats, table_heads
from compclip.report.run_details import collect_runs
from tests import fake_runs
from tests.report import made_page

SHARED = {
    "retrieval": {"bytes": 1, "coco_id": 1311, "pictures": 1312},
    "sugarcrepe": {},
    "winoground": {"pictures": 5, "sha256": 5},  # of another grid
}
TOLD = "scenes shares 1,312 pictures with retrieval (1 by length and first bytes, 1,311 by COCO's number)"


def build_page(root, methods=fake_runs.METHODS) -> report_page.ReportPage:
    cells = fake_runs.cells(methods)
    runs = collect_runs(cells, fake_runs.BENCHMARKS, fake_runs.make(root, cells))[0]
    shared = table_heads.read_overlaps(root, ["scenes", "scenes", "elsewhere"])
    return made_page.build_page(runs, fake_runs.BENCHMARKS, None, [], [], overlaps=shared)


def test_a_note_and_a_mark_beside_the_rows(tmp_path):
    """At the benchmark's name, below the table, in Markdown and in the caption."""
    write_json(tmp_path / table_heads.OVERLAPS / "scenes.json", SHARED)
    report = build_page(tmp_path)
    assert report.notes == {"vit / scenes": [TOLD]}
    html = report_page.render_page(report)
    assert ">retrieval †<small" in html and ">sugarcrepe<small" in html
    assert html.count(f"† {TOLD.replace(chr(39), '&#39;')}.") == 1
    report_page.write_report(report, tmp_path / "out")
    assert f"† {TOLD}." in (tmp_path / "out" / "report.md").read_text().replace("\\", "")
    caption = table_formats.format_latex(report.tables.main, report.notes).partition("\\caption{")[2].partition("\n")[0]
    assert caption.endswith(f"{TOLD}.}}")


def test_nothing_is_said_where_nothing_is_shared_or_trained(tmp_path):
    assert build_page(tmp_path / "a").notes == {"vit / scenes": []}
    write_json(tmp_path / "b" / table_heads.OVERLAPS / "scenes.json", SHARED)
    assert build_page(tmp_path / "b", ("pretrained",)).notes == {"vit / scenes": []}
