"""Where pictures are missing: which texts are compared still, and that no outcome needs another one."""

import zlib

import numpy as np
import pytest

from compclip.base import plugins
from compclip.evaluate.benchmark import Benchmark
from compclip.evaluate.benchmark_module import find_missing, list_inputs
from compclip.evaluate.embeddings import Embeddings, number_keys
from tests.benchmarks.official_files import STRICT, TO_THE_FIRST


def embed_seeded(images: list[str], texts: list[str], failed: dict[str, str]) -> Embeddings:
    """Vectors that depend on nothing but their own key."""
    vectors = []
    for keys in (images, texts):
        rows = [np.random.default_rng(zlib.crc32(key.encode())).standard_normal(4) for key in keys]
        vectors.append(np.array(rows, np.float32).reshape(-1, 4))
    return Embeddings(*vectors, number_keys(images), number_keys(texts), failed)


def score(benchmark: Benchmark, missing: set[str], texts: list[str]) -> str:
    """All outcomes, by their spelling."""
    images = [ref for ref in benchmark.images if ref not in missing]
    return repr(benchmark.score(embed_seeded(images, texts, dict.fromkeys(missing, "missing"))))


@pytest.mark.parametrize("name", sorted(STRICT | TO_THE_FIRST))
def test_no_outcome_needs_a_text_of_records_without_a_picture(name, dump, tmp_path):
    """With one picture missing, or all, the fewer texts give what all of them give."""
    files, split = (STRICT | TO_THE_FIRST)[name][:2]
    for file, content in files.items():
        dump(file, content)
    benchmark = plugins.load_plugin(plugins.BENCHMARKS, name).load(tmp_path, split=split)
    for missing in (set(benchmark.images), *({ref} for ref in benchmark.images)):
        assert score(benchmark, missing, benchmark.texts_beside(missing)) == score(benchmark, missing, benchmark.texts)


PAIRS = {"0": {"filename": "a.png", "caption": "w", "negative_caption": "x"},
         "1": {"filename": "b.png", "caption": "x", "negative_caption": "y"}}  # fmt: skip
TRIPLES = [row | {"id": key, "caption2": "z"} for key, row in PAIRS.items()]


@pytest.mark.parametrize(
    ("name", "file", "rows", "texts"),
    [("sugarcrepe", "swap_att.json", PAIRS, ["x", "y"]), ("sugarcrepe_pp", "swap_att.json", TRIPLES, [*"wxyz"])],
)
def test_texts_of_missing_pictures_are_not_listed(name, file, rows, texts, dump, picture, tmp_path):
    """But where texts are compared with each other; all pictures are tried, for what is said of them."""
    dump(file, rows)
    benchmark = plugins.load_plugin(plugins.BENCHMARKS, name).load(tmp_path, split="swap_att")
    present = str(picture("b.png"))
    assert find_missing(benchmark.images) == set(benchmark.images) - {present}
    assert list_inputs([benchmark]) == (sorted(benchmark.images), texts)
