"""Validation and test items: by picture, the same in all benchmarks, chosen when results are read."""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest

from compclip.base.errors import UserError
from compclip.benchmarks import retrieval, sugarcrepe, sugarcrepe_pp, zeroshot
from compclip.config import read
from compclip.config.sections import DEFAULT_SCORING, TEST, VALIDATION, WHOLE
from compclip.evaluate import benchmark_module, result_store
from compclip.evaluate.benchmark import number_picture
from compclip.evaluate.embeddings import Embeddings
from compclip.report import report_page
from compclip.report.tables import Column
from compclip.runs import result_files
from compclip.runs.item_outcomes import Items
from compclip.runs.picture_splits import PictureSplit, is_validation
from compclip.runs.result_files import FinishedRun
from compclip.runs.run_folder import Trained
from compclip.sweep import study_declaration
from compclip.sweep.study_declaration import parse_study
from tests import fake_runs
from tests.report import made_page
from tests.shipped_files import SHIPPED_PARAMS

PICTURES = [f"{number:012}.jpg" for number in range(60)]
SUBSETS = "swap_att,swap_obj,replace_rel"
VALIDATION_PICTURES = {name for name in PICTURES if is_validation(number_picture(name), 0.2)}


def write_files(folder):
    """SugarCrepe and SugarCrepe++ over the same pictures, two records each; retrieval with two captions of a picture;
    two classes."""
    for name in SUBSETS.split(","):
        two = [(str(2 * i + j), picture) for i, picture in enumerate(PICTURES) for j in range(2)]
        texts = {"caption": f"{name} a", "negative_caption": "b"}
        rows = {key: {"filename": picture, **texts, "caption": f"{name} {key}"} for key, picture in two}
        write(folder / "sugarcrepe" / f"{name}.json", rows)
        reworded = [{"id": int(key), **row, "caption2": f"again {key}"} for key, row in rows.items()]
        write(folder / "sugarcrepe_pp" / f"{name}.json", reworded)
    captions = [{"filename": p, "split": "test", "sentences": [{"raw": f"{p} {i}"} for i in "12"]} for p in PICTURES]
    write(folder / "retrieval" / "dataset.json", {"images": captions})
    for i, picture in enumerate(PICTURES):
        write(folder / "zeroshot" / "images" / ("cat", "dog")[i % 2] / picture, {})
    (folder / "zeroshot" / "classnames.txt").write_text("cat\ndog\n")
    (folder / "zeroshot" / "zeroshot_classification_templates.txt").write_text("a {c}\n")


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run whose results were written and read again; embeddings by chance."""
    folder = tmp_path_factory.mktemp("splits")
    write_files(folder)
    benchmarks = {
        "sugarcrepe": sugarcrepe.load(folder / "sugarcrepe", split=SUBSETS),
        "sugarcrepe_pp": sugarcrepe_pp.load(folder / "sugarcrepe_pp", split=SUBSETS),
        "retrieval": retrieval.load(folder / "retrieval"),
        "zeroshot": zeroshot.load(folder / "zeroshot"),
    }
    loaded = benchmark_module.LoadedBenchmarks(benchmarks, {name: name for name in benchmarks}, DEFAULT_SCORING)
    scored = {name: benchmark.score(random_embeddings(benchmark)) for name, benchmark in benchmarks.items()}
    result_store.write_documents(benchmark_module.result_documents(scored, loaded, {}, 0.0), folder / "results")
    results = {name: result_files.read_result(folder / "results" / f"{name}.json") for name in benchmarks}
    return FinishedRun(Trained(folder), folder, fake_runs.cell("negclip"), {}, [], {}, results)


def random_embeddings(benchmark):
    images, texts = benchmark.images, benchmark.texts
    rng = np.random.default_rng(0)
    vectors = [rng.standard_normal((len(keys), 4), dtype=np.float32) for keys in (images, texts)]
    rows = [{key: row for row, key in enumerate(keys)} for keys in (images, texts)]
    return Embeddings(*vectors, *rows, {})


def pictures_of(run):
    """(benchmark, metric) -> pictures that its items show."""
    return {(n, m): set(items.pictures) for n, result in run.results.items() for m, items in result.items.items()}


def test_no_validation_picture_is_a_test_picture_of_any_benchmark(run):
    """All metrics of all four benchmarks, captions of retrieval included, have the very same pictures in each split."""
    validation, test = (pictures_of(PictureSplit(name).select(run)) for name in (VALIDATION, TEST))
    expected = set(map(number_picture, VALIDATION_PICTURES))
    assert 0 < len(expected) < 30
    assert validation.keys() == test.keys() == pictures_of(run).keys() and len(validation) > 15
    assert all(pictures == expected for pictures in validation.values())
    assert all(pictures == set(map(number_picture, PICTURES)) - expected for pictures in test.values())


def test_numbers_are_those_of_the_split_s_items(run):
    """Means are made anew of them; the items of both splits are all items, with the outcomes that they had among all
    candidates; records are counted by split."""
    validation, test = (PictureSplit(name).select(run) for name in (VALIDATION, TEST))
    for name, result in run.results.items():
        for metric, items in result.items.items():
            split_items = [r.results[name].items[metric] for r in (validation, test)]
            assert sorted(key for subset in split_items for key in subset.ids) == sorted(items.ids)
            assert sum(subset.values.sum() for subset in split_items) == pytest.approx(items.values.sum())
            assert validation.number(name, metric) == split_items[0].values.mean()
    of_swap = [validation.number("sugarcrepe", metric) for metric in ("swap_att", "swap_obj", "swap")]
    assert of_swap[2] == pytest.approx(np.mean(of_swap[:2]))
    count = 2 * len(VALIDATION_PICTURES)
    assert validation.results["sugarcrepe"].coverage["swap_att"] == (count, count)
    assert test.results["sugarcrepe"].counts["records"] == 3 * (120 - count)
    result = run.results["sugarcrepe"]
    details = {"swap_att/of_test": test.results["sugarcrepe"].items["swap_att"]}
    detailed = replace(result, items=result.items | details)
    assert PictureSplit(TEST).select_of_result(detailed).counts == test.results["sugarcrepe"].counts  # once each


def test_items_that_show_no_picture_are_in_no_split(run):
    """A mean average precision is of classes, each of which looks at all pictures."""
    result = run.results["zeroshot"]
    of_classes = Items(("0", "1"), np.array([0.5, 1.0]))
    result = replace(result, items=result.items | {"map_11": of_classes})
    assert "map_11" not in PictureSplit(VALIDATION).select_of_result(result).items


def test_the_share_grows_by_pictures_alone():
    """Who is a validation picture at a small share is one at a larger one, and about as many as asked are."""
    chosen = [{name for name in range(5000) if is_validation(str(name), share)} for share in (0.1, 0.2, 0.5)]
    assert chosen[0] < chosen[1] < chosen[2]
    assert [len(names) / 5000 for names in chosen] == pytest.approx([0.1, 0.2, 0.5], abs=0.02)


def test_the_authors_validation_set_stands_in_place_of_a_split(run):
    """Its numbers are the validation split; the test split is the whole; nowhere is it a benchmark of its own."""
    result = run.results["retrieval"]
    both = replace(run, results=run.results | {"retrieval_val": replace(result, metrics={"x": 1})})
    authors = {"retrieval": "retrieval_val"}
    selected = {name: PictureSplit(name, 0.2, authors).select(both) for name in (WHOLE, VALIDATION, TEST)}
    assert all("retrieval_val" not in r.results for r in selected.values())
    assert selected[VALIDATION].results["retrieval"].metrics == {"x": 1}
    assert selected[VALIDATION].results["retrieval"].benchmark == "retrieval"
    assert selected[TEST].results["retrieval"] is result and selected[WHOLE].results["retrieval"] is result


def test_a_validation_set_is_a_scored_benchmark_of_the_same_kind():
    """It is refused where it is not scored, or read by another module."""
    for name, fault in (("other", "validation"), ("winoground", ", evaluated and of sugarcrepe")):
        with pytest.raises(UserError, match=rf"benchmarks.sugarcrepe.validation.*{fault.removeprefix('validation')}"):
            read.load_params(SHIPPED_PARAMS, [f"benchmarks.sugarcrepe.validation={name}"])


# --- the report


def test_the_report_says_which_items_it_shows_and_compares_whole_benchmarks(run, tmp_path):
    """Its numbers are the split's; the tables that published numbers stand beside are of all items."""
    split = PictureSplit(TEST)
    names = (["sugarcrepe"], ["sugarcrepe/swap_att"], [], [])
    page = made_page.build_page([split.select(run)], *names, split=split, whole_runs=[run])
    (table,), (whole_table,) = page.tables.main, page.tables.whole
    column = next(c for c in table.columns if c.name == "sugarcrepe/swap_att")
    assert table.rows[0].statistics[column].mean == split.select(run).number("sugarcrepe", "swap_att")
    assert whole_table.rows[0].statistics[column].mean == run.number("sugarcrepe", "swap_att")
    report_page.write_report(page, tmp_path)
    sentence = "test items alone: 80 % of the pictures, by a hash of their names"
    for name in ("index.html", "report.md"):
        assert sentence in (tmp_path / name).read_text()
    assert sentence.replace("%", r"\%") in (tmp_path / "report.tex").read_text()
    assert {line["split"] for line in csv.DictReader((tmp_path / "report.csv").open())} == {TEST}


