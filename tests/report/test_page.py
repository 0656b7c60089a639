"""The files of the report: numbers and marks as shown, same bytes every time, nothing fetched, nothing half-written."""

import csv
import dataclasses
import re
from html.parser import HTMLParser
from types import SimpleNamespace

import pytest
from PIL import Image

from compclip.base.errors import UserError
from compclip.prepare import record_writer
from compclip.prepare.record_writer import RecordPicture, StoredRecord
from compclip.report import __main__ as report_command
from compclip.report import report_page, table_formats, tuned_rows
from compclip.report.run_details import MissingResult
from compclip.report.tables import Column
from tests import fake_runs
from tests.report import made_page

VOID = {"meta", "br", "hr", "img"}


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    return made_page.build_grid_page(made_page.make_grid(tmp_path_factory.mktemp("runs")))


@pytest.fixture(scope="module")
def html(report):
    return report_page.render_page(report)


class Reader(HTMLParser):
    """Checks that tags nest and gathers the tables as rows of text."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tables = [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append([])
        if tag in ("td", "th"):
            self.tables[-1][-1].append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if {"td", "th"} & set(self.open):
            self.tables[-1][-1][-1] += data.strip()


def test_the_page_nests_and_its_first_table_has_the_numbers(html):
    rows = Reader(html).tables[0]
    assert rows[0] == ["method", "seeds", "Comp ↑", "I2T ↑", "T2I ↑", "SugarCrepe ↑"]
    assert rows[1] == ["pretrained", "1", "45.0", "80.0", "60.0", "45.0"]
    assert rows[2] == ["negclip", "2", "80.0", "50.0", "70.0", "80.0"]


def test_the_page_is_whole_without_its_script_and_its_folds_are_closed(html):
    """Controls are the script's alone; each fold says what is in it, and none is without content."""
    body = html[html.index("<body>") : html.index("<script>")]
    assert not re.search(r"<button|<input| hidden|<details open", body)
    assert body.count('<div class="scroll" tabindex="0" role="region"') == body.count('<div class="scroll"') > 3
    folds = re.findall(r'<details id="(\w+)"><summary>[^<]+<span>([^<]*)</span>', body)
    assert {"results", "reading"} <= dict(folds).keys() and all(finding for _, finding in folds)
    assert not {"items", "blind", "claims", "published", "wise_ft", "runs"} & dict(folds).keys()


def test_hours_in_sum(runs, report):
    """Seconds times devices; runs that do not say are counted, and a dash stands where none says."""
    assert dict(report_page.list_facts(report))["training took"] == "–"
    for run, seconds in zip(runs[2:5], (3600.0, 1800.0, 7200.0), strict=True):  # both of negclip, one of clic
        run.environment["device_seconds"] = seconds
    runs[4].environment["peak_device_memory_mib"] = 900
    hours = dict(report_page.list_facts(made_page.build_grid_page(runs)))["training took"]
    assert hours == "2.00 GPU-hours and 1.50 process-hours (without 1 of 4 runs, which do not say)"


def test_the_best_is_marked_on_the_page_where_its_order_is_decided(report, html):
    """Of two seeds and 15 items it is not: of each it is said which row it cannot be told from."""
    title = r'title="sugarcrepe/mean \(swap\): 80.000 % ± 14.1, 2 seeds; \+35.0 to pretrained \[[^"]*; cannot be told from clic"'
    assert re.search(title, html) and 'class="best' not in html
    ranked = report_page.render_page(rank_swap(report))
    assert re.search(r'<td class="best[^"]*" title="sugarcrepe/mean \(swap\): 80.000 %', ranked)


def rank_swap(report):
    """Return the report as if the order of sugarcrepe/swap were decided: negclip, clic."""
    (group,) = report.tables.headline
    ranks = {"negclip": 1, "clic": 2}
    numbers = {row.method: dict(row.statistics) for row in group.rows}
    for row, column, cell in group.numbers():
        if column.name in ("sugarcrepe/swap", "sugarcrepe/mean"):
            numbers[row.method][column] = dataclasses.replace(cell, rank=ranks.get(row.method, 0), equal_to="")
    group = group.with_statistics(numbers)
    main = (group.select(report.tables.main[0].columns),)
    return dataclasses.replace(report, tables=dataclasses.replace(report.tables, headline=(group,), main=main))


def test_the_page_fetches_nothing(html):
    assert not re.search(r"(src|href)=\"(?!#)", html)
    assert not re.search(r"url\((?!#)|@import|https?://", html)


