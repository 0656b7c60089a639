"""GenAI-Bench (Li et al., 2024, arXiv:2406.13743): whether scores rank generated pictures as people do.

1,600 prompts, pictures of six models, people's ratings of each; VQAScore's paper (Lin et al., ECCV 2024,
arXiv:2404.01291) has 527 of them. Both are published in one layout; the authors' program takes the 1,600 unless told
(`--num_prompts 527`). 9,600 pictures have 46 million pairs, which take half a minute and 3.3 GiB.

N pictures.

`pairwise` is the authors' number: over all pairs of pictures the share that the scores order as the mean ratings do,
where a difference of scores up to a threshold counts as a tie, and the threshold is the best one (Deutsch et al., EMNLP
2023); 0.5 is not chance, as ties of people count. `kendall` is tau b, `pearson` the correlation. An item's outcome is
the number and what the picture adds to it (its influence function; of a mean over pairs twice its own mean less the
number), so that the outcomes' mean is the number and their spread its interval; some are below 0 or above 1.
`<skill>_pairwise` is the same among the pictures of one skill's prompts. Made for VQAScore (`compclip
vqascore`); cosines are CLIPScore. Equal scores are ties by definition.

Checklist. Source: github.com/linzhiqiu/t2v_metrics (dataset.py, genai_image_eval.py), hf.co/datasets/BaiqiL/
GenAI-Bench-1600 and zhiqiulin/GenAI-Bench-527. Licence: Apache-2.0 (code), pictures each their own. Compared with the
authors' code: tau b and the pairs at given thresholds, run beside `KendallVariants` on made scores; Pearson with
NumPy's; the best threshold against all thresholds in loops. Not compared: any real file. Left out: videos, and the
ranking of 800 prompts by nine pictures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from compclip.base.errors import UserError
from compclip.benchmarks._files import existing_file, images_folder, read_field, read_rows, selected_names
from compclip.evaluate.benchmark import Benchmark, Record, column, flagged_ids, ids, pictures, readable
from compclip.evaluate.embeddings import Embeddings
from compclip.runs.item_outcomes import COMPOSITION, Items

FILE = "genai_image.json"
SKILLS_FILE = "genai_skills.json"
MODELS = ("DALLE_3", "SDXL_Turbo", "DeepFloyd_I_XL_v1", "Midjourney_6", "SDXL_2_1", "SDXL_Base")
SKILLS = (
    "attribute", "scene", "spatial relation", "action relation", "part relation", "basic",
    "counting", "comparison", "differentiation", "negation", "universal", "advanced",
)  # fmt: skip
NAME_OF = {skill: skill.replace(" ", "_") for skill in SKILLS}
METRICS = ("pairwise", "kendall", "pearson", *(f"{name}_pairwise" for name in NAME_OF.values()))
HEADLINE = ("pairwise",)
RECOGNISES = (FILE,)
Ratings = Mapping[tuple[str, str], float]  # model and prompt's id -> the mean of people's ratings


def load(path: str | Path, images: str | Path | None = None, split: str = "") -> Benchmark:
    """Read the authors' folder of `genai_image.json` and `genai_skills.json`; `split` names some of MODELS.

    Pictures are `<model>/<prompt's id>.jpeg` in `images`. Raises UserError for a missing file, or a record without a
    field or with ratings that are no numbers.
    """
    folder = Path(path)
    models = selected_names(folder, MODELS, split)
    image_folder = images_folder(folder, images)
    file = existing_file(folder / FILE)
    skills_file = existing_file(folder / SKILLS_FILE)
    records = []
    ratings = {}
    rows = read_rows(file, dict)
    for model in models:  # in the authors' order
        for key, row in rows.items():
            rated = read_field(file, key, row, "models", dict)
            if model in rated:
                picture = image_folder / model / f"{key}.jpeg"
                records.append(Record(model, key, (str(picture),), (read_field(file, key, row, "prompt"),)))
                ratings[model, key] = _mean_rating(file, key, rated[model])
    skills = _read_skills(skills_file)
    return Benchmark(tuple(records), (file, skills_file), partial(evaluate, ratings, skills), kind=COMPOSITION)


def reads(path: str | Path, split: str = "") -> list[Path]:
    """List the files beside pictures that `load` reads."""
    return [Path(path) / FILE, Path(path) / SKILLS_FILE]


def _mean_rating(file: Path, key: str, numbers: Any) -> float:
    are_numbers = isinstance(numbers, list) and all(isinstance(n, (int, float)) and abs(n) < 1e6 for n in numbers)
    if not are_numbers or not numbers:
        raise UserError(f"{file}: record {key}: ratings are {numbers!r}, no numbers; fetch the official file")
    return float(np.mean(numbers))


def _read_skills(file: Path) -> dict[str, frozenset[str]]:
    """Return the ids of each skill's prompts; the file has their numbers."""
    content = read_rows(file, dict)
    prompts = {}
    for skill in SKILLS:
        if skill in content:
            numbers = read_field(file, skill, content, skill, list)
            prompts[skill] = frozenset(f"{number:05d}" for number in numbers if isinstance(number, int))
    return prompts


