"""The models on the line from the pretrained weights to fine-tuned ones (WiSE-FT: Wortsman et al., 2022), and scores.

theta(alpha) = (1 - alpha) theta_pretrained + alpha theta_tuned. As many models as memory holds share each pass over the
pictures; the numbers are those of each by itself.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from compclip.base.errors import UserError
from compclip.config.sections import DEFAULT_SCORING, Scoring
from compclip.evaluate import score
from compclip.evaluate.prepared_pictures import CACHE_BYTES, PreparedPictures
from compclip.model import adapter_files, backbone, checkpoint_groups, lora
from compclip.model.weight_interpolation import interpolate

if TYPE_CHECKING:
    from compclip.evaluate.benchmark import Benchmark
    from compclip.model.clip_model import ClipModel


def models_on_line(
    pretrained: ClipModel, tuned: ClipModel, alphas: Sequence[float], budget: int = checkpoint_groups.BUDGET
) -> Iterator[list[ClipModel]]:
    """The models on the line in order, as many at once as the budget holds; they are overwritten by the next ones.

    The first of each list is `tuned` itself.
    """
    if pretrained.model_cfg.get("quick_gelu", False) != tuned.model_cfg.get("quick_gelu", False):
        raise UserError(
            f"wise_ft: {pretrained.source} and {tuned.source} differ in quick_gelu; give the checkpoint "
            "that the tuned one was trained from"
        )
    start, end = ({k: v.clone() for k, v in m.clip.state_dict().items()} for m in (pretrained, tuned))
    batch_size = min(len(alphas), checkpoint_groups.count_copies(tuned.clip, budget))
    copies = [tuned, *(replace(tuned, clip=copy.deepcopy(tuned.clip)) for _ in range(batch_size - 1))]
    for first in range(0, len(alphas), max(1, batch_size)):
        alpha_batch = alphas[first : first + batch_size]
        for model, alpha in zip(copies, alpha_batch, strict=False):
            model.clip.load_state_dict(interpolate(start, end, alpha))
        yield copies[: len(alpha_batch)]


def score_line(
    pretrained: ClipModel,
    tuned: ClipModel,
    alphas: Sequence[float],
    benchmarks: Mapping[str, Benchmark],
    how: Scoring = DEFAULT_SCORING,
    budget: int = checkpoint_groups.BUDGET,
) -> Iterator[dict]:
    """{"alpha", "metrics": {"benchmark/metric": value}} for each model on the line."""
    next_alpha, pictures = iter(alphas), PreparedPictures(CACHE_BYTES)
    for batch in models_on_line(pretrained, tuned, alphas, budget):
        for scored in score.score_models(batch, benchmarks, how, pictures=pictures):
            metrics = {f"{name}/{metric}": value for name, o in scored.items() for metric, value in o.metrics.items()}
            yield {"alpha": next(next_alpha), "metrics": metrics}


def model_between(pretrained: str, tuned: str, alpha: float, model: str = "") -> ClipModel:
    """The model at `alpha` between two checkpoints; `tuned` may be an adapter folder."""
    base = backbone.load(pretrained, model)
    if not (Path(tuned) / lora.CONFIG).is_file():
        return next(models_on_line(base, backbone.load(tuned, model), [alpha]))[0]
    adapter_files.load_adapter(base.clip, tuned)
    lora.merge(base.clip, alpha)
    return base
