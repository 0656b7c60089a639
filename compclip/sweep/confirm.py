"""Whether a study's front holds: its trials under new seeds beside the papers' methods, and who dominates whom.

A study selects on what it reports, by one seed. `grid` makes the front's trials variants of the study's method in a
whole params.yaml, with seeds that chose nothing and without the study's overrides of `evaluate`, so that benchmarks
that were no objective are measured too. `judge` then compares each of them with each other method of that grid.

The rule. In each objective (of the benchmarks that the study evaluated) a difference has the 95 % interval of the
claims (`report/crossed.py`): one over seeds and items together, paired, or over seeds alone where the objective keeps
no items. It is better or worse where that interval lies wholly on one side of 0 and at least three seeds are there. A
trial dominates a method where it is better in every objective, is dominated where it is worse in every one; it does
neither where it is better in one and worse in another; else it is undecided. No correction for the number of pairs is
made.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from compclip.base import yaml_text
from compclip.base.errors import UserError
from compclip.base.files import read_mapping
from compclip.config import read
from compclip.config.cell import PRETRAINED
from compclip.config.sections import Params
from compclip.config.structured import SEEDS
from compclip.config.written import grid_yaml
from compclip.report import claims, tables
from compclip.report.claims import HOLDS, REFUTED, Evidence, Inequality
from compclip.report.tables import Column
from compclip.runs.results import FinishedRun
from compclip.sweep import objectives
from compclip.sweep.declared import Study, Value

DOMINATES, DOMINATED, NEITHER, UNDECIDED = VERDICTS = ("dominates", "is dominated", "neither", "undecided")


def front(study: Study, root: Path) -> list[dict[str, Any]]:
    """The trials of a study's front as trials.json has them. Raises UserError where there are none."""
    path = root / "studies" / study.name / "trials.json"
    fix = f"run `python -m compclip.sweep --study {study.name}` first"
    if not path.is_file():
        raise UserError(f"{path}: is not there; {fix}")
    found = read_mapping(path)
    trials = [t for t in found.get("trials", ()) if t.get("number") in found.get("front", ())]
    if not trials:
        raise UserError(f"{path}: has no front yet; {fix}")
    return trials


def variant(number: int) -> str:
    """A trial's name as a variant of the study's method."""
    return f"trial{number}"


def grid(study: Study, params: Path, given: Sequence[str], trials: Sequence[Mapping[str, Any]], count: int) -> str:
    """The confirmation's params.yaml: the methods of `params`, and a variant for each trial, under `count` new seeds.

    `given`: the command's overrides. Raises UserError where `params` has no other trained method to compare with.
    """
    kept = [o for o in (*study.overrides, *given) if not o.startswith(("evaluate.", "report."))]
    before = read.load(params, kept)
    base = study.method.partition(".")[0]
    beside = [m for m in before.grid.methods if m.partition(".")[0] != base]
    if set(beside) <= {PRETRAINED}:
        raise UserError(f"{params}: grid.methods={before.grid.methods}: names no other method; add some")
    merged = read.overridden(params, kept)
    for trial in trials:
        place = f"methods.{base}.variants.{variant(trial['number'])}"
        OmegaConf.update(merged, place, _values(study, before, trial["params"]), merge=False)
    merged.grid = {
        "methods": [PRETRAINED, *(m for m in beside if m != PRETRAINED), *(_named(study, t["number"]) for t in trials)],
        "backbones": [str(study.backbone)], "data": [str(study.data)],
        "seeds": new_seeds({study.seed, *before.grid.seeds}, count),
    }  # fmt: skip
    return (
        f"# The front of study {study.name} under seeds that chose nothing, beside the methods of {params}.\n"
        f"# Train and score it as any grid, then `python -m compclip.sweep --study {study.name} --verdict FILE`.\n"
        f"\n{grid_yaml(yaml_text.unresolved(merged))}"
    )


def new_seeds(used: set[int], count: int) -> list[int]:
    """The first seeds that nothing was chosen by. Raises UserError where there are not so many."""
    if count > SEEDS - len(used):
        raise UserError(f"--seeds {count}: there are only {SEEDS - len(used)} others; give a smaller number")
    found: list[int] = []
    candidate = 0
    while len(found) < count:
        if candidate not in used:
            found.append(candidate)
        candidate += 1
    return found


def _named(study: Study, number: int) -> str:
    return f"{study.method.partition('.')[0]}.{variant(number)}"