@pytest.mark.parametrize(
    ("value", "metric", "sign", "text"),
    [(0.5, "swap", False, "50.0"), (-0.0501, "swap", True, "−5.0"), (-0.0001, "swap", True, "0.0"),
     (0.0501, "swap", True, "+5.0"), (0.25129, "mean_score", False, "0.251")],
)  # fmt: skip
def test_numbers_as_shown(value, metric, sign, text):
    assert table_formats.format_number(value, Column("b", metric, score=metric == "mean_score"), sign) == text


def test_markdown_latex_and_csv_say_the_same(report):
    report = rank_swap(report)
    lines = table_formats.format_markdown_table(*report.tables.main).splitlines()
    cells = {line.split(" | ")[0]: line.split(" | ")[5] for line in lines if line.startswith("| ")}
    assert (cells["| negclip"], cells["| clic"]) == ("**80.0** ± 14.1", "75.0 ± 0.0 ▲")
    tex = table_formats.format_latex(report.tables.main)
    assert r"\textbf{80.0} {\scriptsize $\pm$ 14.1} &" in tex
    assert r"\underline{75.0}$^{\ast}$ {\scriptsize $\pm$ 0.0}" in tex
    sections = re.findall(r"\\caption\{vit / scenes, (\w+): ", tex)
    assert sections == ["means", "composition", "retrieval"]
    assert tex.count(r"\begin{tabular}") == tex.count(r"\end{tabular}") == len(sections)
    assert r" & \multicolumn{1}{c}{SugarCrepe} & " in tex and r"\cmidrule(lr){2-2}" in tex
    rows = list(csv.DictReader(table_formats.format_results_csv(report.tables.main).splitlines()))
    (row,) = [r for r in rows if (r["method"], r["benchmark"], r["metric"]) == ("negclip", "sugarcrepe", "swap")]
    assert (row["mean"], row["std"], row["rank"], row["difference"]) == ("0.800000", "0.141421", "1", "0.350000")
    assert (row["items"], row["verdict"], row["seeds"]) == ("15", "", "2")
    assert (row["over"], row["low"] < "0" < row["high"]) == ("seeds and items", True)
    assert {r["seeds"] for r in rows if r["method"] == "pretrained"} == {"1"}
    assert {r["std"] for r in rows if r["method"] == "pretrained"} == {""}


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project folder with all runs and a grid that asks for them."""
    fake_runs.make(tmp_path)
    evaluate = SimpleNamespace(benchmarks=list(fake_runs.BENCHMARKS), validation_share=0.2)
    settings = SimpleNamespace(columns=[], reference="", correction="none", split="whole")
    params = SimpleNamespace(
        evaluate=evaluate, report=settings, benchmarks={}, methods=dict.fromkeys(fake_runs.METHODS, {}),
        wise_ft=report_command.sections.WiseFt(), tune=report_command.sections.Tune(), grid=SimpleNamespace(),
    )  # fmt: skip
    monkeypatch.setattr(report_command.read, "load_params", lambda path: params)
    monkeypatch.setattr(report_command.grid, "list_cells", lambda params: fake_runs.cells())
    monkeypatch.setattr(report_command.run_details, "find_stale_runs", lambda params, runs, partial: [])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def files(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_the_command_writes_the_same_bytes_twice(project):
    assert report_command.main([]) == 0
    first = files(project / "reports")
    assert sorted(first) == [
        "blind.csv", "claims.csv", "index.html", "metrics.json", "plots/forest-vit-scenes.svg", "reference.csv",
        "report.csv", "report.md", "report.tex",
    ]  # fmt: skip
    assert report_command.main([]) == 0
    assert files(project / "reports") == first


@pytest.fixture
def recorded_project(project):
    """What the runs' SugarCrepe asked, as the stage `benchmark` writes it; texts that would be HTML."""
    Image.new("RGB", (40, 20)).save(project / "a.png")
    records = [
        StoredRecord(subset, f"{subset}:{i}", (f"<b>{i}</b>", "other"), (), (RecordPicture("a.png", 0, 0, ()),))
        for subset, count in (("swap_att", 10), ("swap_obj", 5))
        for i in range(count)
    ]
    file = record_writer.records_file(project, "sugarcrepe")
    record_writer.write_records(file, records, ["sugarcrepe" * 2])
    return project


