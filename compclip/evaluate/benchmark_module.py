"""What a benchmark's module declares: all that its author has to know stands here and in `Benchmark` and `Record`.

Five ideas are enough: `METRICS`, `HEADLINE`, `load`, the `Record` and the function `evaluate` of the `Benchmark` that
`load` returns. Everything else has a default.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from types import ModuleType

from compclip.base import plugins
from compclip.base.errors import UserError, unknown
from compclip.evaluate.benchmark import Benchmark

HOOKS = {"METRICS": "metrics", "HEADLINE": "headline", "load": "load", "Config": "config"}


@dataclass(frozen=True)
class BenchmarkModule:
    """The hooks of one module in `compclip/benchmarks`, or of another package's.

    metrics (`METRICS`): every metric that it may measure; `*` stands for names that only its files tell.
    headline (`HEADLINE`): the metrics whose plain mean is the benchmark's one number, in the report's Comp and ZS and
        in MLflow; () where its authors give none, then Comp takes the mean of its columns in the report. Which metrics
        are better when lower says `Benchmark.lower`; none of them may stand here.
    load (`load(path, images=None, split="")`): read the authors' files. Raises UserError for damaged ones.
    config (`Config`): a frozen dataclass of options, which `load` gets as `options`; None: the benchmark has none.
    """

    metrics: tuple[str, ...]
    headline: tuple[str, ...]
    load: Callable[..., Benchmark]
    config: type | None = None


def load_module(name: str) -> BenchmarkModule:
    """Import a benchmark's module and return its hooks.

    Raises UserError for an unknown name, a missing hook, a name that is nearly a hook, or a headline that is no metric.
    """
    module = plugins.find(plugins.BENCHMARKS, name)
    _check_names(name, module)
    hooks = BenchmarkModule(**{field: vars(module)[hook] for hook, field in HOOKS.items() if hook in vars(module)})
    for metric in hooks.headline:
        if metric not in hooks.metrics:
            raise unknown("metric", metric, hooks.metrics, f"benchmark {name!r}: HEADLINE")
    return hooks


def _check_names(name: str, module: ModuleType) -> None:
    """Raise UserError for a public name that is probably a misspelt hook."""
    absent_hooks = {hook.upper(): hook for hook in HOOKS if hook not in vars(module)}
    for public_name in vars(module):
        if matches := get_close_matches(public_name.upper(), absent_hooks, n=1, cutoff=0.8):
            raise UserError(
                f"benchmark {name!r}: unknown hook {public_name!r}; did you mean {absent_hooks[matches[0]]!r}?"
            )
