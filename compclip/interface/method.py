"""Define the interface of a method: its hooks, typed, with defaults for those that its module does not define.

A method is one module: `compclip/methods/<name>.py`, or a module of another package. Six ideas are enough to write one:
`Config`, `part` for parameters that an ablation can leave out (`compclip.base.ablation_parts`), `views`, `loss`, and
the `Features` with their masks that a loss gets. All other hooks are optional. `load_method` builds a `Method` from the
names in the module. A hook that the module does not define keeps the default below, which does nothing.
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
    """The declarations of a method. Each function below is a hook that its module may define under the same name.

    `cfg` is always an instance of the module's `Config`.
    """

    name: str
    module: ModuleType
    TRAINS: bool = True
    # False for a method that only provides a model: it needs neither `views` nor `loss`.
    # A module may also define NEGATIVE_FAMILIES, a tuple of papers or rules whose negatives it trains with. The report
    # then names the benchmarks whose negatives are of the same families. The method's own name is always one of them.
    Config: type[Any]
    # A frozen dataclass whose fields all have defaults: the paper's values. Its `__post_init__` refuses invalid values.
    # Its plain `ClassVar`s are constants of the paper: run keys include them, and users cannot set them.

    def views(self, cfg: Any, step: int) -> Views:
        """Return the texts and pictures that step `step` needs for every sample (`Views`); steps count from 0."""
        raise NotImplementedError

    def loss(self, f: Features, cfg: Any, step: int) -> dict[str, Tensor]:
        """Return the named terms of the loss, each a scalar with its weight applied; training minimises their sum."""
        raise NotImplementedError

    def phase(self, cfg: Any, step: int) -> Phase:
        """Return what happens in step `step` besides the loss: parts that are reset or frozen (iterated learning)."""
        return PLAIN

    # What the method needs from data and model

    def needs(self, cfg: Any) -> Mapping[str, object]:
        """Return the keys that a data set's section must have, with their required values."""
        return {}

    def needs_bias(self, cfg: Any) -> bool:
        """Return whether a backbone without a bias gets a learnt one, which starts at `cfg.init_bias`."""
        return False

    def adapt(self, cfg: Any, model: Any, seed: int) -> None:
        """Change the backbone in place before training, for example add tokens whose weights are drawn with `seed`."""

    def helpers(self, cfg: Any) -> dict[str, str]:
        """Return the path of each further model that training reads, with the command that provides it."""
        return {}

    # What training keeps besides the model. It is in every checkpoint, but in the finished run only if a hook says so.

    def heads(self, cfg: Any, widths: Widths) -> nn.Module | None:
        """Return a module that is trained with the towers; the loss gets it as `f.heads`."""
        return None

    def keeps_heads(self, cfg: Any) -> bool:
        """Return whether the heads, a `model.heads.Head`, are part of the finished model and used to score it."""
        return False

    def teacher(self, cfg: Any) -> Teacher | None:
        """Return the kind of teacher, a second copy of the towers; the loss gets its features as `f.teacher`."""
        return None

    def memory(self, cfg: Any) -> dict[str, Tensor]:
        """Return named tensors that the loss gets as `f.memory` in the first step."""
        return {}

    def remember(self, f: Features, cfg: Any) -> dict[str, Tensor]:
        """Return the tensors of `memory` for the next step, computed from the features of this step."""
        return {}

    # For a method that does not train (`TRAINS = False`)

    def reads(self, cfg: Any) -> dict[str, str]:
        """Return each path that a run depends on, with advice for the case that it is missing."""
        return {}

    def check(self, cfg: Any, backbone: Any, where: str) -> None:
        """Raise UserError, which names `where`, if the method cannot be combined with a backbone's section."""

    def model(self, run: Any, root: Path, start: dict[str, Any], device: str) -> Any:
        """Return the `Model` to score; None means the backbone. `start` is the backbone's model_cfg."""
        return None


# Steps whose views are inspected: enough for short cycles of steps, and for stages that begin at a later step.
LOOKED_AT = (*range(8), *(2**power + more for power in range(3, 25) for more in (0, 1)))


def list_columns(method: Method, cfg: Any) -> frozenset[str]:
    """Return the columns of a prepared data set that a training reads: those of all inspected steps.

    A method that trains nothing reads none.
    """
    steps = LOOKED_AT if method.TRAINS else ()
    return frozenset().union(*(method.views(cfg, step).columns for step in steps))


def check_columns(views: Views, columns: frozenset[str], step: int) -> Views:
    """Return the views of a step. Raises UserError if they read a column that is not in the run's key."""
    unlisted = views.columns - columns
    if unlisted and EVERY not in columns:
        raise UserError(
            f"step {step}: its views read {', '.join(sorted(unlisted))}, which the run key does not include; "
            f"use the same rules in one of the steps 0 to {LOOKED_AT[7]} as well"
        )
    return views


HOOKS = tuple(name for name, value in vars(Method).items() if inspect.isfunction(value))


def load_method(name: str) -> Method:
    """Return the method `name`; for a variant `name.variant`, return its method.

    Raises UserError for an unknown name, for a hook that is not a function, and for a function in the module whose name
    is almost that of a hook.
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
                raise UserError(f"method {name!r}: {module.__name__}: {hook} is not a function; repair it")
            setattr(method, hook, function)
    _refuse_misspelt(method)
    return method


def _refuse_misspelt(method: Method) -> None:
    """Raise UserError for a function whose name is almost that of a hook: it would never be called."""
    for name, value in vars(method.module).items():
        if name in HOOKS or name.startswith("_") or not inspect.isfunction(value):
            continue
        if value.__module__ == method.module.__name__ and (similar := difflib.get_close_matches(name, HOOKS, 1, 0.8)):
            raise UserError(
                f"method {method.name!r}: {method.module.__name__}.{name}: is no hook; did you mean {similar[0]}? "
                f"If it is not meant as a hook, begin its name with _; hooks are {', '.join(HOOKS)}"
            )
