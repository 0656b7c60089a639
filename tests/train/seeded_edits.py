"""Edits of a training's code, each a patch: some give other numbers, some the same ones (tests/train/test_carry.py)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from PIL import ImageOps
from torch.nn import functional as F

from compclip.interface.method import load_method
from compclip.train import encode, fine_tuning, loader, losses, optimiser, view_maker

STEPS = 8  # of the runs that are edited
Edit = Callable[[Any], None]  # with pytest's monkeypatch


def edit_result(place: Any, name: str, change: Callable) -> Edit:
    """Return an edit of a function's result: `change` is called with it and the arguments."""
    return edit_call(place, name, lambda original, *args: change(original(*args), *args))


def edit_call(place: Any, name: str, change: Callable) -> Edit:
    """Return an edit of a function: `change` is called with the original and the arguments."""

    def edit(monkeypatch) -> None:
        original = getattr(place, name)
        monkeypatch.setattr(place, name, lambda *args: change(original, *args))

    return edit


def edit_schedule_of(**values: float) -> Edit:
    """Return an edit of the optimiser: it takes another number than the one that it is given."""
    return edit_call(
        optimiser, "adamw", lambda original, clip, cfg, *arguments: original(clip, replace(cfg, **values), *arguments)
    )


def edit_view(**changes: Callable) -> Edit:
    """Return an edit of views: each field named becomes what its function makes of it."""

    def change_view(view: Any, *_: Any) -> Any:
        return replace(view, **{name: change(getattr(view, name)) for name, change in changes.items()})

    return edit_result(view_maker.ViewMaker, "view", change_view)


def edit_rule(change: Callable) -> Edit:
    """Return an edit of NegCLIP's rule: `change` is called with the rule, a caption and the generator."""

    def edit(monkeypatch) -> None:
        method = load_method("negclip").module
        edited = {name: functools.partial(change, rule) for name, rule in method.RULES.items()}
        monkeypatch.setattr(method, "RULES", edited)

    return edit


def _decay_biases(adamw: torch.optim.AdamW, _clip: Any, cfg: Any, *_: Any) -> torch.optim.AdamW:
    adamw.param_groups[1]["weight_decay"] = cfg.weight_decay
    return adamw


def _freeze_positions(frozen: frozenset[str], clip: Any, *_: Any) -> frozenset[str]:
    clip.positional_embedding.requires_grad_(False)
    return frozen


def _other_seed(original: Callable, seed: int, *arguments: Any) -> np.random.Generator:
    return original(seed + 1, *arguments)


def _permute(_original: Callable, size: int, seed: int, epoch: int) -> np.ndarray:
    return np.random.default_rng((seed, epoch, 1 << 40)).permutation(size)


def _matching_by_logarithms(_original: Callable, query_BD: Any, key_ND: Any, scale: Any, valid_N: Any = None) -> Any:
    logits_BN = scale * query_BD @ key_ND.T
    if valid_N is not None:
        logits_BN = logits_BN.masked_fill(~valid_N, -torch.inf)
    return F.nll_loss(F.log_softmax(logits_BN, dim=1), torch.arange(len(query_BD)))


