"""One answer a page: heading, sentences, table, folds and files of made reports are read, and never contradict each other."""

import csv
import html
import re
from dataclasses import dataclass

import numpy as np
import pytest

from compclip.report import heading, report_page
from tests.report import made_answers

SCENES = made_answers.FIVE[:4]
DEFAULT = {
    "finetune": dict.fromkeys(SCENES, 2.0),
    "negclip": {**dict.fromkeys(SCENES, 6.0), "winoground": 2.5},
    "clic": dict.fromkeys(SCENES, -3.0),
    "fsc_clip": {"sugarcrepe": 6.0, "sugarcrepe_pp": 5.0, "winoground": 5.0, "hard_positives": 4.0, "zeroshot": -6.0},
    "c2lip": {**dict.fromkeys(SCENES, 2.0), "retrieval": -5.0, "zeroshot": -5.0},
    "hard_positives": {**dict.fromkeys(SCENES, 2.0), "hard_positives": 25.0},
}


def many_rows():
    """20 methods with gains drawn at random, among which some rest on one benchmark."""
    generator = np.random.default_rng(7)
    gains = {"finetune": dict.fromkeys(made_answers.FIVE, 1.0)}
    for number in range(19):
        common = generator.normal(1.0, 2.0)
        gains[f"method{number}"] = {name: common + generator.normal(0, 3.0) for name in made_answers.FIVE}
        gains[f"method{number}"] |= {name: generator.normal(-1.0, 2.0) for name in made_answers.GENERAL}
    return gains


PAGES = {
    "default": {"gains": DEFAULT, "seeds": 2, "benchmarks": SCENES, "spread": 0.02, "notice": "These are drawings."},
    "many rows": {"gains": many_rows(), "items": 300},
    "own small test": {"gains": {"finetune": {}, "negclip": {"pairs": 25.0}}, "benchmarks": ("pairs",), "items": 60},
    "one seed": {"gains": DEFAULT, "seeds": 1, "benchmarks": SCENES},
}
CELL = re.compile(r'<td(?: class="([^"]*)")?(?: title="([^"]*)")?>([^<]*)')


@dataclass(frozen=True)
class PageText:
    """What a page says: its heading, and by method a sentence and marks by column, of the first screen and of the fold."""

    heading: str
    sentences: dict[str, str]
    marks: dict[str, dict[str, str]]
    fold_sentences: dict[str, str]
    fold_marks: dict[str, dict[str, str]]
    fold_head: str
    titles: dict[str, str]  # of each method's Comp


def read_page(text: str) -> PageText:
    fold = text.partition('<details id="reference">')[2].partition("</details>")[0]
    first = text.partition('<table class="rows headline">')[2].partition("</table>")[0]
    marks, titles = read_marks(first, re.findall(r'<th scope="col"[^>]* title="([^"]+)"', first))
    fold_table = fold.partition('<table class="rows">')[2].partition("</table>")[0]
    spans = re.findall(r'<th class="span" colspan="(\d+)">([^<]+)', fold_table)
    benchmarks = [name for count, name in spans for _ in range(int(count))]
    metrics = re.findall(r'<th scope="col"[^>]*>([^<]+)</th>', fold_table)[2:]
    names = [f"{b}/{m.split(' ')[0]}" for b, m in zip(benchmarks, metrics, strict=True)]
    fold_marks, _ = read_marks(fold_table, names)
    return PageText(
        html.unescape(re.search("<h1>(.*?)</h1>", text)[1]), read_sentences(text.partition('class="sentences"')[2]), marks,
        read_sentences(fold), fold_marks, re.search(r"<span>([^<]*)</span>", fold)[1], titles,
    )  # fmt: skip


def read_sentences(text: str) -> dict[str, str]:
    text = text.partition("<section")[0].partition('<p class="note key">')[0]
    return {m: html.unescape(s) for m, s in re.findall(r"<li><strong>([^<]+)</strong>: ([^<]+)</li>", text)}


def read_marks(table: str, columns: list[str]):
    marks = {}
    titles = {}
    for method, rest in re.findall(r'<th scope="row">([^<]+)</th><td>\d*</td>(.*?)</tr>', table, re.DOTALL):
        cells = CELL.findall(rest)
        if method != "decided from":
            marks[method] = {c: css.replace("best", "").strip() for c, (css, _, _) in zip(columns, cells, strict=True)}
            titles[method] = html.unescape(cells[0][1])
    return marks, titles


@pytest.fixture(scope="module", params=PAGES)
def made(request, tmp_path_factory):
    """The name of a page, its folder, and what it says."""
    folder = tmp_path_factory.mktemp("reports")
    report_page.write_report(made_answers.build_page(**PAGES[request.param]), folder)
    return request.param, folder, read_page((folder / "index.html").read_text())


WORDS = {"better": "better at composition", "worse": "worse at composition", "": "composition undecided"}


