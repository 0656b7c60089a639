"""A method's loss as the training loop calls it: a mistake in it is one line with its place in its own file."""

from __future__ import annotations

import inspect
import traceback
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from compclip.base.errors import UserError, one_line
from compclip.interface.features import Features
from compclip.interface.method import Method


def compute_loss(method: Method, cfg: Any, step: int, f: Features) -> dict[str, Tensor]:
    """Return the named terms of a method's loss. Raises UserError where the loss fails or gives something else."""
    try:
        terms = method.loss(f, cfg=cfg, step=step)
    except (UserError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        why = one_line(f"{type(error).__name__}: {error}")
        raise UserError(
            f"{_locate_error(error, method.module)}: {why}; mend the loss of method {method.name!r}"
        ) from error
    if fault := _find_fault(terms):
        first_line = inspect.unwrap(method.loss).__code__.co_firstlineno
        raise UserError(f"{method.module.__file__}:{first_line}: {fault}; mend the loss of method {method.name!r}")
    return terms


def _locate_error(error: Exception, method: ModuleType) -> str:
    """Return file and line of the innermost call in the method's module or in others of its package."""
    package = method.__name__.rpartition(".")[0] or method.__name__
    location = str(method.__file__)
    for frame, line in traceback.walk_tb(error.__traceback__):
        if f"{frame.f_globals.get('__name__')}.".startswith(f"{package}."):
            location = f"{frame.f_code.co_filename}:{line}"
    return location


def _find_fault(terms: Any) -> str:
    """Return what is wrong with the terms; "" for a dict of single numbers."""
    if not isinstance(terms, dict):
        return f"gives a {type(terms).__name__}; it must be a dict of named terms"
    for term, value in terms.items():
        if not isinstance(value, Tensor):
            return f"term {term!r} is a {type(value).__name__}; each is a tensor of one number"
        if value.numel() != 1:
            return f"term {term!r} has shape {list(value.shape)}; each is one number"
    return "" if terms else "gives no term"


def describe_infinite(terms: dict[str, Tensor]) -> str:
    """Return the terms that are not finite, with their values."""
    values = {name: term.item() for name, term in terms.items() if not torch.isfinite(term)}
    return ", ".join(f"{name}={value}" for name, value in values.items()) or "the sum of finite terms"
