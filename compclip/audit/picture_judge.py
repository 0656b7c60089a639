"""Judge texts with their pictures: how many negatives a model finds as true as the caption.

P pairs of a caption and a text.

A judge is an open_clip model (cosines, or what its head scores), a model of a plug-in (`compclip.models`: cosines, or
scores of pairs), or a generative model or endpoint (VQAScore: how sure it is that the picture shows the text). It is
wrong itself where it does not see what differs: of swapped words most models that contrast pictures with texts see
little.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from compclip.data.sample import Sample
    from compclip.evaluate.embeddings import Embeddings, Pair

VQASCORE = "vqascore"  # in a plug-in's place: a folder of an image-to-text model, or URL::NAME
MARGINS = (-0.05, -0.02, 0.0, 0.02, 0.05)
# Scores by pair of a picture's reference and a text; those of pictures that cannot be read are absent.
PictureJudge = Callable[[Sequence["Pair"]], Mapping["Pair", float]]


@dataclass(frozen=True)
class JudgedTexts:
    """What a judge says of a rule's texts; shares are of `texts`, those whose picture could be read.

    `at_least`: the text's score is at least the caption's. `led_by`: the caption's score is greater by at most so much.
    """

    texts: int
    at_least: float
    led_by: dict[str, float]


def open_judge(
    ref: str, loader: str = "", device: str = "", api_key_env: str = "", root: Path = Path()
) -> PictureJudge:
    """Open a judge by a checkpoint's reference, or by a plug-in of models or VQASCORE as `loader`.

    Raises UserError for what is not there.
    """
    from compclip.evaluate import score
    from compclip.model import backbone

    device = device or score.device()
    backbone.check_device(device)
    if loader == VQASCORE:
        return _open_generative(ref, device, api_key_env)
    return _open_foreign(ref, loader, device) if loader else _open_checkpoint(ref, device, root)


def _open_generative(ref: str, device: str, api_key_env: str) -> PictureJudge:
    from compclip.config.sections import DEFAULT_SCORING
    from compclip.evaluate import vqa

    ask, _ = vqa.open_scorer(ref, device, {}, DEFAULT_SCORING, api_key_env)
    return lambda pairs: score_readable(vqa.score_targets([ref for ref, _ in pairs], ask), pairs)


def _open_foreign(ref: str, loader: str, device: str) -> PictureJudge:
    from compclip.config.sections import DEFAULT_SCORING
    from compclip.evaluate import foreign_models

    model = foreign_models.load_model(loader, ref, device)

    def judge(pairs: Sequence[Pair]) -> Mapping[Pair, float]:
        with foreign_models.using(model):
            return score_readable(foreign_models.embed(model, *split_pairs(pairs), DEFAULT_SCORING), pairs)

    return judge


def _open_checkpoint(ref: str, device: str, root: Path) -> PictureJudge:
    from compclip.evaluate import head_scores, run_checkpoints

    with run_checkpoints.open_checkpoints([ref], root, device=device.partition(",")[0]) as checkpoints:
        model = checkpoints[ref].open()
    return lambda pairs: score_readable(head_scores.encode(model, *split_pairs(pairs)), pairs)


def split_pairs(pairs: Sequence[Pair]) -> tuple[list[str], list[str]]:
    """Return the different pictures and texts of pairs, in sorted order."""
    return sorted({ref for ref, _ in pairs}), sorted({text for _, text in pairs})


def score_readable(targets: Embeddings, pairs: Sequence[Pair]) -> dict[Pair, float]:
    """Return the scores of the pairs whose picture could be read."""
    readable = [pair for pair in dict.fromkeys(pairs) if targets.has(pair[:1])]
    scores_P = targets.matches([ref for ref, _ in readable], [text for _, text in readable])
    return dict(zip(readable, scores_P.tolist(), strict=True))


def picture_reference(sample: Sample) -> str:
    """Return the reference by which a sample's picture is read."""
    from compclip.evaluate.picture_references import bytes_of_file

    return bytes_of_file(sample.image, sample.offset, sample.length) if sample.length else sample.image


def compare_texts(
    scores: Mapping[Pair, float], refs: Sequence[str], pairs: Sequence[tuple[str, str]]
) -> JudgedTexts | None:
    """Compare the texts, which are the second of each pair, with their captions; None where no picture could be read.

    `refs` are the pictures of the pairs.
    """
    rows = [(ref, *pair) for ref, pair in zip(refs, pairs, strict=True) if (ref, pair[0]) in scores]
    if not rows:
        return None
    lead_P = np.array([scores[ref, caption] - scores[ref, text] for ref, caption, text in rows])
    led_by = {f"{margin:g}": float((lead_P <= margin).mean()) for margin in MARGINS}
    return JudgedTexts(len(rows), float((lead_P <= 0).mean()), led_by)
