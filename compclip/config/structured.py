"""Raw mappings onto frozen dataclasses: unknown keys, wrong types and impossible values name key, value and fix."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from compclip.base.errors import UserError, unknown
from compclip.config.cell import Cell
from compclip.config.how import FIRST, MISSING, WRONG
from compclip.config.sections import Data, Evaluate, Lora, Pretrain, Train, World

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
    "context_length",
    "seed",
)
RANGES: tuple[tuple[tuple[str, ...], str, Callable[[float], bool]], ...] = (
    (POSITIVE, "> 0", lambda v: 0 < v < math.inf),
    (NOT_NEGATIVE, ">= 0", lambda v: 0 <= v < math.inf),
    (("warmup_fraction", "beta1", "beta2"), ">= 0 and < 1", lambda v: 0 <= v < 1),
)
SEEDS = 2**32
CHOICES = {
    "trainable": ("all", "text", "image", "none"),
    "precision": ("float32", "bf16", "bf16_weights"),
    "augment": ("none", "random_resized_crop"),
    "shuffle": ("full", "windows"),
    "ties": (WRONG, FIRST),
    "pictures": ("plain", "upright"),
}
SCORED_IN = ("float32", "bf16")


def mapping(raw: Any, where: str) -> dict:
    """A copy with names as keys; nothing stands for an empty mapping."""
    if raw is not None and not isinstance(raw, dict):
        raise UserError(f"{where}={raw!r}: must be a mapping, as `name: value` below it")
    return {str(key): value for key, value in (raw or {}).items()}


def cell(raw: Any, where: str) -> Cell:
    """A cell as its document has it. Raises UserError naming `where` and the key."""
    raw, known = mapping(raw, where), list(Cell._fields)
    for key in sorted(raw.keys() - set(known)):
        raise unknown("key", key, known, where)
    for key in known:
        if raw.get(key) is None:
            raise UserError(f"{where}.{key}: must be given; add it")
    if type(raw["seed"]) is not int or not 0 <= raw["seed"] < SEEDS:
        raise UserError(f"{where}.seed={raw['seed']!r}: must be a whole number from 0 to 2**32 - 1")
    try:
        return Cell(**raw)
    except UserError as error:
        raise UserError(f"{where}: {error}") from error


NESTED: dict[Any, dict[str, Any]] = {Train: {"lora": Lora}, World: {"pretrain": Pretrain}}


def structured(kind: Any, raw: dict, where: str) -> Any:
    """`raw` as the dataclass `kind`; unknown keys, wrong types and values name the key, its value, and the fix."""
    for name, inner in NESTED.get(kind, {}).items():
        if isinstance(raw.get(name), dict):
            raw = raw | {name: structured(inner, raw[name], f"{where}.{name}")}
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
    except (OmegaConfBaseException, ArithmeticError, TypeError, ValueError) as error:  # of a Config's own, too
        raise _mistyped(kind, raw, where) or UserError(f"{where}: {str(error).splitlines()[0]}") from error
    _check_types(made, where)
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
            merged = OmegaConf.merge(OmegaConf.structured(kind), {f.name: raw[f.name]} if f.name in raw else {})
            values: Any = OmegaConf.to_container(merged)
            bad = f.name in raw and _misfit(values[f.name], _hints(kind)[f.name])
        except (OmegaConfBaseException, ArithmeticError, TypeError):
            bad = True
        if bad:
            plain = isinstance(f.default, (str, int, float)) and f.default != MISSING
            default = f"; the default is {f.default!r}" if plain else ""
            return UserError(f"{where}.{f.name}={raw.get(f.name)!r}: must be {_said(f.type)}{default}")
    return None


def _said(kind: Any) -> str:
    return kind if isinstance(kind, str) else getattr(kind, "__name__", str(kind))


def _check_types(values: Any, where: str) -> None:
    """What OmegaConf lets through: lists where a list's elements belong, and numbers that are none."""
    kind: Any = type(values)
    for f in fields(values):
        value, hint = getattr(values, f.name), _hints(kind)[f.name]
        if is_dataclass(value):
            _check_types(value, f"{where}.{f.name}")
        elif _misfit(value, hint):
            rule = "a finite number" if isinstance(value, float) else _said(f.type)
            raise UserError(f"{where}.{f.name}={value!r}: must be {rule}")


@functools.cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _misfit(value: Any, hint: Any) -> bool:
    """Whether a value is not of its field's type; a type that this does not know takes everything."""
    outer, inner = get_origin(hint), get_args(hint)
    if outer in (Union, UnionType):
        return all(_misfit(value, one) for one in inner)
    if outer is list:
        return not isinstance(value, list) or any(_misfit(one, inner[0]) for one in value)
    if outer is dict:
        return not isinstance(value, dict) or any(_misfit(one, inner[1]) for one in value.values())
    if hint is float:
        return type(value) is not float or not math.isfinite(value)
    return hint in (int, bool, str, NoneType) and type(value) is not hint


def _check_values(values: Any, where: str) -> None:
    given = {f.name: getattr(values, f.name) for f in fields(values)}
    for names, rule, fits in RANGES:
        for name in given.keys() & set(names):
            if not fits(given[name]):
                raise UserError(f"{where}.{name}={given[name]}: must be {rule}")
    choices = CHOICES | ({"precision": SCORED_IN} if isinstance(values, Evaluate) else {})
    for name in given.keys() & choices.keys():
        if given[name] not in choices[name]:
            raise unknown(name, given[name], choices[name], f"{where}.{name}")
    if isinstance(values, Train) and values.batch_size < 2:
        raise UserError(f"{where}.batch_size={values.batch_size}: must be >= 2, a contrast needs two")