def evaluate(
    ratings: Ratings, skills: Mapping[str, frozenset[str]], records: Sequence[Record], embeddings: Embeddings
) -> dict[str, Items]:
    """Return the three correlations of all pictures, and the pairs in order among those of each skill."""
    scored = readable(records, embeddings)
    if len(scored) < 2:
        return {}
    score_N = embeddings.matches(pictures(scored), column(scored, 0))
    rating_N = np.array([ratings[r.subset, r.id] for r in scored])
    keys = tuple(f"{record.subset}/{record.id}" for record in scored)
    items_of = {
        "pairwise": Items(keys, pairs_in_order(score_N, rating_N)),
        "kendall": Items(keys, kendall(score_N, rating_N)),
        "pearson": Items(keys, pearson(score_N, rating_N)),
    }
    for skill, prompts in skills.items():
        of_skill_N = np.isin(ids(scored), list(prompts))
        if of_skill_N.sum() > 1:
            values_N = pairs_in_order(score_N[of_skill_N], rating_N[of_skill_N])
            items_of[f"{NAME_OF[skill]}_pairwise"] = Items(flagged_ids(keys, of_skill_N), values_N)
    return items_of


def pairs_in_order(score_N: np.ndarray, rating_N: np.ndarray) -> np.ndarray:
    """Return the outcomes of the share of pairs that are ordered, or tied, as their ratings are; by the best threshold.

    A pair is tied where its scores differ by no more than the threshold, which is 0 or a difference that occurs.
    """
    first_P, second_P = np.triu_indices(len(score_N), 1)
    difference_P = score_N[first_P] - score_N[second_P]
    rated_P = np.sign(rating_N[first_P] - rating_N[second_P])
    in_order_P = np.sign(difference_P) * rated_P > 0
    rated_tied_P = rated_P == 0
    threshold = find_best_threshold(np.abs(difference_P), in_order_P, rated_tied_P)
    right_P = np.where(np.abs(difference_P) <= threshold, rated_tied_P, in_order_P)
    share_N = _shares_of_pictures(first_P, second_P, len(score_N), right_P)
    return 2 * share_N - share_N.mean()


def find_best_threshold(distance_P: np.ndarray, in_order_P: np.ndarray, rated_tied_P: np.ndarray) -> float:
    """Return the smallest threshold with the most right pairs: tied ones up to it, those in order above it."""
    order_P = np.argsort(distance_P, kind="stable")
    sorted_P = distance_P[order_P]
    right_P = np.concatenate([[0], np.cumsum(rated_tied_P[order_P])]) + np.concatenate(
        [np.cumsum(in_order_P[order_P][::-1])[::-1], [0]]
    )
    candidate_T = np.unique(np.append(sorted_P, 0.0))
    return float(candidate_T[np.argmax(right_P[np.searchsorted(sorted_P, candidate_T, side="right")])])


def kendall(score_N: np.ndarray, rating_N: np.ndarray) -> np.ndarray:
    """Return the outcomes of Kendall's tau b, 0 where all scores or all ratings are equal."""
    first_P, second_P = np.triu_indices(len(score_N), 1)
    sign_P = np.sign(score_N[first_P] - score_N[second_P])
    rated_P = np.sign(rating_N[first_P] - rating_N[second_P])
    average = partial(_shares_of_pictures, first_P, second_P, len(score_N))
    order_N = average(sign_P * rated_P)
    score_untied_N = average(np.abs(sign_P))
    rating_untied_N = average(np.abs(rated_P))
    untied = np.sqrt(score_untied_N.mean() * rating_untied_N.mean())
    if not untied:
        return np.zeros(len(score_N))
    tau = order_N.mean() / untied
    relative_N = score_untied_N / score_untied_N.mean() + rating_untied_N / rating_untied_N.mean()
    return 2 * order_N / untied - tau * (relative_N - 1)


def _shares_of_pictures(first_P: np.ndarray, second_P: np.ndarray, count: int, value_P: np.ndarray) -> np.ndarray:
    """Return the mean over each picture's pairs, shape N."""
    return (np.bincount(first_P, value_P, count) + np.bincount(second_P, value_P, count)) / (count - 1)


def pearson(score_N: np.ndarray, rating_N: np.ndarray) -> np.ndarray:
    """Return the outcomes of Pearson's correlation, 0 where all scores or all ratings are equal."""
    deviation_2N = np.stack([score_N - score_N.mean(), rating_N - rating_N.mean()])
    scale_21 = np.sqrt(np.mean(deviation_2N**2, axis=1, keepdims=True))
    if not scale_21.all():
        return np.zeros(len(score_N))
    score_z_N, rating_z_N = deviation_2N / scale_21
    correlation = np.mean(score_z_N * rating_z_N)
    return score_z_N * rating_z_N - correlation * ((score_z_N**2 + rating_z_N**2) / 2 - 1)
