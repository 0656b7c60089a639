"""Phases of a training: parts that start anew before a step, and parts that stand still in it (iterated learning).

A phase is a function of the step (`Method.phase`), and what a part starts anew with depends on seed and step alone: a
resumed run needs nothing beside its checkpoint. Moments of the optimiser stay as they are, of both kinds of parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor, nn

from compclip.base.errors import UserError
from compclip.interface.views import Phase
from compclip.model import lora
from compclip.model.clip_model import ClipModule
from compclip.train import optimiser
from compclip.train.extras import Extras


class PhaseKeeper:
    """What a run's phases do to its model and heads; it is made before a checkpoint is read."""

    def __init__(self, clip: ClipModule, extra_parts: Extras, phases: Iterable[Phase]) -> None:
        self.clip, self.extras = clip, extra_parts
        phases = set(phases)
        if lora.adapter_parameters(clip) and any(phase.restarted for phase in phases):
            raise UserError("train.lora: a tower that starts anew has no adapter; leave it out")
        self.first = {
            name: parameter.detach().clone()
            for phase in phases
            if phase.start == "first"
            for name, parameter in self._parameters(phase.restarted)
        }

    def restart(self, phase: Phase) -> None:
        """Let parts start anew; what is drawn comes from torch's generator, which the caller has seeded."""
        if phase.start == "first":
            with torch.no_grad():
                for name, parameter in self._parameters(phase.restarted):
                    parameter.copy_(self.first[name])
        else:
            for part in phase.restarted:
                self._draw(part)

    def hold_still(self, phase: Phase) -> None:
        """Drop the gradients of parts that stand still, so that the optimiser leaves them and their moments alone."""
        for _, parameter in self._parameters(phase.frozen):
            parameter.grad = None

    def _parameters(self, parts: tuple[str, ...]) -> Iterator[tuple[str, nn.Parameter]]:
        """Yield the trained parameters of some parts, with their names in a checkpoint."""
        for name, parameter in self.clip.named_parameters():
            if optimiser.tower(name) in parts and parameter.requires_grad:
                yield name, parameter
        for name, parameter in self.extras.parameters():
            if any(f"{name}.".startswith(f"{part}.") for part in parts):
                yield name, parameter

    def _draw(self, part: str) -> None:
        """Draw the linear maps of a part anew, and reset its layer norms; embeddings and attention's inputs stay."""
        if part.startswith("heads."):
            _reset_layers(self.extras.heads.get_submodule(part.removeprefix("heads.")))  # type: ignore[union-attr]
            return
        for module in _list_text_modules(self.clip):
            _reset_layers(module)
        projection = getattr(getattr(self.clip, "text", self.clip), "text_projection", None)
        if isinstance(projection, Tensor) and projection.requires_grad:
            bound = len(projection) ** -0.5  # of nn.Linear
            nn.init.uniform_(projection, -bound, bound)


def _list_text_modules(clip: ClipModule) -> list[nn.Module]:
    return [clip.text] if hasattr(clip, "text") else [clip.transformer, clip.ln_final]


def _reset_layers(module: nn.Module) -> None:
    for layer in module.modules():
        if isinstance(layer, nn.Linear | nn.LayerNorm) and layer.weight.requires_grad:
            layer.reset_parameters()
