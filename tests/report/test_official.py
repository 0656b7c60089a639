"""Only equal benchmarks stand beside published numbers: told by fingerprints, and the section says why others do not."""

import json

import pytest

from compclip.config import read
from compclip.config.sections import BenchmarkSection as Section
from compclip.evaluate import benchmark_module
from compclip.report import published_numbers, report_page
from compclip.report.published_numbers import OfficialBenchmarks
from tests import fake_runs
from tests.config.test_grids import GRIDS
from tests.conftest import ROOT
from tests.report import made_page

FOLDER = ROOT / "experiments" / "published"
KNOWN = published_numbers.read_official_benchmarks(FOLDER)
NUMBERS = [
    published_numbers.PublishedNumber("P", "T", "CLIP", "pretrained", "ViT", "", *column.split("/"), "60.0")
    for column in ("sugarcrepe/swap", "retrieval/i2t_recall_at_1", "summary/I2T")
]


@pytest.mark.parametrize("name", ["sugarcrepe", "sugarcrepe_pp", "valse"])
def test_official_files_have_the_fingerprint_that_is_declared(name, shared_data):
    """Of a copy elsewhere too; of a part of the files not."""
    part = "existence" if name == "valse" else "swap_att"
    for split, is_official in (("", True), (part, False)):
        section = Section(name, str(shared_data / name), str(shared_data / "coco" / "val2017"), split)
        benchmark = benchmark_module.load_benchmark(name, section)
        assert (benchmark.fingerprint() in KNOWN.fingerprints[name]) is is_official


@pytest.mark.parametrize(
    ("grid", "beginning"), [("fsc_clip_main", ""), ("clic_table12", "zeroshot_ten_"), ("clic_table3", "zeroshot_ten_")]
)
def test_means_are_over_the_benchmarks_that_the_papers_grids_declare(grid, beginning):
    """Of FSC-CLIP's four summary columns, and of CLIC's ZS-10."""
    names = [name for name in read.load_params(GRIDS[grid]).evaluate.benchmarks if name.startswith(beginning)]
    if beginning:
        assert sorted(KNOWN.means["zeroshot_ten/top_1"]) == sorted(names)
        return
    kinds = {"summary/ZS": "zeroshot_", "summary/I2T": "retrieval_", "summary/T2I": "retrieval_"}
    for column, kind in kinds.items():
        assert sorted(KNOWN.means[column]) == sorted(name for name in names if name.startswith(kind))
    composition_names = [name for name in names if not name.startswith(tuple(kinds.values()))]
    assert sorted(KNOWN.means["summary/Comp"]) == sorted(composition_names)


def build_page(tmp_path, official, **changed):
    """All fake runs, published numbers and models; `changed` stands over SugarCrepe's results."""
    fake_runs.make(tmp_path)
    for cell in fake_runs.cells():
        path = fake_runs.result(tmp_path, cell.name, "sugarcrepe")
        path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    return made_page.build_grid_page(made_page.collect(tmp_path), numbers=NUMBERS, official=official)


def read_comparisons(page):
    """The columns beside papers' tables, and what the page says."""
    html = report_page.render_page(page)
    section = html.partition('<details id="published">')[2]
    return {column for c in report_page.compare_published(page) for column in c.columns}, section


def test_equal_benchmarks_are_compared(tmp_path):
    """And a mean over them where the published one is over the same."""
    official = OfficialBenchmarks(fake_runs.OFFICIAL.fingerprints, {"summary/I2T": ["retrieval"]})
    compared_columns, section = read_comparisons(build_page(tmp_path, official))
    assert compared_columns == {"sugarcrepe/swap", "retrieval/i2t_recall_at_1", "summary/I2T"}
    assert "Not compared" not in section


@pytest.mark.parametrize(
    ("sugarcrepe_fingerprints", "changed", "reason"),
    [
        (("sugarcrepesugarcrepe",), {"fingerprint": "the scenes'"}, "other files than the official ones"),
        (None, {}, "cannot be compared: the official files&#39; fingerprint is not known"),
        (("sugarcrepesugarcrepe",), {"counts": {"records": 7511, "scored": 319}},
         "less than nine tenths of the records were scored"),
    ],
)  # fmt: skip
def test_others_are_not_and_the_section_says_why(tmp_path, sugarcrepe_fingerprints, changed, reason):
    """Other files, files that nobody knows, and official ones of which 319 of 7,511 records were scored."""
    fingerprints = {"retrieval": ("retrievalretrieval",)}
    if sugarcrepe_fingerprints:
        fingerprints["sugarcrepe"] = sugarcrepe_fingerprints
    compared_columns, section = read_comparisons(build_page(tmp_path, OfficialBenchmarks(fingerprints), **changed))
    assert compared_columns == {"retrieval/i2t_recall_at_1"}
    assert section.count(f"<li>vit / scenes: sugarcrepe ({reason})</li>") == 1
    mean = "<li>vit / scenes: summary/I2T (a mean over other benchmarks than the published one)</li>"
    assert section.count(mean) == 1


def test_the_scenes_are_compared_with_no_published_number(tmp_path):
    """With what the project knows: no row, and no section, as one without content does not exist."""
    compared_columns, section = read_comparisons(build_page(tmp_path, KNOWN))
    assert (compared_columns, section) == (set(), "")
