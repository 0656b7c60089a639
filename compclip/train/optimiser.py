"""AdamW or Adam over the trainable towers, and the learning rate as a function of the step."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from compclip.base.errors import UserError
from compclip.interface.views import Phase
from compclip.model import lora, towers
from compclip.model.clip_model import ClipModule
from compclip.train.extras import Extras

if TYPE_CHECKING:
    from compclip.config.sections import Train
    from compclip.model.clip_model import ClipModule

TOWERS = {"all": ("image", "text"), "image": ("image",), "text": ("text",), "none": ()}


def tower(name: str) -> str:
    """Return which part of an open_clip model a parameter belongs to: image, text, or scale (logit scale and bias)."""
    if name in ("logit_scale", "logit_bias"):
        return "scale"
    return "image" if name.startswith("visual.") else "text"


def freeze(clip: ClipModule, cfg: Train, seed: int = 0) -> frozenset[str]:
    """Take what is not trained out of the graph; gives the names of the frozen towers.

    With `lora` an adapter is added, and the backbone is frozen to its last number: only the adapter is trained, and a
    bias that the run adds. `text_layers` freezes the later layers of the text tower, and nothing else of it.
    """
    if cfg.lora and not lora.adapter_parameters(clip):
        lora.inject(clip, cfg.lora, TOWERS[cfg.trainable], seed)
    trained = set(TOWERS[cfg.trainable])
    factors = lora.adapter_parameters(clip)
    later_layers = towers.list_text_layers(clip)[cfg.text_layers :] if cfg.text_layers else []
    later = {parameter for layer in later_layers for parameter in layer.parameters()}
    for name, parameter in clip.named_parameters():
        tower_name = tower(name)
        in_trained = tower_name in trained and parameter not in later
        is_trained = in_trained or name == "logit_bias" or (tower_name == "scale" and cfg.train_logit_scale)
        added = name == "logit_bias" and getattr(clip, "bias_added", False)
        parameter.requires_grad_(name in factors or added if factors else is_trained)
    return frozenset({"image", "text"} - trained)


def set_modes(clip: ClipModule) -> None:
    """Put what is trained into training mode, and what is frozen into evaluation mode.

    Statistics of batch norms stay then, and nothing is dropped out. nn.MultiheadAttention, which has neither, stays
    in training mode: for evaluation it takes another kernel, with other last bits.
    """
    clip.train()
    trained = {p for p in clip.parameters() if p.requires_grad}
    for module in clip.modules():
        parameters = set(module.parameters())
        if parameters and trained.isdisjoint(parameters):
            for part in module.modules():
                part.training = isinstance(part, nn.MultiheadAttention)


def check_batch_norms(clip: ClipModule, cfg: Train, processes: int = 1) -> None:
    """Raise UserError where batch norms in training mode would see parts of a batch, or a batch twice.

    Their statistics would be those of another training: a loss by parts is not that of the whole batch.
    """
    cuts = {
        f"train.micro_batch={cfg.micro_batch}": 0 < cfg.micro_batch < cfg.batch_size,
        f"{processes} processes": processes > 1,
        "train.checkpoint_activations=true": cfg.checkpoint_activations and hasattr(clip.visual, "trunk"),
    }
    cut = next(filter(cuts.get, cuts), None)
    if cut and any(
        isinstance(module, nn.modules.batchnorm._BatchNorm) and module.training for module in clip.modules()
    ):
        name = type(getattr(clip.visual, "trunk", clip.visual)).__name__
        raise UserError(
            f"{cut}: not with the batch norms of a trained {name}, whose statistics are those of the whole batch; "
            "leave it out, freeze the image tower (train.trainable=text), or take a ViT"
        )


def count_parameters(clip: nn.Module) -> dict[str, int]:
    """Return how many numbers are trained, and how many the plain model has."""
    adapter = lora.adapter_parameters(clip)
    trained_count = sum(p.numel() for p in clip.parameters() if p.requires_grad)
    plain_count = sum(p.numel() for name, p in clip.named_parameters() if name not in adapter)
    return {"trained_parameters": trained_count, "parameters": plain_count}


def adamw(clip: nn.Module, cfg: Train, extra_parameters: Iterable[tuple[str, nn.Parameter]] = ()) -> torch.optim.Adam:
    """Return AdamW, or Adam, over model and extra parameters, of which those of `list_decayed` are decayed."""
    parameters = [(n, p) for n, p in [*clip.named_parameters(), *extra_parameters] if p.requires_grad]
    decayed = list_decayed(clip, cfg.decayed, parameters)
    groups = [
        {"params": [p for n, p in parameters if n in decayed], "weight_decay": cfg.weight_decay},
        {"params": [p for n, p in parameters if n not in decayed], "weight_decay": 0.0},
    ]
    kind = torch.optim.AdamW if cfg.optimiser == "adamw" else torch.optim.Adam
    return kind(groups, lr=cfg.lr, betas=(cfg.beta1, cfg.beta2), eps=cfg.eps, fused=True)


def list_decayed(clip: nn.Module, which: str, parameters: Sequence[tuple[str, nn.Parameter]]) -> frozenset[str]:
    """Return the names of the parameters that weight decay shrinks: of `matrices`, of `all`, or of `all_but_norms`.

    The last are those of transformers' Trainer (`get_decay_parameter_names`): neither norms nor biases. Vectors beside
    the model count as norms.
    """
    names = frozenset(dict(parameters))
    if which == "all":
        return names
    matrices = frozenset(name for name, parameter in parameters if parameter.ndim >= 2)
    if which == "matrices":
        return matrices
    decayed = set(dict(clip.named_parameters()))
    for module_name, module in clip.named_modules():
        if "norm" in type(module).__name__.lower():  # T5's and timm's are classes of their own
            decayed -= set(dict(module.named_parameters(module_name, recurse=False)))
    return frozenset(name for name in names & (decayed | matrices) if "bias" not in name)


def learning_rate(step: int, steps: int, cfg: Train) -> float:
    """Return the rate: linear from `lr_start` to `lr` over the warm-up, then what `schedule` says.

    cosine: half a cosine down to `lr_end`, which the last step has. open_clip, transformers and late: one that would
    have it a step later; constant: `lr`.
    """
    warmup = round(cfg.warmup_fraction * steps) if cfg.warmup_fraction else min(cfg.warmup_steps, steps)
    if cfg.schedule == "late":
        if step == 0:
            return cfg.lr
        step -= 1
    if step < warmup:
        return cfg.lr_start + (cfg.lr - cfg.lr_start) * (step + (cfg.schedule != "transformers")) / warmup
    if cfg.schedule == "constant":
        return cfg.lr
    progress = (step - warmup) / max(1, steps - warmup - (cfg.schedule == "cosine"))
    return cfg.lr_end + (cfg.lr - cfg.lr_end) * 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))


def clamp_scale(clip: ClipModule, largest: float | None) -> None:
    """Keep exp(logit_scale) within [1, largest], where it is trained and `largest` is given."""
    if largest is not None and clip.logit_scale.requires_grad:
        with torch.no_grad():
            clip.logit_scale.clamp_(0.0, math.log(largest))


# Phases of a training: parts that start anew before a step, and parts that stand still in it (iterated learning).
#
# A phase is a function of the step (`Method.phase`), and what a part starts anew with depends on seed and step alone: a
# resumed run needs nothing beside its checkpoint. Moments of the optimiser stay as they are, of both kinds of parts.


class PhaseKeeper:
    """What a run's phases do to its model and heads; it is made before a checkpoint is read."""

    def __init__(self, clip: ClipModule, extra_parts: Extras, phases: Iterable[Phase]) -> None:
        self.clip = clip
        self.extras = extra_parts
        phases = set(phases)
        if lora.adapter_parameters(clip) and any(phase.restarted for phase in phases):
            raise UserError("train.lora: a tower that starts anew has no adapter; leave it out")
        self.first = {}
        for phase in phases:
            if phase.start == "first":
                for name, parameter in self._parameters(phase.restarted):
                    self.first[name] = parameter.detach().clone()

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
            if tower(name) in parts and parameter.requires_grad:
                yield name, parameter
        beginnings = tuple(f"{part}." for part in parts)
        for name, parameter in self.extras.parameters():
            if name.startswith(beginnings) or name in parts:
                yield name, parameter

    def _draw(self, part: str) -> None:
        """Draw the linear maps of a part anew, and reset its layer norms; embeddings and attention's inputs stay."""
        if part.startswith("heads."):
            _reset_layers(self.extras.heads.get_submodule(part.removeprefix("heads.")))  # type: ignore[union-attr]
            return
        clip = self.clip
        for module in [clip.text] if hasattr(clip, "text") else [clip.transformer, clip.ln_final]:
            _reset_layers(module)
        projection = getattr(getattr(self.clip, "text", self.clip), "text_projection", None)
        if isinstance(projection, Tensor) and projection.requires_grad:
            bound = len(projection) ** -0.5  # of nn.Linear
            nn.init.uniform_(projection, -bound, bound)


def _reset_layers(module: nn.Module) -> None:
    for layer in module.modules():
        if isinstance(layer, nn.Linear | nn.LayerNorm) and layer.weight.requires_grad:
            layer.reset_parameters()
