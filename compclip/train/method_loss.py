"""A method's loss as the training loop calls it: a mistake in it is one line with its place in its own file."""

from __future__ import annotations

import inspect
import traceback
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from compclip.base.errors import UserError, one_line
from compclip.train.features import Features


def compute(method: ModuleType, name: str, cfg: Any, step: int, f: Features) -> dict[str, Tensor]:
    """The named terms of a method's loss. Raises UserError where the loss fails or gives something else."""
    try:
        terms = method.loss(f, cfg=cfg, step=step)
    except (UserError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        why = one_line(f"{type(error).__name__}: {error}")
        raise UserError(f"{_own_place(error, method)}: {why}; mend the loss of method {name!r}") from error
    if fault := _fault(terms):
        first_line = inspect.unwrap(method.loss).__code__.co_firstlineno
        raise UserError(f"{method.__file__}:{first_line}: {fault}; mend the loss of method {name!r}")
    return terms


def _own_place(error: Exception, method: ModuleType) -> str:
    """File and line of the innermost call in the method's module or in others of its package."""
    package = method.__name__.rpartition(".")[0] or method.__name__
    place = str(method.__file__)
    for frame, line in traceback.walk_tb(error.__traceback__):
        if f"{frame.f_globals.get('__name__')}.".startswith(f"{package}."):
            place = f"{frame.f_code.co_filename}:{line}"
    return place


def _fault(terms: Any) -> str:
    """What is wrong with the terms; nothing with a dict of single numbers."""
    if not isinstance(terms, dict):
        return f"gives a {type(terms).__name__}; it must be a dict of named terms"
    for term, value in terms.items():
        if not isinstance(value, Tensor):
            return f"term {term!r} is a {type(value).__name__}; each is a tensor of one number"
        if value.numel() != 1:
            return f"term {term!r} has shape {list(value.shape)}; each is one number"
    return "" if terms else "gives no term"


def describe_infinite(terms: dict[str, Tensor]) -> str:
    """The terms that are not finite, with their values."""
    values = {name: term.item() for name, term in terms.items() if not torch.isfinite(term)}
    return ", ".join(f"{name}={value}" for name, value in values.items()) or "the sum of finite terms"
