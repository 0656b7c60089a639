"""What a rule reads beside the caption's text: columns of a prepared shard, for run keys, and lists that it asks for.

The names of columns are those of `annotation_columns`. A rule that does not say what it reads counts as reading all, so
that no run is taken for another one's: `reads_columns()`, without a name, stands beside a rule of the text alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar

AnyRule = TypeVar("AnyRule", bound=Callable[..., Any])
EVERY = "*"  # in the place of names: all columns that there are


def reads_columns(*columns: str, requires: str = "") -> Callable[[AnyRule], AnyRule]:
    """Return a decorator for a rule that reads these columns, and needs what `data.<name>.<requires>` stores."""

    def decorate(rule: AnyRule) -> AnyRule:
        rule.columns = columns  # type: ignore[attr-defined]
        rule.required_key = requires  # type: ignore[attr-defined]
        return rule

    return decorate


def list_columns(rule: Callable[..., Any]) -> frozenset[str]:
    """Return the columns that a rule reads, and the rules that it was given: {EVERY} where one does not say."""
    return frozenset(column for inner in _unwrap(rule) for column in getattr(inner, "columns", (EVERY,)))


def list_required_keys(rule: Callable[..., Any]) -> set[str]:
    """Return the keys of the stored texts that a rule needs, as "texts.dense"."""
    return set(filter(None, (getattr(inner, "required_key", "") for inner in _unwrap(rule))))


def _unwrap(rule: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    """Yield the function of a rule, and of the rules among its bound arguments."""
    if not isinstance(rule, partial):
        yield rule
        return
    for inner in (rule.func, *rule.args, *rule.keywords.values()):
        if callable(inner):
            yield from _unwrap(inner)
