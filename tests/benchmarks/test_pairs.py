"""A test set of one's own: columns by name, wrong captions in columns or lists, groups, pictures inside of a table."""

import pytest

from compclip.base.errors import UserError
from compclip.config.sections import BenchmarkSection as Section
from compclip.data import images
from compclip.evaluate import benchmark_module
from compclip.evaluate.benchmark import parse_reference
from tests.benchmarks import picture_tables

CSV = """picture;right;other;another;kind
a.png;a red dog;a red cat;a blue dog;object
b.png;a blue cat;a blue cat;;colour
b.png;"a cat, blue";a dog, blue;;colour
"""
OPTIONS = {"caption": "right", "wrong": ["other", "another"], "group": "kind", "picture": "picture"}


def load(file, **options):
    """The benchmark as a section of params.yaml names it."""
    section = Section("pairs", str(file), str(file.parent if file.is_file() else file), options=options)
    return benchmark_module.load_benchmark("mine", section)


def texts(benchmark):
    return [(record.id, record.texts) for record in benchmark.records]


def test_columns_by_name_and_accuracy_by_group(dump, picture, embeddings):
    """Of a row as many wrong captions as it has; one that repeats the right one leaves nothing to decide."""
    file = dump("t/pairs.csv", CSV)
    a, b = picture("t/a.png"), picture("t/b.png")
    benchmark = load(file, **OPTIONS)
    assert texts(benchmark) == [
        ("2", ("a red dog", "a red cat", "a blue dog")), ("4", ("a cat, blue", "a dog, blue")),
    ]  # fmt: skip
    assert benchmark.dropped.items() >= {"foil_is_caption": 1, "without_foil": 1}.items()
    vectors = {"a red dog": [1, 0], "a red cat": [0, 1], "a blue dog": [0.5, 0.5]}
    vectors |= {"a cat, blue": [1, 0], "a dog, blue": [0, 1]}
    outcomes = benchmark.score(embeddings({a: [1, 0], b: [0, 1]}, vectors))
    assert outcomes.metrics == {"accuracy": 0.5, "accuracy/object": 1.0, "accuracy/colour": 0.0}
    assert outcomes.items["accuracy/colour"].ids == ("4",)


def test_lists_and_usual_names(dump, picture):
    """JSON lines with a list of wrong captions; a group column that is called so; a path that begins elsewhere."""
    rows = [{"image": "x/a.png", "caption": "c", "negatives": ["d", "", "e"], "group": "g"},
            {"image": "", "caption": "c", "negatives": ["d"], "group": "g"}]  # fmt: skip
    file = dump("t/p.jsonl", rows)
    assert load(file).images == [str(picture("t/a.png"))]
    benchmark = load(file)
    assert texts(benchmark) == [("1", ("c", "d", "e"))] and benchmark.dropped["no_picture"] == 1
    assert benchmark.groups == {"accuracy": {"g": {"1"}}}


def test_pictures_inside_of_tables(tmp_path):
    """Of two tables in a folder, read where they are; nothing counts as missing."""
    for name, side in (("one", 7), ("two", 9)):
        row = {"image": picture_tables.cell("red", side=side), "caption": "right", "negative": "wrong"}
        picture_tables.write(tmp_path / f"{name}.parquet", [row])
    benchmark = load(tmp_path)
    assert [record.id for record in benchmark.records] == ["one/1", "two/1"]
    assert [images.read_size(parse_reference(ref)[0]) for ref in benchmark.images] == [(7, 8), (9, 8)]
    assert benchmark_module.count_benchmark(benchmark)["missing_images"] == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.parquet", "two.parquet"]


@pytest.mark.parametrize(
    ("content", "options", "fault"),
    [(CSV, {}, "set options.wrong to one of"), (CSV, OPTIONS | {"group": "knd"}, "unknown column 'knd'"),
     (CSV + "c.png;short\n", OPTIONS, "1 damaged rows .*line 5.*; repair them"), ("", {}, "holds no row")],
)  # fmt: skip
def test_what_is_wrong_is_one_line(dump, content, options, fault):
    with pytest.raises(UserError, match=fault):
        load(dump("t/pairs.csv", content), **options)
