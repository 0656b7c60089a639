"""What the head of a table says: the backbone's weights, how much of each benchmark was scored, and which columns lack some."""

import csv
import json
import re

import pytest

from compclip.base.files import write_atomic
from compclip.evaluate import scoring_options
from compclip.report import report_page, table_formats, table_heads
from compclip.report.table_heads import Coverage
from compclip.report.tables import Column
from compclip.runs.run_folder import Published
from tests import fake_runs
from tests.report import made_page

SCENES = "{model: scenes.json, weights: scenes.fp16.safetensors}"
RANDOM = "{model: ViT-B-32, weights: ''}"
HUB = "{model: 'hf-hub:x/y'}"


def project(root, backbone=SCENES, **coverage):
    """All fake runs on a backbone; `coverage` of the metrics of SugarCrepe, of which 5 of 15 records were scored."""
    fake_runs.make(root)
    for cell in fake_runs.cells():
        published = Published(root, cell)
        config = published.trained.config
        write_atomic(config, config.read_text() + f"backbone: {backbone}\n")
        path = fake_runs.result(root, cell.name, "sugarcrepe")
        document = json.loads(path.read_text())
        if coverage:
            document |= {"coverage": coverage, "counts": {"records": 15, "scored": 5, "missing_image": 10}}
        path.write_text(json.dumps(document))
    return root


def built(root, **settings):
    return made_page.build_grid_page(made_page.collect(root), **settings)


def read_first_table(html):
    """The label of each row of the first table, and its marks of best, second and verdict."""
    table = html[html.index("<table") : html.index("</table>")]
    labels = re.findall(r'<th scope="row">([^<]+)</th>', table)
    return labels, re.findall(r'class="(?:best|second|better|worse)', table)


@pytest.mark.parametrize(
    ("backbone", "words", "is_random"),
    [
        (SCENES, "scenes.json, pretrained weights scenes.fp16.safetensors", False),
        (HUB, "hf-hub:x/y, its own pretrained weights", False),
        (RANDOM, "ViT-B-32, random weights (not pretrained)", True),
        ("{model: ViT-B-32, weights: random}", "ViT-B-32, random weights (not pretrained)", True),
    ],
)
def test_the_head_says_what_the_backbone_is(tmp_path, backbone, words, is_random):
    """A random one is not called pretrained, and no row of it is better than another, in any file."""
    page = built(project(tmp_path, backbone), reference="clic")
    html = report_page.render_page(page)
    labels, marks = read_first_table(html)
    assert f"Backbone: {words}." in html
    assert labels[0] == ("random weights" if is_random else "pretrained")
    assert bool(marks) is not is_random
    (group,) = page.tables.main
    text, tex = table_formats.format_markdown_table(group), table_formats.format_latex([group])
    assert "Backbone: " in tex
    assert ("| random weights | 1 |" in text, "\nrandom weights & " in tex) == (is_random, is_random)
    assert (tex.count(r"\approx") > 1) is not is_random
    lines = list(csv.DictReader(table_formats.format_results_csv([group]).splitlines()))
    assert {line["method"] for line in lines} == set(fake_runs.METHODS)
    assert {line["weights"] == "random" for line in lines} == {is_random}
    assert any(line["rank"] or line["verdict"] for line in lines) is not is_random
    contrast = table_formats.format_contrasts_latex(page.tables.contrasts, "clic")
    assert ("random weights &" in contrast) is is_random
    assert not (is_random and r"$^\ast$" in contrast)


def test_a_column_of_which_little_was_scored_is_marked(tmp_path):
    """swap_att is whole, of swap_obj 5 of 15 records were scored: so it is of their mean, and of the mean over benchmarks."""
    page = built(project(tmp_path, swap_att=[15, 15], swap_obj=[5, 15]))
    html = report_page.render_page(page)
    assert re.findall(r'<th scope="col" class=partial title="([^"]+)">', html) == ["summary/Comp", "sugarcrepe/mean"]
    assert '>sugarcrepe<small title="records scored" class=partial>5 of 15</small>' in html
    assert "‡ less than nine tenths" in html
    markdown = table_formats.format_markdown_table(*page.tables.main)
    assert "| sugarcrepe/swap ↑ ‡ | hard_positives/brittleness ↓ |" in markdown
    assert "Scored: sugarcrepe 5 of 15 records (33 %) ‡; retrieval 5 records; hard_positives 4 records." in html
    tex = table_formats.format_latex(page.tables.main)
    assert r"swap $\uparrow$ $\ddagger$ & brittleness $\downarrow$ &" in tex and "5 of 15 records" in tex
    table = table_formats.format_results_csv((*page.tables.main, *page.tables.other_metrics))
    lines = list(csv.DictReader(table.splitlines()))
    scored = {line["metric"]: (line["scored"], line["records"]) for line in lines if line["benchmark"] == "sugarcrepe"}
    assert scored == {"swap": ("5", "15"), "swap_att": ("15", "15"), "swap_obj": ("5", "15")}


def test_a_retrieval_that_lost_names_to_its_split_is_marked(tmp_path):
    """Its columns and the means over them, in every file and on the terminal; no others, and no column without a loss."""
    project(tmp_path)
    for cell in fake_runs.cells():
        path = fake_runs.result(tmp_path, cell.name, "retrieval")
        document = json.loads(path.read_text())
        document["counts"]["name_without_caption"] = 3
        path.write_text(json.dumps(document))
    page = built(tmp_path)
    html = report_page.render_page(page)
    marked = re.findall(r'<th scope="col" class=partial title="([^"]+)">', html)
    assert set(marked) == {"summary/I2T", "summary/T2I"}
    assert html.count("⊂ retrieval: 3 names") == 1 and "‡" not in html
    assert "retrieval/i2t_recall_at_1 ↑ ⊂ |" in table_formats.format_markdown_table(*page.tables.main)
    assert r"$\uparrow$ $\subset$ &" in table_formats.format_latex(page.tables.main)
    table = scoring_options.metric_table({"retrieval": document | {"coverage": {}}})
    assert re.search(r"i2t_recall_at_1 .* ⊂ 3 names without a caption\n", table)


def test_a_group_s_part_is_as_the_whole_metric(tmp_path):
    runs = made_page.collect(project(tmp_path, swap_att=[14, 15], swap_obj=[13, 15]))
    group_coverage = table_heads.column_coverage(Column("sugarcrepe", "swap_att/unseen_pairs"), runs)
    assert group_coverage == Coverage(14, 15) and not group_coverage.is_partial
    assert table_heads.column_coverage(Column("sugarcrepe", "swap"), runs) == Coverage(13, 15)
    assert Coverage(13, 15).is_partial and not Coverage(9, 10).is_partial
