"""Which texts, stored with captions, a rule needs: a data set without them gives the rule nothing to do."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

Rule = TypeVar("Rule", bound=Callable[..., Any])
MARK = "beside"


def requires_stored(key: str) -> Callable[[Rule], Rule]:
    """Return a decorator for a rule that needs what `data.<name>.<key>` stores."""

    def marked(rule: Rule) -> Rule:
        setattr(rule, MARK, key)
        return rule

    return marked


def required_key(rule: Callable[..., Any]) -> str:
    """Return the key of the texts that a rule needs; "" where the caption is enough."""
    while isinstance(rule, partial):
        rule = rule.func
    return getattr(rule, MARK, "")