def test_the_real_benchmarks_of_coco_share_their_validation_pictures(shared_data):
    """SugarCrepe and SugarCrepe++ as published: about a fifth of the pictures, the same ones in both."""
    folders = {sugarcrepe: "sugarcrepe", sugarcrepe_pp: "sugarcrepe_pp"}
    numbers = [set(module.load(shared_data / name).unit_pictures) for module, name in folders.items()]
    validation = [{number for number in of_benchmark if is_validation(number, 0.2)} for of_benchmark in numbers]
    assert validation[0] & numbers[1] == validation[1] & numbers[0]
    assert all(0.17 < len(v) / len(n) < 0.23 for v, n in zip(validation, numbers, strict=True))


# --- studies


def test_an_objective_on_validation_items_does_not_read_a_test_outcome(run, tmp_path):
    """It stays what it is when every test item is answered otherwise, metrics of the file included."""
    columns = (Column("summary", "both", (Column("sugarcrepe", "swap"), Column("retrieval", "t2i_recall_at_1"))),)
    split = PictureSplit(VALIDATION)
    score_before = study_declaration.read_scores(columns, run.trained.path / "results", split)
    assert score_before == [np.mean([split.select(run).number(c.benchmark, c.metric) for c in columns[0].members])]
    for name, result in run.results.items():
        raw = json.loads((run.trained.path / "results" / f"{name}.json").read_text())
        for metric, items in result.items.items():
            is_test = [not is_validation(picture, 0.2) for picture in items.pictures]
            outcomes = np.where(is_test, 1 - items.values, items.values)
            raw["items"][metric]["outcomes"] = outcomes.tolist()
            raw["metrics"][metric] = outcomes.mean()
        for mean, members in raw["means"].items():
            raw["metrics"][mean] = np.mean([raw["metrics"][member] for member in members])
        write(tmp_path / f"{name}.json", raw)
    assert study_declaration.read_scores(columns, tmp_path, split) == score_before
    whole_before = study_declaration.read_scores(columns, run.trained.path / "results")
    assert study_declaration.read_scores(columns, tmp_path) != whole_before


def test_a_study_of_validation_items_has_no_rungs_and_older_studies_go_on():
    """What a pruner would look at is of whole benchmarks; a study without the key is declared as before there was one."""
    raw = {"method": "fsc_clip", "backbone": "b", "data": "d", "space": {"gamma": {"float": [0, 5]}}, "trials": 3}
    raw["objectives"] = ["sugarcrepe/swap"]
    with pytest.raises(UserError, match="pruner=dominated: rungs have numbers of whole benchmarks; set none"):
        parse_study("s", raw | {"split": VALIDATION, "pruner": "dominated"})
    assert "split" not in parse_study("s", raw).identity()
    assert parse_study("s", raw | {"split": VALIDATION}).identity()["split"] == VALIDATION