OTHER_NUMBERS: dict[str, tuple[str, Edit, str]] = {  # name: method, edit, where the runs part
    # losses
    "loss": ("finetune", edit_result(losses, "clip", lambda x, *_: x * (1 + 1e-6)), "step 1, clip"),
    "method's loss": ("negclip", edit_result(losses, "negclip", lambda x, *_: x + 1e-5), "step 1, negclip"),
    "one direction": ("finetune", edit_call(losses, "clip", lambda _, *args: losses.matching(*args)), "step 1, clip"),
    "temperature": (
        "finetune",
        edit_call(losses, "clip", lambda original, image, text, scale: original(image, text, scale * 1.0001)),
        "step 1, clip",
    ),
    "mask": (
        "negclip",
        edit_call(losses, "negclip", lambda original, *args: original(*args[:3], args[3] & False, args[4])),
        "step 1, negclip",
    ),
    # views
    "caption": (
        "finetune",
        edit_result(load_method("finetune").module, "views", lambda x, *_: replace(x, caption="first")),
        "step 1, clip",
    ),
    "longer caption": ("finetune", edit_view(caption=lambda text: text + " too"), "step 1, clip"),
    "mirrored picture": ("finetune", edit_view(image=ImageOps.mirror), "step 1, clip"),
    "brighter picture": ("finetune", edit_result(encode, "_normalise", lambda x, *_: x * 1.001), "step 1, clip"),
    "order": ("finetune", edit_result(loader, "full_order", lambda x, *_: x[::-1]), "step 1, clip"),
    # rules
    "rule": ("negclip", edit_rule(lambda _rule, annotation, _rng: annotation.text[::-1]), "step 1, negclip"),
    "rule's randomness": ("negclip", edit_call(view_maker, "sample_generator", _other_seed), "step 1, negclip"),
    "no negative": ("negclip", edit_rule(lambda *_: None), "step 1, negclip"),
    # optimiser and schedule
    "epsilon": ("finetune", edit_schedule_of(eps=1.01e-6), "step 1, weights"),
    "first beta": ("finetune", edit_schedule_of(beta1=0.85), "step 1, weights"),
    "second beta": ("finetune", edit_schedule_of(beta2=0.97), "step 1, weights"),
    "decay": ("finetune", edit_schedule_of(weight_decay=0.11), "step 1, weights"),
    "decayed biases": ("finetune", edit_result(optimiser, "adamw", _decay_biases), "step 1, logit_scale"),
    "frozen positions": ("finetune", edit_result(optimiser, "freeze", _freeze_positions), "step 1, grad_norm"),
    "clipping": (
        "finetune",
        edit_call(torch.nn.utils, "clip_grad_norm_", lambda original, parameters, _: original(parameters, 0.01)),
        "step 1, logit_scale",
    ),
    "scale": (
        "finetune",
        edit_result(optimiser, "clamp_scale", lambda _, clip, __: clip.logit_scale.data.add_(1e-6)),
        "step 1, logit_scale",
    ),
    "rate": ("finetune", edit_result(optimiser, "learning_rate", lambda x, *_: x * (1 + 1e-6)), "step 1, lr"),
    "warm-up": (
        "finetune",
        edit_result(optimiser, "learning_rate", lambda x, step, *_: x * (1 + (step == 1))),
        "step 2, lr",
    ),
    "schedule": (
        "finetune",
        edit_result(optimiser, "learning_rate", lambda x, step, *_: x * (1 + (step == 6))),
        "step 7, lr",
    ),
}

EQUAL_NUMBERS: dict[str, Edit] = {
    "another spelling of the loss": edit_call(losses, "matching", _matching_by_logarithms),
    "another call for the order": edit_call(loader, "full_order", _permute),
    "captions in capitals": edit_view(caption=str.upper),  # the tokenizer lowers them
    "rates in a table": edit_call(
        optimiser,
        "learning_rate",
        lambda original, step, steps, cfg: [original(i, steps, cfg) for i in range(steps)][step],
    ),
    "a rule that looks twice": edit_rule(lambda rule, annotation, rng: rule(annotation, rng)),
}


def edit_finished_weights(monkeypatch) -> None:
    """Edit what comes after the last step."""

    def change_scale(_none: None, _run: Any, _root: Any, model: Any, _adapter: Any) -> None:
        model.clip.logit_scale.data += 1e-3

    edit_result(fine_tuning, "finish_weights", change_scale)(monkeypatch)


def edit_later_loss(monkeypatch, name: str) -> None:
    """Edit a method's loss from its seventh step on."""

    def change_terms(terms: dict[str, Any], _features: Any, _cfg: Any, step: int) -> dict[str, Any]:
        return {name: value * (1.5 if int(step) >= STEPS - 2 else 1) for name, value in terms.items()}

    edit_result(load_method(name).module, "loss", change_terms)(monkeypatch)
