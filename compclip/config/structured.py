"""Raw mappings onto frozen dataclasses: unknown keys, wrong types and impossible values name key, value and fix."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import fields
from typing import Any

from omegaconf import MISSING, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from compclip.base.errors import UserError, unknown
from compclip.config.sections import Data, Evaluate, Lora, Train, World

POSITIVE = (
    "epochs",
    "batch_size",
    "lr",
    "eps",
    "max_logit_scale",
    "threads",
    "log_every_steps",
    "checkpoint_every_steps",
)
NOT_NEGATIVE = (
    "max_steps",
    "lr_start",
    "lr_end",
    "warmup_steps",
    "weight_decay",
    "grad_clip_norm",
    "workers",
    "limit",
    "min_sentences",
    "micro_batch",
    "seed",
)
RANGES: tuple[tuple[tuple[str, ...], str, Callable[[float], bool]], ...] = (
    (POSITIVE, "> 0", lambda v: 0 < v < math.inf),
    (NOT_NEGATIVE, ">= 0", lambda v: 0 <= v < math.inf),
    (("warmup_fraction", "beta1", "beta2"), ">= 0 and < 1", lambda v: 0 <= v < 1),
)
CHOICES = {"trainable": ("all", "text", "image", "none"), "precision": ("float32", "bf16")}


def mapping(raw: Any, where: str) -> dict:
    """A copy with names as keys; nothing stands for an empty mapping."""
    if raw is not None and not isinstance(raw, dict):
        raise UserError(f"{where}={raw!r}: must be a mapping, as `name: value` below it")
    return {str(key): value for key, value in (raw or {}).items()}


def structured(kind: Any, raw: dict, where: str) -> Any:
    """`raw` as the dataclass `kind`; unknown keys, wrong types and values name the key, its value, and the fix."""
    if kind is Train and isinstance(raw.get("lora"), dict):
        raw = raw | {"lora": structured(Lora, raw["lora"], f"{where}.lora")}
    known = [f.name for f in fields(kind)]
    for key in sorted(raw.keys() - set(known)):
        raise unknown("key", key, known, where)
    for f in fields(kind):
        if f.default == MISSING and raw.get(f.name, MISSING) in (None, "", MISSING):
            raise UserError(f"{where}.{f.name}: must be given; add it")
    schema = _schema(kind, where)
    try:
        made = OmegaConf.to_object(OmegaConf.merge(schema, raw))
    except UserError as error:
        raise UserError(str(error) if str(error).startswith(f"{where}.") else f"{where}.{error}") from error
    except (OmegaConfBaseException, TypeError, ValueError) as error:  # ValueError: a Config of another package
        raise _mistyped(kind, raw, where) or UserError(f"{where}: {str(error).splitlines()[0]}") from error
    if kind in (Train, Data, Evaluate, World):
        _check_values(made, where)
    return made


def _schema(kind: Any, where: str) -> Any:
    """Another package's Config may have fields of types that YAML has not."""
    try:
        return _made_schema(kind)
    except (OmegaConfBaseException, NameError) as error:
        raise UserError(f"{where}: {kind.__module__}.{kind.__name__}: {str(error).splitlines()[0]}; mend it") from error


@functools.cache
def _made_schema(kind: Any) -> Any:
    """Made once: a grid of many cells asks for it again and again, and merging copies it."""
    return OmegaConf.structured(kind)


def _mistyped(kind: Any, raw: dict, where: str) -> UserError | None:
    """The error for the first field whose value has the wrong type, found by trying each alone."""
    for f in fields(kind):
        try:
            OmegaConf.merge(OmegaConf.structured(kind), {f.name: raw[f.name]} if f.name in raw else {})
        except (OmegaConfBaseException, TypeError):
            plain = isinstance(f.default, (str, int, float)) and f.default != MISSING
            default = f"; the default is {f.default!r}" if plain else ""
            wanted = f.type if isinstance(f.type, str) else f.type.__name__
            return UserError(f"{where}.{f.name}={raw[f.name]!r}: must be {wanted}{default}")
    return None


def _check_values(values: Any, where: str) -> None:
    given = {f.name: getattr(values, f.name) for f in fields(values)}
    for names, rule, fits in RANGES:
        for name in given.keys() & set(names):
            if not fits(given[name]):
                raise UserError(f"{where}.{name}={given[name]}: must be {rule}")
    for name in given.keys() & CHOICES.keys():
        if given[name] not in CHOICES[name]:
            raise unknown(name, given[name], CHOICES[name], f"{where}.{name}")
    if isinstance(values, Train) and values.batch_size < 2:
        raise UserError(f"{where}.batch_size={values.batch_size}: must be >= 2, a contrast needs two")