def test_sentences_and_table_have_one_verdict(made):
    """Of composition, and of what falls or rises in general; each row's sentence has its own numbers."""
    _, _, page = made
    assert page.sentences.keys() == page.marks.keys() - {"finetune"}
    for method, sentence in page.sentences.items():
        gain, _, general = sentence.partition("; ")
        assert gain.startswith(WORDS[page.marks[method]["summary/Comp"]]), (method, sentence)
        assert re.search(r": ([+−]?[\d.]+) ", gain)[1] in page.titles[method]
        for name in ("ZS", "I2T", "T2I"):
            assert (f"{name} −" in general) is (page.marks[method][f"summary/{name}"] == "worse"), (method, sentence)
        assert "costs" in general or "a loss is possible" in general or "better at general" in general
        assert "nothing" not in sentence


def test_the_fold_says_what_the_first_screen_says(made):
    """Sentence by sentence and mark by mark; its head counts the marks that it has."""
    _, _, page = made
    assert page.fold_sentences == page.sentences
    counts = {"better": 0, "worse": 0}
    for method, marks in page.fold_marks.items():
        for column, mark in marks.items():
            assert page.marks[method].get(column, mark) == mark, (method, column)
            counts[mark] = counts.get(mark, 0) + 1
    assert page.fold_head.startswith(f"{counts['better']} better, {counts['worse']} worse, ")


def test_the_heading_is_the_best_of_the_rows_that_are_better(made):
    name, folder, page = made
    assert heading.read_heading(folder) == page.heading
    assert page.heading.startswith("On drawings, ") is (name == "default")
    assert ("of one run each" in page.heading) is (name == "one seed")
    better = [m for m, s in page.sentences.items() if s.startswith("better at composition") and m != "pretrained"]
    best = re.search(r"est at composition[^:]*: ([^,]+), (\S+) over finetune", page.heading)
    assert bool(best) is bool(better)
    if best:
        assert best[1] == better[0] and f"better at composition: {best[2]} " in page.sentences[best[1]]
        equals = [m for m, title in page.titles.items() if title.endswith(f"cannot be told from {best[1]}")]
        for method in re.findall(r"; ([^;]*) cannot be told from it", page.heading)[:1]:
            assert set(method.split(" and ")) <= set(equals) or re.match(r"\d+ others", method)
    for method in re.findall(r"; (\S+), \S+, rests on", page.heading):
        assert "but " in page.sentences[method] and page.sentences[method].startswith("composition undecided")


def test_the_files_say_what_the_page_says(made):
    """report.md and reference.csv: the same heading, sentences and verdicts."""
    _, folder, page = made
    text = (folder / "report.md").read_text().replace("\\[", "[").replace("\\]", "]")
    assert f"**{page.heading}**" in text
    assert dict(re.findall(r"^- \*\*(\S+)\*\*: (.*)$", text, re.MULTILINE)) == page.sentences
    for line in csv.DictReader((folder / "reference.csv").read_text().splitlines()):
        if (line["benchmark"], line["metric"]) == ("summary", "Comp"):
            assert line["verdict"] == page.marks[line["method"]]["summary/Comp"]
            rests_on = re.findall(r"without the benchmark (\w+)", page.sentences[line["method"]])
            assert not line["rests_on"] or line["rests_on"].split() == rests_on


def test_the_numbers_of_comp_are_those_of_the_items(made):
    """Its mean, its difference to finetune, and that without each benchmark, from the outcomes alone."""
    name, _, page = made
    runs = made_answers.make_runs(**{key: value for key, value in PAGES[name].items() if key != "notice"})
    benchmarks = PAGES[name].get("benchmarks", made_answers.FIVE)
    scores = {}
    for run in runs:
        of_run = [run.results[b].items["accuracy"].values.mean() for b in benchmarks]
        scores.setdefault(run.cell.method, []).append(of_run)
    mean_B = {method: 100 * np.mean(of_method, axis=0) for method, of_method in scores.items()}
    for method, title in page.titles.items():
        gap_B = mean_B[method] - mean_B["finetune"]
        assert float(re.search(r": ([\d.]+) %", title)[1]) == pytest.approx(mean_B[method].mean(), abs=1e-3)
        said = {b: v for v, b in re.findall(r"; ([+−]?[\d.]+) \[[^]]*\][a-z ]* without (\w+)", title)}
        if method != "finetune":
            said[""] = re.search(r"; ([+−]?[\d.]+) to finetune", title)[1]
        for benchmark, value in said.items():
            others = [gap for b, gap in zip(benchmarks, gap_B, strict=True) if b != benchmark]
            assert float(value.replace("−", "-")) == pytest.approx(np.mean(others), abs=0.0501), (method, benchmark)
        assert len(said) == (0 if method == "finetune" else 1 + len(benchmarks) * (len(benchmarks) > 1))


def test_the_pages_have_what_they_are_made_for(made):
    """A best row, one that rests on a benchmark, a decided cost, a small test, many sentences."""
    name, folder, page = made
    text = (folder / "index.html").read_text()
    if name == "default":
        assert "best at composition: " in page.heading and "negclip" in page.heading
        assert "hard_positives" in page.heading and "rests on the benchmark hard_positives" in page.heading
        assert page.sentences["fsc_clip"].count("costs") == page.sentences["c2lip"].count("costs") == 1
    if name == "many rows":
        assert len(page.sentences) == 20 and "rests on" in text
        assert {"better", "worse", ""} == {marks["summary/Comp"] for marks in page.marks.values()}
    if name == "own small test":
        assert "(the benchmark pairs alone, 60 records)" in page.heading and "pairs is a small test of 60 items" in text
