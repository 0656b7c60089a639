"""Steps of training that know their place in their epoch."""

from __future__ import annotations


class Step(int):
    """An optimiser step, counted from 0 over the whole run; `within` counts from 0 in each epoch."""

    within: int

    def __new__(cls, number: int, per_epoch: int) -> Step:
        """Step `number` of a run with so many steps an epoch."""
        made = super().__new__(cls, number)
        made.within = number % per_epoch
        return made


def within(step: int) -> int:
    """The number of a step in its epoch; of a plain number, which knows of no epochs, itself."""
    return step.within if isinstance(step, Step) else step
