"""What benchmarks count, as pure functions of score arrays: right or wrong per item, and the means of that.

N items, I images, T texts, C classes or candidates, Q queries.

A tie is wrong, and so is a comparison with NaN. `*_outcomes` give one number an item, 1.0 for right, to be stored with
the results; the function without the suffix gives their means. Empty input raises UserError.
CLIP_benchmark counts ties as correct in retrieval: its numbers can be higher where scores are equal.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from compclip.base.errors import UserError

Outcomes = dict[str, np.ndarray]
Metrics = dict[str, float]


def means(outcomes: Outcomes) -> Metrics:
    """The mean of each array of outcomes."""
    return {name: float(np.mean(values)) for name, values in outcomes.items()}


def sugarcrepe_outcomes(positive_N: np.ndarray, negative_N: np.ndarray) -> Outcomes:
    """`accuracy`: s(I, caption) > s(I, negative)."""
    positive_N, negative_N = _same_length("sugarcrepe", positive_N, negative_N)
    return _numbers(accuracy=positive_N > negative_N)


def sugarcrepe(positive_N: np.ndarray, negative_N: np.ndarray) -> Metrics:
    """SugarCrepe: the share of captions that beat their negative."""
    return means(sugarcrepe_outcomes(positive_N, negative_N))


def sugarcrepe_pp_outcomes(
    image_p1_N: np.ndarray,
    image_p2_N: np.ndarray,
    image_n_N: np.ndarray,
    p1_p2_N: np.ndarray,
    p1_n_N: np.ndarray,
    p2_n_N: np.ndarray,
) -> Outcomes:
    """`itt`: both captions beat the negative on the image; `tot`: the captions are nearer each other than it."""
    image_p1_N, image_p2_N, image_n_N, p1_p2_N, p1_n_N, p2_n_N = _same_length(
        "sugarcrepe_pp", image_p1_N, image_p2_N, image_n_N, p1_p2_N, p1_n_N, p2_n_N
    )
    return _numbers(
        itt=(image_p1_N > image_n_N) & (image_p2_N > image_n_N),
        tot=(p1_p2_N > p1_n_N) & (p1_p2_N > p2_n_N),
    )


def sugarcrepe_pp(
    image_p1_N: np.ndarray,
    image_p2_N: np.ndarray,
    image_n_N: np.ndarray,
    p1_p2_N: np.ndarray,
    p1_n_N: np.ndarray,
    p2_n_N: np.ndarray,
) -> Metrics:
    """SugarCrepe++: shares of image-to-text (`itt`) and text-only (`tot`) triples in the right order."""
    return means(sugarcrepe_pp_outcomes(image_p1_N, image_p2_N, image_n_N, p1_p2_N, p1_n_N, p2_n_N))


def winoground_outcomes(scores_N22: np.ndarray) -> Outcomes:
    """`text`, `image`, `group` from scores [example, caption, image]; caption c belongs to image c.

    text: on each image its caption wins. image: for each caption its image wins. group: both.
    """
    (scores_N22,) = _same_length("winoground", scores_N22)
    if scores_N22.shape[1:] != (2, 2):
        raise UserError(f"winoground: scores of shape {scores_N22.shape}; must be [examples, 2 captions, 2 images]")
    (c0_i0, c0_i1), (c1_i0, c1_i1) = np.moveaxis(scores_N22, 0, -1)
    text_N = (c0_i0 > c1_i0) & (c1_i1 > c0_i1)
    image_N = (c0_i0 > c0_i1) & (c1_i1 > c1_i0)
    return _numbers(text=text_N, image=image_N, group=text_N & image_N)


def winoground(scores_N22: np.ndarray) -> Metrics:
    """Winoground's text, image and group score from scores [example, caption, image]."""
    return means(winoground_outcomes(scores_N22))


def hard_positives_outcomes(original_N: np.ndarray, negative_N: np.ndarray, positive_N: np.ndarray) -> Outcomes:
    """REPLACE and SWAP from the scores of caption c, hard negative n and hard positive p on the image.

    `original`: c > n. `augmented`: c > n and p > n. `brittleness` (lower is better): n strictly between c and p, or a
    score that is NaN. `mean_score`: c itself, not an outcome in [0, 1].
    """
    c, n, p = _same_length("hard_positives", original_N, negative_N, positive_N)
    between = ((c > n) & (n > p)) | ((p > n) & (n > c))
    return _numbers(
        original=c > n, augmented=(c > n) & (p > n), brittleness=between | np.isnan(c + n + p), mean_score=c
    )


def hard_positives(original_N: np.ndarray, negative_N: np.ndarray, positive_N: np.ndarray) -> Metrics:
    """Original and augmented accuracy, brittleness and mean score of the caption (Hard Positives, Sec. 2.5, C)."""
    return means(hard_positives_outcomes(original_N, negative_N, positive_N))


