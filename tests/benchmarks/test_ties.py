"""Where all scores are equal, each benchmark's rule for ties shows: wrong, or the first candidate's."""

from dataclasses import replace

import numpy as np
import pytest

from compclip.base import plugins
from compclip.benchmarks import coco_counterfactuals, crepe, retrieval, zeroshot
from compclip.evaluate.benchmark import Record
from compclip.evaluate.embeddings import Embeddings
from tests.benchmarks.official_files import REGION, SHUFFLED, STRICT, TO_THE_FIRST, alike, table


def scored(name, files, split, dump, ties):
    """What a benchmark of these files gives where all is equal."""
    for file, content in files.items():
        dump(f"{name}/{file}", content)
    folder = dump(f"{name}/none.txt", "").parent
    benchmark = plugins.load_plugin(plugins.BENCHMARKS, name).load(folder, split=split).counted(ties)
    return benchmark.score(alike(benchmark, ties))


@pytest.mark.parametrize("ties", ["wrong", "first"])
@pytest.mark.parametrize("name", STRICT)
def test_authors_who_compare_strictly(name, ties, dump):
    """Nothing is right, however ties are counted, but for scores that are no outcome."""
    files, split, tied = STRICT[name]
    result = scored(name, files, split, dump, ties)
    assert {value for metric, value in result.metrics.items() if not metric.endswith("mean_score")} == {0.0}
    assert result.counts["tied"] == tied


@pytest.mark.parametrize("name", TO_THE_FIRST)
def test_authors_who_choose_the_first(name, dump):
    files, split, expected = TO_THE_FIRST[name]
    wrong, first = (scored(name, files, split, dump, ties) for ties in ("wrong", "first"))
    assert {metric: items.values.tolist() for metric, items in first.items.items() if metric in expected} == expected
    assert set(wrong.metrics.values()) == {0.0}
    assert wrong.counts["tied"] == first.counts["tied"] == sum(map(len, expected.values()))


def test_aro_s_cases_that_a_tie_alone_decides(dump):
    """A caption that is its foil: the authors count it as wrong on Visual Genome, and as right among shuffles."""
    relations, orders = (
        [REGION, REGION | {"false_caption": "X "}],
        [SHUFFLED, SHUFFLED | {"caption_options": ["x"] * 3}],
    )
    file = {"visual_genome_relation.json": relations, "coco_order.json": orders}
    split = "visual_genome_relation,coco_order"
    wrong, first = (scored("aro", file, split, dump, ties) for ties in ("wrong", "first"))
    assert (wrong.counts["records"], wrong.counts["without_foil"], wrong.counts["foil_is_caption"]) == (2, 2, 3)
    assert first.counts["records"] == 4 and "without_foil" not in first.counts
    assert first.items["visual_genome_relation"].values.tolist() == [0, 0]
    assert first.items["coco_order"].values.tolist() == [1, 1]


def test_crepe_s_rows_whose_foil_is_the_caption(dump):
    """Left out, or right where ties go to the first; complexities hold them then."""
    text = table(crepe.COLUMNS, [1, "x", '["y"]', 0, 0, 4, 4], [1, "x", '["X"]', 0, 0, 4, 4])
    files = {f"atom/prod_vg_hard_negs_atom_complexity_{n}.csv": text for n in crepe.COMPLEXITIES}
    wrong, first = (scored("crepe", files, "atom", dump, ties) for ties in ("wrong", "first"))
    assert (wrong.metrics["atom"], wrong.counts["records"], wrong.counts["without_foil"]) == (0.0, 9, 9)
    assert (first.metrics["atom"], first.counts["records"], first.metrics["atom/complexity_4"]) == (1.0, 18, 1.0)
    assert (wrong.counts["tied"], first.counts["tied"]) == (9, 18)


@pytest.mark.parametrize("module", [retrieval, coco_counterfactuals])
def test_retrieval_finds_the_first_of_equals(module, dump):
    """Twelve pictures with a caption each: the first is found first, the tenth among ten, the last two never."""
    dump("a/captions.txt", "\n".join(["image,caption", *(f"{i}.jpg,c{i}" for i in range(12))]))
    pairs = [{"id": f"p{i}", "image_0": f"a{i}", "image_1": f"b{i}", "caption_0": f"x{i}", "caption_1": f"y{i}"}
             for i in range(6)]  # fmt: skip
    folder = dump("a/examples.jsonl", pairs).parent
    benchmark = module.load(folder)
    wrong, first = (benchmark.score(alike(benchmark, ties)) for ties in ("wrong", "first"))
    for way in ("i2t", "t2i"):
        assert [first.metrics[f"{way}_recall_at_{k}"] for k in (1, 5, 10)] == [1 / 12, 5 / 12, 10 / 12]
        assert wrong.metrics[f"{way}_recall_at_10"] == 0.0
    assert wrong.counts["tied"] == first.counts["tied"] == 24


@pytest.fixture
def twins(dump, picture):
    """ImageNet in small: classes 0 and 2 bear one name."""
    for number in range(3):
        picture(f"z/images/{number}/x.png")
    dump("z/zeroshot_classification_templates.txt", "a {c}\nthe {c}")
    return zeroshot.load(dump("z/classnames.txt", "missile\ncat\nmissile").parent)


def test_classes_of_one_name_are_one(twins):
    """Their pictures are right where the name is; they tie with the cat no more than with themselves."""
    embedded = replace(alike(twins), text_TD=np.array([[1, 0.2], [1, 0.2], [0, 1], [0, 1]], np.float32))
    result = twins.score(embedded)
    assert result.metrics["top_1"] == pytest.approx(2 / 3) and result.metrics["mean_per_class"] == pytest.approx(2 / 3)
    assert result.counts["tied"] == 0
    first = twins.score(replace(embedded, ties="first"))  # as the authors': the first class of the name has them all
    assert first.items["top_1"].values.tolist() == [1, 0, 0] and first.counts["tied"] == 2


def test_a_class_that_is_equal_to_another_loses_or_comes_first(twins):
    assert twins.score(alike(twins)).metrics["top_1"] == 0.0
    assert twins.score(alike(twins, "first")).items["top_1"].values.tolist() == [1, 0, 0]


def test_equal_classes_have_equal_scores_to_the_last_bit():
    """Whatever a matrix product makes of two equal columns."""
    rng = np.random.default_rng(0)
    texts = [f"c{i}" for i in range(37)]
    prompts = [(texts[i % 37],) for i in range(41)]
    vectors = (rng.normal(size=(n, 512)).astype(np.float32) for n in (5, 37))
    embedded = Embeddings(*vectors, {str(i): i for i in range(5)}, {t: i for i, t in enumerate(texts)}, {})
    pictures = [Record("all", str(i), (str(i),), ()) for i in range(5)]
    scores_NC = zeroshot._scores(pictures, embedded, zeroshot._class_vectors(embedded, prompts))
    assert scores_NC.shape == (5, 41) and np.array_equal(scores_NC[:, :4], scores_NC[:, 37:])
