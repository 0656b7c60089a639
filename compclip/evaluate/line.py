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
from compclip.config.how import USUAL, How
from compclip.evaluate import score
from compclip.evaluate.pictures import ROOM, Pictures
from compclip.model import backbone, lora, sharing
from compclip.model.mixture import interpolate

if TYPE_CHECKING:
    from compclip.evaluate.benchmark import Benchmark
    from compclip.model.backbone import Model


def models(
    pretrained: Model, tuned: Model, alphas: Sequence[float], budget: int = sharing.BUDGET
) -> Iterator[list[Model]]:
    """The models on the line in order, as many at once as the budget holds; they are overwritten by the next ones.

    The first of each list is `tuned` itself.
    """
    if pretrained.model_cfg.get("quick_gelu", False) != tuned.model_cfg.get("quick_gelu", False):
        raise UserError(
            f"wise_ft: {pretrained.source} and {tuned.source} differ in quick_gelu; give the checkpoint "
            "that the tuned one was trained from"
        )
    start, end = ({k: v.clone() for k, v in m.clip.state_dict().items()} for m in (pretrained, tuned))
    room = min(len(alphas), sharing.copies(tuned.clip, budget))
    held = [tuned, *(replace(tuned, clip=copy.deepcopy(tuned.clip)) for _ in range(room - 1))]
    for first in range(0, len(alphas), max(1, room)):
        part = alphas[first : first + room]
        for model, alpha in zip(held, part, strict=False):
            model.clip.load_state_dict(interpolate(start, end, alpha))
        yield held[: len(part)]


def points(
    pretrained: Model,
    tuned: Model,
    alphas: Sequence[float],
    benchmarks: Mapping[str, Benchmark],
    how: How = USUAL,
    budget: int = sharing.BUDGET,
) -> Iterator[dict]:
    """{"alpha", "metrics": {"benchmark/metric": value}} for each model on the line."""
    ahead, pictures = iter(alphas), Pictures(ROOM)
    for part in models(pretrained, tuned, alphas, budget):
        for scored in score.outcomes_of_all(part, benchmarks, how, pictures=pictures):
            metrics = {f"{name}/{metric}": value for name, o in scored.items() for metric, value in o.metrics.items()}
            yield {"alpha": next(ahead), "metrics": metrics}


def between(pretrained: str, tuned: str, alpha: float, model: str = "") -> Model:
    """The model at `alpha` between two checkpoints; `tuned` may be an adapter folder."""
    base = backbone.load(pretrained, model)
    if not (Path(tuned) / lora.CONFIG).is_file():
        return next(models(base, backbone.load(tuned, model), [alpha]))[0]
    lora.load(base.clip, tuned)
    lora.merge(base.clip, alpha)
    return base
