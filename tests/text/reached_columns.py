"""Which columns the code of a rule can come to, whatever a caption says: all functions that it names, to their ends."""

import dis
import functools
import inspect
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

from compclip.text.annotation import Annotation

TOKENS = ["starts", "ends", "pos", "tag", "dep", "heads", "word", "chars", "tokens", "words", "lower_words",
          "dependents"]  # fmt: skip
OTHERS = ["lemma", "sentences", "chunks", "verbs", "candidates", "masked", "relatives", "written_swap",
          "written_replace", "stored", "concepts"]  # fmt: skip
OF_ATTRIBUTE = dict.fromkeys(TOKENS, "tokens") | dict(zip(OTHERS, OTHERS, strict=True))
OF_ATTRIBUTE |= {"begins_sentence": "sentences", "lower_lemmas": "lemma", "chunk_at": "chunks", "read_as": "lemma"}


def find(rule: Any) -> set[str]:
    """The columns of the attributes of annotations that it, and what it calls, asks for; `stored` stands for all kinds."""
    reached: set[str] = set()
    seen: set[int] = set()
    todo = [rule]
    while todo:
        value = todo.pop()
        if id(value) in seen or value is Annotation:
            continue
        seen.add(id(value))
        todo += _members(value)
        function = inspect.unwrap(getattr(value, "__func__", value)) if callable(value) else None
        if isinstance(function, FunctionType) and function.__module__.startswith("compclip"):
            todo += [cell.cell_contents for cell in function.__closure__ or ()]
            attributes, names = _read_code(function.__code__, function.__globals__)
            reached |= attributes
            todo += names
    return reached


def _members(value: Any) -> list[Any]:
    """What a rule is made of that is no function of its own."""
    if isinstance(value, functools.partial):
        return [value.func, *value.args]
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, tuple | list):
        return list(value)
    if isinstance(value, type) and value.__module__.startswith("compclip"):
        return list(vars(value).values())
    return [value.fget] if isinstance(value, property) else []


def _read_code(code: CodeType, names: dict[str, Any]) -> tuple[set[str], list[Any]]:
    """The columns of a function's attributes, and the values of its global names."""
    columns = set()
    values = []
    module = None
    for name, is_global in _list_names(code):
        if not is_global and not isinstance(module, ModuleType):
            columns |= {OF_ATTRIBUTE[name]} if name in OF_ATTRIBUTE else set()
            continue
        module = names.get(name) if is_global else getattr(module, name, None)
        values.append(module)
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            inner_columns, inner_values = _read_code(inner, names)
            columns |= inner_columns
            values += inner_values
    return columns, [value for value in values if not isinstance(value, ModuleType)]


def _list_names(code: CodeType) -> Iterator[tuple[str, bool]]:
    """Names in the order of the code: whether each is a global one or the attribute of what stands before it."""
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield step.argval, True
        elif step.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            yield step.argval, False
        elif step.opname.startswith("LOAD_"):
            yield "", True
