"""GenAI-Bench: correlations of scores with ratings, as means of what each picture adds."""

from itertools import combinations

import numpy as np
import pytest

from compclip.benchmarks import genai_bench

PROMPTS = {
    "00000": {"prompt": "a cup", "models": {"DALLE_3": [5, 5, 5], "SDXL_Base": [1, 2, 3]}},
    "00001": {"prompt": "two cups", "models": {"SDXL_Base": [4, 4, 4], "DALLE_3": [5, 5, 5]}},
}


@pytest.fixture
def folder(dump):
    dump("g/genai_skills.json", {"counting": [1], "basic": [0, 1], "unknown": [7]})
    return dump("g/genai_image.json", PROMPTS).parent


def test_the_numbers_by_hand(folder, embeddings):
    """Ratings 5, 5, 2, 4 and scores 8, 7, 1, 9: three of six pairs are in order, and one is rated equal, which a threshold
    of 1 makes right. Tau b: three in order, two not, of six pairs with other scores and five with other ratings."""
    benchmark = genai_bench.load(folder)
    heights = dict(zip(benchmark.images, ([8, 0], [7, 0], [1, 0], [9, 0]), strict=True))
    result = benchmark.score(embeddings(heights, {"a cup": [1, 0], "two cups": [1, 0]}))
    # pairs: (5,5) tied by 1; 5>2 in order; 5<4 wrong by 1; 5>2 in order; 5<4 wrong by 2; 2<4 in order
    assert result.metrics["pairwise"] == pytest.approx(4 / 6)
    assert result.metrics["kendall"] == pytest.approx((3 - 2) / np.sqrt(6 * 5))
    assert result.metrics["pearson"] == pytest.approx(np.corrcoef([8, 7, 1, 9], [5, 5, 2, 4])[0, 1])
    assert result.metrics["counting_pairwise"] == 0.0 and result.metrics["basic_pairwise"] == pytest.approx(4 / 6)
    # shares 2/3, 2/3, 1, 1/3 of each picture's pairs, twice, less the number
    assert result.items["pairwise"].values.tolist() == pytest.approx([2 / 3, 2 / 3, 4 / 3, 0])


def slow(score_N, rating_N):
    """The best share over all thresholds, tau b and Pearson's correlation, in loops over pairs."""
    pairs = [(score_N[i] - score_N[j], rating_N[i] - rating_N[j]) for i, j in combinations(range(len(score_N)), 2)]
    best = max(
        np.mean([(r == 0) if abs(s) <= threshold else s * r > 0 for s, r in pairs])
        for threshold in {0.0, *(abs(s) for s, _ in pairs)}
    )
    order = sum(np.sign(s) * np.sign(r) for s, r in pairs)
    untied = sum(s != 0 for s, _ in pairs) * sum(r != 0 for _, r in pairs)
    return best, order / np.sqrt(untied), np.corrcoef(score_N, rating_N)[0, 1]


@pytest.mark.parametrize("digits", [0, 1, 8])
def test_the_numbers_in_loops(digits):
    """With many equal scores, some, and none."""
    rng = np.random.default_rng(digits)
    score_N, rating_N = np.round(rng.normal(size=20), digits), rng.integers(3, 16, 20) / 3
    score_N += np.round(rating_N / 2, digits)
    ours = (genai_bench.pairs_in_order, genai_bench.kendall, genai_bench.pearson)
    assert [rule(score_N, rating_N).mean() for rule in ours] == pytest.approx(slow(score_N, rating_N))


@pytest.mark.parametrize("rule", [genai_bench.pairs_in_order, genai_bench.kendall, genai_bench.pearson])
def test_the_spread_of_outcomes_is_that_of_the_number(rule):
    """The standard error of the outcomes' mean beside the jackknife's, which leaves each picture out and counts anew."""
    rng = np.random.default_rng(0)
    score_N = rng.normal(size=60)
    rating_N = np.round(score_N + rng.normal(size=60))
    without_N = np.array([rule(np.delete(score_N, n), np.delete(rating_N, n)).mean() for n in range(60)])
    jackknife = np.sqrt(59 / 60 * np.sum((without_N - without_N.mean()) ** 2))
    assert rule(score_N, rating_N).std(ddof=1) / np.sqrt(60) == pytest.approx(jackknife, rel=0.1)


def test_equal_scores_or_ratings_give_no_number_that_is_none():
    for score_N, rating_N in ((np.ones(3), np.arange(3.0)), (np.arange(3.0), np.ones(3))):
        assert genai_bench.kendall(score_N, rating_N).tolist() == [0, 0, 0]
        assert genai_bench.pearson(score_N, rating_N).tolist() == [0, 0, 0]
    assert genai_bench.pairs_in_order(np.arange(3.0), np.ones(3)).tolist() == [1, 1, 1]  # all tied by a threshold of 2