def _values(study: Study, params: Params, drawn: Mapping[str, Value]) -> dict[str, Any]:
    """A trial as a variant's section; a study of a variant starts from that one's own values."""
    base, _, own = study.method.partition(".")
    start = (params.methods[base].get("variants") or {}).get(own) or {}
    given = OmegaConf.from_dotlist([f"{name}={json.dumps(value)}" for name, value in drawn.items()])
    return dict(OmegaConf.to_container(OmegaConf.merge(start, given)))  # type: ignore[arg-type]


def judge(study: Study, params: Params, runs: Sequence[FinishedRun]) -> dict[str, Any]:
    """What confirmation.json holds: each trial of the front against each other method, objective by objective.

    `params` are the confirmation's. What the study did not evaluate stands beside, and decides nothing.
    """
    by_method: dict[str, dict[int, FinishedRun]] = {}
    for run in runs:
        by_method.setdefault(run.cell.method, {})[run.cell.seed] = run
    mine = [m for m in by_method if m.startswith(_named(study, 0)[:-1])]
    columns = objectives.of_runs(study, runs, _as_searched(study, params))
    chosen = objectives.benchmarks(columns)
    listed = [c for c in params.report.columns or () if c.partition("/")[0] not in chosen]
    aside = tables.columns(runs, listed, params.evaluate.benchmarks) if listed else ()
    pairs = [_pair(study, columns, aside, (ours, theirs), by_method)
             for ours in mine for theirs in by_method if theirs not in mine]  # fmt: skip
    return {"study": str(study.name), "objectives": [c.name for c in columns], "benchmarks": chosen,
            "seeds": list(params.grid.seeds), "pairs": pairs}  # fmt: skip


def _as_searched(study: Study, params: Params) -> Params:
    """The grid's parameters with the benchmarks that the study evaluated."""
    asked = OmegaConf.from_dotlist([o for o in study.overrides if o.startswith("evaluate.benchmarks=")])
    wanted = OmegaConf.select(asked, "evaluate.benchmarks")
    return params if wanted is None else replace(params, evaluate=replace(params.evaluate, benchmarks=list(wanted)))


def _pair(
    study: Study, columns: Sequence[Column], aside: Sequence[Column], pair: tuple[str, str],
    runs: Mapping[str, Mapping[int, FinishedRun]],
) -> dict[str, Any]:  # fmt: skip
    signs = [o.sign for o in study.objectives]
    found = [_weighed(pair, sign, column, runs) for sign, column in zip(signs, columns, strict=True)]
    others = [_weighed(pair, -1 if c.lower else 1, c, runs) for c in aside if not c.score]
    return {"trial": pair[0], "method": pair[1], "verdict": verdict([e.verdict for e in found]),
            "objectives": [_told(e) for e in found], "aside": [_told(e) for e in others]}  # fmt: skip


def _weighed(
    pair: tuple[str, str], sign: int, column: Column, runs: Mapping[str, Mapping[int, FinishedRun]]
) -> Evidence:
    return claims.weigh(Inequality(column.name, pair[0], sign, pair[1], 0.0, column.name), runs, column)


def verdict(found: Sequence[str]) -> str:
    """The rule above, from whether a trial is better (holds), worse (refuted) or neither for sure, by objective."""
    if all(one == HOLDS for one in found):
        return DOMINATES
    if all(one == REFUTED for one in found):
        return DOMINATED
    return NEITHER if {HOLDS, REFUTED} <= set(found) else UNDECIDED


def _told(e: Evidence) -> dict[str, Any]:
    return {"column": e.part.column, "difference": e.difference, "std": e.std, "seeds": e.seeds,
            "interval": asdict(e.interval) if e.interval else None, "over": e.over,
            "better": {HOLDS: True, REFUTED: False}.get(e.verdict), "why": e.why}  # fmt: skip


def lines(found: Mapping[str, Any]) -> list[str]:
    """The verdicts to print, one a trial of the front: how many methods it dominates, and which dominate it."""
    trials = dict.fromkeys(p["trial"] for p in found["pairs"])
    return [f"{trial}: {_counted([p for p in found['pairs'] if p['trial'] == trial])}" for trial in trials]


def _counted(pairs: Sequence[Mapping[str, Any]]) -> str:
    named = {v: [p["method"] for p in pairs if p["verdict"] == v] for v in VERDICTS}
    return "; ".join(f"{v} {', '.join(methods)}" for v, methods in named.items() if methods)
