"""The share of samples that had each text and picture that a method asks for.

A part is one entry of the method's `Views`: `negatives/swap.negclip` is the text of that rule. Samples are counted
where views are made, and the counts travel with the training state. A run of which a part never happened is not what
its method says: it stops with a line, and publishes nothing.

Some shares are of no parts, and are recorded where there are any (`run_folder.FAULTS`): `cut/negatives` and
`cut/positives`, texts that were masked because they differ from the caption behind the model's context alone;
`replaced/pictures`, samples in whose place the next one was trained.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from compclip.base.errors import UserError
from compclip.interface.views import Views
from compclip.runs.run_folder import CUT, FAULTS, REPLACED
from compclip.train.batch import FURTHER, PARTNER, TARGET, View

if TYPE_CHECKING:
    from compclip.config.grid import Run

CHECKED = 16_384  # samples after which a part that none of them had is judged absent, before the epoch ends
NAMES_IN_METRICS = {  # rules and modules of rules; metric names do not change
    "replace.clove": "clove.replace",
    "masked_words.either": "svlc.either",
    "masked_words": "masked",
    "stored_texts": "stored",
}
Counts = Mapping[str, Mapping[str, int]]  # samples that were `asked` for each part, and that `had` it


def tally_parts(rows: Sequence[View], views: Views, samples: int) -> dict[str, dict[str, int]]:
    """Count for each part the views that were `asked` for it, and those that `had` it.

    The first `samples` rows are the batch's own; the others are their neighbours.
    """
    asked_counts = {REPLACED: samples}
    had = {REPLACED: sum(row.faults.get(REPLACED, 0) for row in rows[:samples])}
    if views.neighbours:
        asked_counts["neighbours"] = samples * views.neighbours
        had["neighbours"] = len(rows) - samples
    for row in rows:
        for name, present in _name_parts(row, views):
            asked_counts[name] = asked_counts.get(name, 0) + 1
            had[name] = had.get(name, 0) + present
        for name, texts in ((CUT + "negatives", row.negatives), (CUT + "positives", row.positives)):
            asked_counts[name] = asked_counts.get(name, 0) + len(texts)
            had[name] = had.get(name, 0) + row.faults.get(name, 0)
    return {"asked": asked_counts, "had": had}


def _name_parts(row: View, views: Views) -> Iterator[tuple[str, bool]]:
    """Name each part that a view was asked for, as often as it was asked, and say whether it is there."""
    negatives, positives = name_texts(views)
    yield "captions", bool(row.caption)
    yield from _pair(negatives, row.negatives)
    if views.composite:
        for name in positives:
            yield name, not row.faults.get(name)
        if views.composite.partner:
            yield PARTNER, not row.faults.get(PARTNER)
        return
    yield from _pair(positives, row.positives)
    if views.concepts:
        yield "concepts", bool(row.concepts)
    if views.target:
        yield "targets", bool(row.texts[TARGET][0])
    for name in views.named_texts:
        yield from _pair([name] * len(row.texts[name]), row.texts[name])
    yield from _pair(["negative_images"] * len(row.negative_images), row.negative_images)
    yield from _pair(["regions"] * len(row.regions), row.regions)
    if views.regions and views.regions.negatives:
        for region in row.regions:
            texts = region.texts[2:] if region else ()
            yield from _pair(["negatives/regions"] * len(texts), texts)


def _pair(names: Sequence[str], values: Sequence[object]) -> Iterator[tuple[str, bool]]:
    """Give each name with whether its value is there."""
    for name, value in zip(names, values, strict=True):
        yield name, value is not None


@functools.lru_cache(maxsize=64)
def name_texts(views: Views) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of a view's negatives and positives, in their order."""
    if views.composite:
        further = (FURTHER,) * (views.composite.captions - 2)
        return ("negatives/composite",), ("positives/second", *further)[: views.composite.captions - 1]
    negatives = [f"negatives/{rule_name(rule)}" for rule in views.negatives]
    positives = [f"positives/{rule_name(rule)}" for rule in views.positives]
    for group in views.groups:
        negatives += [f"negatives/{group.name}"] * group.false
        positives += [f"positives/{group.name}"] * group.true
    return tuple(negatives), tuple(positives)


def rule_name(rule: Callable) -> str:
    """Name a rule by its module and function, in characters that MLflow takes in a metric's name."""
    function = rule.func if isinstance(rule, functools.partial) else rule
    name = getattr(rule, "__name__", getattr(function, "__name__", type(function).__name__))
    module = function.__module__.rpartition(".")[2]
    name = NAMES_IN_METRICS.get(f"{module}.{name}") or f"{NAMES_IN_METRICS.get(module, module)}.{name}"
    return re.sub(r"[^\w.]", "_", name, flags=re.ASCII)


def shares(counts: Counts) -> dict[str, float]:
    """Divide the samples that had a part by those that were asked for it, and faults by all, where there are any."""
    fractions = {}
    for name, number in sorted(counts["asked"].items()):
        count = counts["had"].get(name, 0)
        if number and (count or not name.startswith(FAULTS)):
            fractions[name] = round(count / number, 6)
    return fractions


def is_due(steps_done: int, batch_size: int, per_epoch: int, steps: int) -> bool:
    """Whether parts are judged after so many steps: after every CHECKED samples, each epoch, and the whole run."""
    return steps_done % -(-CHECKED // batch_size) == 0 or steps_done % per_epoch == 0 or steps_done == steps


def check_parts(counts: Counts, run: Run, epoch_ended: bool) -> None:
    """Raise UserError for a part that no sample had; within an epoch only after CHECKED samples."""
    for name, number in sorted(counts["asked"].items()):
        if not name.startswith(FAULTS) and not counts["had"].get(name) and number >= (1 if epoch_ended else CHECKED):
            raise UserError(
                f"methods.{run.cell.method}: {name}: none of the first {number:,} samples of data.{run.cell.data} had "
                "one; train without this part, or on data that has it"
            )
