"""Whether a study's front holds: its trials under new seeds beside the papers' methods, and who dominates whom.

A study selects on what it reports, by one seed. `confirmation_grid` makes the front's trials variants of the study's
method in a whole params.yaml, with seeds that chose nothing and without the study's overrides of `evaluate`, so that
benchmarks that were no objective are measured too. `judge_front` then compares each of them with each other method of
that grid.

The rule. In each objective (of the benchmarks that the study evaluated) a difference has the 95 % interval of the
claims (`report/statistics.py`): one over seeds and items together, paired, or over seeds alone where the
objective keeps no items. It is better or worse where that interval lies wholly on one side of 0, and seeds enough are
there by the rule of the claims. A trial dominates a method where it is better in every objective, is dominated where it
is worse in every one; it does neither where it is better in one and worse in another; else it is undecided. No
correction for the number of pairs is made.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from compclip.base import yaml_text
from compclip.base.errors import UserError
from compclip.base.files import read_mapping
from compclip.base.yaml_text import dump_yaml
from compclip.config import read
from compclip.config.cell import PRETRAINED
from compclip.config.columns import expand_groups
from compclip.config.sections import Params
from compclip.config.validation import SEEDS
from compclip.report import claims
from compclip.report.claims import HOLDS, REFUTED, Evidence, Inequality
from compclip.report.tables import Column, RunsBySeed
from compclip.runs.result_files import FinishedRun
from compclip.sweep import study_declaration
from compclip.sweep.study_declaration import Study

DOMINATES, DOMINATED, NEITHER, UNDECIDED = VERDICTS = ("dominates", "is dominated", "neither", "undecided")


def load_front(study: Study, root: Path) -> list[dict[str, Any]]:
    """Load the trials of a study's front as trials.json has them. Raises UserError where there are none."""
    path = root / "studies" / study.name / "trials.json"
    study_json = read_mapping(path) if path.is_file() else {"trials": [], "front": []}
    if not study_json["front"]:
        raise UserError(f"{path}: has no front yet; run `compclip sweep --study {study.name}` first")
    return [trial for trial in study_json["trials"] if trial["number"] in study_json["front"]]


def confirmation_grid(
    study: Study, params: Path, command_overrides: Sequence[str], trials: Sequence[Mapping[str, Any]], count: int
) -> str:
    """Return the confirmation's params.yaml: the methods of `params` and a variant a trial, under `count` new seeds.

    Raises UserError where `params` has no other trained method to compare with.
    """
    overrides = [o for o in (*study.overrides, *command_overrides) if not o.startswith(("evaluate.", "report."))]
    loaded = read.load_params(params, overrides)
    base, _, variant = study.method.partition(".")
    other_methods = [m for m in loaded.grid.methods if m.partition(".")[0] not in (base, PRETRAINED)]
    if not other_methods:
        raise UserError(f"{params}: grid.methods={loaded.grid.methods}: names no other method; add some")
    merged = read.read_with_overrides(params, overrides)
    start = (loaded.methods[base].get("variants") or {}).get(variant) or {}
    variants = []
    for trial in trials:
        variants.append(f"{base}.trial{trial['number']}")
        values = OmegaConf.from_dotlist([f"{name}={json.dumps(value)}" for name, value in trial["params"].items()])
        variant_key = f"methods.{base}.variants.trial{trial['number']}"
        OmegaConf.update(merged, variant_key, OmegaConf.to_container(OmegaConf.merge(start, values)), merge=False)
    merged.grid = {
        "methods": [PRETRAINED, *other_methods, *variants],
        "backbones": [str(study.backbone)], "data": [str(study.data)],
        "seeds": new_seeds({study.seed, *loaded.grid.seeds}, count),
    }  # fmt: skip
    return (
        f"# The front of study {study.name} under seeds that chose nothing, beside the methods of {params}.\n"
        f"# Train and score it as any grid, then `compclip sweep --study {study.name} --verdict FILE`.\n"
        f"\n{dump_yaml(yaml_text.to_unresolved(merged))}"
    )


