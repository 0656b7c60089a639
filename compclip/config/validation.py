"""Check raw values against the dataclass that declares them: types, ranges, choices, unknown keys, rules across fields.

Pydantic checks what the fields and `__post_init__` declare. Values are read like JSON: a mapping may be a nested
dataclass, and an integer may be a float; otherwise types must match exactly (true is not 1). A text such as "0.1" is
read as a number if the field is a number, because environment variables are texts.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import json
import math
import operator
import re
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from compclip.base.errors import UserError, unknown

SEEDS = 2**32
Seed = Annotated[int, Field(ge=0, lt=SEEDS)]
Share = Annotated[float, Field(ge=0, le=1)]
RequiredText = Annotated[str, Field(min_length=1, validate_default=True)]  # "" as default: must be given
Section = TypeVar("Section")
Item = TypeVar("Item")

UNKNOWN_KEY = "unexpected_keyword_argument"
NUMBERS = ("int_type", "float_type", "bool_type")
BOUNDS = {"greater_than": ">", "greater_than_equal": ">=", "less_than": "<", "less_than_equal": "<="}
TYPES = {
    "int_type": "int",
    "float_type": "float",
    "string_type": "str",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "dataclass_type": "a mapping",
}


def _check_distinct(items: list[Item]) -> list[Item]:
    for i, item in enumerate(items):
        if item in items[:i]:
            raise ValueError(f"must name each once; {item!r} is named twice")
    return items


def _check_any(items: list[Item]) -> list[Item]:
    if not items:
        raise ValueError("must name at least one")
    return items


Distinct = Annotated[list[Item], AfterValidator(_check_distinct)]
Axis = Annotated[Distinct[Item], AfterValidator(_check_any), Field(validate_default=True)]


def mapping(raw: Any, where: str) -> dict[str, Any]:
    """Return a copy of a mapping with texts as keys; None counts as empty. Raises UserError for anything else."""
    if raw is not None and not isinstance(raw, dict):
        raise UserError(f"{where}={raw!r}: must be a mapping, with `name: value` below it")
    return {str(key): value for key, value in (raw or {}).items()}


def load_section(kind: type[Section], raw: Any, where: str) -> Section:
    """Return the mapping `raw` as an instance of the dataclass `kind`; `where` names it in errors.

    Raises UserError for the first mistake, with its key, value and fix.
    """
    values = mapping(raw, where)
    try:
        return _validate(kind, _leave_out_constants(kind, values))
    except ValidationError as error:
        raise _explain(error, kind, where) from error
    except UserError as error:  # from the dataclass's own checks
        raise UserError(str(error) if str(error).startswith(f"{where}.") else f"{where}.{error}") from error
    except (PydanticUserError, NameError, ArithmeticError, TypeError) as error:  # from another package's Config
        reason = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        raise UserError(f"{where}: {kind.__module__}.{kind.__name__}: {reason}; repair it") from error


def list_constants(kind: Any) -> dict[str, Any]:
    """Return the plain `ClassVar`s of a dataclass: a paper's constants, which users cannot set and run keys include."""
    constants = {}
    for name in sorted(set(kind.__dataclass_fields__).difference(list_fields(kind))):
        value = getattr(kind, name)
        if isinstance(value, (bool, int, float, str)):
            constants[name] = value
    return constants


def list_fields(kind: Any) -> list[str]:
    """Return the names of a dataclass's fields."""
    return [f.name for f in fields(kind)]


def _leave_out_constants(kind: Any, values: dict[str, Any]) -> dict[str, Any]:
    """Return values without constants, which may once have been options. Raises UserError for another value of one."""
    for name, constant in list_constants(kind).items():
        value = values.pop(name, constant)
        if value != constant:
            raise UserError(f"{name}={value!r}: is a constant, {constant!r}; remove it")
    return values


def _validate(kind: type[Section], values: dict[str, Any]) -> Section:
    adapter: TypeAdapter[Section] = _adapter(kind)  # type: ignore[arg-type]
    try:
        return adapter.validate_json(json.dumps(values), strict=True, extra="forbid")
    except ValidationError as error:
        return adapter.validate_json(json.dumps(_read_numbers(values, error)), strict=True, extra="forbid")


def _read_numbers(values: dict[str, Any], error: ValidationError) -> dict[str, Any]:
    """Return `values` with texts replaced by the numbers and truth values that the fields ask for."""
    values = copy.deepcopy(values)
    for fault in error.errors(include_url=False):
        if fault["type"] in NUMBERS and isinstance(fault["input"], str):
            *path, key = fault["loc"]
            container: Any = functools.reduce(operator.getitem, path, values)  # type: ignore[arg-type]
            with contextlib.suppress(ValueError):
                value = json.loads(fault["input"])
                if isinstance(value, (int, float)) and math.isfinite(value):
                    container[key] = value
    return values


@functools.cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    """Return pydantic's checker of a dataclass, cached: building one costs as much as a hundred checks."""
    return TypeAdapter(kind)


def _explain(error: ValidationError, kind: Any, where: str) -> UserError:
    """Return the error for an unknown key, else for the first wrong type, else for the first broken rule."""
    faults = error.errors(include_url=False)
    # pydantic also calls a list with a wrong entry too short; the wrong entry is the cause
    causes = [f for f in faults if not any(other["loc"] and f["loc"] == other["loc"][:-1] for other in faults)]
    fault = min(causes, key=lambda fault: (fault["type"] != UNKNOWN_KEY, fault["type"] == "value_error"))
    path = [str(key) for key in fault["loc"]]
    value = fault["input"]
    rule = fault["type"]
    key_path = ".".join([where, *path])
    if rule == UNKNOWN_KEY:
        return unknown("key", path[-1], _keys(kind, path[:-1]), ".".join([where, *path[:-1]]))
    if rule in ("missing", "too_short") or (rule in ("string_too_short", "string_type") and not value):
        return UserError(f"{key_path}: must be given; add it")
    if rule == "literal_error":
        item = path[-1].isdigit()
        name = re.sub(r"(?<=\w\w\w)s$", "", path[-2]) if item else path[-1]
        return unknown(name, str(value), re.findall("'([^']*)'", fault["ctx"]["expected"]), key_path)
    if rule == "value_error":
        message = str(fault["ctx"]["error"])
        return UserError(f"{key_path}={value!r}: {message}" if message.startswith("must ") else f"{key_path}.{message}")
    if rule in BOUNDS:
        return UserError(f"{key_path}={value!r}: must be {BOUNDS[rule]} {next(iter(fault['ctx'].values())):.10g}")
    expected = f"must be {TYPES[rule]}" if rule in TYPES else fault["msg"]
    return UserError(f"{key_path}={value!r}: {expected}{_default(kind, path)}")


def _default(kind: Any, path: Sequence[str]) -> str:
    """Return a hint with the default of a field, if that is a plain value."""
    default = next((f.default for f in fields(kind) if [f.name] == path), None)
    return f"; the default is {default!r}" if isinstance(default, (str, int, float)) else ""


def _keys(kind: Any, path: Sequence[str]) -> list[str]:
    """Return the names of the fields of the nested dataclass at a path below `kind`."""
    for name in path:
        hint = get_type_hints(kind).get(name)
        kind = next(filter(is_dataclass, (hint, *get_args(hint))), kind)
    return list_fields(kind)
