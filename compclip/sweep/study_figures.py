"""The figures of a study's page: its history, slices, front and importance, from a document whose values are scaled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any

from markupsafe import Markup

from compclip.report.svg_plots import COLOURS, PAPER, SvgPlot
from compclip.sweep.study_results import choose_kind, describe_trial, label_objective, list_reference_values

SIZE = (410, 290)  # pixels
STYLES: dict[str, dict[str, Any]] = {  # of a trial's mark, those on top last
    "trial": {"color": COLOURS[1], "alpha": 0.75, "markersize": 7},
    "paper": {"color": COLOURS[2], "marker": "D", "markersize": 8},
    "best": {"color": COLOURS[3], "markersize": 10, "markeredgecolor": PAPER},
}


def draw_history(study: Mapping[str, Any], complete: list[dict], i: int) -> Markup:
    """Draw an objective against the trial's number, with the best so far."""
    objective = study["objectives"][i]
    plot = SvgPlot(f"History of {objective['metric']}", "trial", label_objective(objective), SIZE)
    plot.axes.locator_params(axis="x", integer=True)
    pick = max if objective["direction"] == "maximize" else min
    trials = sorted(complete, key=lambda t: t["number"])
    best = list(accumulate((t["values"][i] for t in trials), pick))
    plot.axes.step([t["number"] for t in trials], best, where="post", color=COLOURS[3], linewidth=1.5)
    return _draw_trials(plot, study, trials, lambda t: t["number"], i)


def draw_slice(study: Mapping[str, Any], complete: list[dict], d: Mapping[str, Any], i: int) -> Markup:
    """Draw an objective against one parameter, over the trials that drew it; empty without any."""
    name = d["name"]
    trials = [t for t in complete if name in t["params"]]
    if not trials:
        return Markup()
    objective = study["objectives"][i]
    plot = SvgPlot(f"{objective['metric']} against {name}", name, label_objective(objective), SIZE)
    if d["choices"]:
        choices = [repr(choice) for choice in d["choices"]]
        plot.axes.set_xticks(range(len(choices)), [str(choice) for choice in d["choices"]])
        return _draw_trials(plot, study, trials, lambda t: choices.index(repr(t["params"][name])), i)
    if d["log"]:
        plot.axes.set_xscale("log")
    plot.axes.set_xlim(d["low"], d["high"])
    return _draw_trials(plot, study, trials, lambda t: float(t["params"][name]), i)


def draw_pareto(study: Mapping[str, Any], complete: list[dict]) -> Markup:
    """Draw the second objective (x) against the first (y): what no trial beats in both is marked."""
    first, second = study["objectives"]
    plot = SvgPlot("Pareto front", label_objective(second), label_objective(first), SIZE)
    for value in list_reference_values(study, 1):
        plot.guide(x=value)
    front = sorted((t["values"][1], t["values"][0]) for t in complete if t["number"] in study["front"])
    if front:
        plot.line(front, color=COLOURS[3])
    return _draw_trials(plot, study, complete, lambda t: t["values"][1], 0)


def _draw_trials(
    plot: SvgPlot, study: Mapping[str, Any], trials: Sequence[dict], position: Callable[[dict], float], i: int
) -> Markup:
    """Draw trials at their positions and values of objective i, and a dashed line at the pretrained model's value."""
    for value in list_reference_values(study, i):
        plot.guide(y=value, name="pretrained")
    for kind, style in STYLES.items():
        for t in trials:
            if choose_kind(study, t) == kind:
                plot.mark(position(t), t["values"][i], describe_trial(study, t), **style)
    return plot.to_svg()


def draw_bars(shares: Mapping[str, float], title: str) -> Markup:
    """Draw one horizontal bar for each name, as a share of 1."""
    plot = SvgPlot(title, "", "", (SIZE[0], 50 + 26 * len(shares)))
    bars = plot.axes.barh(list(shares), list(shares.values()), color=COLOURS[1])
    plot.axes.bar_label(bars, [f"{100 * share:.0f} %" for share in shares.values()], padding=4)
    plot.axes.set(xlim=(0, 1.15 * max(shares.values(), default=1.0) or 1.0), xticks=[])
    plot.axes.invert_yaxis()
    return plot.to_svg()
