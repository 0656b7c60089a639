"""A method: what its module offers, typed, with the defaults of what it leaves out.

A method is one module, `compclip/methods/<name>.py` or another package's. Six ideas are enough to write one: `Config`
with `part` at what can be left out (`compclip.base.ablation_parts`), `views`, `loss`, and the `Features` with their
masks that a loss sees. The other hooks are optional. `load_method` builds a `Method` from the module's names; a hook
that the module does not have keeps the default below, which asks for nothing.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from compclip.base import plugins
from compclip.base.errors import UserError
from compclip.interface.views import PLAIN
from compclip.text.rule_columns import EVERY

if TYPE_CHECKING:
    from torch import Tensor, nn

    from compclip.interface.features import Features
    from compclip.interface.views import Phase, Teacher, Views, Widths


class Method:
    """A method's declarations; each function below is a hook that its module may define under the same name.

    `cfg` is always an instance of the module's `Config`.
    """

    name: str
    module: ModuleType
    TRAINS: bool = True
    # False for a method that only gives a model: it needs neither `views` nor `loss`.
    # A module may also name NEGATIVE_FAMILIES, a tuple of papers or rules whose negatives it trains with: the report
    # names the benchmarks that say the same of theirs. Its own name is always one.
    Config: type[Any]
    # A frozen dataclass whose fields all have defaults: the paper's values. Its `__post_init__` refuses others.
    # Its plain `ClassVar`s are constants of the paper: run keys hold them, and nobody sets them.

    def views(self, cfg: Any, step: int) -> Views:
        """Return which texts and pictures step `step` needs of every sample (`Views`); steps count from 0."""
        raise NotImplementedError

    def loss(self, f: Features, cfg: Any, step: int) -> dict[str, Tensor]:
        """Return the named terms of the loss, each one number with its weight applied; they are summed."""
        raise NotImplementedError

    def phase(self, cfg: Any, step: int) -> Phase:
        """Return what step `step` does beside its loss: parts that start anew or stand still (iterated learning)."""
        return PLAIN

    # What it needs of data and model

    def needs(self, cfg: Any) -> Mapping[str, object]:
        """Return the keys that a data set's section must have, with the values they must have."""
        return {}

    def needs_bias(self, cfg: Any) -> bool:
        """Return whether a backbone without a bias is given a learnt one, which starts at `cfg.init_bias`."""
        return False

    def adapt(self, cfg: Any, model: Any, seed: int) -> None:
        """Change the backbone in place before it is trained, as by further tokens, whose weights `seed` draws."""

    def helpers(self, cfg: Any) -> dict[str, str]:
        """Return the path of each other model that training reads, with the command that brings it there."""
        return {}

    # What training keeps beside the model: in every checkpoint, and not in the finished run but where it says so

    def heads(self, cfg: Any, widths: Widths) -> nn.Module | None:
        """Return a module that is trained with the towers; a loss sees it as `f.heads`."""
        return None

    def keeps_heads(self, cfg: Any) -> bool:
        """Return whether the heads are part of the finished model, by which it is scored: a `model.heads.Head`."""
        return False

    def teacher(self, cfg: Any) -> Teacher | None:
        """Return the kind of a second copy of the towers; a loss sees the batch through it as `f.teacher`."""
        return None

    def memory(self, cfg: Any) -> dict[str, Tensor]:
        """Return named numbers as the first step sees them in `f.memory`."""
        return {}

    def remember(self, f: Features, cfg: Any) -> dict[str, Tensor]:
        """Return the numbers of `memory` for the next step, from this step's features."""
        return {}

    # In place of training (`TRAINS = False`)

    def reads(self, cfg: Any) -> dict[str, str]:
        """Return each path that a run depends on, with what to do where it is missing."""
        return {}

    def check(self, cfg: Any, backbone: Any, where: str) -> None:
        """Raise UserError, which names `where`, for a backbone section that the method cannot stand beside."""

    def model(self, run: Any, root: Path, start: dict[str, Any], device: str) -> Any:
        """Return the `Model` that is scored; None is the backbone. `start` is the backbone's model_cfg."""
        return None


# Steps whose views are looked at: short turns, and stages that begin at some step.
LOOKED_AT = (*range(8), *(2**power + more for power in range(3, 25) for more in (0, 1)))


def list_columns(method: Method, cfg: Any) -> frozenset[str]:
    """Return the columns of a prepared data set that a training reads: those of the steps that are looked at.

    A method that trains nothing reads none.
    """
    steps = LOOKED_AT if method.TRAINS else ()
    return frozenset().union(*(method.views(cfg, step).columns for step in steps))


def check_columns(views: Views, columns: frozenset[str], step: int) -> Views:
    """Return the views of a step. Raises UserError where they read a column that is not in the run's key."""
    unlisted = views.columns - columns
    if unlisted and EVERY not in columns:
        raise UserError(
            f"step {step}: its views read {', '.join(sorted(unlisted))}, which the run key leaves out; "
            f"ask for the same rules in one of the steps 0 to {LOOKED_AT[7]}"
        )
    return views


HOOKS = tuple(name for name, value in vars(Method).items() if inspect.isfunction(value))


def load_method(name: str) -> Method:
    """Return the method `name`, or that of the variant `name.variant`.

    Raises UserError for a name that is none, for a hook that is no function, and for a function of the module whose
    name nearly is a hook's.
    """
    name = name.partition(".")[0]
    module = plugins.load_plugin(plugins.METHODS, name)
    method = Method()
    method.name = name
    method.module = module
    method.TRAINS = getattr(module, "TRAINS", True)
    method.Config = module.Config
    for hook in HOOKS:
        function = getattr(module, hook, None)
        if function is not None:
            if not callable(function):
                raise UserError(f"method {name!r}: {module.__name__}: {hook} is no function; repair it")
            setattr(method, hook, function)
    _refuse_misspelt(method)
    return method


def _refuse_misspelt(method: Method) -> None:
    """Raise UserError for a function that is no hook by its name, and nearly one: it would never be called."""
    for name, value in vars(method.module).items():
        if name in HOOKS or name.startswith("_") or not inspect.isfunction(value):
            continue
        if value.__module__ == method.module.__name__ and (similar := difflib.get_close_matches(name, HOOKS, 1, 0.8)):
            raise UserError(
                f"method {method.name!r}: {method.module.__name__}.{name}: is no hook; did you mean {similar[0]}? "
                f"A function of its own has another name, or one that begins with _; hooks are {', '.join(HOOKS)}"
            )