def recall_at_outcomes(scores_IT: np.ndarray, image_of_text_T: np.ndarray, ks: Iterable[int]) -> Outcomes:
    """`i2t_r<k>` per image and `t2i_r<k>` per text.

    i2t: one of the image's own texts is among the k best; its own texts do not compete with each other. t2i: the
    text's image is among the k best. Every image needs a text, else UserError.
    """
    (scores_IT,), owner_T = _same_length("recall_at", scores_IT), np.asarray(image_of_text_T)
    images, texts = scores_IT.shape
    if owner_T.shape != (texts,) or not np.array_equal(np.unique(owner_T), np.arange(images)):
        raise UserError(
            f"recall_at: image_of_text must name one of {images} images for each of {texts} texts, none without a text"
        )
    i2t_I = np.array([_rank(row_T, owner_T == i) for i, row_T in enumerate(scores_IT)])
    index_I = np.arange(images)
    t2i_T = np.array([_rank(column_I, index_I == owner) for column_I, owner in zip(scores_IT.T, owner_T, strict=True)])
    return _within("i2t_r", i2t_I, ks) | _within("t2i_r", t2i_T, ks)


def recall_at(scores_IT: np.ndarray, image_of_text_T: np.ndarray, ks: Iterable[int] = (1, 5, 10)) -> Metrics:
    """Recall@k of retrieval both ways, several captions an image: `i2t_r1` …, `t2i_r1` …."""
    return means(recall_at_outcomes(scores_IT, image_of_text_T, ks))


def top_k_outcomes(scores_NC: np.ndarray, label_N: np.ndarray, ks: Iterable[int]) -> Outcomes:
    """`top_<k>` per item: its class is among the k best."""
    scores_NC, label_N = _same_length("top_k", scores_NC, label_N)
    classes = scores_NC.shape[1]
    if label_N.min() < 0 or label_N.max() >= classes:
        found = f"{label_N.min()}..{label_N.max()}"
        raise UserError(f"top_k: labels {found} for {classes} classes; must be 0..{classes - 1}")
    index_C = np.arange(classes)
    rank_N = np.array([_rank(row_C, index_C == label) for row_C, label in zip(scores_NC, label_N, strict=True)])
    return _within("top_", rank_N, ks)


def top_k(scores_NC: np.ndarray, label_N: np.ndarray, ks: Iterable[int] = (1, 5)) -> Metrics:
    """Zero-shot classification: `top_<k>`, and `mean_per_class`, the top-1 mean over classes that have items."""
    ks = tuple(ks)
    outcomes = top_k_outcomes(scores_NC, label_N, {*ks, 1})
    label_N = np.asarray(label_N)
    per_class = [outcomes["top_1"][label_N == label].mean() for label in np.unique(label_N)]
    return means({f"top_{k}": outcomes[f"top_{k}"] for k in ks}) | {"mean_per_class": float(np.mean(per_class))}


def paired_bootstrap(
    a_N: np.ndarray, b_N: np.ndarray, rng: np.random.Generator, samples: int = 10_000
) -> tuple[float, float]:
    """The percentile 95 % interval of mean(a) − mean(b) when items, a with its b, are drawn with replacement."""
    a_N, b_N = _same_length("paired_bootstrap", a_N, b_N)
    if samples < 1:
        raise UserError(f"paired_bootstrap: samples={samples}: must be >= 1")
    # items with equal differences are drawn as one: as many numbers a sample as there are distinct differences
    value_U, count_U = np.unique(a_N.astype(float) - b_N.astype(float), return_counts=True)
    total = count_U.sum()
    blocks = [min(256, samples - done) for done in range(0, samples, 256)]
    drawn = [rng.multinomial(total, count_U / total, size=block) @ value_U / total for block in blocks]
    low, high = np.quantile(np.concatenate(drawn), [0.025, 0.975])
    return float(low), float(high)


def _same_length(what: str, *arrays: np.ndarray) -> list[np.ndarray]:
    scores = [np.asarray(a) for a in arrays]
    lengths = [len(a) for a in scores]
    if 0 in lengths:
        raise UserError(f"{what}: no scores; the benchmark has no scored record")
    if len(set(lengths)) > 1:
        raise UserError(f"{what}: arrays of different lengths {lengths}; give one score a record in each")
    return scores


def _numbers(**outcomes: np.ndarray) -> Outcomes:
    return {name: values.astype(np.float64) for name, values in outcomes.items()}


def _rank(scores_C: np.ndarray, own_C: np.ndarray) -> float:
    """How many foreign candidates the best own one does not beat; infinite where all own scores are NaN."""
    best = np.fmax.reduce(scores_C[own_C])
    return np.inf if np.isnan(best) else float(np.count_nonzero(~(best > scores_C[~own_C])))


def _within(prefix: str, rank_Q: np.ndarray, ks: Iterable[int]) -> Outcomes:
    ks = sorted(set(ks))
    if not ks or ks[0] < 1:
        raise UserError(f"{prefix}k: ks={ks}: give one or more numbers >= 1")
    return _numbers(**{f"{prefix}{k}": rank_Q < k for k in ks})
