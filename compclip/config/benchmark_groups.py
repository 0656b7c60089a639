"""Groups of benchmarks, whose names stand for all of theirs wherever benchmarks are named."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from compclip.base import plugins
from compclip.base.errors import UserError

if TYPE_CHECKING:
    from compclip.config.sections import BenchmarkSection

GROUPS = {
    "comp": "composition: a caption against wrong ones, pictures against each other",
    "zeroshot": "zero-shot classification",
    "retrieval": "retrieval among pictures and short captions",
    "long": "retrieval among pictures and long descriptions",
}
DEFAULT = "comp"  # of a module that declares none


def expand_groups(names: Iterable[str], sections: Mapping[str, BenchmarkSection]) -> list[str]:
    """Return the names with groups in them replaced by their benchmarks of params.yaml, each once, in its order.

    A benchmark that has a group's name stands for itself. Raises UserError for a group without benchmarks.
    """
    benchmarks: dict[str, None] = {}
    for name in names:
        if name in sections or name not in GROUPS:
            benchmarks[name] = None
            continue
        groups = {b: find_group(section.benchmark or b, f"benchmarks.{b}") for b, section in sections.items()}
        members = [benchmark for benchmark, group in groups.items() if group == name]
        if not members:
            raise UserError(f"benchmarks: none is of the group {name!r} ({GROUPS[name]}); name benchmarks, or add one")
        benchmarks |= dict.fromkeys(members)
    return list(benchmarks)


def find_group(module: str, where: str = "") -> str:
    """Return the group of a benchmark's module."""
    return getattr(plugins.load_plugin(plugins.BENCHMARKS, module, where), "BENCHMARK_GROUP", DEFAULT)