def new_seeds(used: set[int], count: int) -> list[int]:
    """Return the first seeds that nothing was chosen by. Raises UserError where there are not so many."""
    if count > SEEDS - len(used):
        raise UserError(f"--seeds {count}: there are only {SEEDS - len(used)} others; give a smaller number")
    return sorted(set(range(count + len(used))) - used)[:count]


def judge_front(study: Study, params: Params, runs: Sequence[FinishedRun]) -> dict[str, Any]:
    """Compare each trial of the front with each other method, objective by objective, as confirmation.json has it.

    `params` are the confirmation's. What the study did not evaluate decides nothing; the report shows it.
    """
    by_method: dict[str, dict[int, FinishedRun]] = {}
    for run in runs:
        by_method.setdefault(str(run.cell.method), {})[run.cell.seed] = run
    prefix = f"{study.method.partition('.')[0]}.trial"
    variants = [method for method in by_method if method.startswith(prefix)]
    overrides = OmegaConf.from_dotlist(list(study.overrides))
    names = OmegaConf.select(overrides, "evaluate.benchmarks") or params.evaluate.benchmarks
    evaluated = expand_groups(names, params.benchmarks)
    searched_params = replace(params, evaluate=replace(params.evaluate, benchmarks=evaluated))
    columns = study_declaration.columns_of_runs(study, runs, searched_params)
    objective_benchmarks = study_declaration.list_benchmarks(columns)
    pairs = []
    for variant in variants:
        for method in by_method:
            if method not in variants:
                pairs.append(_compare_pair(study, columns, (variant, method), by_method))
    return {"study": str(study.name), "objectives": [c.name for c in columns], "benchmarks": objective_benchmarks,
            "seeds": list(params.grid.seeds), "pairs": pairs}  # fmt: skip


def _compare_pair(
    study: Study, columns: Sequence[Column], pair: tuple[str, str], runs: Mapping[str, RunsBySeed]
) -> dict[str, Any]:
    verdicts = []
    objectives = []
    for column, objective in zip(columns, study.objectives, strict=True):
        inequality = Inequality(column.name, pair[0], objective.sign, pair[1], 0.0, column.name)
        evidence = claims.judge_inequality(inequality, runs, column)
        verdicts.append(evidence.verdict)
        objectives.append(_evidence_to_json(evidence))
    return {"trial": pair[0], "method": pair[1], "verdict": verdict(verdicts), "objectives": objectives}


def verdict(verdicts: Sequence[str]) -> str:
    """Apply the rule above to the verdicts by objective: better (holds), worse (refuted) or neither for sure."""
    different = set(verdicts)
    if different == {HOLDS}:
        return DOMINATES
    if different == {REFUTED}:
        return DOMINATED
    return NEITHER if {HOLDS, REFUTED} <= different else UNDECIDED


def _evidence_to_json(e: Evidence) -> dict[str, Any]:
    return {"column": e.inequality.column, "difference": e.difference, "std": e.std, "seeds": e.seeds,
            "interval": e.interval.plain if e.interval else None, "over": e.basis,
            "better": {HOLDS: True, REFUTED: False}.get(e.verdict), "why": e.why}  # fmt: skip


def verdict_lines(judgement: Mapping[str, Any]) -> list[str]:
    """Return the verdicts to print, one a trial of the front: how many methods it dominates, and which dominate it."""
    methods: dict[str, dict[str, list[str]]] = {}  # by trial, then by verdict
    for pair in judgement["pairs"]:
        methods.setdefault(pair["trial"], {}).setdefault(pair["verdict"], []).append(pair["method"])
    lines = []
    for trial, methods_by_verdict in methods.items():
        clauses = []
        for outcome in filter(methods_by_verdict.__contains__, VERDICTS):
            clauses.append(f"{outcome} {', '.join(methods_by_verdict[outcome])}")
        lines.append(f"{trial}: {'; '.join(clauses)}")
    return lines