def test_won_and_lost_items_stand_on_the_page(recorded_project, capsys):
    """CLIC wins five items and loses none; pictures are within the page, texts are texts; `--items` bounds them."""
    assert report_command.main(["--items", "2"]) == 0
    html = (recorded_project / "reports" / "index.html").read_text()
    Reader(html)
    assert re.search(r"\w+ wins \d+ and loses \d+", html) and html.count('src="data:image/jpeg;base64,') == 4
    assert "<b>1</b>" not in html and "&lt;b&gt;" in html
    assert 'href="../results/clic/vit-scenes-0/sugarcrepe.json"' in html and "img-src data:" in html
    assert report_command.main(["--items", "0"]) == 0
    assert "<img" not in (recorded_project / "reports" / "index.html").read_text()
    with pytest.raises(UserError, match="--items -1: must be 0 or more"):
        report_command.main(["--items", "-1"])


NASTY = "<img src=x onerror=alert(1)>|`\\_$&\"'=1\ud800"


def test_what_was_tuned_stands_on_the_page(report, html):
    """A section of its own, with a line a method; none where nothing was tuned."""
    gamma = tuned_rows.ChosenParameter("gamma", 2.0, 3.5, (3.0, 4.0))
    tuned = tuned_rows.TunedMethod("fsc_clip", "b-d", "s", ("summary/Comp",), 16, 0, 600.0, 1.0, 2.5, 4, (gamma,))
    results = dataclasses.replace(report.results, tuning=(tuned,))
    text = report_page.render_page(dataclasses.replace(report, results=results))
    row = next(table for table in Reader(text).tables if table[0][-1] == "chosen")[1]
    assert row == ["fsc_clip", "b-d", "16", "10.0", "+1.0", "+2.5", "4 of 16", "gamma 3.5 (before 2; 3 to 4)"]
    assert 'id="tuning"' in text and 'id="tuning"' not in html


def test_what_a_run_s_files_hold_stays_text(runs, tmp_path):
    """Whoever made them wrote the machine, the parameters, the reasons and the names of the loss terms."""
    for run in runs:
        run.environment.update(device=NASTY, git_commit=NASTY, dropped={NASTY: 1}, packages={NASTY: NASTY})
        run.config["train"] = {NASTY: NASTY}
        run.curve[:] = [{**line, NASTY: 1.0} for line in run.curve]
    page = made_page.build_grid_page(runs, missing=[MissingResult(NASTY, NASTY)])
    texts = made_page.write(page, tmp_path / "out")
    html, text = texts["index.html"], texts["report.md"]
    Reader(html)
    assert html.count("&lt;img") == 2 and "<img" not in html
    assert "- &lt;img src=x onerror=alert(1)>\\|\\`" in text and "<img" not in text


def test_published_numbers_stand_beside_ours(project):
    folder = project / "experiments" / "published"
    folder.mkdir(parents=True)
    (folder / "paper.csv").write_text(
        "paper,table,row,method,backbone,data,benchmark,metric,value,unit\n"
        "NegCLIP,Table 3,CLIP,pretrained,ViT-B/32,,sugarcrepe,swap,62.0,percent\n"
        "NegCLIP,Table 3,NegCLIP,negclip,ViT-B/32,COCO,sugarcrepe,swap,75.5,percent\n"
        "NegCLIP,Table 3,Other,,ViT-B/32,COCO,sugarcrepe,swap,70.0,percent\n"
    )
    (folder / "benchmarks.yaml").write_text("fingerprints: {sugarcrepe: [sugarcrepesugarcrepe]}")
    report_command.main([])
    tables = Reader((project / "reports/index.html").read_text()).tables
    (table,) = [t for t in tables if t[0][:2] == ["method", "source"]]
    assert table[1:] == [
        ["pretrained", "CLIP: ViT-B/32", "62.0"], ["pretrained", "ours: vit, scenes", "45.0"],
        ["negclip", "NegCLIP: ViT-B/32, COCO", "75.5 (+13.5)"], ["negclip", "ours: vit, scenes", "80.0 (+35.0)"],
    ]  # fmt: skip


def test_a_reference_that_the_grid_has_not_is_named_and_nothing_written(project, monkeypatch):
    params = report_command.read.load_params("params.yaml")
    params.report.reference, params.grid = ("clik", SimpleNamespace(methods=list(fake_runs.METHODS)))
    message = r"report.reference, in grid.methods: unknown method 'clik'; did you mean 'clic'"
    with pytest.raises(UserError, match=message):
        report_command.main([])
    assert not (project / "reports").exists()
    params.report.reference = "clic"
    assert report_command.main([]) == 0
    assert "▲ ▼: better or worse than clic" in (project / "reports" / "report.md").read_text()
